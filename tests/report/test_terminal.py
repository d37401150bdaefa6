"""What is printed for people: plain without a terminal, 100 columns wide, nothing taken for markup."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from fake_runs import evidence, make, result_of, warning
from rich.console import Console

from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run
from modelzoo.report import terminal
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.warning import WarningMessage

STEADY = [0.0501, 0.0502, 0.05, 0.0503] * 30


def shown(*runs: Run, **options: Any) -> str:
    """What ``show`` prints of these runs, without a terminal."""
    text, result = io.StringIO(), result_of(*runs)
    terminal.show(result, summary.rows(result), Console(file=text, width=160, highlight=False), **options)
    return text.getvalue()


def pair(**changes: Any) -> list[Run]:
    """Three rounds of fp32 and of bf16, which takes twice the time."""
    bf16 = Setting("bf16")
    runs = [make([(1 + i / 100) * x for x in STEADY], round=i, **changes) for i in range(3)]
    return runs + [
        make([(2 + i / 90) * x for x in STEADY], setting=bf16, group=1, round=i, **changes) for i in range(3)
    ]


def test_what_all_rows_share_the_table_and_the_sentence() -> None:
    """In this order, and nothing else if there is nothing to warn of."""
    lines = shown(*pair()).splitlines()
    assert lines[0] == "Neoverse-N2"
    assert lines[1] == "toy, batch 4, 1 thread, random weights, bf16 by autocast, 3 processes per setting"
    assert lines[4].split() == ["precision", "latency", "rows/s", "speedup", "verdict", "ran", "in"]
    assert lines[-3] == "Within this session:"
    assert lines[-2].startswith("  toy: bf16 is 1.991 times slower [1.9")
    assert lines[-1].startswith("    judged: ")
    assert not any("\x1b" in line for line in lines), "plain without a terminal"


def test_only_conditions_that_matter_are_shown_without_details() -> None:
    """Each with its hint; notes and the numbers of each row are details."""
    found = (warning("OTHER_LOAD", "a busy machine", "stop it"), warning("OUTLIERS", "an outlier", "ignore it"))
    text = shown(*pair(warnings=found))
    assert "warning: a busy machine\n         → stop it\n" in text
    assert "an outlier" not in text
    assert "first call" not in text
    text = shown(*pair(warnings=found), details=True)
    assert "note: an outlier\n      → ignore it\n" in text
    assert "\ntoy bf16=autocast\n" in text
    assert "first call 9.000 s" in text


def test_a_condition_that_invalidates_is_called_so() -> None:
    """It is not a mere warning."""
    text = shown(*pair(), make(STEADY, workload="other", group=2, warnings=(warning("FP32_NOT_FP32", "not fp32"),)))
    assert "invalid: other: not fp32\n" in text


def test_no_line_is_longer_than_100_columns() -> None:
    """Sentences and hints are wrapped, with their further lines indented."""
    long = WarningMessage("OTHER_LOAD", "many words " * 20, "other words " * 20)
    proof = evidence(ProofVerdict.FP32, "a long sentence " * 20)
    text = shown(
        *pair(warnings=(long,), evidence=proof), make(None, workload="b", group=2, error="x " * 90), details=True
    )
    assert max(map(len, text.splitlines())) <= terminal.WIDTH
    assert re.search(r"\n {9}(many|words) ", text)
    assert re.search(r"\n {11}(other|words) ", text)


def test_markup_in_messages_is_harmless() -> None:
    """Brackets are text."""
    found = (WarningMessage("X", "odd [bold]thing[/]", "do [this]"),)
    text = shown(*pair(warnings=found), make(None, workload="b", group=2, error="the worker [x] died"), details=True)
    assert "odd [bold]thing[/]" in text
    assert "→ do [this]" in text
    assert "failed: b fp32: the worker [x] died" in text


def test_the_console_is_stderr_and_wide_enough_for_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """stdout is for scripts; a pipe does not cut the tables at 80 columns."""
    out = terminal.console()
    out.print("x" * 130)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "x" * 130 + "\n"


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR on a terminal: no colour codes."""
    monkeypatch.setenv("NO_COLOR", "1")
    text, result = io.StringIO(), result_of(make(None, error="died"))
    terminal.show(result, summary.rows(result), Console(file=text, force_terminal=True, width=140))
    assert "\x1b[31m" not in text.getvalue()
    assert "died" in text.getvalue()
