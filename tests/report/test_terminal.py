"""Tables and lines for people: plain without a terminal, nothing cut, nothing taken for markup."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import pytest
from fake_runs import make
from rich.console import Console

from modelzoo import stats
from modelzoo.report import terminal as display
from modelzoo.results import summary
from modelzoo.results.store import Result, Run
from modelzoo.setting import Setting

STEADY = [0.0501, 0.0502, 0.05, 0.0503] * 30


def shown(*runs: Run) -> str:
    """What ``show`` prints of these runs, without a terminal."""
    text = io.StringIO()
    display.show(summary.rows(Result((), "", runs).groups()), Console(file=text, width=140, highlight=False))
    return text.getvalue()


def test_intervals_and_ratios_are_short() -> None:
    """An interval is shown by its larger side, a ratio by its bounds, and a missing one by a dash."""
    interval = stats.Interval(1.0, 0.98, 1.01)
    assert display.interval(interval) == "1.000 s ±2.0 %"
    assert display.interval(None) == display.ratio(None) == "–"
    assert display.ratio(stats.Interval(0.62, 0.6, 0.64)) == "0.620× [0.600, 0.640]"


def test_the_table_has_what_was_asked_for() -> None:
    """Latency with interval, items per second, speedup with verdict, the canary's word."""
    bf16 = Setting("bf16")
    runs = [make(STEADY, round=i) for i in range(3)]
    runs += [make([2 * x for x in STEADY], setting=bf16, round=i, bf16_method="autocast") for i in range(3)]
    text = shown(*runs)
    for words in ("50.15 ms ±", "rows/s", "bf16=autocast", "0.500× [", "SLOWER", "active", "3 × 120", "p99"):
        assert words in text
    assert "\x1b" not in text, "plain without a terminal"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [("ACTIVE", "bf16 active"), ("NOT_ACTIVE", "bf16 NOT active"), ("UNKNOWN", "unknown"), ("", "canary: fp32")],
)
def test_the_table_says_what_was_proven(verdict: str, words: str) -> None:
    """The audit's verdict stands beside the speed; without an audit it is the canary's word, and says so."""
    (row,) = summary.rows(Result((), "", (make(STEADY),)).groups())
    assert display.proof(dataclasses.replace(row, proof_verdict=verdict)) == words


def test_one_setting_has_no_column_of_comparison() -> None:
    """Nothing to compare, no empty columns."""
    assert "verdict" not in shown(make(STEADY))


def test_warnings_are_said_once_with_their_hint_and_markup_is_harmless() -> None:
    """The same warning of two workloads is one; brackets in messages are text."""
    words = ("X", "odd [bold]thing[/]", "do [this]")
    text = shown(make(STEADY, advice=[words]), make(STEADY, workload="other", advice=[words]))
    assert text.count("odd [bold]thing[/]") == 1
    assert "warning: toy fp32, other fp32: odd [bold]thing[/]" in text
    assert "→ do [this]" in text


def test_failures_are_named() -> None:
    """A failed setting has its place in the table and its reason below."""
    text = shown(make(None, error="the worker [x] died"), make(STEADY, workload="other"))
    assert "failed: toy fp32: the worker [x] died" in text
    assert text.count("│ toy") == 1


def test_without_a_terminal_progress_is_a_line_a_run() -> None:
    """Once a run, and only when its weights and inputs are there: an early error stays one line."""
    text = io.StringIO()
    said: dict[str, Any] = {"workload": "toy", "setting": "fp32", "round": 0}
    with display.Progress(Console(file=text), 2) as progress:
        for phase in ("weights", "load"):
            progress.update({**said, "phase": phase})
        assert text.getvalue() == ""
        for phase in ("build", "cold", "steady", "steady"):
            progress.update({**said, "phase": phase, "count": 1, "half_width": 0.1})
        progress.advance()
        progress.update({**said, "round": 1, "phase": "build"})
    assert text.getvalue() == "toy fp32, process 1 …\ntoy fp32, process 2 …\n"


def test_on_a_terminal_progress_shows_workload_phase_and_interval() -> None:
    """One line that is rewritten: where, how many calls, and the interval so far."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=140, _environ={"TERM": "xterm"})
    with display.Progress(console, 2) as progress:
        progress.update(
            {"workload": "toy", "setting": "fp32", "round": 0, "phase": "steady", "count": 42, "half_width": 0.031}
        )
    assert "toy fp32, process 1: steady, 42 calls, ±3.1 %" in text.getvalue()


def test_the_console_is_stderr_and_wide_enough_for_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """stdout is for scripts; a pipe does not cut the table at 80 columns."""
    out = display.console()
    out.print("x" * 130)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "x" * 130 + "\n"


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR on a terminal: no colour codes."""
    monkeypatch.setenv("NO_COLOR", "1")
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=140)
    display.show(summary.rows(Result((), "", (make(None, error="died"),)).groups()), console)
    assert "\x1b[31m" not in text.getvalue()
    assert "died" in text.getvalue()
