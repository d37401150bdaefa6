"""Instances as their parent sees them, in worker processes of their own."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from pathlib import Path
from time import monotonic

import psutil
import pytest
from toy_workloads import SHORT, numpy_classifier, numpy_setting

from modelzoo.errors import UsageError, WorkerError
from modelzoo.frozen import replace
from modelzoo.measure.jobs import Request, prepare
from modelzoo.measure.process import Remote
from modelzoo.records.protocol import Looks
from modelzoo.records.serving import BatchDone, InstanceReport, Ready, Window
from modelzoo.records.throughput import InstancePlace
from modelzoo.serve.servers import start_instance
from modelzoo.workload import Workload

pytestmark = pytest.mark.usefixtures("numpy_engine")


def started(work: Workload, cpus: Iterable[int] | None = None) -> Remote:
    """An instance of ``work`` by the numpy engine."""
    request = Request(work, (numpy_setting(work),), SHORT, audit=False)
    (prepared,) = prepare(request, lambda event: None)
    place = InstancePlace(tuple(os.sched_getaffinity(0) if cpus is None else cpus), 0)
    return start_instance(request, 0, prepared, place, lambda event: None)


def test_an_instance_runs_on_its_cpus_and_answers_commands(tmp_path: Path) -> None:
    """Its affinity mask holds from the start, replies can be waited for with select, and it reports."""
    cpu = max(os.sched_getaffinity(0))
    with started(numpy_classifier(tmp_path), [cpu]) as instance:
        assert instance.wait(Ready).placement.cpus == (cpu,)
        instance.send("batch", 2)
        assert select.select([instance], [], [], 10)[0] == [instance]
        (done,) = instance.answers(BatchDone)
        assert done.started < done.ended
        start = monotonic() + 0.05
        window = instance.call("window", start, start + 0.05, result=Window)
        assert window.started[0] >= start
        report = instance.call("finish", Looks(audit=False), result=InstanceReport)
        assert report.placement.cpus == (cpu,)


def test_an_instance_that_waits_uses_no_cpu(tmp_path: Path) -> None:
    """It blocks on its input: nothing spins beside those that run."""

    def is_idle() -> bool:
        """Whether it used under a tenth of a core for 0.3 s (what spins gets more, on a loaded machine, too)."""
        before = sum(process.cpu_times()[:2])
        assert select.select([instance], [], [], 0.3)[0] == []
        return sum(process.cpu_times()[:2]) - before < 0.03

    with started(numpy_classifier(tmp_path)) as instance:
        instance.wait(Ready)
        process = psutil.Process(instance.pid)
        # What starting left to be done, such as freeing memory, may still run in the first windows.
        assert any(is_idle() for _ in range(10))
        assert process.status() != psutil.STATUS_STOPPED


def test_a_killed_instance_is_named_by_its_signal(tmp_path: Path) -> None:
    """The next reply says how it ended, and commands to it are no error."""
    with started(numpy_classifier(tmp_path)) as instance:
        instance.wait(Ready)
        os.kill(instance.pid, 9)
        instance.send("batch", 2)
        with pytest.raises(WorkerError, match="the worker process was ended by SIGKILL"):
            while True:
                instance.answers(BatchDone)
        assert instance.problem is not None
        instance.send("batch", 2)


def test_only_the_cpu_has_instances(tmp_path: Path) -> None:
    """Other devices are not divided by cores."""
    work = numpy_classifier(tmp_path)
    request = Request(work, (numpy_setting(work),), SHORT, audit=False)
    (prepared,) = prepare(request, lambda event: None)
    assert prepared.prepared is not None
    setting = replace(prepared.prepared.setting, device="cuda")
    other = replace(prepared, prepared=replace(prepared.prepared, setting=setting))
    with pytest.raises(UsageError, match="--device cuda is not supported"):
        start_instance(request, 0, other, InstancePlace((0,), 0), lambda event: None)
