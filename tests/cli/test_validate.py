"""What ``modelzoo validate`` prints of a judgement."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from calls import called
from places import DATA
from toy_workloads import MLP

from modelzoo.cli.options import Accuracy
from modelzoo.cli.run import make_judging
from modelzoo.frozen import replace
from modelzoo.records.run import ValidityEntry
from modelzoo.results import store
from modelzoo.workload import discovery

validate = import_module("modelzoo.cli.validate")  # the package has a function of this name
(JUDGED,) = store.read(DATA / "results" / "bert.json").validity


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that replaces the judgements of a call by these."""

    def replaced(*outcomes: ValidityEntry | BaseException) -> None:
        left = list(outcomes)

        def judge_setting(*given: Any) -> ValidityEntry:
            found = left.pop(0)
            if isinstance(found, BaseException):
                raise found
            return replace(found, workload="mlp")

        monkeypatch.setattr(validate, "judge_setting", judge_setting)

    monkeypatch.setattr(validate, "make_judging", lambda accuracy, work: None)
    return replaced


def test_an_error_is_one_line(judges: Callable[..., None]) -> None:
    """However long it is and whatever it contains, as all errors are."""
    judges(replace(JUDGED, report=None, error=f"[bold]no[/] data {'x' * 80}\nat all"))
    err = called("validate", MLP, "--precision", "bf16").err
    assert f"modelzoo: error: mlp: [bold]no[/] data {'x' * 80}\\nat all\n" in err


def test_the_worst_judgement_decides_the_exit_code(judges: Callable[..., None]) -> None:
    """Not the last one."""
    judges(*(replace(JUDGED, exit_code=code) for code in (1, 0)))
    assert called("validate", MLP, "--precision", "fp32,bf16").code == 1


def test_after_an_interrupt_the_file_with_what_was_judged_is_named(judges: Callable[..., None], tmp_path: Path) -> None:
    """As after an interrupted run."""
    judges(JUDGED, KeyboardInterrupt())
    path = tmp_path / "x.json"
    code, _, err = called("validate", MLP, "--precision", "fp32,bf16", "--json", path)
    assert code == 130
    assert f"modelzoo: interrupted; 1 finished accuracy checks are in {path}\n" in err
    assert len(store.read(path).validity) == 1


def test_output_goes_beside_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where results have a place of their own (an image's volume), so have pictures and plots; --artifacts wins."""
    mlp = discovery.load_workload(MLP)
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path / "results"))
    assert make_judging(Accuracy(), mlp)[1] == tmp_path / "results" / "output" / "mlp"
    assert make_judging(Accuracy(artifacts=str(tmp_path / "own")), mlp)[1] == tmp_path / "own" / "mlp"
    monkeypatch.delenv("MODELZOO_RESULTS")
    assert make_judging(Accuracy(), mlp)[1] == MLP / "output"
    monkeypatch.setattr(discovery, "PACKAGE", MLP.parent)
    assert make_judging(Accuracy(), mlp)[1] == discovery.CHECKOUT / "results" / "output" / "mlp"
