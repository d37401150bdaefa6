"""What is seen while a call runs."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

from fake_runs import make, result_of

from modelzoo.document.console import PlainConsole
from modelzoo.frozen import replace
from modelzoo.records.protocol import Progress, Silence
from modelzoo.records.run import Run, SettingRequest
from modelzoo.setting import Setting
from modelzoo.views.progress import NAMED_WORKLOADS, LiveProgress

RESULT = result_of(make([1.0]), make([1.0], setting=Setting("bf16"), group=1))


@dataclass(frozen=True)
class Event:
    """What a worker reports."""

    workload: str
    label: str
    message: Progress


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def event(phase: str, count: int = 0) -> Event:
    """A worker of ``toy fp32`` is in this phase."""
    return Event("toy", "fp32", Progress(phase, count))


def test_a_call_that_does_not_return_is_said_once() -> None:
    """In each phase of a setting; what it was doing before stays what is shown."""
    text = io.StringIO()
    silent = Event("toy", "fp32", Progress("cold", silence=Silence(60.2, "Conv1d 'conv', net.py:3 in forward")))
    with LiveProgress(PlainConsole(file=text), RESULT, Clock()) as shown:
        shown.update(silent)
        shown.update(silent)
    assert text.getvalue() == "toy fp32, cold: no answer for 1 min: Conv1d 'conv', net.py:3 in forward\n"


def test_without_a_terminal_there_is_a_line_a_minute_at_most() -> None:
    """Only when weights and inputs are there: an early error stays the only line."""
    text, clock = io.StringIO(), Clock()
    with LiveProgress(PlainConsole(file=text), RESULT, clock) as shown:
        for phase in ("weights", "load"):
            shown.update(event(phase))
        assert text.getvalue() == ""
        for number in range(130):
            clock.now += 1
            shown.update(event("steady", count=number))
            if number % 50 == 49:
                shown.finished(make([1.0], round=number))
    assert text.getvalue().splitlines() == [
        "toy fp32, process 1: steady; 1 s elapsed",
        "toy fp32, process 2: steady, 60 calls; 1 min 1 s elapsed",
        "toy fp32, process 3: steady, 120 calls; 2 min 1 s elapsed",
    ]


def test_a_setting_that_cannot_run_is_named_when_another_one_is_timed() -> None:
    """Not only at the end; and not before, because an early error stays the only line if all settings fail."""
    text, clock = io.StringIO(), Clock()
    with LiveProgress(PlainConsole(file=text), RESULT, clock) as shown:
        for _ in range(2):
            failed = make(None, setting=Setting("bf16"), group=1, error="no bf16 here\n[TARGET] x")
            shown.name_failure(failed)
            shown.finished(failed)
        shown.update(event("load"))
        assert text.getvalue() == ""
        for phase in ("cold", "steady"):
            shown.update(event(phase))
    first, *others = text.getvalue().splitlines()
    assert first == r"failed: toy bf16: no bf16 here\n\x5bTARGET] x (the other settings are timed)"
    assert not any(line.startswith("failed") for line in others)


def test_the_time_that_is_left_follows_from_the_budget() -> None:
    """It counts from the moment when the measurement begins. After the budget it is unknown, not zero."""
    text, clock = io.StringIO(), Clock()
    with LiveProgress(PlainConsole(file=text), RESULT, clock) as shown:
        clock.now += 5
        shown.begin(90)
        shown.update(event("steady"))
        clock.now += 100
        shown.update(event("steady"))
    assert [line.partition("; ")[2] for line in text.getvalue().splitlines()] == [
        "0 s elapsed, about 1 min 30 s left",
        "1 min 40 s elapsed",
    ]


def test_what_was_spent_before_counts() -> None:
    """Judging is part of a budget, and says nothing of how long the processes take."""
    text, clock = io.StringIO(), Clock()
    with LiveProgress(PlainConsole(file=text), RESULT, clock) as shown:
        shown.begin(90)
        shown.judging(event("load"))
        clock.now += 60
        shown.judging(event("2 of 8: fp32"))
        shown.begin(200, processes=2, spent=60)
        clock.now += 20
        shown.finished(make([1.0]))
        clock.now += 60
        shown.update(event("steady"))
    assert [line.partition("; ")[2] for line in text.getvalue().splitlines()] == [
        "1 min elapsed, about 30 s left",
        "2 min 20 s elapsed, about 1 min left",
    ]


def test_the_time_that_a_fixed_number_of_processes_takes_is_estimated() -> None:
    """Those that are left take as long as those before."""
    text, clock = io.StringIO(), Clock()
    with LiveProgress(PlainConsole(file=text), RESULT, clock) as shown:
        shown.begin(None, processes=3)
        shown.update(event("steady"))
        for number in range(2):
            clock.now += 40
            shown.finished(make([1.0], round=number))
        shown.update(event("steady"))
    assert text.getvalue().splitlines() == [
        "toy fp32, process 1 of 3: steady; 0 s elapsed",
        "toy fp32, process 3 of 3: steady; 1 min 20 s elapsed, about 2 min 40 s left",
    ]


def test_settings_that_a_search_adds_are_counted_too() -> None:
    """By their group: labels may change when settings are added."""
    text = io.StringIO()
    with LiveProgress(PlainConsole(file=text), RESULT) as shown:
        shown.finished(make([1.0]))
        added = SettingRequest("toy", Setting(threads=2))
        shown.take_settings(replace(RESULT, requested=(*RESULT.requested, added)))
        shown.finished(make([1.0], group=len(RESULT.requested)))
        shown.update(Event("toy", RESULT.label(0) + " threads=default", Progress("steady")))
    assert text.getvalue().startswith("toy fp32 threads=default, process 2: steady")


def test_a_judgement_is_no_process() -> None:
    """The predictions of a setting are judged once."""
    text = io.StringIO()
    with LiveProgress(PlainConsole(file=text), RESULT) as shown:
        shown.judging(event("2 of 8: fp32"))
    assert text.getvalue().startswith("toy fp32, judging: 2 of 8: fp32; ")


def block(*runs: Run) -> list[str]:
    """All lines that are drawn on a terminal of 100 columns for a call with these runs, after 70 of its 90 seconds."""
    text, clock = io.StringIO(), Clock()
    console = PlainConsole(file=text, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    with LiveProgress(console, result_of(*runs) if runs else RESULT, clock) as shown:
        shown.begin(90)
        for each in runs:
            shown.finished(each)
        clock.now += 60
        if runs:
            shown.update(event("steady", 42))
        clock.now += 10
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "\n", text.getvalue()).split("\n")


def test_before_anything_has_happened_the_block_says_so() -> None:
    """Starting a process takes seconds."""
    assert "starting" in block()


def test_on_a_terminal_a_block_shows_what_runs_and_what_is_known() -> None:
    """The interval follows from finished processes; one wider than its value says nothing. Times go on."""
    runs = [make([seconds] * 5, round=number) for number, seconds in enumerate((0.100, 0.102, 0.098))]
    runs += [make([seconds], setting=Setting("bf16"), group=1, round=i) for i, seconds in enumerate((0.1, 0.9))]
    drawn = block(*runs, make(None, setting=Setting("fp16"), group=2, error="died"))
    assert "toy fp32, process 4: steady, 42 calls" in drawn
    assert "  toy  fp32 ±5.1 %, bf16 2 done, fp16 …" in drawn
    assert "1 min 10 s elapsed, about 20 s left" in drawn


def test_many_settings_are_summed_up() -> None:
    """A line is no place for twenty intervals, and the block none for twenty workloads."""
    runs = [
        make([0.1 * (1 + 0.001 * number)], setting=Setting(threads=1 + group), group=group, round=number)
        for group in range(6)
        for number in range(2 + group % 2)
    ]
    assert any(
        re.fullmatch(r"  toy  6 settings, 2 to 3 processes each, ±\S+ % to ±\S+ %", each) for each in block(*runs)
    )
    lines = block(*(make([0.1], workload=f"w{number}", group=number) for number in range(20)))
    assert "  and 12 more workloads" in lines
    assert sum(line.startswith("  w") for line in lines) == NAMED_WORKLOADS
