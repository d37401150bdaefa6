"""Rounds: settings side by side, in blocks that fit into memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import fake_runs
import pytest
from example_machine import machine_with
from toy_workloads import BF16, RANDOM, SHORT, mlp, numpy_setting, odd_numpy, runs_of, silent

from modelzoo.errors import EnvironmentProblem, UsageError, WorkerError
from modelzoo.frozen import replace
from modelzoo.measure import jobs, rounds
from modelzoo.measure.jobs import Event, Request
from modelzoo.measure.rounds import blocks, capacity, device_capacity
from modelzoo.records.equipment import Accelerator, AcceleratorUse
from modelzoo.records.protocol import Assignment, Job, Looks, Preparation, PrepareJob, Progress, Send
from modelzoo.records.run import EnvironmentChanges, Prepared, RunReport
from modelzoo.records.validity import ValidityRequest
from modelzoo.setting import Setting


@pytest.mark.parametrize(
    ("settings", "fit", "sweeps", "expected"),
    [
        (0, 4, 1, [[]]),
        (1, 9, 2, [[(0,)], [(0,)]]),
        (2, 9, 3, [[(0, 1)], [(1, 0)], [(0, 1)]]),
        (3, 9, 2, [[(0, 1, 2)], [(2, 1, 0)]]),
        (4, 2, 1, [[(0, 1), (2, 0), (0, 3)]]),
        (5, 3, 2, [[(0, 1, 2), (4, 3, 0)], [(3, 2, 0), (0, 1, 4)]]),
    ],
)
def test_settings_are_interleaved(settings: int, fit: int, sweeps: int, expected: list[list[tuple[int, ...]]]) -> None:
    """A B, B A, A B …: never all of one setting after the other; more than fit are divided, each with the baseline."""
    assert [blocks(range(settings), fit, sweep) for sweep in range(sweeps)] == expected


def test_memory_limits_how_many_run_side_by_side() -> None:
    """A fifth of the memory stays free; a pair must fit; before anything is known, 2 GiB each are assumed.

    On a device the largest worker so far counts, and what its process occupies besides; before one is known, a pair.
    """
    assert [capacity(10 << 30, 1 << 30), capacity(1 << 30, 1 << 30), capacity(10 << 30, 0)] == [8, 2, 4]
    gpu = Accelerator("cuda", 0, "a GPU", memory=80 << 30)
    uses = [AcceleratorUse(gpu, 7 << 30), AcceleratorUse(gpu, 3 << 30)]
    few = [AcceleratorUse(replace(gpu, memory=8 << 30), 7 << 30)]
    unknown = [AcceleratorUse(gpu, None)], [AcceleratorUse(replace(gpu, memory=None), 1 << 30)], []
    assert [device_capacity(each) for each in (uses, few, *unknown)] == [8, 2, 2, 2, 2]


def test_a_first_round_on_a_device_is_of_pairs(workers: FakeWorkers) -> None:
    """Twelve settings at once may need more than it has; later rounds have as many as fit."""
    settings = tuple(Setting(device="cuda:0", batch=batch) for batch in (1, 2, 4, 8))
    use = AcceleratorUse(Accelerator("cuda", 0, "a GPU", memory=80 << 30), 3 << 30)
    report = fake_runs.make([1.0] * 5, accelerator=use).report
    workers.measured = lambda job: report
    runs = runs_of(Request(mlp(), settings, SHORT), 2)
    sizes = [len([run for run in runs if run.round == number]) for number in sorted({run.round for run in runs})]
    assert sizes == [2, 2, 2, 4]


REPORT = fake_runs.make((0.1, 0.2)).report


class FakeWorkers:
    """Replaces worker processes by fakes; collects their jobs, environments and calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs: list[Job] = []
        self.variables: list[dict[str, str]] = []
        self.looks: list[Looks] = []
        self.prepare: Callable[[PrepareJob], tuple[Preparation, ...]] = self.prepared
        self.measured: Callable[[Assignment], RunReport | None] = lambda job: REPORT
        monkeypatch.setattr(jobs, "Remote", self.remote)

    def remote(self, launcher: object, job: Job, variables: Any, on_message: Send, timeout: object) -> Any:
        """What stands for ``Remote``."""
        self.jobs.append(job)
        self.variables.append(dict(variables))
        on_message(Progress("build"))
        asked: list[str] = []

        def send(name: str, *arguments: Any) -> None:
            asked.append(name)
            self.looks += [each for each in arguments if isinstance(each, Looks)]

        def call(name: str, *arguments: Any, result: Any, last: bool = False) -> Any:
            send(name, *arguments)
            return self.answer(job, name)

        found = MagicMock(send=send, call=call, wait=lambda kind: self.answer(job, asked[-1]))
        found.__enter__.return_value = found
        return found

    def answer(self, job: Job, name: str) -> Any:
        """What a worker would answer when it is called."""
        if isinstance(job, PrepareJob):
            return self.prepare(job)
        return self.measured(job) if name == "observe" else False

    def prepared(self, job: PrepareJob) -> tuple[Preparation, ...]:
        """What it would prepare."""
        found = (Prepared(fake_runs.resolved(setting, "autocast"), fake_runs.WEIGHTS) for setting in job.settings)
        return tuple(Preparation(each, job.math_mode) for each in found)

    @property
    def assigned(self) -> list[Assignment]:
        """The jobs of those that run or judge a setting."""
        return [job for job in self.jobs if isinstance(job, Assignment)]


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> FakeWorkers:
    """Fake worker processes."""
    return FakeWorkers(monkeypatch)


def test_settings_are_resolved_once_and_all_processes_run_the_same(workers: FakeWorkers) -> None:
    """One preparation serves both settings and all rounds; every process gets its answer."""
    events: list[Event] = []
    runs = runs_of(Request(mlp(), (RANDOM, BF16), SHORT, first_group=4), 3, events.append)
    assert [type(job).__name__ for job in workers.jobs] == ["PrepareJob"] + ["Assignment"] * 6
    assert [*{job.prepared.weights.path for job in workers.assigned}] == [fake_runs.WEIGHTS.path]
    assert [job.setting.bf16_method for job in workers.assigned[:2]] == [None, "autocast"]
    assert [run.requested.precision for run in runs] == ["fp32", "bf16", "bf16", "fp32", "fp32", "bf16"]
    assert [(run.round, run.group) for run in runs] == [(0, 4), (0, 5), (1, 5), (1, 4), (2, 4), (2, 5)]
    assert events[-1] == Event("mlp", "bf16", 2, Progress("build"))


def test_what_does_not_vary_is_taken_once_per_setting(workers: FakeWorkers) -> None:
    """Operator tables cost passes: one process per setting takes them; if that dies, the next one does."""

    def measured(job: Assignment) -> RunReport:
        if len(workers.assigned) == 2 and job.requested.precision == "bf16":
            raise WorkerError("died")
        return REPORT

    workers.measured = measured
    runs = runs_of(Request(mlp(), (RANDOM, BF16), SHORT), 3, silent)
    assert [run.error for run in runs] == [None, "died", None, None, None, None]
    taken = [(run.requested.precision, looks.extras) for run, looks in zip(runs, workers.looks)]
    assert [name for name, extras in taken if extras] == ["fp32", "bf16", "bf16"]
    assert [looks.full_audit for looks in workers.looks] == [looks.extras for looks in workers.looks]


def test_impossible_settings_are_tried_once_and_dead_workers_again(workers: FakeWorkers) -> None:
    """What the call made impossible, or could not be prepared, stays so; a worker that died may have had bad luck."""

    def measured(job: Assignment) -> RunReport:
        raise UsageError("impossible") if job.requested.precision == "bf16" else WorkerError("died")

    workers.measured = measured
    failed = Preparation(error="no compiler", error_kind="EnvironmentProblem")
    workers.prepare = lambda job: (*workers.prepared(job)[:2], failed)
    runs = runs_of(Request(mlp(), (RANDOM, BF16, RANDOM.replace(mode="compile")), SHORT), 3)
    found = [(run.group, run.error, run.error_kind) for run in runs]
    once = (1, "impossible", "UsageError"), (2, "no compiler", "EnvironmentProblem")
    assert sorted(found) == [*[(0, "died", "WorkerError")] * 3, *once]


def test_a_setting_that_an_emulator_ran_is_over(workers: FakeWorkers) -> None:
    """Nothing is timed there; the time goes to the others."""
    report = fake_runs.make(None, machine=machine_with(emulator="qemu-user")).report
    workers.measured = lambda job: report if job.requested.precision == "bf16" else REPORT
    found = rounds.Rounds(Request(mlp(), (RANDOM, BF16), SHORT), silent)
    assert [run.requested.precision for _ in range(3) for run in found.sweep(None)] == ["fp32", "bf16", "fp32", "fp32"]
    assert (found.can_run, found.is_emulated) == (True, True)


def test_workers_get_the_variables_that_their_setting_needs(
    workers: FakeWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To time a setting, or to judge it together with its reference, which fast math by variable would affect.

    What is inherited never reaches a setting that does not name it, and the result says so.
    """
    named = {"DNNL_DEFAULT_FPMATH_MODE": "BF16"}
    monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", "BF16")

    def prepared(job: PrepareJob) -> tuple[Preparation, ...]:
        wanted = [named if setting.precision == "bf16" else {} for setting in job.settings]
        return tuple(replace(each, variables=own) for each, own in zip(workers.prepared(job), wanted))

    workers.prepare = prepared
    request = Request(mlp(), (RANDOM, BF16.replace(bf16_method="fastmath")), SHORT)
    runs_of(request)
    jobs.validate(replace(request, settings=request.settings[1:]), ValidityRequest(), silent, lambda exhibit: None)
    kinds = [type(job) for job in workers.jobs]
    assert kinds == [PrepareJob, Assignment, Assignment, PrepareJob, Assignment]
    assert [each.get("DNNL_DEFAULT_FPMATH_MODE") for each in workers.variables] == [None, None, "BF16", None, None]
    removed, applied = EnvironmentChanges(removed=named), EnvironmentChanges(applied=named)
    assert [job.environment for job in workers.assigned] == [removed, applied, removed]


def test_a_preparation_that_died_is_repeated_in_the_next_round(workers: FakeWorkers) -> None:
    """Its settings fail in this round only; a preparation that reported an error is not repeated."""

    def dying(job: PrepareJob) -> tuple[Preparation, ...]:
        if len(workers.jobs) == 1:
            raise WorkerError("died")
        return workers.prepared(job)

    workers.prepare = dying
    runs = runs_of(Request(mlp(), (RANDOM, BF16), SHORT), 3, silent)
    assert sum(isinstance(job, PrepareJob) for job in workers.jobs) == 2
    assert [run.error for run in runs] == ["died", "died", None, None, None, None]


@pytest.mark.parametrize("needs_all", [False, True])
def test_a_request_that_needs_all_settings_ends_with_the_first_that_cannot_run(
    needs_all: bool, workers: FakeWorkers
) -> None:
    """The others of a comparison would only use up the time; a worker that died may have had bad luck."""
    problems = iter([WorkerError("died"), EnvironmentProblem("no such device")])

    def measured(job: Assignment) -> RunReport:
        if job.requested.precision == "bf16":
            raise next(problems)
        return REPORT

    workers.measured = measured
    found = rounds.Rounds(Request(mlp(), (RANDOM, BF16), SHORT, needs_all=needs_all), silent)
    for expected in (True, not needs_all):
        assert len(list(found.sweep(None))) == 2
        assert found.can_run is expected


@pytest.mark.parametrize(("counts", "expected"), [((3, 3), "ABABAB"), ((1, 3), "ABBB")])
def test_workers_alternate_until_all_have_had_their_turns(counts: tuple[int, ...], expected: str) -> None:
    """Each takes the turns that its plan gives it; one that dies or is done leaves them to the others."""
    diary: list[str] = []

    def worker(name: str, turns: int) -> Any:
        left = iter(range(turns - 1, -1, -1))
        return SimpleNamespace(turn=lambda: diary.append(name) or next(left) > 0)

    rounds.take_turns([worker("AB"[i], count) for i, count in enumerate(counts)])
    assert "".join(diary) == expected


@pytest.mark.usefixtures("numpy_engine", "prepared_here")
def test_only_one_process_samples_at_a_time(tmp_path: Path) -> None:
    """Real workers: each waits for its turns and records when it sampled and how many samples each turn has."""
    work = odd_numpy(tmp_path / "odd")
    fp32 = numpy_setting(work)
    taken = []
    for run in rounds.Rounds(Request(work, (fp32, fp32.replace(precision="bf16")), SHORT), silent).sweep(None):
        assert run.report is not None and run.report.usage is not None, run.error
        assert run.report.usage.waited_seconds > 0
        assert len(run.steady) == 3
        assert sum(turn.samples or 0 for turn in run.report.turns) == 3
        taken += [(turn.start, turn.end) for turn in run.report.turns]
    in_order = sorted(taken)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(in_order)), "one at a time"


def test_a_sweep_may_take_some_of_the_settings_only(workers: FakeWorkers) -> None:
    """As a search does; the others are prepared all the same, once."""
    settings = tuple(RANDOM.replace(seed=number) for number in range(4))
    found = rounds.Rounds(Request(mlp(), settings, SHORT), silent)
    assert {run.group for run in found.sweep(1.0, among=[0, 2])} == {0, 2}
    assert {run.group for run in found.sweep(1.0)} == {0, 1, 2, 3}
    assert sum(isinstance(job, PrepareJob) for job in workers.jobs) == 1
