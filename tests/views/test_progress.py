"""What is seen while a call runs."""

from __future__ import annotations

import io
from dataclasses import dataclass

from fake_runs import make, result_of

from modelzoo.document.console import PlainConsole
from modelzoo.frozen import replace
from modelzoo.records.protocol import Progress, Silence
from modelzoo.records.run import Result, SettingRequest
from modelzoo.setting import Setting
from modelzoo.views import progress
from modelzoo.views.progress import LevelSoFar, LiveProgress, ProgressState

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


def state(
    levels: tuple[LevelSoFar, ...] = (), processes: int | None = 8, remaining: float | None = 450.0
) -> ProgressState:
    """The third process of a call."""
    return ProgressState("bert", "fp32", 3, processes, "steady", 120, levels, 125.0, remaining)


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


def block(result: Result, *events: Event) -> str:
    """All that is drawn on a terminal of 100 columns."""
    text = io.StringIO()
    console = PlainConsole(file=text, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    with LiveProgress(console, result) as shown:
        for each in events:
            shown.update(each)
        for number, seconds in enumerate((0.100, 0.102, 0.098)):
            shown.finished(make([seconds] * 5, round=number))
        shown.finished(make(None, setting=Setting("bf16"), group=1, error="died"))
        for each in events:
            shown.update(each)
    return text.getvalue()


def test_on_a_terminal_a_block_shows_what_runs_and_what_is_known() -> None:
    """The interval of a setting follows from its finished processes; a failed one has none."""
    drawn = block(RESULT, event("steady", 42))
    assert "toy fp32, process 4: steady, 42 calls" in drawn
    assert "  toy  fp32 ±5.1 %, bf16 …" in drawn


def test_a_judgement_is_no_process() -> None:
    """The predictions of a setting are judged once."""
    text = io.StringIO()
    with LiveProgress(PlainConsole(file=text), RESULT) as shown:
        shown.judging(event("2 of 8: fp32"))
    assert text.getvalue().startswith("toy fp32, judging: 2 of 8: fp32; ")


def test_before_anything_has_happened_the_block_says_so() -> None:
    """Starting a process takes seconds."""
    assert "starting" in block(RESULT)


def test_the_lines_of_the_block() -> None:
    """What runs, a line per workload, and the times, which go on between two reports."""
    levels = (LevelSoFar("bert", "fp32", 2, 0.051), LevelSoFar("bert", "bf16", 2, None), LevelSoFar("ssd", "fp32", 0))
    assert progress.block_lines(state(levels), since=10) == [
        "bert fp32, process 3 of 8: steady, 120 calls",
        "  bert  fp32 ±5.1 %, bf16 2 done",
        "  ssd   fp32 …",
        "2 min 15 s elapsed, about 7 min 20 s left",
    ]
    assert progress.block_lines(state(remaining=5.0), since=10)[-1] == "2 min 15 s elapsed"
    assert progress.block_lines(state(processes=None, remaining=None)) == [
        "bert fp32, process 3: steady, 120 calls",
        "2 min 5 s elapsed",
    ]


def test_many_settings_are_summed_up() -> None:
    """A line is no place for twenty intervals, and the block none for twenty workloads."""
    many = tuple(LevelSoFar("toy", f"threads={i}", 2 + i % 2, 0.01 * (i + 1) if i < 9 else None) for i in range(20))
    assert progress.level_lines(many) == ["  toy  20 settings, 2 to 3 processes each, ±1.0 % to ±9.0 %"]
    workloads = tuple(LevelSoFar(f"w{i}", "fp32", 1) for i in range(20))
    lines = progress.level_lines(workloads)
    assert (len(lines), lines[-1]) == (progress.NAMED_WORKLOADS + 1, "  and 12 more workloads")


def test_an_interval_wider_than_its_value_is_left_out() -> None:
    """``±over 100 %`` says nothing yet; the number of processes does."""
    assert progress.level_lines([LevelSoFar("toy", "fp32", 2, 1.7)]) == ["  toy  fp32 2 done"]
