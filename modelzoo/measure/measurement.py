"""The ``measure`` job: build, time, and only then look at what ran."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from statistics import median
from time import perf_counter, process_time, time
from typing import Any, Callable, Optional

from modelzoo.engines.protocol import Accelerator, Session
from modelzoo.machine.facts import read_machine
from modelzoo.machine.linux import allowed_cpus
from modelzoo.machine.usage import CpuUsageMonitor
from modelzoo.measure import sampler
from modelzoo.measure.clock import Clock, Watch, clock_for, on_host, time_copies, watch
from modelzoo.measure.generation import GenerationClock
from modelzoo.measure.kept_inputs import KeptInputs, RestoringClock, with_own_inputs
from modelzoo.measure.loading import Built, build, imported
from modelzoo.measure.observing import audit_passes, observe, peak_memory, with_agreement
from modelzoo.measure.pipeline import PipelineClock
from modelzoo.measure.preparation import check_resolution
from modelzoo.measure.reporting import Switches, Timed, make_report, provenance
from modelzoo.records.accelerator import AcceleratorUse, Copies
from modelzoo.records.machine import Machine
from modelzoo.records.protocol import Measured, MeasureJob, Message, Paused, Progress
from modelzoo.records.run import Turn
from modelzoo.setting import ResolvedSetting

Send = Callable[[Message], None]


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
    own, looks = job.assignment, job.looks
    imports = imported(own)
    engine, work = imports.engine, imports.workload
    # Workers import at the same time, which takes one core each; from here on each is alone.
    send(Paused())
    take_turn()
    check_resolution(engine, work, own, machine.threads.count)
    session = engine.open(own.setting)
    send(Progress("load" if own.setting.mode == "eager" else "load and compile"))
    with session.active() as switches:
        built = build(engine, session, work, own)
        inputs = KeptInputs(built.args)
        timed = _time(built, inputs, session, machine, job, send, take_turn)
        changed = session.changed_switches()
        built = with_own_inputs(built, inputs)
        peak = peak_memory()  # what follows looks at the model in other ways, which takes memory, too
        send(Progress("audit"))
        passes = audit_passes(None if timed.timing is None else median(timed.timing.steady))
        observed = observe(built, session, own.prepared, looks, passes, send)
        observed = with_agreement(observed, built, own.prepared, looks, send)
    ran = provenance(own, engine, machine, cpus)
    return Measured(make_report(job, imports, Switches(switches, changed), ran, built, timed, observed, peak))


def _time(
    built: Built,
    inputs: KeptInputs,
    session: Session,
    machine: Machine,
    job: MeasureJob,
    send: Send,
    take_turn: Callable[[], None],
) -> Timed:
    monitor = CpuUsageMonitor(job.assignment.parent).start()
    turns = _Turns(send, take_turn, monitor.left_out if job.own_turns else nullcontext)
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
            inputs.look()
        else:
            tokens = GenerationClock(built.generating, session.device) if built.generating is not None else None
            clock, pause = tokens or clock_for(session.device), turns.pause
            if session.device is not None:
                watcher = watch(session.device, clock, job.locked_mhz)
                clock, pause = watcher, watcher.before_turns(turns.pause)
            if built.pipeline is None:
                call, clock = _call(built, job.assignment.setting), RestoringClock(clock, inputs)
                timing = sampler.measure(call, clock, job.plan, progress, pause)
                timing = timing if tokens is None else tokens.with_tokens(timing)
            else:
                staged = built.pipeline
                stages = PipelineClock(staged.steps, staged.source, staged.device)
                timing = sampler.measure(stages.run, stages, job.plan, progress, pause)
                built.model.call(*built.args)  # its stages make other inputs for each batch
                inputs.look()
            if watcher is not None:
                accelerator = watcher.result(timing, _copies(built, session.device, job.assignment.setting))
            # What follows takes seconds; the others finish their turns first.
            turns.end(len(timing.steady))
    usage = monitor.stop(0.0 if job.own_turns else turns.waited)
    return Timed(timing, usage, tuple(turns.taken), accelerator)


def _call(built: Built, setting: ResolvedSetting) -> Callable[[], Any]:
    """What is timed: one call of the model, with ``include_copies`` from the host's batch to outputs on the host."""
    model, args, own = built.model, built.args, built.inputs.args
    if setting.include_copies:
        return lambda: on_host(model.call(*model.prepare(own)))
    return lambda: model.call(*args)


def _copies(built: Built, device: Optional[Accelerator], setting: ResolvedSetting) -> Optional[Copies]:
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
        self._cpu = 0.0
        self.taken: list[Turn] = []
        self._samples = 0
        self.waited = 0.0

    def pause(self, samples: int) -> None:
        """End a turn, after which there are ``samples`` in all, and wait for the next."""
        self.end(samples)
        self._began, self._cpu = self._epoch + perf_counter(), process_time()

    def end(self, samples: int) -> None:
        """End a turn, after which there are ``samples`` in all, and wait until this process may go on."""
        if self._began is not None:
            ended, cpu = self._epoch + perf_counter(), process_time() - self._cpu
            self.taken.append(Turn(self._began, ended, samples - self._samples, cpu))
            self._began, self._samples = None, samples
        with self._waiting():
            self._send(Paused())
            since = perf_counter()
            self._take_turn()
            self.waited += perf_counter() - since
