"""The model of one setting in this process: loaded, warmed up, called as the parent says, and looked at in the end.

A run samples in turns (``warm_up``, ``turn``, ``observe``). An instance serves batches (``serve``, ``batch``,
``window``, ``finish``); while it waits to be called, it uses no CPU.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter, process_time, sleep, time
from typing import Any

import psutil

from modelzoo.engines import create_engine
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine.ceilings import kept_ceilings
from modelzoo.machine.facts import read_machine
from modelzoo.machine.installation import import_torchvision
from modelzoo.machine.linux import allowed_cpus
from modelzoo.machine.memory import prefer_own_node, read_placement
from modelzoo.machine.sensors import CpuUsageMonitor
from modelzoo.measure import sampler
from modelzoo.measure.observing import observe, peak_memory, with_agreement
from modelzoo.measure.pipeline import GenerationClock
from modelzoo.measure.preparation import (
    Built,
    KeptInputs,
    build,
    check_resolution,
    restoring,
    with_own_inputs,
)
from modelzoo.measure.reporting import bound, first_answer, provenance, run_warnings
from modelzoo.measure.sampler import (
    Clock,
    Sampling,
    Watch,
    clock_for,
    host_clock,
    on_host,
    time_copies,
    watch,
    without_collection,
)
from modelzoo.plan import Plan
from modelzoo.records.equipment import AcceleratorUse
from modelzoo.records.machine import CpuUsage
from modelzoo.records.protocol import Assignment, Looks, Progress, Send
from modelzoo.records.run import Observed, RunReport, Turn
from modelzoo.records.run_report import ChangedSwitch
from modelzoo.records.serving import BatchDone, InstanceReport, Ready, Window
from modelzoo.records.timing import Timing
from modelzoo.workload.declaration import inputs_digest, make_inputs
from modelzoo.workload.discovery import load_workload

LAST = 5
"""Batches of the end of the warm-up whose median says how long one takes."""


class Instance:
    """The model of the setting of ``job``. What it does is called in the order of the methods.

    Args:
        job: what is run.
        send: sends progress to the parent.

    Attributes:
        active: what the session of the engine has put into effect, until that is closed.

    Raises:
        ModelzooError: in any call: the setting cannot run.
    """

    def __init__(self, job: Assignment, send: Send) -> None:
        self._job, self._send = job, send
        self.active = ExitStack()
        self._sampling: Sampling | None = None
        self._tokens: GenerationClock | None = None
        self._watch: Watch | None = None
        self._turns: list[Turn] = []
        # Seconds since the epoch by the clock that is used for timing: workers of a round can be lined up.
        self._epoch = time() - perf_counter()
        self._waited = 0.0

    def load(self) -> None:
        """Import the engine, and what the model is made of.

        Workers of a round do so at the same time, which takes one core each; in what follows each is alone.
        """
        # Before the engine is loaded: OpenMP libraries may bind this thread to one CPU, and libraries set variables.
        self._machine, self._cpus = read_machine(), allowed_cpus()
        started = perf_counter()
        with without_collection():  # there is hardly any garbage, and looking for it takes a fifth of the time
            self._engine = create_engine(self._job.setting.engine)
            self._engine.load()
            self._work = load_workload(Path(self._job.directory))
            # An exported model needs nothing of what the workload's torch module is made of, and not its inputs either.
            is_torch = self._job.prepared.export is None or self._job.setting.stages
            with self._engine.explained_errors():
                for name in self._work.libraries if is_torch else ():
                    if name.partition(".")[0] == "torchvision":
                        import_torchvision()
                    import_module(name)
            gc.freeze()  # what was imported stays, so it need not be looked through before sampling either
        self._import_seconds = perf_counter() - started

    def _open(self, plan: Plan) -> None:
        """Load the model in a session of the engine, which stays active from now on."""
        job, self._plan = self._job, plan
        check_resolution(self._engine, self._work, job, self._machine.threads.count)
        self._session = self._engine.open(job.setting)
        self._send(Progress("load" if job.setting.mode == "eager" else "load and compile"))
        self._switches = self.active.enter_context(self._session.active())
        self._built = build(self._engine, self._session, self._work, job)
        self._inputs = KeptInputs(self._built.args)

    def _progress(self, phase: str, count: int) -> None:
        self._send(Progress(phase, count))

    # A run

    def warm_up(self, plan: Plan, own_turns: bool, locked_mhz: int | None) -> None:
        """Build the model and warm it up.

        Args:
            plan: how long to warm up and to sample.
            own_turns: observe the CPUs during this process's own turns only, because it does not see the processes of
                all others: some of them are in containers.
            locked_mhz: the frequency that the parent has locked the GPUs' clocks at; ``None``: it has not.
        """
        self._open(plan)
        self._own_turns = own_turns
        self._monitor = CpuUsageMonitor(self._job.parent)
        built = self._built
        with built.model.explained_errors():
            if self._machine.emulator:  # nothing is timed
                built.model.call(*built.args)
                self._inputs.look()
            else:
                self._sampling = self._sampler(locked_mhz)
                self._sampling.warm_up()
        self._wait()

    def _sampler(self, locked_mhz: int | None) -> Sampling:
        """What is timed, and how: one call of the model, a generation, or the stages of a pipeline."""
        built, device = self._built, self._session.device
        model, args, own = built.model, built.args, built.inputs.args
        self._tokens = GenerationClock(built.generating, device) if built.generating is not None else None
        clock: Clock = clock_for(device) if self._tokens is None else self._tokens.time
        if device is not None:
            self._watch = watch(device, clock, locked_mhz)
            clock = self._watch.time
        if built.pipeline is not None:
            return Sampling(built.pipeline.run, built.pipeline.time, self._plan, self._progress)
        call: Callable[[], Any] = lambda: model.call(*args)  # noqa: E731
        if self._job.setting.include_copies:
            call = lambda: on_host(model.call(*model.prepare(own)))  # noqa: E731
        return Sampling(call, restoring(clock, self._inputs), self._plan, self._progress)

    def _wait(self) -> None:
        """Take note that this process waits from now on, while others have their turns."""
        self._since = perf_counter()
        if self._own_turns:
            self._monitor.mark()

    def _go_on(self) -> None:
        if self._own_turns:
            self._monitor.mark()
        self._waited += perf_counter() - self._since

    def turn(self) -> bool:
        """Sample for half a second; return whether there is more to sample."""
        if self._sampling is None:
            return False
        self._go_on()
        began, cpu, samples = perf_counter(), process_time(), len(self._sampling.samples)
        if self._watch is not None:
            self._watch.begin_turn()
        with self._built.model.explained_errors():
            has_more = self._sampling.turn()
        taken = len(self._sampling.samples) - samples
        self._turns.append(Turn(self._epoch + began, self._epoch + perf_counter(), taken, process_time() - cpu))
        self._wait()
        return has_more

    def observe(self, looks: Looks) -> RunReport:
        """Look at what ran, and report it with the samples; takes seconds."""
        self._go_on()
        usage = self._monitor.stop(0.0 if self._own_turns else self._waited)
        timing = accelerator = None
        built, device, setting = self._built, self._session.device, self._job.setting
        if self._sampling is not None:
            timing = self._sampling.timing()
            timing = timing if self._tokens is None else self._tokens.with_tokens(timing)
            with built.model.explained_errors():
                if built.pipeline is not None:
                    built.model.call(*built.args)  # its stages make other inputs for each batch
                    self._inputs.look()
                if self._watch is not None and device is not None:
                    # The stages of a pipeline show what copying a batch costs.
                    copies = None
                    if built.pipeline is None:
                        copies = time_copies(built.model, built.inputs.args, device, included=setting.include_copies)
                    accelerator = self._watch.result(timing, copies)
        return self._report(looks, usage, timing, accelerator)

    def _report(
        self,
        looks: Looks,
        usage: CpuUsage,
        timing: Timing | None = None,
        accelerator: AcceleratorUse | None = None,
    ) -> RunReport:
        """Look at what ran, and put together what the worker reports; arguments as for ``_look``."""
        built, observed, changed, peak = self._look(looks)
        ran = provenance(self._job, self._engine, self._machine, self._cpus)
        work, prepared, made = self._work, self._job.prepared, built.model.compilation
        ceilings = kept_ceilings(ran.machine, None if accelerator is None else accelerator.device)
        report = RunReport(
            workload=work.name,
            title=work.title,
            unit=work.unit,
            prepared=prepared,
            provenance=ran,
            plan=self._plan,
            items=tuple(map(str, built.inputs.items)),
            import_seconds=self._import_seconds,
            build_seconds=built.seconds,
            compile_seconds=made.seconds if made is not None else None,
            first_answer_seconds=first_answer(made, timing),
            compiled_libraries=made.libraries if made is not None else None,
            switches=self._switches,
            changed_switches=changed,
            timing=timing,
            usage=usage,
            observed=observed,
            peak_memory=peak,
            weight_bytes=built.model.stored_bytes(),
            inputs_digest=inputs_digest(built.inputs.args),
            calibration_digest=made.calibration if made is not None else None,
            turns=tuple(self._turns),
            pipeline=built.pipeline.record() if built.pipeline is not None else None,
            generation=built.generating.record() if built.generating is not None else None,
            accelerator=accelerator,
            ceilings=ceilings,
            bound=bound(observed.flops, timing, ceilings, prepared.setting),
        )
        return replace(report, warnings=run_warnings(report))

    def _look(self, looks: Looks) -> tuple[Built, Observed, tuple[ChangedSwitch, ...], int]:
        """Look at what ran, the last thing that is done in the session.

        Returns:
            The model with inputs that stay as they are, what was seen, the switches that the model has changed, and the
            most bytes that the process occupied before: looking takes memory, too.
        """
        prepared = self._job.prepared
        with self.active:
            changed, built, peak = (
                self._session.changed_switches(),
                with_own_inputs(self._built, self._inputs),
                peak_memory(),
            )
            self._send(Progress("audit"))
            observed = observe(built, self._session, prepared, looks, self._send)
            observed = with_agreement(observed, built, prepared, looks, self._send)
        return built, observed, changed, peak

    # An instance

    def serve(self, plan: Plan, sizes: tuple[int, ...]) -> Ready:
        """Load the model, warm it up with batches of every size, and be ready to serve them.

        Args:
            plan: how long to warm up; the rest of it means nothing here.
            sizes: of further batches than the setting's, of a model that runs any.

        Raises:
            UsageError: the setting cannot be served.
        """
        setting, prepared = self._job.setting, self._job.prepared
        # Before anything is allocated, and before OpenMP libraries may bind this thread to one CPU.
        self._policy = prefer_own_node(allowed_cpus())
        self.load()
        if self._machine.emulator:
            raise UsageError(f"nothing can be timed under {self._machine.emulator}; run it on the machine itself")
        self._open(plan)
        model = self._built.model
        self._batches = {setting.batch: self._inputs}
        for size in sizes:
            with self._engine.explained_errors():
                inputs = make_inputs(self._work, replace(setting, batch=size), prepared.weights)
                self._batches[size] = KeptInputs(model.prepare(inputs.args))
        times = dict[int, float]()
        with model.explained_errors():
            for size, kept in self._batches.items():
                call = partial(model.call, *kept.args)
                cold, values, _ = sampler.warm_up(call, restoring(host_clock, kept), plan, self._progress)
                times[size] = median(values[-LAST:]) if values else cold
                if size == setting.batch:
                    self._cold, self._warmup = cold, tuple(values)
        self._monitor = CpuUsageMonitor()
        gc.collect()
        gc.freeze()  # the model stays, so it need not be looked through
        return Ready(read_placement(self._cpus, *self._policy), times)

    def batch(self, size: int) -> BatchDone:
        """Run one batch of ``size`` items. No garbage is collected meanwhile, as in ``modelzoo.measure.sampler``."""
        with self._built.model.explained_errors(), without_collection():
            return self._run(self._batches[size])

    def _run(self, inputs: KeptInputs) -> BatchDone:
        """Run a batch to its end; return when it began and ended."""
        inputs.restore()
        started = monotonic()
        output = self._built.model.call(*inputs.args)
        ended = monotonic()
        del output  # after the second timestamp, and not within the next call
        return BatchDone(started, ended)

    def window(self, start: float, end: float) -> Window:
        """Run batches of the setting's size back to back; garbage is collected before, not in between.

        Args:
            start: when the first one begins, by the monotonic clock.
            end: no batch begins after that.
        """
        done = list[BatchDone]()
        gc.collect()
        with self._built.model.explained_errors(), without_collection():
            sleep(max(0.0, start - monotonic()))
            while not done or done[-1].ended < end:
                done.append(self._run(self._inputs))
        occupied = psutil.Process().memory_info().rss
        return Window(tuple(each.started for each in done), tuple(each.ended for each in done), occupied)

    def finish(self, looks: Looks) -> InstanceReport:
        """Look at what ran, and report it."""
        usage, placement = self._monitor.stop(), read_placement(self._cpus, *self._policy)
        context = None
        if looks.extras:
            context = self._report(looks, usage)
            observed, peak = context.observed, context.peak_memory
        else:
            _, observed, _, peak = self._look(looks)
        return InstanceReport(
            placement=placement,
            observed=observed,
            peak_memory=peak,
            usage=usage,
            import_seconds=self._import_seconds,
            build_seconds=self._built.seconds,
            cold_start=self._cold,
            warmup=self._warmup,
            context=context,
        )
