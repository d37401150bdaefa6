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
from PIL import Image

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

    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(5), nn.Flatten(), nn.Linear(400, 10)
            )

        def forward(self, x):
            found = self.body(x)
            return -found if FAULT and torch.is_autocast_enabled("cpu") else found

    return Tiny()

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
def tiny(tmp_path: Path) -> Path:
    """A workload directory, with weights of the user's own beside it."""
    return written(tmp_path / "tiny")


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


def test_the_builtin_inputs_show_numbers_only(tiny: Path, tmp_path: Path, called: Called) -> None:
    """stdout is the VALID line alone, exit code 0, and the result holds what the line says."""
    path = tmp_path / "r.json"
    code, out, err = called(*judging(tiny, "--json", str(path)))
    assert code == 0, err
    (line,) = out.splitlines()
    assert line.startswith("[VALID] tiny top1_agreement 1 ")
    assert " NUMERIC ONLY (accuracy not judged: losses of up to " in line
    assert line.endswith(" points cannot be ruled out with these 32 crops)")
    (entry,) = valid(path)["validity"]
    assert entry["report"]["validity"]["verdict"] == "NUMERIC ONLY"
    assert "would pass at" in err


def pictures(folder: Path, count: int) -> Path:
    """Pictures of noise without known classes."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(count):
        Image.fromarray(random.integers(0, 256, (64, 64, 3), dtype="uint8")).save(folder / f"{number:03}.png")
    return folder


def test_good_predictions_on_enough_pictures_are_valid(tiny: Path, tmp_path: Path, called: Called) -> None:
    """All of 40 pictures agree: VALID if one in ten may change, INCONCLUSIVE if one in a hundred may."""
    data = str(pictures(tmp_path / "data", 40))
    tolerant = ["--tolerance", "top1_agreement=0.9", "--tolerance", "kl=0.2"]
    code, out, err = called(*judging(tiny, "--data", data, *tolerant))
    assert (code, out) == (0, "[VALID] tiny top1_agreement 1 1 VALID\n"), err
    code, out, err = called(*judging(tiny, "--data", data))
    assert code == 2, err
    assert " INCONCLUSIVE (top-1 agreement, near ties excused is 1, required >= 0.99, and may be 0.9" in out
    assert " more images would probably settle it)" in out


def test_what_was_found_in_the_data_is_said(tiny: Path, tmp_path: Path, called: Called) -> None:
    """A truncated picture is left out with --skip-bad; directories in the order of the classes are named."""
    (tmp_path / "data").mkdir()
    for number in range(10):
        pictures(tmp_path / "data" / f"c{number}", 3)
    cut = tmp_path / "data" / "c9" / "002.png"
    cut.write_bytes(cut.read_bytes()[:4000])
    code, out, err = called(*judging(tiny, "--data", str(tmp_path / "data"), "--skip-bad"))
    assert out.startswith("[VALID] tiny top1 ")
    said = " ".join(err.split())
    assert "1 left out by --skip-bad: " in said
    assert "directories in sorted order are the classes: c0 is class 0, c1 is class 1, " in said


def test_wrong_predictions_are_not_valid(tmp_path: Path, called: Called) -> None:
    """A model that negates its scores under autocast ends with exit code 1."""
    code, out, err = called(*judging(written(tmp_path / "tiny", fault=True)))
    assert code == 1, err
    assert " NOT VALID" in out


@pytest.mark.parametrize("options", [["--mode", "script", "--channels-last"], ["--backend", "blas"]])
def test_every_setting_that_is_timed_can_be_judged(tiny: Path, options: list[str], called: Called) -> None:
    """Traced, channels-last and without oneDNN: each is compared with plain fp32, and random weights by numbers."""
    code, out, err = called("validate", str(tiny), "--precision", "fp32", "--weights", "random", *options)
    assert code == 0, err
    assert out.startswith("[VALID] tiny tensor_error - ")
    assert " NUMERIC ONLY (" in out


def test_speed_and_validity_in_one_table(tmp_path: Path) -> None:
    """``run --validate``: TARGET lines last, the table has the verdict, the reference is not judged against itself.

    The processes are real. A fast wrong answer is not a success: the exit code is 1.
    """
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
    ("words", "said"),
    [
        ("run --validate --tolerance kll=1", "--tolerance kll: there is no such threshold"),
        ("run --validate --tolerance kl=nan", "--tolerance kl must be a number, not nan"),
    ],
)
def test_mistakes_end_at_once_in_one_line(tiny: Path, words: str, said: str, called: Called) -> None:
    """With ``run --validate`` too, before anything is measured."""
    command, *options = words.split()
    code, out, err = called(command, str(tiny), *options)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert said in err
