"""Judging through the commands: verdicts, exit codes, speed and validity in one table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.test_app import MODELZOO, SHORT, TARGET, run, valid
from validity.toys import cut, noise

from modelzoo import cli
from modelzoo.measure import jobs, worker
from modelzoo.measure.container import Launcher
from modelzoo.records.protocol import Job, Send, decode_job
from modelzoo.workload import discovery

CLASSIFIER = """
from modelzoo.validity import Classification
from modelzoo.workload.declaration import Inputs, Workload

FAULT = {fault}

def build(options):
    import torch
    from torch import nn

    def negated(module, args, output):
        return -output if FAULT and torch.is_autocast_enabled("cpu") else output

    model = nn.Sequential(nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(5), nn.Flatten(), nn.Linear(400, 10))
    model.register_forward_hook(negated)
    return model

def preprocess(picture):
    from torchvision.transforms import functional
    return functional.resize(functional.pil_to_tensor(picture).float() / 255, [64, 64], antialias=True)

def inputs(request):
    import torch
    return Inputs((torch.rand(request.batch, 3, 64, 64, generator=torch.Generator().manual_seed(0)),), ("noise",))

def names():
    return [f"class {{i}}" for i in range(10)]

WORKLOAD = Workload(
    "tiny", "a tiny classifier", "images", build, inputs, judge=lambda options: Classification(preprocess, names)
)
"""


def written(folder: Path, fault: bool = False) -> Path:
    """Write a classifier that, with ``fault``, is wrong under autocast; its weights lie in ``own.pt``."""
    folder.mkdir()
    (folder / "workload.py").write_text(CLASSIFIER.format(fault=fault))
    torch.manual_seed(0)
    torch.save(discovery.load_workload(folder).build({}).state_dict(), folder / "own.pt")
    return folder


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call ``modelzoo`` in this process, which also does the workers' jobs: exit code, stdout and stderr."""

    class Here(AbstractContextManager[Any]):
        def __init__(self, launcher: Launcher, job: Job, variables: object, on_message: Send, timeout: object) -> None:
            self._subject = worker.subject_of(decode_job(launcher.write(job)), on_message)

        def __exit__(self, *error: object) -> None:
            pass

        def call(self, name: str, result: object, last: bool) -> Any:
            return getattr(self._subject, name)()

    monkeypatch.setattr(jobs, "Remote", Here)

    def main(*words: str) -> tuple[int, str, str]:
        code = cli.main([*words, "--threads", "1"])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return main


def judging(folder: Path, *options: str) -> list[str]:
    """The words that judge bf16 by autocast on ``own.pt``."""
    return ["validate", str(folder), "--weights", str(folder / "own.pt"), "--bf16=autocast", *options]


Called = Callable[..., tuple[int, str, str]]


def test_the_builtin_inputs_show_numbers_only(tmp_path: Path, called: Called) -> None:
    """stdout is the VALID line alone, exit code 0, and the result holds what the line says."""
    path = tmp_path / "r.json"
    code, out, err = called(*judging(written(tmp_path / "tiny"), "--json", str(path)))
    assert code == 0, err
    (line,) = out.splitlines()
    assert line.startswith("[VALID] tiny top1_agreement 1 ")
    assert " NUMERIC ONLY (accuracy not judged: losses of up to " in line
    assert line.endswith(" points cannot be ruled out with these 32 crops)")
    (entry,) = valid(path)["validity"]
    assert entry["report"]["validity"]["verdict"] == "NUMERIC ONLY"
    assert "would pass at" in err


def test_wrong_predictions_are_not_valid_and_what_was_found_in_the_data_is_said(tmp_path: Path, called: Called) -> None:
    """A model that negates its scores under autocast ends with exit code 1; a truncated picture is left out."""
    random = np.random.default_rng(0)
    for number in range(30):
        (tmp_path / "data" / f"c{number % 10}").mkdir(parents=True, exist_ok=True)
        noise((64, 64), random).save(tmp_path / "data" / f"c{number % 10}" / f"{number}.png")
    cut(tmp_path / "data" / "c9" / "29.png")
    folder = written(tmp_path / "tiny", fault=True)
    code, out, err = called(*judging(folder, "--data", str(tmp_path / "data"), "--skip-bad"))
    assert (code, out.startswith("[VALID] tiny top1 ")) == (1, True), err
    assert " NOT VALID" in out
    said = " ".join(err.split())
    assert "1 left out by --skip-bad: " in said
    assert "directories in sorted order are the classes: c0 is class 0, c1 is class 1, " in said


def test_speed_and_validity_in_one_table(tmp_path: Path) -> None:
    """``run --validate``, in real processes: a fast wrong answer is not a success, so the exit code is 1."""
    folder, path = written(tmp_path / "tiny", fault=True), tmp_path / "r.json"
    command = [*MODELZOO, "run", str(folder), "--weights", str(folder / "own.pt"), "--validate", *SHORT]
    done = run([*command, "--json", str(path)])
    assert done.returncode == 1, done.stderr
    judged, *targets = done.stdout.splitlines()
    assert judged.startswith("[VALID] tiny top1_agreement")
    assert len(targets) == 2
    assert all(TARGET.fullmatch(line) for line in targets)
    assert "accuracy check: NOT VALID" in " ".join(done.stderr.split())  # the headline may be wrapped there
    assert "NOT VALID: top-1 agreement" in done.stderr
    data = valid(path)
    assert [entry["requested"]["precision"] for entry in data["validity"]] == ["bf16"]


@pytest.mark.parametrize(
    ("tolerance", "said"), [("kll=1", "kll: there is no such threshold"), ("kl=nan", "kl must be a number, not nan")]
)
def test_mistakes_end_at_once_in_one_line(tolerance: str, said: str, tmp_path: Path, called: Called) -> None:
    """Of ``run --validate`` too, before anything is measured."""
    code, out, err = called("run", str(written(tmp_path / "tiny")), "--validate", "--tolerance", tolerance)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert f"--tolerance {said}" in err
