"""Measure configurations of instances: the race in which each of them runs once in every round.

In a round, a configuration's instances are started, run at the same time, and are counted:

1. All instances are started at once, each on its own CPUs, load the model and warm up.
2. When all are ready, they run for a second together. How long a batch takes under full load decides how long the
   counted run has to be.
3. They run again, from one common start. The parent waits for their answers without using a CPU.
4. They look at which kernels they ran, report and end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from time import monotonic
from typing import TypeVar

from modelzoo.errors import KINDS, ModelzooError, UsageError, WorkerError
from modelzoo.frozen import replace
from modelzoo.machine.facts import available_memory
from modelzoo.machine.sensors import CpuUsageMonitor
from modelzoo.measure.jobs import Event, OnEvent, Request, looks_of, only_silence, prepare, required, start_instance
from modelzoo.measure.process import Remote, each_answer
from modelzoo.records.machine import CpuUsage, fingerprint
from modelzoo.records.protocol import Preparation, Progress
from modelzoo.records.race import (
    Configuration,
    ConfigurationRun,
    Exclusion,
    ExclusionKind,
    InstanceRun,
    Stage,
    StageKind,
    Throughput,
)
from modelzoo.records.run import Observed, Run, RunReport, now
from modelzoo.records.serving import InstanceReport, LatencyBound, Ready, Window
from modelzoo.results import throughput as results
from modelzoo.results.counting import LEAST, NO_WINDOW, count, rate
from modelzoo.results.store import ResultFile
from modelzoo.results.throughput import Row
from modelzoo.setting import labels
from modelzoo.stats import race
from modelzoo.stats.latency_bound import samples_for
from modelzoo.stats.race import Choice
from modelzoo.tuning.search import Driver

SETTLING_SECONDS = 1.0
"""How long all instances run together before the counted run."""
LEAST_SECONDS = 5.0
"""A counted run is no shorter than this."""
BOUND_SAMPLES = 3
"""With a bound, all instances together complete so many times as many batches as its percentile takes …"""
BOUND_SECONDS, MOST_BOUND_SECONDS = 20.0, 60.0
"""… in 20 seconds at least, because the speed of a machine wanders over seconds, and in a minute at most."""
MARGIN = 1.3
"""The counted run is longer than ``LEAST`` batches of the slowest instance took before by this factor: the machine may
slow down meanwhile."""
LEAD_SECONDS = 0.1
"""How far ahead the common start is: commands to all instances take less than a millisecond each."""
T = TypeVar("T")


RoundResult = tuple[ConfigurationRun, RunReport | None]
"""A round of a configuration, and what its first instance reported of itself if it was asked to."""


@dataclass
class Task:
    """A round of a configuration: what is to be run, and its instances, alive at the same time.

    Attributes:
        request: the workload and its settings.
        prepared: the settings as resolved.
        configuration: which instances of which setting.
        index: of the configuration.
        number: of the round.
        seconds: length of the counted run; ``None``: as long as ``LEAST`` batches of each instance take, and as it
            takes to see whether the bound is met.
        extras: have the first instance audit itself in full and report everything.
        bound: what the latency has to meet; ``None`` if there is none.
    """

    request: Request
    prepared: Sequence[Preparation]
    configuration: Configuration
    index: int
    number: int
    seconds: float | None
    extras: bool
    bound: LatencyBound | None = None
    _problems: dict[int, ModelzooError] = field(default_factory=dict)
    _instances: dict[int, Remote] = field(default_factory=dict)
    _started: float = 0.0

    def run(self, on_event: OnEvent) -> RoundResult:
        """Run the configuration once. What goes wrong in an instance is part of the outcome.

        Args:
            on_event: called with the progress of the first instance and of all together.
        """
        begun = now()
        with ExitStack() as stack:
            self._start(on_event, stack)
            ready = self._wait(Ready)
            batch_seconds = max((each.times[self.configuration.batch] for each in ready.values()), default=0.0)
            windows, usage = self._count(batch_seconds, on_event)
            reports = self._finish()
        return self._outcome(begun, windows, usage, reports), reports[0].context if 0 in reports else None

    def _start(self, on_event: OnEvent, stack: ExitStack) -> None:
        group = self.configuration.group
        for number, place in enumerate(self.configuration.places):
            listener = on_event if number == 0 else only_silence(on_event)
            try:
                instance = start_instance(self.request, group, self.prepared[group], place, listener, self.number)
                self._instances[number] = stack.enter_context(instance)
            except ModelzooError as problem:
                self._problems[number] = problem
                break  # the others would fail alike

    @property
    def _is_whole(self) -> bool:
        """Whether all instances are alive."""
        return len(self._instances) == self.configuration.instances and not self._problems

    def _count(self, batch_seconds: float, on_event: OnEvent) -> tuple[dict[int, Window], CpuUsage | None]:
        """Let all run together, first to see how long a batch takes then; return what they did in the counted run."""
        settled = self._together(max(SETTLING_SECONDS, 2 * batch_seconds), "settling", on_event)
        times = ([b - a for a, b in zip(each.started, each.ended)] for each in settled.values())
        medians = [median(each) for each in times if each]
        slowest = max(medians, default=0.0)
        # One batch more opens the window, and another may run when it closes.
        wanted, bound = max(LEAST_SECONDS, MARGIN * (LEAST + 2) * slowest), self.bound
        if bound is not None:
            batches = BOUND_SAMPLES * samples_for(bound.percentile) / self.configuration.instances
            for_bound = max(BOUND_SECONDS, MARGIN * (batches + 2) * slowest)
            wanted = max(wanted, min(MOST_BOUND_SECONDS, for_bound))
        if not medians or not self._is_whole:
            return {}, None
        monitor = CpuUsageMonitor()
        windows = self._together(wanted if self.seconds is None else self.seconds, "counting", on_event)
        return windows, monitor.stop()

    def _together(self, seconds: float, phase: str, on_event: OnEvent) -> dict[int, Window]:
        """Let all instances run for ``seconds`` from one common start; empty if one of them is missing."""
        if not self._is_whole:
            return {}
        progress = Progress(f"{self.configuration.name}, round {self.number + 1}: {phase}")
        label = labels(self.request.settings)[self.configuration.group]
        on_event(Event(self.request.workload.name, label, self.number, progress))
        self._started = monotonic() + LEAD_SECONDS + 1e-3 * len(self._instances)
        end = self._started + seconds
        for instance in self._instances.values():
            instance.send("window", self._started, end, since=end, phase="serve")
        return self._wait(Window)

    def _finish(self) -> dict[int, InstanceReport]:
        """Let those that are alive look at what they ran, and end."""
        if not self._is_whole:
            return {}
        for number, instance in self._instances.items():
            instance.send("finish", looks_of(self.request, number, extras=self.extras), last=True)
        return self._wait(InstanceReport)

    def _wait(self, kind: type[T]) -> dict[int, T]:
        """Wait for one answer of each instance, in whatever order they come; one that died has none."""
        found: dict[int, T] = {}
        for number, answer in each_answer(self._instances, kind):
            if isinstance(answer, ModelzooError):
                self._problems[number] = answer
                del self._instances[number]
                if kind is Ready:
                    break  # without all of them nothing can be measured
            else:
                found[number] = answer
        return found

    def _outcome(
        self, begun: str, windows: dict[int, Window], usage: CpuUsage | None, reports: dict[int, InstanceReport]
    ) -> ConfigurationRun:
        """Put together what is known of every instance."""
        configuration = self.configuration
        whole = len(windows) == configuration.instances
        series = [windows[number] for number in sorted(windows)]
        window_seconds, counted = count(series) if whole else (None, ((),) * len(configuration.places))
        last = max((each.ended[-1] for each in series if each.ended), default=None)
        instances = []
        for number, place in enumerate(configuration.places):
            problem, window, report = self._problems.get(number), windows.get(number), reports.get(number)
            ran = window if window is not None and window.started else None
            latencies = tuple(round(value, 6) for value in counted[number])
            observed = Observed() if report is None else report.observed
            instances.append(
                InstanceRun(
                    place=place,
                    batches=0 if ran is None else len(ran.ended),
                    counted=len(latencies),
                    latencies=latencies,
                    start=None if ran is None else ran.started[0] - self._started,
                    memory=None if ran is None else ran.memory,
                    peak_memory=None if report is None else report.peak_memory,
                    placement=None if report is None else report.placement,
                    kernels=None if observed.kernels is None else observed.kernels.sha256,
                    canary_verdict=observed.canary_verdict,
                    error=None if problem is None else str(problem),
                    error_kind=None if problem is None else type(problem).__name__,
                )
            )
        return ConfigurationRun(
            configuration=self.index,
            round=self.number,
            started=begun,
            ended=now(),
            instances=tuple(instances),
            window=window_seconds,
            seconds=None if last is None else last - self._started,
            usage=usage,
        )


def worker_problem(run: ConfigurationRun) -> str | None:
    """Why a configuration cannot run at all; ``None`` if it ran, or if a process died, which may not happen again."""
    found = [each for each in run.instances if each.error is not None]
    if not found or any(each.error_kind == WorkerError.__name__ for each in found):
        return None
    return found[0].error


def least_effort(found: Throughput, seconds: float | None) -> tuple[int, float]:
    """Return how often configurations are run at least, and how many seconds they run together in all of that.

    Args:
        found: before anything has run.
        seconds: length of a counted run; ``None``: as long as enough batches take.
    """
    count, rounds = len(found.configurations), found.rounds
    stages = race.sizes(count) if found.is_search else [count]
    runs = sum(size * (number + 1) for number, size in enumerate(stages[:-1])) + stages[-1] * rounds
    runs += rounds if count > 1 else 0
    counted = (LEAST_SECONDS if found.bound is None else BOUND_SECONDS) if seconds is None else seconds
    return runs, runs * (SETTLING_SECONDS + counted)


@dataclass
class Search(Driver[Throughput]):
    """The measurement of all configurations of one workload, which are halved only if that is what was asked for.

    Attributes:
        stored: the result so far, which holds the configurations.
        request: the workload and the distinct settings of its configurations.
        seconds: length of a counted run; ``None``: as long as enough batches take.
        on_event: called with the progress of instances.
        on_run: called with each round of a configuration that has ended.
    """

    request: Request
    seconds: float | None
    on_event: OnEvent
    on_run: Callable[[ConfigurationRun], None] = lambda run: None
    _prepared: tuple[Preparation, ...] = ()

    @property
    def found(self) -> Throughput:
        return results.of(self.stored.result)

    def prepare(self) -> None:
        """Exclude what cannot run; raises ``ModelzooError`` if that is everything."""
        self._prepared = prepare(self.request, self.on_event)
        errors = [(index, self._prepared[each.group].error) for index, each in enumerate(self.found.configurations)]
        self.exclude(*(Exclusion(index, ExclusionKind.FAILED, error) for index, error in errors if error is not None))
        if not self.found.open():
            required(self._prepared[self.found.configurations[0].group])

    def sizes(self, entrants: int) -> Sequence[int]:
        return race.sizes(entrants) if self.found.is_search else [entrants]

    def rounds(self, entrants: Sequence[int], number: int, left: int) -> int:
        return self.found.rounds if left == 1 else number + 1

    def next_round(self) -> int:
        return 1 + max((run.round for run in self.found.runs), default=-1)

    def _rows(self) -> list[Row]:
        return [row for row in results.rows(self.stored.result) if row.is_final and row.throughput is not None]

    def ranked(self) -> Sequence[int]:
        """What meets the bound first, the fastest of it first."""
        order = sorted(self._rows(), key=lambda row: (not row.is_over, race.speed(row.logs)), reverse=True)
        return [row.index for row in order]

    def behind(self, entrant: int) -> ExclusionKind | None:
        """A single instance that others are compared with stays, and is measured in the last stage only with them."""
        rows = self._rows()
        if entrant in {results.single(self.found, row.index) for row in rows}:
            return None
        is_over = any(row.is_over for row in rows if row.index == entrant)
        return ExclusionKind.OVER_BOUND if is_over else ExclusionKind.SLOWER

    def choose(self) -> Choice | None:
        rows = results.rows(self.stored.result)
        return results.choice(rows, self.found.bound) if results.is_choice(rows) else None

    def confirmation(self, choice: Choice) -> Stage:
        """The best configuration in as many rounds again, beside the single instance that it is compared with."""
        single = results.single(self.found, choice.winner)
        is_timed = any(row.index == single and row.throughput is not None for row in results.rows(self.stored.result))
        baseline = (single,) if single is not None and is_timed else ()
        return self.begin(StageKind.CONFIRMATION, (*baseline, choice.winner), self.found.rounds)

    def measure(self, stage: Stage) -> None:
        """Run the configurations of a stage once in each round, in alternating order."""
        for number in range(stage.first_round, stage.first_round + stage.rounds):
            order = [
                index for index in stage.entrants if stage.kind is StageKind.CONFIRMATION or index in self.found.open()
            ]
            for index in order if number % 2 == 0 else reversed(order):
                self._run_once(index, number)

    def _run_once(self, index: int, number: int) -> None:
        if (needed := self._needed(index)) > (available := available_memory()):
            self.exclude(Exclusion(index, ExclusionKind.TOO_LARGE, needed=needed, available=available))
            return
        found, configuration = self.found, self.found.configurations[index]
        needs_context = results.context(self.stored.result, configuration.group) is None
        task = Task(
            self.request, self._prepared, configuration, index, number, self.seconds, needs_context, found.bound
        )
        run, context = task.run(self.on_event)
        self.update(runs=(*found.runs, run))
        if context is not None:
            requested = self.stored.result.requested[configuration.group]
            self.stored.add(
                Run(
                    workload=requested.workload,
                    group=configuration.group,
                    requested=requested.setting,
                    round=number,
                    started=run.started,
                    ended=run.ended,
                    report=_of_whole_machine(context, found),
                )
            )
        problem = worker_problem(run)
        if problem is not None:
            self.exclude(Exclusion(index, ExclusionKind.FAILED, problem))
        self.on_run(run)

    def _needed(self, index: int) -> int:
        """How much memory the instances need, by what those of other rounds occupied; 0 if that is not known."""
        found, own = self.found, self.found.configurations[index]
        known = [0]
        for run in found.runs:
            if found.configurations[run.configuration].batch != own.batch:
                continue
            for each in run.instances:
                # What only this instance occupied; all of it if what it shared is not known.
                if each.placement is not None and each.placement.memory:
                    known.append(sum(node.private for node in each.placement.memory))
                elif each.peak_memory is not None:
                    known.append(each.peak_memory)
        return own.instances * max(known)


def _of_whole_machine(report: RunReport, found: Throughput) -> RunReport:
    """The report of an instance, which sees its own CPUs only, with what the whole machine may use."""
    whole = found.machine
    machine = replace(
        report.provenance.machine, threads=whole.threads, numa_allowed=whole.numa_allowed, nodes=whole.nodes
    )
    provenance = replace(report.provenance, machine=machine, fingerprint=fingerprint(machine))
    return replace(report, provenance=provenance, ceilings=found.ceilings)


def failure(stored: ResultFile) -> ModelzooError | None:
    """The error of a measurement in which nothing ran; ``None`` if anything did."""
    found = results.of(stored.result)
    if any(rate(run, found.configurations[run.configuration].batch) is not None for run in found.runs):
        return None
    errors = [each for run in found.runs for each in run.instances if each.error is not None]
    if errors:
        return KINDS.get(errors[0].error_kind or "", ModelzooError)(errors[0].error)
    for each in found.excluded:
        if each.problem is not None:
            return ModelzooError(each.problem)
    return UsageError(NO_WINDOW) if found.runs else None
