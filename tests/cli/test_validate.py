"""What ``modelzoo validate`` prints of a judgement."""

from __future__ import annotations

import errno
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from places import DATA
from toy_workloads import mlp

from modelzoo.cli.options import Accuracy, Output
from modelzoo.cli.output import stored_code
from modelzoo.cli.validate import Judgements, judge_settings
from modelzoo.frozen import replace
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.results import store
from modelzoo.setting import Setting
from modelzoo.views.progress import LiveProgress


def test_an_error_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However long it is and whatever it contains, as all errors are."""
    (entry,) = store.read(DATA / "results" / "bert.json").validity
    error = f"[bold]no[/] data {'x' * 80}\nat all"
    Judgements(Result((), ""), str(tmp_path / "r.json")).add(replace(entry, report=None, error=error))
    assert capsys.readouterr().err == f"modelzoo: error: bert: [bold]no[/] data {'x' * 80}\\nat all\n"


def test_a_judgement_that_cannot_be_written_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Table and verdict come first; the error says that there is no file, and no line names one."""
    path = tmp_path / "r.json"
    (entry,) = store.read(DATA / "results" / "bert.json").validity
    judgements = Judgements(Result((), ""), str(path))

    def fail(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_atomically", fail)
    judgements.add(entry)
    assert stored_code(judgements.stored, judgements.end()) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith("[VALID] bert ")
    assert "Checks" in captured.err
    assert "result: " not in captured.err
    problem = f"modelzoo: error: cannot write {path}: No space left on device; it is in no file"
    assert captured.err.splitlines()[-1] == problem


def test_a_judgement_is_printed_above_the_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the console that owns the block: another one would print over it."""
    judged, consoles = store.read(DATA / "results" / "bert.json").validity[0], []

    def judge_setting(*given: Any) -> ValidityEntry:
        return replace(judged, workload="mlp")

    def live(out: Any, result: Result) -> LiveProgress:
        consoles.append(out)
        return LiveProgress(out, result)

    shown: list[Any] = []
    monkeypatch.setattr(import_module("modelzoo.cli.session"), "LiveProgress", live)
    validate = import_module("modelzoo.cli.validate")
    monkeypatch.setattr(validate, "judge_setting", judge_setting)
    monkeypatch.setattr(validate, "make_judging", lambda accuracy, work: None)
    monkeypatch.setattr(validate.terminal, "show", lambda document, out: shown.append(out))
    judge_settings([(mlp(), (Setting(),))], Accuracy(), Output(output=str(tmp_path / "x.json")))
    assert len(shown) == 1
    assert shown == consoles


def test_after_an_interrupt_the_file_with_what_was_judged_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after an interrupted run."""
    judged = list(store.read(DATA / "results" / "bert.json").validity)

    def judge_setting(*given: Any) -> ValidityEntry:
        if judged:
            return replace(judged.pop(), workload="mlp")
        raise KeyboardInterrupt

    validate = import_module("modelzoo.cli.validate")  # the package has a function of this name
    monkeypatch.setattr(validate, "judge_setting", judge_setting)
    monkeypatch.setattr(validate, "make_judging", lambda accuracy, work: None)
    path = tmp_path / "x.json"
    assert judge_settings([(mlp(), (Setting(), Setting("bf16")))], Accuracy(), Output(output=str(path))) == 130
    assert f"modelzoo: interrupted; 1 finished accuracy checks are in {path}\n" in capsys.readouterr().err
    assert len(store.read(path).validity) == 1
