"""Which workload gets the next round, how long processes sample, and how the time is divided."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fake_runs
import pytest
from toy_workloads import RANDOM, SHORT, mlp

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.measure import schedule
from modelzoo.measure.jobs import Request
from modelzoo.measure.schedule import FEWEST, MINIMUM, State, needed_rounds, next_workload
from modelzoo.plan import Effort, Plan
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run
from modelzoo.records.timing import Design, StopReason
from modelzoo.setting import Setting

ADAPTIVE = Plan()
SLOW = RANDOM.replace(seed=1)


@dataclass
class Machine:
    """A simulated machine: workloads by name, with seconds per sample, spread of processes and cost of a process."""

    level: dict[str, float]
    spread: dict[str, float]
    cost: dict[str, float]
    factor: float = 1.0
    now: float = 0.0
    fails: Callable[[str], str | None] = lambda name: None
    fails_at: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the reports of the second setting."""

    def clock(self) -> float:
        """Simulated seconds."""
        return self.now


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Machine], None]]:
    """Replace real rounds by simulated ones; the second setting is slower by the machine's factor."""
    machine: list[Machine] = []

    class Simulated:
        def __init__(self, request: Request, on_event: object) -> None:
            self.request, self.sweeps, self.can_run, self.is_emulated = request, 0, True, False
            self._random = random.Random(request.workload.name)

        def sweep(self, seconds: float | None) -> Iterator[Run]:
            here, name = machine[0], self.request.workload.name
            for index, setting in enumerate(self.request.settings):
                error = here.fails(name)
                if index == here.fails_at:
                    yield fake_runs.make(None, workload=name, setting=setting, group=index, error="no such mode")
                    continue
                if error:
                    self.can_run = False
                    yield fake_runs.make(None, workload=name, setting=setting, group=index, error=error)
                    continue
                level = here.level[name] * (here.factor if index else 1) * self._random.gauss(1, here.spread[name])
                count = max(3, int((seconds or 1.0) / level))
                here.now += here.cost[name] + count * level
                samples = [level * self._random.gauss(1, 0.01) for _ in range(count)]
                group, changes = self.request.first_group + index, here.changes if index else {}
                yield fake_runs.make(samples, workload=name, setting=setting, group=group, round=self.sweeps, **changes)
            self.sweeps += 1

    monkeypatch.setattr(schedule, "Rounds", Simulated)
    yield machine.append


def request(name: str = "toy", settings: Sequence[Setting] = (RANDOM, SLOW), plan: Plan = ADAPTIVE, first: int = 0):
    """A request of a workload with this name."""
    return Request(replace(mlp(), name=name), tuple(settings), plan, first_group=first)


def outcome(machine: Machine, requests: Sequence[Request], effort: Effort) -> tuple[list[Run], dict[str, Design]]:
    """All runs, and the last design of each workload."""
    runs, designs = [], {}
    for each in schedule.measure(requests, effort, lambda event: None, clock=machine.clock):
        if isinstance(each, Design):
            designs[each.workload] = each
        else:
            runs.append(each)
    return runs, designs


def test_a_fixed_number_is_kept(simulated: Callable[[Machine], None]) -> None:
    """``--processes 5``: five rounds, one look at the end, whatever the data says."""
    machine = Machine({"toy": 0.1}, {"toy": 0.2}, {"toy": 3.0})
    simulated(machine)
    runs, designs = outcome(machine, [request()], Effort(processes=5))
    assert len(runs) == 10
    found = designs["toy"]
    assert (found.processes, found.looks, found.maximum, found.stop_reason) == (5, (5,), 5, StopReason.FIXED)
    assert found.budget is None


@pytest.mark.parametrize("is_refused", [False, True])
def test_what_is_refused_needs_no_verdict(simulated: Callable[[Machine], None], is_refused: bool) -> None:
    """Eight rounds do not tell two settings apart; more of them would not help if one computes wrong results."""
    changes = {"evidence": fake_runs.evidence(ProofVerdict.WRONG_RESULTS)} if is_refused else {}
    machine = Machine({"toy": 0.1}, {"toy": 0.05}, {"toy": 3.0}, factor=1.02, changes=changes)
    simulated(machine)
    runs, _ = outcome(machine, [request()], Effort(budget=1000.0, margin=0.2))
    assert (len(runs) == 16) == is_refused


def test_a_precise_workload_ends_with_eight_processes(simulated: Callable[[Machine], None]) -> None:
    """Not before: with fewer the estimated spread says little. A clear difference is decided at the first look."""
    machine = Machine({"toy": 0.1}, {"toy": 0.01}, {"toy": 3.0}, factor=1.5)
    simulated(machine)
    runs, designs = outcome(machine, [request()], Effort(budget=1000.0))
    assert len(runs) == 16
    assert designs["toy"].stop_reason is StopReason.PRECISE
    assert designs["toy"].looks[0] == 8


def test_a_noisy_workload_uses_the_budget_and_not_more(simulated: Callable[[Machine], None]) -> None:
    """The last round still fits into it."""
    machine = Machine({"toy": 0.1}, {"toy": 0.3}, {"toy": 3.0})
    simulated(machine)
    _, designs = outcome(machine, [request()], Effort(budget=300.0))
    assert designs["toy"].stop_reason is StopReason.BUDGET
    assert 270 < machine.now <= 301


@pytest.mark.parametrize(("spent", "at_least", "at_most"), [(0.0, 270.0, 310.0), (200.0, 70.0, 110.0), (1000.0, 9, 20)])
def test_what_is_spent_already_is_no_time_for_rounds(
    spent: float, at_least: float, at_most: float, simulated: Callable[[Machine], None]
) -> None:
    """Judging, before the timing. One round is run in any case."""
    machine = Machine({"toy": 0.1}, {"toy": 0.2}, {"toy": 3.0})
    simulated(machine)
    effort = Effort(budget=300.0)
    for _ in schedule.measure([request()], effort, lambda event: None, spent=spent, clock=machine.clock):
        pass
    assert at_least < machine.now < at_most


def test_rounds_of_all_workloads_alternate(simulated: Callable[[Machine], None]) -> None:
    """No workload has two rounds before each of the others has one."""
    names = ["a", "b", "c"]
    machine = Machine(dict.fromkeys(names, 0.1), dict.fromkeys(names, 0.01), dict.fromkeys(names, 3.0))
    simulated(machine)
    requests = [request(name, first=2 * i) for i, name in enumerate(names)]
    runs, _ = outcome(machine, requests, Effort(processes=3))
    assert [run.workload for run in runs] == ["a", "a", "b", "b", "c", "c"] * 3


def test_the_time_left_goes_to_the_workload_that_is_least_precise(simulated: Callable[[Machine], None]) -> None:
    """The steady one ends with its eight rounds."""
    machine = Machine({"a": 0.1, "b": 0.1}, {"a": 0.005, "b": 0.3}, {"a": 3.0, "b": 3.0}, factor=1.5)
    simulated(machine)
    runs, designs = outcome(machine, [request("a"), request("b", first=2)], Effort(budget=500.0))
    counts = [sum(run.workload == name for run in runs) for name in "ab"]
    assert counts[0] == 16
    assert counts[1] > 24
    assert (designs["a"].stop_reason, designs["b"].stop_reason) == (StopReason.PRECISE, StopReason.BUDGET)


def test_an_expensive_workload_gets_a_number_that_is_fixed_in_advance(simulated: Callable[[Machine], None]) -> None:
    """By its costs alone: 8 rounds of it would not fit, so its few are tested once, with the whole error."""
    machine = Machine({"a": 0.1, "b": 3.0}, {"a": 0.01, "b": 0.1}, {"a": 3.0, "b": 12.0}, factor=1.5)
    simulated(machine)
    runs, designs = outcome(machine, [request("a"), request("b", first=2)], Effort(budget=300.0))
    count = sum(run.workload == "b" for run in runs) // 2
    assert 3 <= count < 8
    assert (designs["b"].processes, designs["b"].looks, designs["b"].stop_reason) == (count, (count,), StopReason.FIXED)


@pytest.mark.parametrize(("cost", "budget"), [(10.5, None), (10.6, 120.0)])
def test_expensive_processes_sample_as_long_as_the_budget_allows(
    cost: float, budget: float | None, simulated: Callable[[Machine], None]
) -> None:
    """The fewest rounds end within it, be it given or not, once two sweeps have shown their cost."""
    machine = Machine({"toy": 1.2}, {"toy": 0.001}, {"toy": cost})
    simulated(machine)
    runs, designs = outcome(machine, [request()], Effort(budget=budget))
    assert (len(runs), designs["toy"].budget, designs["toy"].processes) == (2 * FEWEST, 120, FEWEST)
    assert 110 < machine.now < 119
    assert designs["toy"].seconds[1] == schedule.SECONDS[1] > designs["toy"].seconds[2] >= schedule.SECONDS[0]


def test_expensive_processes_sample_for_the_least_time_at_least(simulated: Callable[[Machine], None]) -> None:
    """The rounds that are needed exceed the default budget then."""
    machine = Machine({"toy": 1.2}, {"toy": 0.001}, {"toy": 30.0})
    simulated(machine)
    _, designs = outcome(machine, [request()], Effort())
    assert designs["toy"].seconds == (schedule.FIRST_SECONDS, schedule.SECONDS[1], *[schedule.SECONDS[0]] * 2)


def test_a_setting_that_fails_takes_no_part_of_the_time(simulated: Callable[[Machine], None]) -> None:
    """The time is divided among the processes that sample, here one in each round."""
    machine = Machine({"toy": 1.2}, {"toy": 0.001}, {"toy": 24.0})
    machine.fails_at = 1
    simulated(machine)
    _, designs = outcome(machine, [request()], Effort())
    # 120 s, without 3 s for the end, 27.6 s and 30 s for two sweeps, and 2 × 24 s, are left for two processes.
    assert designs["toy"].seconds[2] == pytest.approx(11.4 / 2, abs=0.1)


def test_seconds_per_process_follow_from_what_was_measured(simulated: Callable[[Machine], None]) -> None:
    """Processes that differ much and cost little sample briefly; the first rounds cannot know it."""
    machine = Machine({"toy": 0.01}, {"toy": 0.2}, {"toy": 0.5})
    simulated(machine)
    _, designs = outcome(machine, [request()], Effort(processes=6))
    assert designs["toy"].seconds[0] == schedule.FIRST_SECONDS
    assert designs["toy"].seconds[1:] == (schedule.SECONDS[0],) * 5


def test_given_seconds_and_iterations_are_kept(simulated: Callable[[Machine], None]) -> None:
    """``--max-seconds`` and ``--iterations`` replace the choice."""
    machine = Machine({"toy": 0.01}, {"toy": 0.2}, {"toy": 0.5})
    simulated(machine)
    _, designs = outcome(machine, [request(plan=Plan(max_seconds=7.0))], Effort(processes=4))
    assert designs["toy"].seconds == (7.0,) * 4
    _, designs = outcome(machine, [request(plan=SHORT)], Effort(processes=4))
    assert designs["toy"].seconds == ()


def test_a_workload_that_cannot_run_does_not_stop_the_others(simulated: Callable[[Machine], None]) -> None:
    """It is tried once."""
    machine = Machine({"a": 0.1, "b": 0.1}, {"a": 0.01, "b": 0.01}, {"a": 3.0, "b": 3.0}, factor=1.5)
    machine.fails = lambda name: "no weights" if name == "a" else None
    simulated(machine)
    runs, designs = outcome(machine, [request("a"), request("b", first=2)], Effort(budget=500.0))
    assert [run.error for run in runs if run.workload == "a"] == ["no weights"] * 2
    assert (designs["a"].stop_reason, designs["b"].stop_reason) == (StopReason.FAILED, StopReason.PRECISE)


def test_a_budget_in_which_nothing_can_start_is_refused() -> None:
    """Before anything is started, in one line that says what would do."""
    with pytest.raises(UsageError, match=r"--budget 3s is too short: 2 processes.* at least 4 s"):
        schedule.measure([request()], Effort(budget=3.0), lambda event: None)


def test_the_default_budget_grows_with_what_is_asked_for() -> None:
    """Eight minutes for four workloads in two precisions."""
    assert schedule.budget([request()] * 4, Effort()) == 480
    assert schedule.budget([request()] * 4, Effort(budget=30.0)) == 30
    assert schedule.budget([request()], Effort(processes=3)) is None
    assert schedule.budget([request()], Effort(processes=3, budget=30.0)) == 30


def state(rounds: int = 8, cost: float = 10.0, width: float = 0.1, **changes: object) -> State:
    """A workload with two settings that needs 8 rounds."""
    values = {"needed": 8, "fixed": False, "decided": True, **changes}
    return State(rounds=rounds, cost=cost, half_width=width, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("costs", "seconds", "expected"),
    [
        ([10, 10], 1000, [MINIMUM, MINIMUM]),
        ([14, 14, 16, 47], 570, [8, 8, 8, 4]),
        ([14, 14, 16, 47], 620, [8, 8, 8, 5]),
        ([47, 14], 160, [FEWEST, 5]),
        ([100.0], 120, [FEWEST]),
        ([], 100, []),
    ],
)
def test_expensive_workloads_get_fewer_rounds(costs: list[float], seconds: float, expected: list[int]) -> None:
    """The cheap ones get 8 each; what is left goes to the expensive ones, at least 3 rounds each."""
    assert needed_rounds(costs, seconds) == expected


def test_needed_rounds_come_first_and_in_turn() -> None:
    """However wide another one's interval is; the workload that has the smallest share of its rounds is next."""
    states = [state(5), state(4), state(8, width=0.9)]
    assert next_workload(states, 0.05, 1000.0, hard=True) == 1
    assert next_workload([state(2, needed=3), state(2)], 0.05, 1000.0, hard=True) == 1


def test_rounds_that_are_needed_may_exceed_the_default_budget_but_not_a_given_one() -> None:
    """The default is a guess; a budget that the user gave is a limit."""
    assert next_workload([state(5)], 0.05, 3.0, hard=False) == 0
    assert next_workload([state(5)], 0.05, 3.0, hard=True) is None


def test_after_that_the_widest_interval_decides() -> None:
    """Compared with the margin, among those that can still be afforded."""
    states = [state(width=0.08), state(width=0.12, cost=50.0), state(width=0.11)]
    assert next_workload(states, 0.05, 100.0, hard=False) == 1
    assert next_workload(states, 0.05, 20.0, hard=False) == 2
    assert next_workload(states, 0.05, 5.0, hard=False) is None


def test_narrow_and_decided_workloads_need_nothing() -> None:
    """Narrow but undecided ones go on; those whose number is fixed end with it, those that cannot run at once."""
    assert next_workload([state(width=0.04)], 0.05, 100.0, hard=False) is None
    assert next_workload([state(width=0.04, decided=False)], 0.05, 100.0, hard=False) == 0
    assert next_workload([state(width=0.4, fixed=True)], 0.05, 100.0, hard=False) is None
    assert next_workload([state(0, width=math.inf, can_run=False)], 0.05, 100.0, hard=False) is None
