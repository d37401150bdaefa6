"""The job of an instance, in this process: what it does on command, and what it reports."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any

import msgspec
import pytest
import torch
from fake_runs import changed
from toy_workloads import RANDOM, mlp

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.measure import instance
from modelzoo.measure.preparation import prepare
from modelzoo.plan import Plan
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.protocol import Assignment, InstanceJob, Looks, Message, PrepareJob, Progress
from modelzoo.records.serving import (
    BatchDone,
    Command,
    Finish,
    InstanceReport,
    Ready,
    RunBatch,
    RunUntil,
    Window,
    decode_command,
    encode_command,
)
from modelzoo.setting import Setting


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An instance sets the threads of its process, and a memory policy, which cannot be read back."""
    monkeypatch.setattr(instance, "prefer_own_node", lambda cpus: (None, "not in a test"))
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def job_for(setting: Setting = RANDOM, **changes: Any) -> InstanceJob:
    """The job of an instance of the example workload, prepared here."""
    work = mlp()
    (prepared,) = prepare(PrepareJob(str(work.directory), (setting,), 0), lambda message: None).settings
    assert prepared.prepared is not None, prepared.error
    looks = Looks(**{name: changes.pop(name) for name in Looks.__struct_fields__ if name in changes})
    job = InstanceJob(Assignment(str(work.directory), setting, prepared.prepared, None), Plan(2), looks=looks)
    return msgspec.structs.replace(job, **changes)


def served(job: InstanceJob, commands: Sequence[Command]) -> tuple[InstanceReport, list[Message]]:
    """What an instance reports after these commands and the command to finish, and its messages."""
    sent: list[Message] = []
    left = iter([*commands, Finish()])
    return instance.serve(job, sent.append, lambda: next(left)).report, sent


def test_an_instance_serves_until_it_is_told_to_finish() -> None:
    """It is ready when every size is warm; batches, windows and the report come as commanded."""
    start = monotonic()
    commands = [RunBatch(4), RunUntil(start, start + 0.05), RunBatch(16)]
    report, sent = served(job_for(sizes=(4, 16), full_audit=False, audit=False), commands)
    ready, first, window, second = [message for message in sent if not isinstance(message, Progress)]
    assert isinstance(ready, Ready)
    assert [each.size for each in ready.times] == [16, 4]
    assert ready.seconds(4) == ready.times[1].seconds > 0
    assert isinstance(first, BatchDone)
    assert isinstance(second, BatchDone)
    assert isinstance(window, Window)
    assert first.started < first.ended <= window.started[0] < window.ended[-1] <= second.started
    assert all(a <= b for a, b in zip(window.ended, window.started[1:])), "batches follow each other"
    assert window.ended[-1] >= start + 0.05
    assert window.memory
    assert len(report.warmup) == 2
    assert report.peak_memory > 1 << 20
    assert (report.observed.kernels, report.context) == (None, None)


def test_a_window_begins_at_its_start() -> None:
    """The start is the barrier of all instances."""
    start = monotonic() + 1.0
    _, sent = served(job_for(audit=False), [RunUntil(start, start)])
    (window,) = [message for message in sent if isinstance(message, Window)]
    assert window.started[0] >= start
    assert len(window.started) == 1


def test_no_garbage_is_collected_while_a_batch_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether one batch is commanded or many; Python collects it while the instance waits for commands."""
    running: list[bool] = []
    waiting: list[bool] = []
    run = instance._Batch.run

    def watched(self: Any, device: Any) -> tuple[float, float]:
        running.append(gc.isenabled())
        return run(self, device)

    def read() -> Command:
        waiting.append(gc.isenabled())
        return next(commands)

    commands: Iterator[Command] = iter([RunBatch(16), RunUntil(0.0, 0.0), RunBatch(16), Finish()])
    monkeypatch.setattr(instance._Batch, "run", watched)
    instance.serve(job_for(audit=False), lambda message: None, read)
    assert running == [False] * 3
    assert waiting == [True] * 4


def test_an_instance_proves_what_it_ran_like_a_run() -> None:
    """Digest and evidence as asked for; only with extras all that a run reports, without timing."""
    report, _ = served(job_for(extras=True), [])
    assert report.observed.evidence is not None
    assert report.observed.evidence.verdict is ProofVerdict.FP32
    assert report.context is not None
    assert report.context.timing is None
    assert report.context.observed.flops is not None
    assert report.context.setting.batch == 16
    other, _ = served(job_for(full_audit=False), [])
    assert other.observed.evidence is None
    assert other.observed.kernels == report.observed.kernels
    assert other.observed.kernels is not None
    assert other.placement.cpus == report.context.provenance.cpus


def test_a_size_that_was_not_prepared_is_refused() -> None:
    """New inputs would cost time while others are served."""
    with pytest.raises(UsageError, match="the instance has batches of 16, 4 items, none of 5"):
        served(job_for(sizes=(4,)), [RunBatch(5)])


def test_a_pipeline_is_refused() -> None:
    """Instances run the model alone."""
    job = job_for()
    own = job.assignment
    staged = changed(own, requested=own.requested.replace(stages=True), setting=replace(own.setting, stages=True))
    with pytest.raises(UsageError, match="leave --stages out"):
        served(msgspec.structs.replace(job, assignment=staged), [])


@pytest.mark.parametrize("command", [RunUntil(1.5, 2.5), RunBatch(3), Finish()])
def test_commands_are_lines(command: Command) -> None:
    """Each names its own type."""
    line = encode_command(command)
    assert line.endswith(b"\n")
    assert decode_command(line) == command
