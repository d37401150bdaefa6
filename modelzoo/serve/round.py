"""One configuration in one round: start its instances, let all of them run at the same time, and count.

1. All instances are started at once, each on its own CPUs, load the model and warm up.
2. When all are ready, they run for a second together. How long a batch takes under full load decides how long the
   counted run has to be.
3. They run again, from one common start. The parent waits for their answers without using a CPU.
4. They look at which kernels they ran, report and end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from time import monotonic
from typing import TypeVar

import msgspec

from modelzoo.errors import ModelzooError, WorkerError
from modelzoo.machine.usage import CpuUsageMonitor
from modelzoo.measure.jobs import Event, OnEvent, Request
from modelzoo.measure.process import Remote, each_answer
from modelzoo.records.machine import CpuUsage
from modelzoo.records.protocol import Preparation, Progress
from modelzoo.records.race import Configuration, ConfigurationRun, InstanceRun
from modelzoo.records.run import Observed, RunReport, now
from modelzoo.records.serving import InstanceReport, LatencyBound, Ready, Window
from modelzoo.results.counting import LEAST, count
from modelzoo.serve.servers import looks_of, start_instance
from modelzoo.setting import labels
from modelzoo.stats.latency_bound import samples_for

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


class Task(msgspec.Struct, frozen=True):
    """What is to be run.

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


def run_configuration(task: Task, on_event: OnEvent) -> RoundResult:
    """Run one configuration once. What goes wrong in an instance is part of the outcome."""
    begun = now()
    with ExitStack() as stack:
        crew = InstanceGroup(task, on_event, stack)
        windows, usage = crew.count()
        reports = crew.finish()
    return crew.outcome(begun, windows, usage, reports), reports[0].context if 0 in reports else None


class InstanceGroup:
    """The instances of one configuration, alive at the same time.

    Args:
        task: what they run.
        on_event: called with the progress of the first one and of all together.
        stack: ends them when it is closed.
    """

    def __init__(self, task: Task, on_event: OnEvent, stack: ExitStack) -> None:
        self._task, self._on_event = task, on_event
        self._label = labels(task.request.settings)[task.configuration.group]
        self._problems: dict[int, ModelzooError] = {}
        self._instances: dict[int, Remote] = {}
        self._started = 0.0
        group = task.configuration.group
        for number, place in enumerate(task.configuration.places):
            started = (task.request, group, task.prepared[group], place, on_event, task.number)
            try:
                self._instances[number] = stack.enter_context(start_instance(*started, is_first=number == 0))
            except ModelzooError as problem:
                self._problems[number] = problem
                break  # the others would fail alike
        ready = self._wait(Ready)
        batch = task.configuration.batch
        self._batch_seconds = max((each.times[batch] for each in ready.values()), default=0.0)

    @property
    def is_whole(self) -> bool:
        """Whether all instances are alive."""
        return len(self._instances) == self._task.configuration.instances and not self._problems

    def count(self) -> tuple[dict[int, Window], CpuUsage | None]:
        """Let all run together, first to see how long a batch takes then; return what they did in the counted run."""
        settled = self.together(max(SETTLING_SECONDS, 2 * self._batch_seconds), "settling")
        times = ([b - a for a, b in zip(each.started, each.ended)] for each in settled.values())
        medians = [median(each) for each in times if each]
        slowest = max(medians, default=0.0)
        # One batch more opens the window, and another may run when it closes.
        wanted, bound = max(LEAST_SECONDS, MARGIN * (LEAST + 2) * slowest), self._task.bound
        if bound is not None:
            batches = BOUND_SAMPLES * samples_for(bound.percentile) / self._task.configuration.instances
            for_bound = max(BOUND_SECONDS, MARGIN * (batches + 2) * slowest)
            wanted = max(wanted, min(MOST_BOUND_SECONDS, for_bound))
        if not medians or not self.is_whole:
            return {}, None
        monitor = CpuUsageMonitor().start()
        windows = self.together(wanted if self._task.seconds is None else self._task.seconds, "counting")
        return windows, monitor.stop()

    def together(self, seconds: float, phase: str) -> dict[int, Window]:
        """Let all instances run for ``seconds`` from one common start; empty if one of them is missing."""
        if not self.is_whole:
            return {}
        progress = Progress(f"{self._task.configuration.name}, round {self._task.number + 1}: {phase}")
        self._on_event(Event(self._task.request.workload.name, self._label, self._task.number, progress))
        self._started = monotonic() + LEAD_SECONDS + 1e-3 * len(self._instances)
        end = self._started + seconds
        for instance in self._instances.values():
            instance.send("window", self._started, end, since=end, phase="serve")
        return self._wait(Window)

    def finish(self) -> dict[int, InstanceReport]:
        """Let those that are alive look at what they ran, and end."""
        if not self.is_whole:
            return {}
        for number, instance in self._instances.items():
            instance.send("finish", looks_of(self._task.request, number, extras=self._task.extras), last=True)
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

    def outcome(
        self, begun: str, windows: dict[int, Window], usage: CpuUsage | None, reports: dict[int, InstanceReport]
    ) -> ConfigurationRun:
        """Put together what is known of every instance."""
        configuration = self._task.configuration
        whole = len(windows) == configuration.instances
        series = [windows[number] for number in sorted(windows)]
        counted = count(series) if whole else None
        last = max((each.ended[-1] for each in series if each.ended), default=None)
        instances = []
        for number, place in enumerate(configuration.places):
            problem, window, report = self._problems.get(number), windows.get(number), reports.get(number)
            ran = window if window is not None and window.started else None
            latencies = () if counted is None else tuple(round(value, 6) for value in counted.latencies[number])
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
            configuration=self._task.index,
            round=self._task.number,
            started=begun,
            ended=now(),
            instances=tuple(instances),
            window=None if counted is None else counted.seconds,
            seconds=None if last is None else last - self._started,
            usage=usage,
        )


def worker_problem(run: ConfigurationRun) -> str | None:
    """Why a configuration cannot run at all; ``None`` if it ran, or if a process died, which may not happen again."""
    found = [each for each in run.instances if each.error is not None]
    if not found or any(each.error_kind == WorkerError.__name__ for each in found):
        return None
    return found[0].error
