"""Instances in real processes: the barrier, the window, instances that die, and instances under load."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from load_results import load
from toy_workloads import SHORT, numpy_classifier, numpy_setting, odd_numpy

from modelzoo.frozen import replace
from modelzoo.machine.facts import read_topology
from modelzoo.measure.jobs import Event, Request, prepare_job
from modelzoo.measure.preparation import prepare
from modelzoo.plan import Plan
from modelzoo.records.race import Configuration, InstancePlace, Smt
from modelzoo.records.serving import LoadSession
from modelzoo.serve import configurations
from modelzoo.serve.configurations import Task, worker_problem
from modelzoo.serve.places import generator_place, plan
from modelzoo.serve.search import Deployment, fixed_size, measure, open_session
from modelzoo.setting import Setting
from modelzoo.workload import Workload

pytestmark = pytest.mark.usefixtures("numpy_engine")
CPUS = len(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let instances run together for a moment only."""
    monkeypatch.setattr(configurations, "SETTLING_SECONDS", 0.05)


def task(work: Workload, instances: int = 1, seconds: float = 0.2) -> tuple[Task, list[Event]]:
    """Instances of one core each."""
    seen: list[Event] = []
    request = Request(work, (numpy_setting(work),), SHORT, audit=False)
    places = plan(read_topology(), instances, 1)
    own = Configuration(0, instances, 1, work.batch, Smt.OFF, places)
    prepared = prepare(prepare_job(work, request.settings), lambda message: None)
    return Task(request, prepared, own, 0, 0, seconds, extras=True), seen


@pytest.mark.skipif(CPUS < 2, reason="one CPU only")
def test_all_instances_run_at_the_same_time_on_their_own_cpus(tmp_path: Path) -> None:
    """Each is counted, was placed where it was told to, and the first one reports the machine."""
    wanted, _ = task(numpy_classifier(tmp_path), 2)
    run, context = wanted.run(lambda event: None)
    assert [each.error for each in run.instances] == [None, None]
    assert run.window is not None and run.seconds is not None
    assert run.window <= run.seconds
    for each in run.instances:
        assert each.placement is not None and each.start is not None and each.peak_memory
        assert each.placement.cpus == each.place.cpus
        assert 0 < each.counted < each.batches
        assert len(each.latencies) == each.counted
    assert context is not None
    assert (context.workload, context.timing) == ("linear", None)


def test_an_instance_that_cannot_load_its_model_ends_the_round(tmp_path: Path) -> None:
    """The others are not waited for; the reason is that of the instance."""
    work = odd_numpy(tmp_path / "odd", build="raise ArithmeticError('seven is not eight')")
    wanted, _ = task(work)
    run = wanted.run(lambda event: None)[0]
    (each,) = run.instances
    assert run.window is None
    assert (each.error or "").endswith("line 7: ArithmeticError: seven is not eight; correct it there")
    assert worker_problem(run) == each.error, "the workload's own code fails in every round"


def test_an_instance_that_dies_on_the_way_is_named(tmp_path: Path) -> None:
    """Nothing counts in a round in which not all ran."""
    build = "calls = []\n    return lambda rows, weight: (calls.append(1), len(calls) > 12 and os.kill(os.getpid(), 9))"
    wanted, seen = task(odd_numpy(tmp_path / "odd", build=build))
    run = wanted.run(seen.append)[0]
    assert run.window is None
    assert (run.instances[0].error or "").startswith("the worker process was ended by SIGKILL")
    assert worker_problem(run) is None, "it may not happen again"
    assert any("settling" in event.message.phase for event in seen)


def test_only_eager_torch_runs_any_size() -> None:
    """What was compiled, traced or exported has fixed shapes."""
    assert fixed_size(Setting(), 4) is None
    assert fixed_size(Setting(mode="compile"), 4) == 4
    assert fixed_size(Setting(engine="onnxruntime"), 4) == 4


def test_an_instance_answers_a_load_and_reports_at_its_end(tmp_path: Path, numpy_engine: None) -> None:
    """Batches of every size up to the maximum; where it ran is in its report."""
    work = numpy_classifier(tmp_path)
    request = Request(work, (numpy_setting(work),), Plan(warmup=2), audit=False)
    (prepared,) = prepare(prepare_job(work, request.settings), lambda message: None)
    cpus = frozenset(os.sched_getaffinity(0))
    places = (InstancePlace((min(cpus),), 0),)
    place = generator_place(read_topology(), places, cpus)
    requested = replace(load(batch=2, queries=40, bound=None, rate=200.0), fixed_size=None)
    ended: list[LoadSession] = []
    site = Deployment(request, prepared, places, place, lambda event: None)
    with open_session(site, requested, 0, ended.append, extras=False) as (server, session):
        assert session.calibration.size == 2
        run = measure(server, requested.plan, 200.0, 0, 0, session.calibration)
    assert len(run.latencies) == 40
    assert sum(each.size * each.count for each in run.batches) == 40
    (session,) = ended
    assert session.reports[0].placement.cpus == (min(cpus),)
