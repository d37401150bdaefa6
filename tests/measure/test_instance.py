"""An instance in this process: what it does when it is called, and what it reports."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest
from measure.test_measurement import job_for
from toy_workloads import RANDOM, mlp

from modelzoo.measure.instance import Instance
from modelzoo.measure.preparation import KeptInputs
from modelzoo.plan import Plan
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.protocol import Assignment, Looks
from modelzoo.records.serving import BatchDone, InstanceReport

pytestmark = pytest.mark.usefixtures("restored")


def served(
    job: Assignment | None = None, use: Callable[[Instance], Any] = lambda own: None, **looks: bool
) -> InstanceReport:
    """What an instance reports in the end; ``use`` is what is done with it when it is ready."""
    own = Instance(job or job_for(RANDOM, mlp()), lambda message: None)
    with own.active:
        own.serve(Plan(2), ())
        use(own)
        return own.finish(Looks(**looks))


def test_an_instance_serves_batches_and_windows() -> None:
    """It is ready when every size is warm, and does what is called, in that order."""
    own = Instance(job_for(RANDOM, mlp()), lambda message: None)
    ready = own.serve(Plan(2), (4,))
    assert list(ready.times) == [16, 4]
    assert ready.times[4] > 0
    start = monotonic()
    first, window, second = own.batch(4), own.window(start, start + 0.05), own.batch(16)
    assert first.started < first.ended <= window.started[0] < window.ended[-1] <= second.started
    assert all(a <= b for a, b in zip(window.ended, window.started[1:])), "batches follow each other"
    assert window.ended[-1] >= start + 0.05
    assert window.memory
    start = monotonic() + 1.0
    window = own.window(start, start)
    assert window.started[0] >= start, "the start is the barrier of all instances"
    assert len(window.started) == 1
    report = own.finish(Looks(audit=False))
    assert len(report.warmup) == 2
    assert report.peak_memory > 1 << 20
    assert (report.observed.kernels, report.context) == (None, None)


def test_no_garbage_is_collected_while_a_batch_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether one is called for or many; Python collects it while the instance waits."""
    running: list[bool] = []
    run = Instance._run

    def watched(self: Instance, inputs: KeptInputs) -> BatchDone:
        running.append(gc.isenabled())
        return run(self, inputs)

    def use(own: Instance) -> None:
        for call in (lambda: own.batch(16), lambda: own.window(0.0, 0.0)):
            call()
            assert gc.isenabled()

    monkeypatch.setattr(Instance, "_run", watched)
    served(use=use, audit=False)
    assert running == [False] * 2


def test_an_instance_proves_what_it_ran_like_a_run() -> None:
    """Digest and evidence as asked for; only with extras all that a run reports, without timing."""
    report = served(extras=True)
    assert report.observed.evidence is not None
    assert report.observed.evidence.verdict is ProofVerdict.FP32
    assert report.context is not None
    assert report.context.timing is None
    assert report.context.observed.flops is not None
    assert report.context.setting.batch == 16
    other = served(full_audit=False)
    assert other.observed.evidence is None
    assert other.observed.kernels == report.observed.kernels
    assert other.observed.kernels is not None
    assert other.placement.cpus == report.context.provenance.cpus
