"""Instances, which are worker processes that serve batches on CPUs of their own, and what ``modelzoo load`` measured of
them: runs under load, each with its verdict.

All times that instances answer are seconds of ``time.monotonic``, one clock for all processes of a machine since it was
started. Scenarios and verdicts have the meaning and the names of MLPerf Inference (``TestScenario`` in
``test_settings.h`` and ``PerformanceSummary`` in ``results.cc``,
https://github.com/mlcommons/inference/tree/master/loadgen).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from modelzoo.frozen import Message, Public, Word, replace
from modelzoo.records.machine import CpuUsage, Machine, Placement, Seconds, Throttling, Topology
from modelzoo.records.run_report import Observed, RunReport


class LatencyBound(msgspec.Struct, frozen=True):
    """A percentile of the latencies must not be over a limit.

    Attributes:
        percentile: over 0 and under 100: 99 stands for p99.
        seconds: the limit.
    """

    percentile: Annotated[float, msgspec.Meta(gt=0, lt=100)]
    seconds: Annotated[float, msgspec.Meta(gt=1e-12, lt=1e9)]

    @property
    def text(self) -> str:
        """As it is written on the command line: ``p99=50ms``.

        >>> LatencyBound(99.9, 0.0125).text
        'p99.9=12.5ms'
        """
        return f"{self.name}={self.seconds * 1e3:.10g}ms"

    @property
    def name(self) -> str:
        """Of the percentile: ``p99``."""
        return f"p{self.percentile:.10g}"


class InstanceReport(msgspec.Struct, frozen=True):
    """What an instance reports at its end.

    Attributes:
        placement: where it ran, as it was at the end.
        observed: what was looked at in the end: the canary, and the kernels of a pass.
        peak_memory: the most bytes that it occupied while it served.
        usage: how busy the CPUs of its affinity mask were from its first command on; ``own_cores`` is its own work.
        import_seconds: time to import the engine and the workload's libraries.
        build_seconds: time to build the model and load its weights.
        cold_start: seconds of the very first batch.
        warmup: seconds of the batches of its warm-up, of the setting's batch size.
        context: what a run reports, without timing: the setting, the machine, the libraries …; only from an instance
            that was asked for extras.
    """

    placement: Placement
    observed: Observed
    peak_memory: int
    usage: CpuUsage
    import_seconds: float
    build_seconds: float
    cold_start: float
    warmup: tuple[float, ...]
    context: RunReport | None = None


class Ready(msgspec.Struct, frozen=True):
    """An instance has loaded its model, is warmed up and waits to be called, without using a CPU.

    Attributes:
        placement: where it runs.
        times: the median seconds of the last batches of its warm-up, by batch size; the setting's comes first.
    """

    placement: Placement
    times: dict[int, float]


class Window(msgspec.Struct, frozen=True):
    """Batches that were run back to back, in order.

    Attributes:
        started: of each batch.
        ended: of each batch.
        memory: bytes that the process occupies after the last one; ``None`` if the system does not say.
    """

    started: tuple[float, ...]
    ended: tuple[float, ...]
    memory: int | None = None


class BatchDone(msgspec.Struct, frozen=True):
    """When the forward pass of a batch began and ended."""

    started: float
    ended: float


Rate = Annotated[float, msgspec.Meta(gt=0, lt=1e9)]
"""Requests per second."""


class Scenario(Word):
    """``SERVER``: requests arrive in a Poisson process. ``OFFLINE``: all requests are there at the start.
    ``SINGLE_STREAM``: the next request is sent when the last one was answered."""

    SERVER = "server"
    OFFLINE = "offline"
    SINGLE_STREAM = "single-stream"


class Flaw(Word):
    """Why a run is INVALID.

    The first two say that the load was too high, the others that the run says nothing about that.
    """

    BOUND = "bound not met"
    REJECTED = "requests rejected"
    TOO_FEW = "too few requests"
    LATE = "generator late"
    DIED = "instance died"


OVERLOAD = (Flaw.BOUND, Flaw.REJECTED)
"""The flaws of a run under too high a load."""


class InvalidReason(msgspec.Struct, frozen=True):
    """One reason why a run is INVALID.

    Attributes:
        flaw: its kind; the run has most of the figures.
        instance: the one that died.
        over: requests that took longer than the bound, or were rejected; ``None`` if they are not the reason.
        allowed: of a search, how many may take longer, for the run to show the bound.
        dependence: so many neighbours count as one, because they wait in the same queue.
        needed: about how many requests would show the bound, should as large a share of them be over it; ``None`` if
            that cannot be said.
    """

    flaw: Flaw
    instance: int | None = None
    over: int | None = None
    allowed: int | None = None
    dependence: float | None = None
    needed: int | None = None


class LoadPlan(msgspec.Struct, frozen=True):
    """What was asked for. Times in seconds.

    Attributes:
        scenario: how requests arrive.
        instances: number of instances.
        cores_per_instance: of each.
        batch: most requests of a batch.
        max_wait: how long a request may wait for others to share its batch while an instance is idle.
        queue: most requests that wait; a further one is rejected.
        rate: requests per second; ``None`` if it is searched, or the scenario has none.
        bound: on a percentile of the latency; ``None`` if there is none.
        is_search: whether the highest rate is searched that meets the bound.
        repeats: how often everything is repeated with new instances.
        queries: minimum number of requests of a run; ``None``: follows from the bound.
        duration: minimum time from the start of a run to its last arrival; ``None``: likewise.
        seed: of the schedules.
    """

    scenario: Scenario
    instances: int
    cores_per_instance: int
    batch: int
    max_wait: float
    queue: int
    rate: float | None = None
    bound: LatencyBound | None = None
    is_search: bool = False
    repeats: int = 1
    queries: int | None = None
    duration: float | None = None
    seed: int = 0


class GeneratorPlace(msgspec.Struct, frozen=True):
    """Where the generator and the queue run.

    Attributes:
        cpus: the logical CPUs of the generator's process.
        is_own: whether no instance uses the cores of these CPUs; otherwise the instances use all cores.
        nice: its niceness; negative if the system lets it go before other programs.
        has_quota: whether the control group's quota leaves the generator a CPU beside those of the instances; also
            true without a quota.
    """

    cpus: tuple[int, ...]
    is_own: bool
    nice: int = 0
    has_quota: bool = True

    @property
    def polls(self) -> bool:
        """Whether it never sleeps, which takes all the time of a CPU that nobody else needs."""
        return self.is_own and self.has_quota


class Calibration(msgspec.Struct, frozen=True):
    """What full batches take while all instances are busy, measured before the first run. Times in seconds.

    Attributes:
        size: requests of each batch.
        seconds: of each batch, by the instances' own clocks.
        rate: requests per second that were answered.
    """

    size: int
    seconds: Annotated[tuple[float, ...], msgspec.Meta(min_length=1)]
    rate: Rate


class LoadSession(msgspec.Struct, frozen=True):
    """The instances of one repeat.

    Attributes:
        repeat: number of the repeat, from 0.
        started: when the instances were started; UTC, ISO 8601.
        cpus: the logical CPUs of each instance.
        generator: where the generator ran.
        calibration: what full batches took.
        reports: what the instances reported at their end; empty if they were ended before.
    """

    repeat: int
    started: Public
    cpus: tuple[tuple[int, ...], ...]
    generator: GeneratorPlace
    calibration: Calibration
    reports: tuple[InstanceReport, ...] = ()


class BatchCount(msgspec.Struct, frozen=True):
    """How many batches had so many requests."""

    size: int
    count: int


class InstanceUse(msgspec.Struct, frozen=True):
    """What one instance did in a run.

    Attributes:
        batches: that it answered.
        busy_seconds: in which it ran them, by its own clock.
        error: why it died; ``None`` if it did not.
    """

    batches: int
    busy_seconds: Seconds
    error: Message | None = None


class Lateness(msgspec.Struct, frozen=True):
    """How late the generator took requests after their scheduled arrivals, in seconds.

    Attributes:
        median: of all requests.
        p99: the same by nearest rank, the largest if there are fewer than 100.
        largest: of all.
        limit: the p99 up to which the run is valid.
    """

    median: float
    p99: float
    largest: float
    limit: float


class LoadRun(msgspec.Struct, frozen=True):
    """One run under load. Times in seconds.

    Attributes:
        repeat: number of the repeat that it belongs to, from 0.
        rate: requests per second of its schedule; ``None`` if there is no schedule.
        seed: of the schedule, beside that of the plan. The runs of a search in one repeat share it.
        started: when it began; UTC, ISO 8601.
        requests: how many were scheduled.
        seconds: from the start of the schedule to the last reply.
        latencies: from the scheduled arrival of a request to the generator's receipt of the reply, in the order of
            arrival, rounded to microseconds; only of requests that were answered.
        rejected: requests that found the queue full.
        lateness: of the generator.
        batches: how large the batches were.
        padded: items that were computed only to fill batches up to a fixed size.
        uses: what each instance did.
        reasons: why it is INVALID; empty: it is VALID.
        given_up: whether it ended early, because it could not meet the bound any more.
        throttling: how the quota of the generator's control group stopped its processes during the run, which the
            instances are among unless they are in containers; ``None`` if there is no quota.
    """

    repeat: int
    rate: Rate | None
    seed: int
    started: Public
    requests: int
    seconds: Seconds
    latencies: tuple[Seconds, ...]
    rejected: int
    lateness: Lateness
    batches: tuple[BatchCount, ...]
    padded: int
    uses: tuple[InstanceUse, ...]
    reasons: tuple[InvalidReason, ...] = ()
    given_up: bool = False
    throttling: Throttling | None = None

    @property
    def is_valid(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons

    @property
    def is_overload(self) -> bool:
        """Whether the load was too high; a run that is INVALID for other reasons says nothing about it."""
        return bool(self.reasons) and all(each.flaw in OVERLOAD for each in self.reasons)


class Load(msgspec.Struct, frozen=True, tag="load"):
    """A measurement under load, as far as it has come.

    Attributes:
        workload: the workload's name.
        unit: what a request is, for example ``images``.
        machine: the machine.
        topology: its cores.
        plan: what was asked for.
        fixed_size: the only batch size that the instances can run, to which smaller batches are padded; ``None``: they
            run batches of any size.
        sessions: the instances of each repeat.
        runs: in the order in which they ended.
        is_complete: whether it ended as planned.
    """

    workload: Public
    unit: Public
    machine: Machine
    topology: Topology
    plan: LoadPlan
    fixed_size: int | None = None
    sessions: tuple[LoadSession, ...] = ()
    runs: tuple[LoadRun, ...] = ()
    is_complete: bool = False

    def plus(self, run: LoadRun) -> Load:
        """Return a copy with ``run`` appended."""
        return replace(self, runs=(*self.runs, run))

    def plus_session(self, session: LoadSession) -> Load:
        """Return a copy with ``session`` in place of an earlier one of its repeat."""
        kept = [each for each in self.sessions if each.repeat != session.repeat]
        return replace(self, sessions=(*kept, session))
