"""What ``modelzoo validate`` prints of a judgement."""

from __future__ import annotations

import errno
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from calls import called
from places import DATA
from toy_workloads import MLP

from modelzoo.cli.output import stored_code
from modelzoo.cli.validate import Judgements
from modelzoo.frozen import replace
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.results import store
from modelzoo.views.progress import LiveProgress

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
    assert (
        f"modelzoo: error: mlp: [bold]no[/] data {'x' * 80}\\nat all\n"
        in called("validate", MLP, "--precision", "bf16").err
    )


def test_a_judgement_that_cannot_be_written_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Table and verdict come first; the error says that there is no file, and no line names one."""
    path = tmp_path / "r.json"
    judgements = Judgements(Result((), ""), str(path))

    def fail(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_atomically", fail)
    judgements.add(JUDGED)
    assert stored_code(judgements.stored, judgements.end()) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith("[VALID] bert ")
    assert "Checks" in captured.err
    assert "result: " not in captured.err
    problem = f"modelzoo: error: cannot write {path}: No space left on device; it is in no file"
    assert captured.err.splitlines()[-1] == problem


def test_a_judgement_is_printed_above_the_progress(
    judges: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the console that owns the block: another one would print over it."""
    consoles: list[Any] = []

    def live(out: Any, result: Result) -> LiveProgress:
        consoles.append(out)
        return LiveProgress(out, result)

    shown: list[Any] = []
    monkeypatch.setattr(import_module("modelzoo.cli.session"), "LiveProgress", live)
    monkeypatch.setattr(validate.terminal, "show", lambda document, out: shown.append(out))
    judges(JUDGED)
    called("validate", MLP, "--precision", "bf16")
    assert len(shown) == 1
    assert shown == consoles


def test_after_an_interrupt_the_file_with_what_was_judged_is_named(judges: Callable[..., None], tmp_path: Path) -> None:
    """As after an interrupted run."""
    judges(JUDGED, KeyboardInterrupt())
    path = tmp_path / "x.json"
    code, _, err = called("validate", MLP, "--precision", "fp32,bf16", "--json", path)
    assert code == 130
    assert f"modelzoo: interrupted; 1 finished accuracy checks are in {path}\n" in err
    assert len(store.read(path).validity) == 1
