"""The ``measure`` job: build, time, and only then look at what ran."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter, time
from typing import Any, Callable, Optional

from modelzoo.engines import create_engine
from modelzoo.engines.export.store import read_inputs
from modelzoo.engines.protocol import Accelerator, Engine, Model, Session, value_and_problem
from modelzoo.machine.ceilings import kept_ceilings, kept_device_ceilings
from modelzoo.machine.facts import read_machine
from modelzoo.machine.fingerprint import fingerprint
from modelzoo.machine.linux import allowed_cpus
from modelzoo.machine.roofline import roofline_bound
from modelzoo.machine.usage import CpuUsageMonitor
from modelzoo.measure import sampler
from modelzoo.measure.accelerator_watch import Watch, on_host, time_copies, watch
from modelzoo.measure.agreement import eager_agreement, output_agreement
from modelzoo.measure.clock import Clock, clock_for
from modelzoo.measure.pipeline_trace import TracedBatch, write_trace
from modelzoo.measure.preparation import check_resolution
from modelzoo.measure.run_warnings import run_warnings
from modelzoo.measure.staging import Staged, declared_stages, staged, time_pipeline, without_staged_parts
from modelzoo.records.accelerator import AcceleratorUse, Copies
from modelzoo.records.agreement import OutputAgreement
from modelzoo.records.canary import Canary
from modelzoo.records.ceilings import Ceilings
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.machine import CpuUsage, Machine
from modelzoo.records.pipeline import model_times
from modelzoo.records.profile import Flops, Profile
from modelzoo.records.protocol import Measured, MeasureJob, Message, Paused, Progress
from modelzoo.records.roofline import Bound
from modelzoo.records.run import RunReport, Turn
from modelzoo.records.timing import DEVICE, Timing
from modelzoo.records.workload import Count
from modelzoo.setting import ResolvedSetting
from modelzoo.workload import Inputs, Workload
from modelzoo.workload.batches import inputs_digest, make_inputs
from modelzoo.workload.checkpoints import file_sha256
from modelzoo.workload.discovery import load_workload

Send = Callable[[Message], None]
AUDIT_SECONDS = 2.0
"""The audit observes two passes, or one if two would take longer than this."""


def measure(job: MeasureJob, send: Send, take_turn: Callable[[], None]) -> Measured:
    """Time the setting of ``job`` in this process, and record what ran.

    Args:
        send: sends progress to the parent.
        take_turn: waits for this process's turn.

    Raises:
        ModelzooError: the setting cannot run.
    """
    # Before the engine is loaded: OpenMP libraries may bind this thread to one CPU, and libraries set variables.
    machine, cpus = read_machine(), allowed_cpus()
    started = perf_counter()
    with no_garbage_collection():
        engine = create_engine(job.resolved.engine)
        engine.load()
        work = load_workload(Path(job.directory))
        with engine.explained_errors():
            # An exported model needs nothing of what the workload's torch module is made of, and not its inputs either.
            for name in work.libraries if job.export is None or job.resolved.in_flight is not None else ():
                import_module(name)
    import_seconds = perf_counter() - started
    # Workers import at the same time, which takes one core each; from here on each is alone.
    send(Paused())
    take_turn()
    check_resolution(engine, work, job, machine.threads.count)
    session = engine.open(job.resolved)
    send(Progress("load" if job.resolved.mode == "eager" else "load and compile"))
    with session.active() as switches:
        built = _build(engine, session, work, job)
        timed = _time(built, session, machine, job, send, take_turn)
        if job.trace and job.extras and timed.batches:
            title = f"{work.name} {job.asked.label}"
            write_trace(Path(job.trace), timed.batches, title, job.resolved.device)
        send(Progress("audit"))
        observed = _observe(built, session, timed.timing, job, send)
    report = _report(job, engine, work, machine, built, timed, observed)
    report = replace(report, import_seconds=import_seconds, switches=switches, cpus=tuple(sorted(cpus)))
    return Measured(replace(report, warnings=run_warnings(report)))


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Import without collecting garbage: there is hardly any, and looking for it takes a fifth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # what was imported stays, so it need not be looked through before sampling either
        gc.enable()


@dataclass(frozen=True)
class _Built:
    """A model that is ready to run, its inputs as the workload made them and as the model takes them."""

    model: Model
    inputs: Inputs
    args: tuple[Any, ...]
    seconds: float
    pipeline: Optional[Staged] = None


def _build(engine: Engine, session: Session, work: Workload, job: MeasureJob) -> _Built:
    started = perf_counter()
    pipeline = None
    with engine.explained_errors():
        if job.resolved.in_flight is None:
            inputs = make_inputs(work, job.resolved, job.weights) if job.export is None else read_inputs(job.export)
            model = session.load(work, job.weights, inputs, job.export)
        else:
            stages = declared_stages(work, job.resolved, job.weights)
            own = Inputs(stages.model_input().args, stages.items) if job.export is None else read_inputs(job.export)
            inputs, work = own, without_staged_parts(work, stages)
            model = session.load(work, job.weights, inputs, job.export)
            pipeline = staged(stages, model, session, job.resolved, exported=job.export is not None)
    args = model.prepare(inputs.args)
    seconds = perf_counter() - started - (model.compile_seconds or 0.0)
    return _Built(model, inputs, args, seconds, pipeline)


@dataclass(frozen=True)
class _Timed:
    """The samples, what else used the CPUs meanwhile, and when this process sampled."""

    timing: Optional[Timing]
    usage: CpuUsage
    turns: tuple[Turn, ...]
    batches: Sequence[TracedBatch] = ()
    accelerator: Optional[AcceleratorUse] = None


def _time(
    built: _Built, session: Session, machine: Machine, job: MeasureJob, send: Send, take_turn: Callable[[], None]
) -> _Timed:
    monitor = CpuUsageMonitor(job.parent).start()
    turns = _Turns(send, take_turn, monitor.left_out if job.own_turns else nullcontext)
    batches: Sequence[TracedBatch] = ()
    watcher: Optional[Watch] = None
    accelerator: Optional[AcceleratorUse] = None
    clock: Clock
    pause: Callable[[int], None]

    def progress(phase: str, count: int) -> None:
        send(Progress(phase, count))

    with built.model.explained_errors():
        if machine.emulator:
            timing = None
            built.model.call(*built.args)
        else:
            clock, pause = clock_for(session.device), turns.pause
            if session.device is not None:
                watcher = watch(session.device, clock, job.locked_mhz)
                clock, pause = watcher, watcher.before_turns(turns.pause)
            if built.pipeline is None:
                timing = sampler.measure(_call(built, job.resolved), clock, job.plan, progress, pause)
            else:
                timing, batches = time_pipeline(built.pipeline, job.plan, progress, pause)
            if watcher is not None:
                accelerator = watcher.result(timing, _copies(built, session.device, job.resolved))
            # What follows takes seconds; the others finish their turns first.
            turns.end(len(timing.steady))
    usage = monitor.stop(0.0 if job.own_turns else turns.waited)
    return _Timed(timing, usage, tuple(turns.taken), batches, accelerator)


def _call(built: _Built, setting: ResolvedSetting) -> Callable[[], Any]:
    """What is timed: one forward pass, with ``include_copies`` from the host's batch to outputs on the host."""
    model, args, own = built.model, built.args, built.inputs.args
    if setting.include_copies:
        return lambda: on_host(model.call(*model.prepare(own)))
    return lambda: model.call(*args)


def _copies(built: _Built, device: Optional[Accelerator], setting: ResolvedSetting) -> Optional[Copies]:
    """What copying a batch costs, unless the stages of a pipeline show it."""
    if device is None or built.pipeline is not None:
        return None
    return time_copies(built.model, built.inputs.args, device, included=setting.include_copies)


class _Turns:
    """Alternates with other workers, and records when this process sampled."""

    def __init__(
        self, send: Send, take_turn: Callable[[], None], waiting: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._send, self._take_turn, self._waiting = send, take_turn, waiting
        # Seconds since the epoch by the clock that is used for timing: workers of a round can be lined up.
        self._epoch = time() - perf_counter()
        self._began: Optional[float] = None
        self.taken: list[Turn] = []
        self._samples = 0
        self.waited = 0.0

    def pause(self, samples: int) -> None:
        """End a turn, after which there are ``samples`` in all, and wait for the next."""
        self.end(samples)
        self._began = self._epoch + perf_counter()

    def end(self, samples: int) -> None:
        """End a turn, after which there are ``samples`` in all, and wait until this process may go on."""
        if self._began is not None:
            self.taken.append(Turn(self._began, self._epoch + perf_counter(), samples - self._samples))
            self._began, self._samples = None, samples
        with self._waiting():
            self._send(Paused())
            since = perf_counter()
            self._take_turn()
            self.waited += perf_counter() - since


@dataclass(frozen=True)
class _Observed:
    """What was looked at after the timing; each observation may be missing for a reason."""

    canary: Optional[Canary]
    counts: tuple[Count, ...]
    evidence: Optional[Evidence] = None
    evidence_problem: Optional[str] = None
    kernels: Optional[KernelDigest] = None
    flops: Optional[Flops] = None
    flops_problem: Optional[str] = None
    profile: Optional[Profile] = None
    profile_problem: Optional[str] = None
    agreement: Optional[OutputAgreement] = None
    agreement_problem: Optional[str] = None
    peak_memory: int = 0


def _observe(built: _Built, session: Session, timing: Optional[Timing], job: MeasureJob, send: Send) -> _Observed:
    model, args = built.model, built.args
    canary, canary_problem = value_and_problem(session.canary())
    counts = model.counts(args, built.inputs.items) if job.extras else ()
    found = _Observed(canary, counts, evidence_problem=canary_problem)
    if job.audit:
        kernels, _ = value_and_problem(model.kernels(args))
        found = replace(found, kernels=kernels)
    # Without a digest only an audit can show which kernels ran.
    if job.audit and (job.full_audit or found.kernels is None):
        slow = timing is None or 2 * median(timing.steady) > AUDIT_SECONDS
        evidence, problem = value_and_problem(model.audit(args, passes=1 if slow else 2, canary=canary))
        found = replace(found, evidence=evidence, evidence_problem=problem or canary_problem)
    if job.audit and job.extras:
        flops, problem = value_and_problem(model.flops(args))
        found = replace(found, flops=flops, flops_problem=problem)
    if job.profiling and job.extras:
        send(Progress("profile"))
        trace = Path(job.trace) if job.trace and built.pipeline is None else None
        profile, problem = value_and_problem(model.profile(args, trace=trace, evidence=found.evidence))
        found = replace(found, profile=profile, profile_problem=problem)
    # Before outputs are compared, which takes memory that running the model does not.
    return _compared(built, replace(found, peak_memory=_peak_memory()), job, send)


def _compared(built: _Built, found: _Observed, job: MeasureJob, send: Send) -> _Observed:
    """``found``, with how far the outputs of an exported or compiled model are from those of the torch module."""
    is_plain = job.resolved == job.resolved.reference() or job.resolved.precision != "fp32"
    if not job.extras or (job.export is None and is_plain):
        return found
    send(Progress("compare outputs"))
    with built.model.explained_errors():
        outputs, problem = value_and_problem(built.model.outputs(built.args))
    if outputs is None:
        return replace(found, agreement_problem=problem)
    if job.export is None:
        return replace(found, agreement=eager_agreement(outputs))
    return replace(found, agreement=output_agreement(job.export, outputs, job.resolved.precision))


def _report(
    job: MeasureJob,
    engine: Engine,
    work: Workload,
    machine: Machine,
    built: _Built,
    timed: _Timed,
    observed: _Observed,
) -> RunReport:
    setting = job.resolved
    used = timed.accelerator
    ceilings = kept_ceilings(machine) if used is None else kept_device_ceilings(machine, used.device)
    return RunReport(
        workload=work.name,
        title=work.title,
        unit=work.unit,
        setting=setting,
        plan=job.plan,
        weights=job.weights,
        items=tuple(map(str, built.inputs.items)),
        timing=timed.timing,
        import_seconds=0.0,
        build_seconds=built.seconds,
        compile_seconds=built.model.compile_seconds,
        canary=observed.canary,
        canary_verdict=None if observed.canary is None else observed.canary.verdict(setting.precision),
        switches=(),
        environment=job.changes,
        counts=observed.counts,
        peak_memory=observed.peak_memory,
        machine=machine,
        libraries=engine.libraries(),
        usage=timed.usage,
        warnings=(),
        evidence=observed.evidence,
        evidence_problem=observed.evidence_problem,
        flops=observed.flops,
        flops_problem=observed.flops_problem,
        bound=_bound(observed.flops, timed.timing, ceilings, setting),
        ceilings=ceilings,
        profile=observed.profile,
        profile_problem=observed.profile_problem,
        engine=engine.name,
        versions=dict(engine.versions()),
        digest=file_sha256(work.directory / "workload.py"),
        inputs_digest=inputs_digest(built.inputs),
        machine_fingerprint=fingerprint(machine),
        turns=timed.turns,
        kernels=observed.kernels,
        export=job.export,
        pipeline=built.pipeline.record() if built.pipeline is not None else None,
        agreement=observed.agreement,
        agreement_problem=observed.agreement_problem,
        accelerator=used,
    )


def _bound(
    flops: Optional[Flops], timing: Optional[Timing], ceilings: Optional[Ceilings], setting: ResolvedSetting
) -> Optional[Bound]:
    """How near the run came to the ceilings; on an accelerator by the time on the device, if its events tell that."""
    if flops is None or not flops.total or timing is None or ceilings is None:
        return None
    seconds = median(timing.values(DEVICE) or model_times(timing))
    threads = setting.threads if ceilings.device is None else None
    return roofline_bound(flops.total, flops.bytes, seconds, ceilings, setting.precision, threads)


def _peak_memory() -> int:
    import resource

    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
