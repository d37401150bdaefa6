"""The model of one setting in this process: loaded, warmed up, called as the parent says, and looked at in the end.

A run samples in turns (``warm_up``, ``turn``, ``observe``). An instance serves batches (``serve``, ``batch``,
``window``, ``finish``); while it waits to be called, it uses no CPU.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median
from time import monotonic, perf_counter, process_time, sleep, time
from typing import Any

import msgspec
import psutil

from modelzoo.engines.protocol import Model
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine.ceilings import kept_ceilings
from modelzoo.machine.facts import read_machine
from modelzoo.machine.linux import allowed_cpus
from modelzoo.machine.memory import prefer_own_node, read_placement
from modelzoo.machine.usage import CpuUsageMonitor
from modelzoo.measure import sampler
from modelzoo.measure.clock import Clock, HostClock, Watch, clock_for, on_host, time_copies, watch
from modelzoo.measure.generation import GenerationClock
from modelzoo.measure.loading import Built, KeptInputs, RestoringClock, build, imported, with_own_inputs
from modelzoo.measure.observing import observe, peak_memory, with_agreement
from modelzoo.measure.preparation import check_resolution
from modelzoo.measure.reporting import bound, first_answer, provenance, run_warnings
from modelzoo.measure.sampler import Sampling, without_collection
from modelzoo.plan import Plan
from modelzoo.records.equipment import AcceleratorUse
from modelzoo.records.machine import CpuUsage
from modelzoo.records.protocol import Assignment, Looks, Progress, Send
from modelzoo.records.run import Observed, RunReport, Turn
from modelzoo.records.run_report import ChangedSwitch
from modelzoo.records.serving import BatchDone, InstanceReport, Ready, Window
from modelzoo.records.timing import Timing
from modelzoo.workload.declaration import inputs_digest, make_inputs

LAST = 5
"""Batches of the end of the warm-up whose median says how long one takes."""


class _Batch(msgspec.Struct, frozen=True):
    """One batch of a size that is served: the model that runs it, and its prepared arguments."""

    model: Model
    args: tuple[Any, ...]
    inputs: KeptInputs

    def run(self) -> BatchDone:
        """Run it to its end; return when it began and ended."""
        self.inputs.restore()
        started = monotonic()
        output = self.model.call(*self.args)
        ended = monotonic()
        del output  # after the second timestamp, and not within the next call
        return BatchDone(started, ended)


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
        self._waiting, self._waited = ExitStack(), 0.0

    def load(self) -> None:
        """Import the engine, and what the model is made of.

        Workers of a round do so at the same time, which takes one core each; in what follows each is alone.
        """
        # Before the engine is loaded: OpenMP libraries may bind this thread to one CPU, and libraries set variables.
        self._machine, self._cpus = read_machine(), allowed_cpus()
        self._imports = imported(self._job)

    def _open(self, plan: Plan) -> None:
        """Load the model in a session of the engine, which stays active from now on."""
        job, imports, self._plan = self._job, self._imports, plan
        check_resolution(imports.engine, imports.workload, job, self._machine.threads.count)
        self._session = imports.engine.open(job.setting)
        self._send(Progress("load" if job.setting.mode == "eager" else "load and compile"))
        self._switches = self.active.enter_context(self._session.active())
        self._built = build(imports.engine, self._session, imports.workload, job)
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
        self._monitor = CpuUsageMonitor(self._job.parent).start()
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
        clock: Clock = self._tokens or clock_for(device)
        if device is not None:
            clock = self._watch = watch(device, clock, locked_mhz)
        if built.pipeline is not None:
            return Sampling(built.pipeline.run, built.pipeline, self._plan, self._progress)
        call: Callable[[], Any] = lambda: model.call(*args)  # noqa: E731
        if self._job.setting.include_copies:
            call = lambda: on_host(model.call(*model.prepare(own)))  # noqa: E731
        return Sampling(call, RestoringClock(clock, self._inputs), self._plan, self._progress)

    def _wait(self) -> None:
        """Take note that this process waits from now on, while others have their turns."""
        self._since = perf_counter()
        if self._own_turns:
            self._waiting.enter_context(self._monitor.left_out())

    def _go_on(self) -> None:
        self._waiting.close()
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
        return self._report(looks, self._inputs, usage, timing, accelerator)

    def _report(
        self,
        looks: Looks,
        inputs: KeptInputs,
        usage: CpuUsage,
        timing: Timing | None = None,
        accelerator: AcceleratorUse | None = None,
    ) -> RunReport:
        """Look at what ran, and put together what the worker reports; arguments as for ``_look``."""
        built, observed, changed, peak = self._look(looks, inputs)
        ran = provenance(self._job, self._imports.engine, self._machine, self._cpus)
        work, prepared, made = self._imports.workload, self._job.prepared, built.model.compilation
        ceilings = kept_ceilings(ran.machine, None if accelerator is None else accelerator.device)
        report = RunReport(
            workload=work.name,
            title=work.title,
            unit=work.unit,
            prepared=prepared,
            provenance=ran,
            plan=self._plan,
            items=tuple(map(str, built.inputs.items)),
            import_seconds=self._imports.seconds,
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
            inputs_digest=inputs_digest(built.inputs),
            calibration_digest=made.calibration if made is not None else None,
            turns=tuple(self._turns),
            pipeline=built.pipeline.record() if built.pipeline is not None else None,
            generation=built.generating.record() if built.generating is not None else None,
            accelerator=accelerator,
            ceilings=ceilings,
            bound=bound(observed.flops, timing, ceilings, prepared.setting),
        )
        return replace(report, warnings=run_warnings(report))

    def _look(self, looks: Looks, inputs: KeptInputs) -> tuple[Built, Observed, tuple[ChangedSwitch, ...], int]:
        """Look at what ran, the last thing that is done in the session.

        Returns:
            The model with inputs that stay as they are, what was seen, the switches that the model has changed, and the
            most bytes that the process occupied before: looking takes memory, too.
        """
        prepared = self._job.prepared
        with self.active:
            changed, built, peak = self._session.changed_switches(), with_own_inputs(self._built, inputs), peak_memory()
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
        engine, work, own = self._imports.engine, self._imports.workload, self._built
        self._batches = {setting.batch: _Batch(own.model, own.args, self._inputs)}
        for size in sizes:
            with engine.explained_errors():
                inputs = make_inputs(work, replace(setting, batch=size), prepared.weights)
                args = own.model.prepare(inputs.args)
            self._batches[size] = _Batch(own.model, args, KeptInputs(args))
        times = dict[int, float]()
        with own.model.explained_errors():
            for size, batch in self._batches.items():
                clock = RestoringClock(HostClock(), batch.inputs)
                call = partial(batch.model.call, *batch.args)
                cold, values, _ = sampler.warm_up(call, clock, plan, self._progress)
                times[size] = median(values[-LAST:]) if values else cold
                if size == setting.batch:
                    self._cold, self._warmup = cold, tuple(values)
        self._monitor = CpuUsageMonitor().start()
        gc.collect()
        gc.freeze()  # the model stays, so it need not be looked through
        return Ready(read_placement(self._cpus, *self._policy), times)

    def batch(self, size: int) -> BatchDone:
        """Run one batch of ``size`` items. No garbage is collected meanwhile, as in ``modelzoo.measure.sampler``."""
        with self._built.model.explained_errors(), without_collection():
            return self._batches[size].run()

    def window(self, start: float, end: float) -> Window:
        """Run batches of the setting's size back to back; garbage is collected before, not in between.

        Args:
            start: when the first one begins, by the monotonic clock.
            end: no batch begins after that.
        """
        batch, done = self._batches[self._job.setting.batch], list[BatchDone]()
        gc.collect()
        with self._built.model.explained_errors(), without_collection():
            sleep(max(0.0, start - monotonic()))
            while not done or done[-1].ended < end:
                done.append(batch.run())
        occupied = psutil.Process().memory_info().rss
        return Window(tuple(each.started for each in done), tuple(each.ended for each in done), occupied)

    def finish(self, looks: Looks) -> InstanceReport:
        """Look at what ran, and report it."""
        usage, placement = self._monitor.stop(), read_placement(self._cpus, *self._policy)
        inputs, context = self._batches[self._job.setting.batch].inputs, None
        if looks.extras:
            context = self._report(looks, inputs, usage)
            observed, peak = context.observed, context.peak_memory
        else:
            _, observed, _, peak = self._look(looks, inputs)
        return InstanceReport(
            placement=placement,
            observed=observed,
            peak_memory=peak,
            usage=usage,
            import_seconds=self._imports.seconds,
            build_seconds=self._built.seconds,
            cold_start=self._cold,
            warmup=self._warmup,
            context=context,
        )
