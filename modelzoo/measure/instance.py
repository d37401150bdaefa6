"""The ``instance`` job: load a model, then serve batches as the parent commands, until it says that this is the end.

Between commands the process blocks on its standard input: it uses no CPU and is never suspended.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from functools import partial
from statistics import median
from time import monotonic, sleep
from typing import Any, Callable, Optional

import msgspec

from modelzoo.engines.protocol import AsynchronousDevice, Engine, Model, Session
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine.facts import read_machine
from modelzoo.machine.linux import allowed_cpus
from modelzoo.machine.memory import prefer_own_node, read_placement, resident_memory
from modelzoo.machine.usage import CpuUsageMonitor
from modelzoo.measure import sampler
from modelzoo.measure.clock import clock_for
from modelzoo.measure.kept_inputs import KeptInputs, RestoringClock, with_own_inputs
from modelzoo.measure.loading import Built, build, imported
from modelzoo.measure.observing import audit_passes, observe, peak_memory, with_agreement
from modelzoo.measure.preparation import check_resolution
from modelzoo.measure.reporting import Switches, Timed, make_report, provenance
from modelzoo.measure.sampler import without_collection
from modelzoo.records.machine import CpuUsage
from modelzoo.records.protocol import InstanceJob, Message, Progress
from modelzoo.records.serving import (
    BatchDone,
    BatchTime,
    Command,
    Finish,
    InstanceReport,
    Ready,
    RunBatch,
    RunUntil,
    Served,
    Window,
)
from modelzoo.workload import Workload
from modelzoo.workload.declaration import make_inputs

Send = Callable[[Message], None]
Read = Callable[[], Command]
LAST = 5
"""Batches of the end of the warm-up whose median says how long one takes."""


def serve(job: InstanceJob, send: Send, read: Read) -> Served:
    """Load the setting of ``job``, warm it up, and do what is commanded.

    Args:
        send: sends messages to the parent.
        read: waits for the next command.

    Raises:
        ModelzooError: the setting cannot run, or a command asks for something that was not prepared.
    """
    # Before anything is allocated, and before OpenMP libraries may bind this thread to one CPU.
    cpus = allowed_cpus()
    policy = prefer_own_node(cpus)
    machine = read_machine()
    if machine.emulator:
        raise UsageError(f"nothing can be timed under {machine.emulator}; run it on the machine itself")
    assignment = job.assignment
    imports = imported(assignment)
    engine, work = imports.engine, imports.workload
    check_resolution(engine, work, assignment, machine.threads.count)
    session = engine.open(assignment.setting)
    send(Progress("load" if assignment.setting.mode == "eager" else "load and compile"))
    with session.active() as switches:
        own, batches = _batches(engine, session, work, job)
        with own.model.explained_errors():
            warmed = _warm_up(batches, session, job, send)
            send(Ready(read_placement(cpus, *policy), warmed.times))
            usage = _obey(batches, assignment.setting.batch, session.device, send, read)
        own = with_own_inputs(own, batches[assignment.setting.batch].inputs)
        changed = session.changed_switches()
        placement, peak = read_placement(cpus, *policy), peak_memory()
        send(Progress("audit"))
        passes = audit_passes(warmed.times[0].seconds)
        observed = observe(own, session, assignment.prepared, job.looks, passes, send)
        observed = with_agreement(observed, own, assignment.prepared, job.looks, send)
    context = None
    if job.looks.extras:
        ran = provenance(assignment, engine, machine, cpus)
        context = make_report(
            job, imports, Switches(switches, changed), ran, own, Timed(None, usage, ()), observed, peak
        )
    return Served(
        InstanceReport(
            placement=placement,
            observed=observed,
            peak_memory=peak,
            usage=usage,
            import_seconds=imports.seconds,
            build_seconds=own.seconds,
            cold_start=warmed.cold,
            warmup=tuple(warmed.values),
            context=context,
        )
    )


class _Batch(msgspec.Struct, frozen=True):
    """One batch of a size that is served: the model that runs it, and its prepared arguments."""

    call: Callable[..., Any]
    args: tuple[Any, ...]
    inputs: KeptInputs

    def run(self, device: Optional[AsynchronousDevice]) -> tuple[float, float]:
        """Run it to its end; return when it began and ended."""
        self.inputs.restore()
        started = monotonic()
        output = self.call(*self.args)
        if device is not None:
            device.synchronize()
        ended = monotonic()
        del output  # after the second timestamp, and not within the next call
        return started, ended


def _batches(engine: Engine, session: Session, work: Workload, job: InstanceJob) -> tuple[Built, Mapping[int, _Batch]]:
    """The model of the setting, and a batch of every size that is served, the setting's first.

    In eager mode one model runs all of them. What is compiled, traced or captured holds for one size, so every other
    size has a model of its own.

    Raises:
        UsageError: the setting cannot be served, or not in these sizes.
    """
    assignment = job.assignment
    setting = assignment.setting
    if setting.stages:
        raise UsageError("instances run the model alone: leave --stages out")
    own = build(engine, session, work, assignment)
    batches = {setting.batch: _batch(own.model, own.args)}
    for size in job.sizes:
        if size in batches:
            continue
        if assignment.prepared.export is not None:
            raise UsageError(
                f"engine {setting.engine} runs what was exported for batches of {setting.batch}, not of {size}; use "
                "that batch size alone, or --engine torch"
            )
        prepared = replace(assignment.prepared, setting=replace(setting, batch=size))
        if setting.mode == "eager":
            with engine.explained_errors():
                inputs = make_inputs(work, prepared.setting, prepared.weights)
            batches[size] = _batch(own.model, own.model.prepare(inputs.args))
        else:
            other = build(engine, session, work, replace(assignment, prepared=prepared))
            batches[size] = _batch(other.model, other.args)
    return own, batches


def _batch(model: Model, args: tuple[Any, ...]) -> _Batch:
    return _Batch(model.call, args, KeptInputs(args))


class _WarmedUp(msgspec.Struct, frozen=True):
    """The cold start, the warm-up of the setting's batch, and what a batch of each size takes, in seconds."""

    cold: float
    values: list[float]
    times: tuple[BatchTime, ...]


def _warm_up(batches: Mapping[int, _Batch], session: Session, job: InstanceJob, send: Send) -> _WarmedUp:
    def progress(phase: str, count: int) -> None:
        send(Progress(phase, count))

    runs = [
        sampler.warm_up(
            partial(batch.call, *batch.args),
            RestoringClock(clock_for(session.device), batch.inputs),
            job.plan,
            progress,
        )
        for batch in batches.values()
    ]
    times = [median(values[-LAST:]) if values else cold for cold, values, _ in runs]
    return _WarmedUp(runs[0][0], runs[0][1], tuple(map(BatchTime, batches, times)))


def _obey(
    batches: Mapping[int, _Batch], size: int, device: Optional[AsynchronousDevice], send: Send, read: Read
) -> CpuUsage:
    """Do what is commanded until the command to finish; return how busy the CPUs were meanwhile.

    Garbage is never collected while a batch runs, as in ``modelzoo.measure.sampler``. Between the batches of
    ``RunBatch`` Python decides when to collect it, after the answer has been sent.

    Raises:
        UsageError: a batch size was not prepared.
    """
    monitor = CpuUsageMonitor().start()
    gc.collect()
    gc.freeze()  # the model stays, so it need not be looked through
    while not isinstance(command := read(), Finish):
        if isinstance(command, RunBatch):
            if command.size not in batches:
                prepared = ", ".join(map(str, batches))
                raise UsageError(f"the instance has batches of {prepared} items, none of {command.size}")
            with without_collection():
                send(BatchDone(*batches[command.size].run(device)))
        else:
            send(_window(batches[size], device, command))
    return monitor.stop()


def _window(batch: _Batch, device: Optional[AsynchronousDevice], command: RunUntil) -> Window:
    """Run batches back to back; garbage is collected before, not in between."""
    started: list[float] = []
    ended: list[float] = []
    gc.collect()
    with without_collection():
        sleep(max(0.0, command.start - monotonic()))
        while not ended or ended[-1] < command.end:
            begun, done = batch.run(device)
            started.append(begun)
            ended.append(done)
    return Window(tuple(started), tuple(ended), resident_memory())
