"""Instances under load: started, calibrated, used and ended."""

from __future__ import annotations

import os
from pathlib import Path

from load_results import load
from toy_workloads import numpy_classifier, numpy_setting

from modelzoo.frozen import replace
from modelzoo.machine.cpu import read_topology
from modelzoo.measure import jobs
from modelzoo.measure.jobs import Request
from modelzoo.plan import Plan
from modelzoo.records.load import LoadSession
from modelzoo.records.throughput import InstancePlace
from modelzoo.serve.places import generator_place
from modelzoo.serve.runs import measure
from modelzoo.serve.search import Deployment, fixed_size, open_session
from modelzoo.setting import Setting


def test_only_eager_torch_runs_any_size() -> None:
    """What was compiled, traced or exported has fixed shapes."""
    assert fixed_size(Setting(), 4) is None
    assert fixed_size(Setting(mode="compile"), 4) == 4
    assert fixed_size(Setting(engine="onnxruntime"), 4) == 4


def test_an_instance_answers_a_load_and_reports_at_its_end(tmp_path: Path, numpy_engine: None) -> None:
    """Batches of every size up to the maximum; where it ran is in its report."""
    work = numpy_classifier(tmp_path)
    request = Request(work, (numpy_setting(work),), Plan(warmup=2), audit=False)
    (prepared,) = jobs.prepare(request, lambda event: None)
    cpus = frozenset(os.sched_getaffinity(0))
    places = (InstancePlace((min(cpus),), 0),)
    place = generator_place(read_topology(), places, cpus)
    requested = replace(load(batch=2, queries=40, bound=None, rate=200.0), fixed_size=None)
    ended: list[LoadSession] = []
    site = Deployment(request, prepared, places, place, lambda event: None)
    with open_session(site, requested, 0, ended.append, extras=False) as opened:
        assert opened.session.calibration.size == 2
        run = measure(opened.server, requested.plan, 200.0, 0, 0, opened.session.calibration)
    assert len(run.latencies) == 40
    assert sum(each.size * each.count for each in run.batches) == 40
    (session,) = ended
    assert session.reports[0].placement.cpus == (min(cpus),)
