"""What is seen while a call runs."""

from __future__ import annotations

import io
import re
from typing import Any, NamedTuple

from fake_runs import make, result_of

from modelzoo.document.terminal import PlainConsole
from modelzoo.records.protocol import Progress, Silence
from modelzoo.records.run import Result, Run
from modelzoo.setting import Setting
from modelzoo.views.progress import NAMED_WORKLOADS, LiveProgress

RESULT = result_of(make([1.0]), make([1.0], setting=Setting("bf16")))


class Event(NamedTuple):
    """What a worker reports."""

    workload: str
    label: str
    message: Progress


class Call:
    """A call whose clock is set by hand, in a file or on a terminal of 100 columns."""

    def __init__(self, result: Result = RESULT, **terminal: Any) -> None:
        self.now, self._text = 100.0, io.StringIO()
        console = PlainConsole(file=self._text, **terminal)
        self.progress = LiveProgress(console, result, lambda: self.now)

    @property
    def lines(self) -> list[str]:
        """What was printed."""
        return self._text.getvalue().splitlines()

    @property
    def times(self) -> list[str]:
        """What was said of the time."""
        return [line.partition("; ")[2] for line in self.lines]

    def update(self, phase: str, count: int = 0, label: str = "fp32") -> None:
        """A worker of this setting is in this phase."""
        self.progress.update(Event("toy", label, Progress(phase, count)))


def test_a_call_that_does_not_return_is_said_once() -> None:
    """In each phase of a setting; what it was doing before stays what is shown."""
    call = Call()
    silence = Silence(60.2, "Conv1d 'conv', net.py:3 in forward")
    for _ in range(2):
        call.progress.update(Event("toy", "fp32", Progress("cold", silence=silence)))
    assert call.lines == ["toy fp32, cold: no answer for 1 min: Conv1d 'conv', net.py:3 in forward"]


def test_without_a_terminal_there_is_a_line_a_minute_at_most() -> None:
    """Only when weights and inputs are there: an early error stays the only line."""
    call = Call()
    for phase in ("weights", "load"):
        call.update(phase)
    assert call.lines == []
    for number in range(130):
        call.now += 1
        call.update("steady", number)
        if number % 50 == 49:
            call.progress.finished(make([1.0], round=number))
    assert call.lines == [
        "toy fp32, process 1: steady; 1 s elapsed",
        "toy fp32, process 2: steady, 60 calls; 1 min 1 s elapsed",
        "toy fp32, process 3: steady, 120 calls; 2 min 1 s elapsed",
    ]


def test_a_setting_that_cannot_run_is_named_when_another_one_is_timed() -> None:
    """Not only at the end; and not before, because an early error stays the only line if all settings fail."""
    call = Call()
    failed = make(None, setting=Setting("bf16"), group=1, error="no bf16 here\n[TARGET] x")
    for _ in range(2):
        call.progress.name_failure(failed)
        call.progress.finished(failed)
    call.update("load")
    assert call.lines == []
    for phase in ("cold", "steady"):
        call.update(phase)
    first, *others = call.lines
    assert first == r"failed: toy bf16: no bf16 here\n\x5bTARGET] x (the other settings are timed)"
    assert not any(line.startswith("failed") for line in others)


def test_the_time_that_is_left_follows_from_the_budget() -> None:
    """It counts from the moment when the measurement begins. After the budget it is unknown, not zero."""
    call = Call()
    call.now += 5
    call.progress.begin(90)
    for _ in range(2):
        call.update("steady")
        call.now += 100
    assert call.times == ["0 s elapsed, about 1 min 30 s left", "1 min 40 s elapsed"]


def test_what_was_spent_before_counts() -> None:
    """Judging is part of a budget and no process, and says nothing of how long the processes take."""
    call = Call()
    call.progress.begin(90)
    for phase, seconds in (("load", 60), ("2 of 8: fp32", 0)):
        call.progress.judging(Event("toy", "fp32", Progress(phase)))
        call.now += seconds
    assert call.lines == ["toy fp32, judging: 2 of 8: fp32; 1 min elapsed, about 30 s left"]
    call.progress.begin(200, processes=2, spent=60)
    call.now += 20
    call.progress.finished(make([1.0]))
    call.now += 60
    call.update("steady")
    assert call.times[1:] == ["2 min 20 s elapsed, about 1 min left"]


def test_the_time_that_a_fixed_number_of_processes_takes_is_estimated() -> None:
    """Those that are left take as long as those before."""
    call = Call()
    call.progress.begin(None, processes=3)
    call.update("steady")
    for number in range(2):
        call.now += 40
        call.progress.finished(make([1.0], round=number))
    call.update("steady")
    assert call.lines == [
        "toy fp32, process 1 of 3: steady; 0 s elapsed",
        "toy fp32, process 3 of 3: steady; 1 min 20 s elapsed, about 2 min 40 s left",
    ]


def block(*runs: Run) -> list[str]:
    """All lines that are drawn on a terminal for a call with these runs, after 70 of its 90 seconds."""
    call = Call(result_of(*runs) if runs else RESULT, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    with call.progress as shown:
        shown.begin(90)
        for each in runs:
            shown.finished(each)
        call.now += 60
        if runs:
            call.update("steady", 42)
        call.now += 10
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "\n", "\n".join(call.lines)).split("\n")


def test_on_a_terminal_a_block_shows_what_runs_and_what_is_known() -> None:
    """The interval follows from finished processes; one wider than its value says nothing. Times go on."""
    runs = [make([seconds] * 5, round=number) for number, seconds in enumerate((0.100, 0.102, 0.098))]
    runs += [make([seconds], setting=Setting("bf16"), group=1, round=i) for i, seconds in enumerate((0.1, 0.9))]
    drawn = block(*runs, make(None, setting=Setting("fp16"), group=2, error="died"))
    assert "toy fp32, process 4: steady, 42 calls" in drawn
    assert "  toy  fp32 ±5.1 %, bf16 2 done, fp16 …" in drawn
    assert "1 min 10 s elapsed, about 20 s left" in drawn
    assert "starting" in block()


def test_many_settings_are_summed_up() -> None:
    """A line is no place for twenty intervals, and the block none for twenty workloads."""
    settings = [(group, number) for group in range(6) for number in range(2 + group % 2)]
    runs = (make([0.1 + 1e-4 * n], setting=Setting(threads=1 + group), group=group, round=n) for group, n in settings)
    summed = re.compile(r"  toy  6 settings, 2 to 3 processes each, ±\S+ % to ±\S+ %")
    assert any(map(summed.fullmatch, block(*runs)))
    lines = block(*(make([0.1], workload=f"w{number}", group=number) for number in range(20)))
    assert "  and 12 more workloads" in lines
    assert sum(line.startswith("  w") for line in lines) == NAMED_WORKLOADS
