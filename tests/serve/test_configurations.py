"""The order of rounds, what a search drops, and what happens if instances fail; with instances that are simulated."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
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
from modelzoo.records.race import Exclusion, ExclusionKind, Stage, StageKind
from modelzoo.records.serving import LatencyBound
from modelzoo.records.throughput import Configuration, InstanceRun
from modelzoo.results import throughput as results
from modelzoo.results.store import ResultFile
from modelzoo.serve import configurations as search
from modelzoo.serve.configurations import Search, failure
from modelzoo.serve.round import RoundResult, Task


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


def searched(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    configurations: Sequence[Configuration],
    runner: Simulated,
    memory: int = 10**12,
    bound: LatencyBound | None = None,
    **changes: Any,
) -> ResultFile:
    """Measure to the end."""
    stored = ResultFile(tmp_path / "result.json", result(configurations, (), bound, **changes))
    settings = tuple(requested.setting for requested in stored.result.requested)
    # Nothing is written: that would take most of the time.
    monkeypatch.setattr(ResultFile, "_store", lambda stored, result: setattr(stored, "result", result))
    monkeypatch.setattr(search, "prepare", lambda request, on_event: tuple(Preparation() for _ in settings))
    request = Request(mlp(), settings, SHORT)
    Search(stored, request, None, lambda event: None, runner=runner, memory=lambda: memory).run()
    return stored


def test_configurations_alternate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A B C, C B A …: a machine that gets slower slows all of them alike."""
    own = [configuration(1), configuration(2), configuration(4)]
    runner = Simulated({0: 0.1, 1: 0.1, 2: 0.1})
    stored = searched(tmp_path, monkeypatch, own, runner, rounds=3)
    assert runner.order[:9] == [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0), (2, 0), (2, 1), (2, 2)]
    assert results.of(stored.result).is_complete
    assert [row.rounds for row in results.rows(stored.result)] == [3, 3, 3]


def test_the_best_is_measured_again_beside_its_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In rounds of their own, in alternating order; a single configuration, or nothing that is fit, is not."""
    own = [configuration(1), configuration(2), configuration(4)]
    runner = Simulated({0: 0.1, 1: 0.1, 2: 0.1})
    stored = searched(tmp_path, monkeypatch, own, runner, rounds=3)
    assert runner.order[9:] == [(3, 2), (3, 0), (4, 0), (4, 2), (5, 2), (5, 0)]
    confirmation = Stage(StageKind.CONFIRMATION, (0, 2), 3, None, 3)
    assert results.of(stored.result).stage(StageKind.CONFIRMATION) == confirmation
    recommended = results.recommendation(stored.result)
    assert recommended is not None
    assert recommended.backing is results.Backing.CONFIRMED
    assert recommended.row.rounds == 3
    assert recommended.row.scaling is not None
    alone = Simulated({0: 0.1})
    searched(tmp_path, monkeypatch, own[:1], alone, rounds=2)
    assert len(alone.order) == 2
    over = Simulated({0: 0.1, 1: 0.1})
    stored = searched(tmp_path, monkeypatch, own[:2], over, bound=LatencyBound(90, 0.01), rounds=2)
    assert len(over.order) == 4
    assert results.recommendation(stored.result) is None


def test_what_is_said_of_the_best_of_equals_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own rounds would be 2 % too fast in the mean of 40 calls, which is five standard errors."""
    own = [configuration(4) for _ in range(4)]
    chosen, confirmed = [], []
    for seed in range(40):
        stored = searched(tmp_path, monkeypatch, own, Simulated(dict.fromkeys(range(4), 0.02), seed=seed), rounds=2)
        found = results.recommendation(stored.result)
        assert found is not None
        assert found.row.throughput is not None
        confirmed.append(math.log(found.row.throughput.value / 200))
        own_rounds = results.rows(stored.result)[found.row.index].throughput
        assert own_rounds is not None
        chosen.append(math.log(own_rounds.value / 200))
    assert fmean(chosen) > 0.008
    assert abs(fmean(confirmed)) < 0.006


def test_a_search_keeps_the_faster_half_and_measures_it_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of eight configurations four reach the last stage, besides the instance that they are compared with."""
    own = [configuration(1), *(configuration(4, batch=1) for _ in range(7))]
    seconds = {0: 0.1, **{number: 0.1 * (1 + 0.2 * number) for number in range(1, 8)}}
    runner = Simulated(seconds)
    stored = searched(tmp_path, monkeypatch, own, runner, rounds=3, is_search=True)
    found, rows = results.of(stored.result), results.rows(stored.result)
    assert {each.entrant for each in found.excluded} >= {5, 6, 7}
    assert {each.kind for each in found.excluded} == {ExclusionKind.SLOWER}
    assert rows[0].is_final, "the others are compared with it"
    best = results.best(rows, None)
    assert best is not None
    assert best.index == 1
    assert best.rounds == 3, "only the last stage counts for it"
    assert [(len(stage.entrants), stage.first_round) for stage in found.stages] == [(8, 0), (5, 1), (2, 4)]


def test_a_search_drops_what_is_over_the_bound_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast it is."""
    own = [configuration(1), *(configuration(4, batch=batch) for batch in (64, 32, 1, 1, 1, 1))]
    runner = Simulated({0: 0.05, 1: 0.4, 2: 0.4, 3: 0.05, 4: 0.06, 5: 0.07, 6: 0.08})
    bound = LatencyBound(90, 0.1)
    stored = searched(tmp_path, monkeypatch, own, runner, bound=bound, is_search=True)
    found = results.of(stored.result)
    reasons = {each.entrant: each.kind for each in found.excluded}
    assert reasons[1] == reasons[2] == ExclusionKind.OVER_BOUND
    best = results.best(results.rows(stored.result), bound)
    assert best is not None
    assert best.index == 3


def test_what_cannot_run_is_dropped_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one attempt; the others go on."""
    own = [configuration(1), configuration(2)]
    runner = Simulated({0: 0.1}, errors={1: "no such mode"})
    stored = searched(tmp_path, monkeypatch, own, runner)
    assert runner.order.count((0, 1)) == 1
    assert (1, 1) not in runner.order
    assert results.of(stored.result).excluded == (Exclusion(1, ExclusionKind.FAILED, "no such mode"),)
    assert failure(stored) is None
    with_nothing = searched(tmp_path, monkeypatch, own[:1], Simulated({}, errors={0: "no such mode"}))
    problem = failure(with_nothing)
    assert isinstance(problem, UsageError)
    assert str(problem) == "no such mode"


def test_instances_that_died_after_the_counted_run_have_no_throughput(tmp_path: Path) -> None:
    """The call fails with their error, although there was a counted window."""
    own = configuration(1)
    run = ran(0, own, 0, [0.1])
    dead = replace(run, instances=(replace(run.instances[0], error="ended by SIGKILL", error_kind="WorkerError"),))
    problem = failure(ResultFile(tmp_path / "result.json", result([own], [dead])))
    assert isinstance(problem, WorkerError)
    assert str(problem) == "ended by SIGKILL"


def test_runs_that_are_too_short_for_their_batches_are_an_error(tmp_path: Path) -> None:
    """It says which option helps."""
    own = configuration(1)
    problem = failure(ResultFile(tmp_path / "result.json", result([own], [ran(0, own, 0, [20.0])])))
    assert isinstance(problem, UsageError)
    assert "give --seconds a larger value" in str(problem)


def test_a_search_says_that_few_batches_were_over_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few for the percentile; it is not dropped as slower."""
    own = [configuration(1), *(configuration(4, batch=batch) for batch in (64, 32, 1, 1, 1, 1))]
    runner = Simulated({0: 0.05, 1: 2.0, 2: 2.0, 3: 0.05, 4: 0.06, 5: 0.07, 6: 0.08})
    stored = searched(tmp_path, monkeypatch, own, runner, bound=LatencyBound(99, 0.1), is_search=True)
    assert Exclusion(1, ExclusionKind.OVER_BOUND) in results.of(stored.result).excluded


def test_instances_that_do_not_fit_into_memory_are_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what those of another configuration occupied; the machine would swap or kill."""
    own = [configuration(1), configuration(4)]
    runner = Simulated({0: 0.1, 1: 0.1})
    stored = searched(tmp_path, monkeypatch, own, runner, memory=3_000_000)
    assert all(index == 0 for _, index in runner.order)
    (excluded,) = results.of(stored.result).excluded
    assert (excluded.kind, excluded.available) == (ExclusionKind.TOO_LARGE, 3_000_000)
    assert (excluded.needed or 0) > 3_000_000


def test_a_setting_that_cannot_be_resolved_ends_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own error, before anything runs."""
    stored = ResultFile(tmp_path / "result.json", result([configuration(1)], ()))
    failed = Preparation(error="no weights", error_kind=WorkerError.__name__)
    monkeypatch.setattr(search, "prepare", lambda request, on_event: (failed,))
    request = Request(mlp(), (stored.result.requested[0].setting,), SHORT)
    with pytest.raises(WorkerError, match="no weights"):
        Search(stored, request, None, lambda event: None, runner=Simulated({})).run()


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
