"""Which workload gets the next round, how long processes sample, and how the time is divided."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fake_runs
import pytest
from toy_workloads import RANDOM, SHORT, mlp

from modelzoo.frozen import replace
from modelzoo.measure import schedule
from modelzoo.measure.jobs import Request
from modelzoo.measure.schedule import FEWEST, needed_rounds
from modelzoo.plan import Effort, Plan
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run
from modelzoo.records.timing import Design, StopReason

BOTH = (RANDOM, RANDOM.replace(seed=1))
Values = float | Mapping[str, float]


@dataclass
class Machine:
    """A simulated machine: seconds per sample, spread of processes and cost of a process, of all workloads or by name.

    The second setting is slower by ``factor``, and ``changes`` are fields of its reports.
    """

    level: Values
    spread: Values
    cost: Values
    factor: float = 1.0
    now: float = 0.0
    fails: Callable[[str], str | None] = lambda name: None
    fails_at: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)

    def measure(self, *names: str, plan: Plan = Plan(), **effort: Any) -> tuple[list[Run], dict[str, Design]]:  # noqa: B008 - frozen
        """All runs, and the last design of each workload; of the only one if none is named."""
        works = [replace(mlp(), name=name) for name in names or ["toy"]]
        requests = [Request(work, BOTH, plan, first_group=2 * i) for i, work in enumerate(works)]
        spent = effort.pop("spent", 0.0)
        outcomes = list(schedule.measure(requests, Effort(**effort), lambda event: None, spent))
        designs = {each.workload: each for each in outcomes if isinstance(each, Design)}
        return [each for each in outcomes if isinstance(each, Run)], designs


class SimulatedRounds:
    """What stands for ``Rounds`` on ``machine``."""

    machine: Machine

    def __init__(self, request: Request, on_event: object) -> None:
        self.request, self.sweeps, self.can_run, self.is_emulated = request, 0, True, False
        self._random = random.Random(request.workload.name)

    def sweep(self, seconds: float | None) -> Iterator[Run]:
        here, name = self.machine, self.request.workload.name
        base, spread, cost = (
            each if isinstance(each, float) else each[name] for each in (here.level, here.spread, here.cost)
        )
        for index, setting in enumerate(self.request.settings):
            error = "no such mode" if index == here.fails_at else here.fails(name)
            if error is not None:
                self.can_run = index == here.fails_at
                yield fake_runs.make(None, workload=name, setting=setting, group=index, error=error)
                continue
            level = base * (here.factor if index else 1) * self._random.gauss(1, spread)
            count = max(3, int((seconds or 1.0) / level))
            here.now += cost + count * level
            samples = [level * self._random.gauss(1, 0.01) for _ in range(count)]
            group, changes = self.request.first_group + index, here.changes if index else {}
            yield fake_runs.make(samples, workload=name, setting=setting, group=group, round=self.sweeps, **changes)
        self.sweeps += 1


Simulate = Callable[..., Machine]


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """Replace real rounds by those of the machine that this makes."""

    def make(level: Values, spread: Values, cost: Values, **more: Any) -> Machine:
        machine = Machine(level, spread, cost, **more)
        monkeypatch.setattr(SimulatedRounds, "machine", machine, raising=False)
        monkeypatch.setattr(schedule, "Rounds", SimulatedRounds)
        monkeypatch.setattr(schedule, "perf_counter", lambda: machine.now)
        return machine

    return make


def count_of(runs: Sequence[Run], name: str) -> int:
    """How many processes of a workload there were."""
    return sum(run.workload == name for run in runs)


def test_a_fixed_number_is_kept(simulated: Simulate) -> None:
    """``--processes 5``: five rounds, one look at the end, whatever the data says."""
    runs, designs = simulated(0.1, 0.2, 3.0).measure(processes=5)
    assert len(runs) == 10
    found = designs["toy"]
    assert (found.processes, found.looks, found.maximum, found.stop_reason) == (5, (5,), 5, StopReason.FIXED)
    assert found.budget is None


@pytest.mark.parametrize("is_refused", [False, True])
def test_what_is_refused_needs_no_verdict(simulated: Simulate, is_refused: bool) -> None:
    """Eight rounds do not tell two settings apart; more of them would not help if one computes wrong results."""
    changes = {"evidence": fake_runs.evidence(ProofVerdict.WRONG_RESULTS)} if is_refused else {}
    runs, _ = simulated(0.1, 0.05, 3.0, factor=1.02, changes=changes).measure(budget=1000.0, margin=0.2)
    assert (len(runs) == 16) == is_refused


def test_a_precise_workload_ends_with_eight_processes(simulated: Simulate) -> None:
    """Not before: with fewer the estimated spread says little. A clear difference is decided at the first look."""
    runs, designs = simulated(0.1, 0.01, 3.0, factor=1.5).measure(budget=1000.0)
    assert len(runs) == 16
    assert designs["toy"].stop_reason is StopReason.PRECISE
    assert designs["toy"].looks[0] == 8


@pytest.mark.parametrize(("spent", "at_least", "at_most"), [(0.0, 270, 301), (200.0, 70, 101), (1000.0, 9, 20)])
def test_a_noisy_workload_uses_the_budget_and_not_more(
    spent: float, at_least: float, at_most: float, simulated: Simulate
) -> None:
    """The last round still fits into it, with what is spent already on judging. One round is run in any case."""
    machine = simulated(0.1, 0.3, 3.0)
    _, designs = machine.measure(budget=300.0, spent=spent)
    assert at_least < machine.now <= at_most
    assert designs["toy"].stop_reason is StopReason.BUDGET


def test_rounds_of_all_workloads_alternate(simulated: Simulate) -> None:
    """No workload has two rounds before each of the others has one."""
    runs, _ = simulated(0.1, 0.01, 3.0).measure("a", "b", "c", processes=3)
    assert [run.workload for run in runs] == ["a", "a", "b", "b", "c", "c"] * 3


def test_the_time_left_goes_to_the_workload_that_is_least_precise(simulated: Simulate) -> None:
    """The steady one ends with its eight rounds."""
    runs, designs = simulated(0.1, {"a": 0.005, "b": 0.3}, 3.0, factor=1.5).measure("a", "b", budget=500.0)
    assert count_of(runs, "a") == 16
    assert count_of(runs, "b") > 24
    assert (designs["a"].stop_reason, designs["b"].stop_reason) == (StopReason.PRECISE, StopReason.BUDGET)


def test_of_two_noisy_workloads_the_noisier_one_gets_more_rounds(simulated: Simulate) -> None:
    """By the width of its interval, although both cost the same and neither gets narrow enough."""
    runs, _ = simulated(0.1, {"a": 0.15, "b": 0.3}, 3.0).measure("a", "b", budget=300.0)
    assert count_of(runs, "b") > count_of(runs, "a") >= 16


def test_an_expensive_workload_gets_a_number_that_is_fixed_in_advance(simulated: Simulate) -> None:
    """By its costs alone: 8 rounds of it would not fit, so its few are tested once, with the whole error."""
    machine = simulated({"a": 0.1, "b": 3.0}, {"a": 0.01, "b": 0.1}, {"a": 3.0, "b": 12.0}, factor=1.5)
    runs, designs = machine.measure("a", "b", budget=300.0)
    count = count_of(runs, "b") // 2
    assert 3 <= count < 8
    assert (designs["b"].processes, designs["b"].looks, designs["b"].stop_reason) == (count, (count,), StopReason.FIXED)


@pytest.mark.parametrize(("cost", "budget"), [(10.5, None), (10.6, 120.0)])
def test_expensive_processes_sample_as_long_as_the_budget_allows(
    cost: float, budget: float | None, simulated: Simulate
) -> None:
    """The fewest rounds end within it, be it given or not, once two sweeps have shown their cost."""
    machine = simulated(1.2, 0.001, cost)
    runs, designs = machine.measure(budget=budget)
    assert (len(runs), designs["toy"].budget, designs["toy"].processes) == (2 * FEWEST, 120, FEWEST)
    assert 110 < machine.now < 119
    assert designs["toy"].seconds[1] == schedule.SECONDS[1] > designs["toy"].seconds[2] >= schedule.SECONDS[0]


@pytest.mark.parametrize(("budget", "rounds"), [(None, FEWEST), (120.0, 1)])
def test_expensive_processes_sample_for_the_least_time_at_least(
    budget: float | None, rounds: int, simulated: Simulate
) -> None:
    """The rounds that are needed exceed the default budget then, but not one that was given."""
    _, designs = simulated(1.2, 0.001, 30.0).measure(budget=budget)
    seconds = (schedule.FIRST_SECONDS, schedule.SECONDS[1], *[schedule.SECONDS[0]] * 2)
    assert designs["toy"].seconds == seconds[:rounds]


def test_a_setting_that_fails_takes_no_part_of_the_time(simulated: Simulate) -> None:
    """The time is divided among the processes that sample, here one in each round."""
    _, designs = simulated(1.2, 0.001, 24.0, fails_at=1).measure()
    # 120 s, without 3 s for the end, 27.6 s and 30 s for two sweeps, and 2 × 24 s, are left for two processes.
    assert designs["toy"].seconds[2] == pytest.approx(11.4 / 2, abs=0.1)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [(Plan(), (schedule.FIRST_SECONDS, *[schedule.SECONDS[0]] * 3)), (Plan(max_seconds=7.0), (7.0,) * 4), (SHORT, ())],
)
def test_seconds_per_process_follow_from_what_was_measured(
    plan: Plan, expected: tuple[float, ...], simulated: Simulate
) -> None:
    """Processes that differ much and cost little sample briefly; the first rounds cannot know it."""
    _, designs = simulated(0.01, 0.2, 0.5).measure(plan=plan, processes=4)
    assert designs["toy"].seconds == expected


def test_a_workload_that_cannot_run_does_not_stop_the_others(simulated: Simulate) -> None:
    """It is tried once."""
    machine = simulated(0.1, 0.01, 3.0, factor=1.5, fails=lambda name: "no weights" if name == "a" else None)
    runs, designs = machine.measure("a", "b", budget=500.0)
    assert [run.error for run in runs if run.workload == "a"] == ["no weights"] * 2
    assert (designs["a"].stop_reason, designs["b"].stop_reason) == (StopReason.FAILED, StopReason.PRECISE)


@pytest.mark.parametrize(
    ("costs", "seconds", "expected"),
    [
        ([10, 10], 1000, [8, 8]),
        ([14, 14, 16, 47], 570, [8, 8, 8, 4]),
        ([14, 14, 16, 47], 620, [8, 8, 8, 5]),
        ([47, 14], 160, [FEWEST, 5]),
    ],
)
def test_expensive_workloads_get_fewer_rounds(costs: list[float], seconds: float, expected: list[int]) -> None:
    """The cheap ones get 8 each; what is left is shared by the expensive ones, with at least 4 rounds each."""
    assert needed_rounds(costs, seconds) == expected
