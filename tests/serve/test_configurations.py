"""The order of rounds, what a search drops, and what happens if instances fail; with instances that are simulated."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from fake_runs import changed, make
from instances import configuration, ran, result
from toy_workloads import SHORT, mlp

from modelzoo.errors import UsageError, WorkerError
from modelzoo.frozen import replace
from modelzoo.measure.jobs import Request
from modelzoo.records.protocol import Preparation
from modelzoo.records.race import (
    Configuration,
    ConfigurationRun,
    Exclusion,
    ExclusionKind,
    InstanceRun,
    Stage,
    StageKind,
)
from modelzoo.records.serving import LatencyBound
from modelzoo.results import throughput as results
from modelzoo.results.store import ResultFile
from modelzoo.serve import configurations as search
from modelzoo.serve.configurations import RoundResult, Search, Task, failure

ONE, TWO, FOUR = configuration(1), configuration(2), configuration(4)


class Simulated:
    """Runs configurations whose batches take so long, with 2 % of noise, and remembers the order."""

    def __init__(self, seconds: Mapping[int, float], errors: Mapping[int, str] | None = None, seed: int = 1) -> None:
        self.seconds, self.errors = seconds, errors or {}
        self.order: list[tuple[int, int]] = []
        self._source = random.Random(seed)

    def __call__(self, task: Task, on_event: Any) -> RoundResult:
        self.order.append((task.number, task.index))
        own = task.configuration
        if task.index in self.errors:
            failed = tuple(InstanceRun(place, error="no such mode", error_kind="UsageError") for place in own.places)
            run = ran(task.index, own, task.number, [1.0] * own.instances)
            return replace(run, instances=failed, window=None), None
        factor = self._source.gauss(1, 0.02)
        seconds = [factor * self.seconds[task.index]] * own.instances
        return ran(task.index, own, task.number, seconds), None


Searched = Callable[..., ResultFile]


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Searched:
    """Measure configurations to the end by a runner. Nothing is written: that would take most of the time."""
    monkeypatch.setattr(ResultFile, "_store", lambda stored, result: setattr(stored, "result", result))
    monkeypatch.setattr(search, "available_memory", lambda: 10**12)
    monkeypatch.setattr(search, "prepare", lambda request, on_event: (Preparation(),) * len(request.settings))

    def run(
        configurations: Sequence[Configuration], runner: Simulated, bound: LatencyBound | None = None, **changes: Any
    ) -> ResultFile:
        stored = ResultFile(tmp_path / "result.json", result(configurations, (), bound, **changes))
        monkeypatch.setattr(Task, "run", lambda task, on_event: runner(task, on_event))
        request = Request(mlp(), tuple(requested.setting for requested in stored.result.requested), SHORT)
        Search(stored, request, None, lambda event: None).run()
        return stored

    return run


def test_configurations_alternate_and_the_best_is_measured_again_beside_its_baseline(searched: Searched) -> None:
    """A B C, C B A …: a machine that gets slower slows all of them alike; then in rounds of their own."""
    runner = Simulated({0: 0.1, 1: 0.1, 2: 0.1})
    stored = searched([ONE, TWO, FOUR], runner, rounds=3)
    assert runner.order[:9] == [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0), (2, 0), (2, 1), (2, 2)]
    assert runner.order[9:] == [(3, 2), (3, 0), (4, 0), (4, 2), (5, 2), (5, 0)]
    assert results.of(stored.result).is_complete
    assert [row.rounds for row in results.rows(stored.result)] == [3, 3, 3]
    confirmation = Stage(StageKind.CONFIRMATION, (0, 2), 3, None, 3)
    assert results.of(stored.result).stage(StageKind.CONFIRMATION) == confirmation
    recommended = results.recommendation(stored.result)
    assert recommended is not None and recommended.row.scaling is not None
    assert (recommended.backing, recommended.row.rounds) == ("confirmed", 3)


def test_a_single_configuration_or_nothing_that_is_fit_is_not_measured_again(searched: Searched) -> None:
    """There is nothing to choose from."""
    alone = Simulated({0: 0.1})
    searched([ONE], alone, rounds=2)
    assert len(alone.order) == 2
    over = Simulated({0: 0.1, 1: 0.1})
    stored = searched([ONE, TWO], over, LatencyBound(90, 0.01), rounds=2)
    assert len(over.order) == 4
    assert results.recommendation(stored.result) is None


def test_what_is_said_of_the_best_of_equals_is_true(searched: Searched) -> None:
    """Its own rounds would be 2 % too fast in the mean of 40 calls, which is five standard errors."""
    chosen, confirmed = [], []
    for seed in range(40):
        stored = searched([FOUR] * 4, Simulated(dict.fromkeys(range(4), 0.02), seed=seed), rounds=2)
        found = results.recommendation(stored.result)
        assert found is not None and found.row.throughput is not None
        confirmed.append(math.log(found.row.throughput.value / 200))
        own_rounds = results.rows(stored.result)[found.row.index].throughput
        assert own_rounds is not None
        chosen.append(math.log(own_rounds.value / 200))
    assert fmean(chosen) > 0.008
    assert abs(fmean(confirmed)) < 0.006


def test_a_search_keeps_the_faster_half_and_measures_it_longest(searched: Searched) -> None:
    """Of eight configurations four reach the last stage, besides the instance that they are compared with."""
    seconds = {0: 0.1, **{number: 0.1 * (1 + 0.2 * number) for number in range(1, 8)}}
    stored = searched([ONE, *[FOUR] * 7], Simulated(seconds), rounds=3, is_search=True)
    found, rows = results.of(stored.result), results.rows(stored.result)
    assert {each.entrant for each in found.excluded} >= {5, 6, 7}
    assert {each.kind for each in found.excluded} == {ExclusionKind.SLOWER}
    assert rows[0].is_final, "the others are compared with it"
    best = results.best(rows, None)
    assert best is not None
    assert (best.index, best.rounds) == (1, 3), "only the last stage counts for it"
    assert [(len(stage.entrants), stage.first_round) for stage in found.stages] == [(8, 0), (5, 1), (2, 4)]


@pytest.mark.parametrize(("percentile", "seconds"), [(90, 0.4), (99, 2.0)], ids=["most", "few for the percentile"])
def test_a_search_drops_what_is_over_the_bound_first(percentile: float, seconds: float, searched: Searched) -> None:
    """However fast it is; also if too few batches were over it for the percentile."""
    own = [ONE, *(configuration(4, batch=batch) for batch in (64, 32, 1, 1, 1, 1))]
    bound = LatencyBound(percentile, 0.1)
    runner = Simulated({0: 0.05, 1: seconds, 2: seconds, 3: 0.05, 4: 0.06, 5: 0.07, 6: 0.08})
    stored = searched(own, runner, bound, is_search=True)
    reasons = {each.entrant: each.kind for each in results.of(stored.result).excluded}
    assert reasons[1] == reasons[2] == ExclusionKind.OVER_BOUND
    best = results.best(results.rows(stored.result), bound)
    assert best is not None
    assert best.index == 3


def test_what_cannot_run_is_dropped_with_its_reason(searched: Searched) -> None:
    """After one attempt; the others go on."""
    runner = Simulated({0: 0.1}, errors={1: "no such mode"})
    stored = searched([ONE, TWO], runner)
    assert runner.order.count((0, 1)) == 1
    assert (1, 1) not in runner.order
    assert results.of(stored.result).excluded == (Exclusion(1, ExclusionKind.FAILED, "no such mode"),)
    assert failure(stored) is None
    problem = failure(searched([ONE], Simulated({}, errors={0: "no such mode"})))
    assert (type(problem), str(problem)) == (UsageError, "no such mode")


RAN = ran(0, ONE, 0, [0.1])
KILLED = replace(RAN.instances[0], error="ended by SIGKILL", error_kind="WorkerError")


@pytest.mark.parametrize(
    ("run", "kind", "message"),
    [
        (replace(RAN, instances=(KILLED,)), WorkerError, "ended by SIGKILL"),
        (ran(0, ONE, 0, [20.0]), UsageError, "give --seconds a larger value"),
    ],
    ids=["died after the counted run", "too short for its batches"],
)
def test_a_call_without_a_throughput_fails(run: ConfigurationRun, kind: type, message: str, tmp_path: Path) -> None:
    """With the error of an instance, although there was a counted window, or with the option that helps."""
    problem = failure(ResultFile(tmp_path / "result.json", result([ONE], [run])))
    assert type(problem) is kind
    assert message in str(problem)


def test_instances_that_do_not_fit_into_memory_are_not_started(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what those of another configuration occupied; the machine would swap or kill."""
    monkeypatch.setattr(search, "available_memory", lambda: 3_000_000)
    runner = Simulated({0: 0.1, 1: 0.1})
    stored = searched([ONE, FOUR], runner)
    assert all(index == 0 for _, index in runner.order)
    (excluded,) = results.of(stored.result).excluded
    assert (excluded.kind, excluded.available) == (ExclusionKind.TOO_LARGE, 3_000_000)
    assert (excluded.needed or 0) > 3_000_000


def test_a_setting_that_cannot_be_resolved_ends_the_call(searched: Searched, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own error, before anything runs."""
    failed = Preparation(error="no weights", error_kind="WorkerError")
    monkeypatch.setattr(search, "prepare", lambda request, on_event: (failed,))
    with pytest.raises(WorkerError, match="no weights"):
        searched([ONE], Simulated({}))


def test_the_stored_report_is_of_the_whole_machine() -> None:
    """An instance sees its own CPUs only; by those, every configuration would be another machine."""
    found = results.of(result([configuration(1)], ()))
    report = make([1.0]).report
    assert report is not None
    machine = report.provenance.machine
    narrow = changed(report, machine=replace(machine, threads=replace(machine.threads, count=1)))
    kept = search._of_whole_machine(narrow, found)
    assert kept.provenance.machine.threads == found.machine.threads
    assert kept.provenance.fingerprint == search._of_whole_machine(report, found).provenance.fingerprint
