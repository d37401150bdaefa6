"""Tables and lines for people: plain without a terminal, nothing cut, nothing taken for markup."""

from __future__ import annotations

import dataclasses
import io

import pytest
from fake_runs import make, result_of
from rich.console import Console

from modelzoo import stats
from modelzoo.measure.schedule import Event
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.protocol import Progress
from modelzoo.records.run import Run
from modelzoo.report import terminal
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.warning import WarningMessage

STEADY = [0.0501, 0.0502, 0.05, 0.0503] * 30


def shown(*runs: Run) -> str:
    """What ``show`` prints of these runs, without a terminal."""
    text = io.StringIO()
    terminal.show(summary.rows(result_of(*runs)), Console(file=text, width=140, highlight=False))
    return text.getvalue()


def test_intervals_and_ratios_are_short() -> None:
    """An interval is shown by its larger side, a ratio by its bounds, and a missing one by a dash."""
    interval = stats.Interval(1.0, 0.98, 1.01)
    assert terminal.interval(interval) == "1.000 s ±2.0 %"
    assert terminal.interval(None) == terminal.ratio(None) == "–"
    assert terminal.ratio(stats.Interval(0.62, 0.6, 0.64)) == "0.620× [0.600, 0.640]"


def test_the_table_has_what_was_asked_for() -> None:
    """Latency with interval, items per second, speedup with verdict, the canary's word."""
    bf16 = Setting("bf16")
    runs = [make(STEADY, round=i) for i in range(3)]
    runs += [make([2 * x for x in STEADY], setting=bf16, group=1, round=i, bf16_method="autocast") for i in range(3)]
    text = shown(*runs)
    for words in ("50.15 ms ±", "rows/s", "bf16=autocast", "0.500× [", "SLOWER", "active", "3 × 120", "p99"):
        assert words in text
    assert "\x1b" not in text, "plain without a terminal"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (ProofVerdict.ACTIVE, "bf16 active"),
        (ProofVerdict.NOT_ACTIVE, "bf16 NOT active"),
        (ProofVerdict.UNKNOWN, "unknown"),
        (None, "canary: fp32"),
    ],
)
def test_the_table_says_what_was_proven(verdict: ProofVerdict | None, words: str) -> None:
    """The audit's verdict stands beside the speed; without an audit it is the canary's, and says so."""
    (row,) = summary.rows(result_of(make(STEADY)))
    assert terminal.proof(dataclasses.replace(row, proof_verdict=verdict)) == words


def test_one_setting_has_no_column_of_comparison() -> None:
    """Nothing to compare, no empty columns."""
    assert "verdict" not in shown(make(STEADY))


def test_warnings_are_said_once_with_their_hint_and_markup_is_harmless() -> None:
    """The same warning of two workloads is one; brackets in messages are text."""
    warnings = (WarningMessage("X", "odd [bold]thing[/]", "do [this]"),)
    text = shown(make(STEADY, warnings=warnings), make(STEADY, workload="other", group=1, warnings=warnings))
    assert text.count("odd [bold]thing[/]") == 1
    assert "warning: toy fp32, other fp32: odd [bold]thing[/]" in text
    assert "→ do [this]" in text


def test_failures_are_named() -> None:
    """A failed setting has its place in the table and its reason below."""
    text = shown(make(None, error="the worker [x] died"), make(STEADY, workload="other", group=1))
    assert "failed: toy fp32: the worker [x] died" in text
    assert text.count("│ toy") == 1


def event(phase: str, round_number: int = 0, count: int = 0, half_width: float | None = None) -> Event:
    """What a worker reports of its progress."""
    return Event("toy", "fp32", round_number, Progress(phase, count, half_width))


def test_without_a_terminal_progress_is_one_line_per_run() -> None:
    """Only when weights and inputs are there: an early error stays the only line."""
    text = io.StringIO()
    with terminal.LiveProgress(Console(file=text), 2) as progress:
        for phase in ("weights", "load"):
            progress.update(event(phase))
        assert text.getvalue() == ""
        for phase in ("cold", "steady", "steady"):
            progress.update(event(phase, count=1, half_width=0.1))
        progress.advance()
        progress.update(event("cold", 1))
    assert text.getvalue() == "toy fp32, process 1 …\ntoy fp32, process 2 …\n"


def test_on_a_terminal_progress_shows_workload_phase_and_interval() -> None:
    """One line that is rewritten: which process, how many calls, and the interval so far."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=140, _environ={"TERM": "xterm"})
    with terminal.LiveProgress(console, 2) as progress:
        progress.update(event("steady", count=42, half_width=0.031))
    assert "toy fp32, process 1: steady, 42 calls, ±3.1 %" in text.getvalue()


def test_an_interval_wider_than_its_value_is_left_out_of_the_progress() -> None:
    """``±over 100 %`` says nothing yet."""
    assert terminal.progress_text(Progress("steady", 4, 1.7)) == "steady, 4 calls"
    assert terminal.progress_text(Progress("warm-up", 2, None)) == "warm-up, 2 calls"


def test_the_console_is_stderr_and_wide_enough_for_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """stdout is for scripts; a pipe does not cut the table at 80 columns."""
    out = terminal.console()
    out.print("x" * 130)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "x" * 130 + "\n"


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR on a terminal: no colour codes."""
    monkeypatch.setenv("NO_COLOR", "1")
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=140)
    terminal.show(summary.rows(result_of(make(None, error="died"))), console)
    assert "\x1b[31m" not in text.getvalue()
    assert "died" in text.getvalue()
