"""Races: what was measured in which stage, what was excluded and why, and what was chosen; and the two kinds of them.

The entrants are numbered: the settings of a search (``modelzoo tune``), as indices in ``Result.requested``, or the
configurations of instances that work at the same time (``modelzoo throughput``).
"""

from __future__ import annotations

import msgspec

from modelzoo.frozen import Argument, Message, Public, Word
from modelzoo.plan import Goal
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.machine import CpuUsage, Machine, Placement, Positive, Seconds, Topology
from modelzoo.records.profile import Ceilings
from modelzoo.records.serving import LatencyBound
from modelzoo.records.timing import Time
from modelzoo.stats.race import Choice


class StageKind(Word):
    """``PROBE``: the default setting alone. ``SEARCH``: entrants, of which the slower ones are excluded.
    ``CONFIRMATION``: what was chosen, measured again in new processes."""

    PROBE = "probe"
    SEARCH = "search"
    CONFIRMATION = "confirmation"


class Stage(msgspec.Struct, frozen=True):
    """One stage of a race.

    Attributes:
        kind: what it is for.
        entrants: what takes part; what the others are compared with comes first, if it takes part.
        rounds: number of rounds that are planned; the default setting has one more for each further block.
        seconds: how long each process samples; ``None``: as long as enough batches take.
        first_round: number of its first round.
    """

    kind: StageKind
    entrants: tuple[int, ...]
    rounds: int
    seconds: float | None
    first_round: int


class ExclusionKind(Word):
    """Why an entrant cannot win. Most of what shows it is in the result: its runs, or its judgement."""

    FAILED = "failed"
    WRONG_OUTPUTS = "wrong outputs"
    UNPROVEN = "unproven"
    NOT_VALID = "not valid"
    NOT_JUDGED = "not judged"
    NO_JUDGE = "no judge"
    RANDOM_WEIGHTS = "random weights"
    NO_CONVOLUTION = "no convolution"
    NO_LINEAR = "no linear layer"
    FEW_PRIMITIVES = "few primitives"
    NOT_MEASURED = "not measured"
    TOO_LARGE = "too large"
    OVER_BOUND = "over bound"
    SLOWER = "slower"


class Exclusion(msgspec.Struct, frozen=True):
    """An entrant that is measured no further.

    Attributes:
        entrant: its number.
        kind: why.
        problem: why a configuration cannot run.
        needed: of one that is too large, the bytes of memory that its instances would need …
        available: … and those that were available.
    """

    entrant: int
    kind: ExclusionKind
    problem: Message | None = None
    needed: int | None = None
    available: int | None = None


class Race(msgspec.Struct, frozen=True, kw_only=True):
    """A race, as far as it has come.

    Attributes:
        stages: the stages so far.
        excluded: the entrants that are out, in this order.
        choice: what was chosen; ``None`` while the race goes on, or if there is nothing to choose.
        is_complete: whether it ended as planned.
    """

    stages: tuple[Stage, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    choice: Choice | None = None
    is_complete: bool = False

    @property
    def entrants(self) -> range:
        """The numbers of all entrants."""
        raise NotImplementedError

    def stage(self, kind: StageKind) -> Stage | None:
        """The first stage of this kind."""
        return next((each for each in self.stages if each.kind is kind), None)

    def open(self) -> tuple[int, ...]:
        """The entrants that are not out."""
        out = {each.entrant for each in self.excluded}
        return tuple(each for each in self.entrants if each not in out)


PRIMITIVES = 1024
"""oneDNN keeps so many primitives unless it is told otherwise (source: its developer guide, "Primitive Cache")."""


class Obstacle(Word):
    """Why the grid does not contain something on this machine. ``FIXED``: the call says another value."""

    UNAVAILABLE = "unavailable"
    NOT_INSTALLED = "not installed"
    NO_BF16 = "no bf16 instructions"
    NO_DATA = "no data to judge with"
    ONE_CORE = "one core"
    ONE_HARDWARE_THREAD = "one hardware thread"
    QUOTA = "quota"
    FIXED = "fixed"


class LeftOut(msgspec.Struct, frozen=True):
    """Something that the grid does not contain on this machine.

    Attributes:
        field: of ``Setting``.
        value: in the notation of ``--vary``; ``None``: all values.
        obstacle: why not.
        problem: the error, if it is unavailable.
    """

    field: Public
    value: Argument | None
    obstacle: Obstacle
    problem: Message | None = None


class Tuning(Race, frozen=True, tag="tuning"):
    """A search, as far as it has come.

    Attributes:
        workload: the workload's name.
        goal: what is to be fast.
        budget: seconds of wall time.
        candidates: number of settings of the grid, the default included: the first ones of ``Result.requested``.
        left_out: what the grid does not contain on this machine.
        allow_unjudged: whether a bf16 setting may win although its predictions were not judged.
        varied: the values of ``--vary``, if they replaced the grid.
        spent: seconds of wall time so far.
    """

    workload: Public
    goal: Goal
    budget: float
    candidates: int
    left_out: tuple[LeftOut, ...] = ()
    allow_unjudged: bool = False
    varied: tuple[Argument, ...] = ()
    spent: float = 0.0

    @property
    def entrants(self) -> range:
        """The candidates, without the default."""
        return range(1, self.candidates)


class Smt(Word):
    """Which hardware threads of its cores an instance uses: one of each, or all of them."""

    OFF = "off"
    ON = "on"


class InstancePlace(msgspec.Struct, frozen=True):
    """The CPUs of one instance.

    Attributes:
        cpus: their numbers.
        node: the NUMA node that they are on.
    """

    cpus: tuple[int, ...]
    node: int


class Configuration(msgspec.Struct, frozen=True):
    """So many instances of one setting, each on cores of its own.

    Attributes:
        group: the setting, as index in ``Result.requested``; its threads are those of one instance.
        instances: their number.
        cores: physical cores of each.
        batch: items of a batch.
        smt: which hardware threads they use.
        places: the CPUs of each.
    """

    group: int
    instances: Positive
    cores: Positive
    batch: Positive
    smt: Smt
    places: tuple[InstancePlace, ...]

    @property
    def name(self) -> str:
        """``4 × 2 cores, batch 1``."""
        smt = " with SMT" if self.smt is Smt.ON else ""
        return f"{self.instances} × {self.cores} core{'s' if self.cores != 1 else ''}{smt}, batch {self.batch}"


class InstanceRun(msgspec.Struct, frozen=True):
    """What one instance did in one round. Times in seconds, memory in bytes.

    Attributes:
        place: the CPUs that it was given.
        batches: batches that it completed from the barrier on.
        counted: those of them that ended inside the counted window.
        latencies: of the counted ones, in order, to the microsecond.
        start: when its first batch began, since the barrier opened.
        memory: what it occupied after its last batch; ``None`` if the system does not say.
        peak_memory: the most that it occupied while it served.
        placement: where it ran and where its memory was.
        kernels: SHA-256 of the kernels of a pass; ``None`` if they were not looked at or are not known.
        canary_verdict: what the canary shows.
        error: why it did not end as planned, in one line; ``None`` if it did.
        error_kind: class of the error in ``modelzoo.errors``.
    """

    place: InstancePlace
    batches: int = 0
    counted: int = 0
    latencies: tuple[Seconds, ...] = ()
    start: float | None = None
    memory: int | None = None
    peak_memory: int | None = None
    placement: Placement | None = None
    kernels: Public | None = None
    canary_verdict: CanaryVerdict | None = None
    error: Message | None = None
    error_kind: Public | None = None


class ConfigurationRun(msgspec.Struct, frozen=True):
    """One configuration in one round, in processes of its own.

    Attributes:
        configuration: its index.
        round: number of the round, from 0.
        started: when its first process was started; UTC, ISO 8601.
        ended: when its last one ended.
        instances: what each did, in the order of the places.
        window: length of the counted window, in which all instances ran; ``None`` if there was none.
        seconds: from the barrier to the end of the last batch.
        usage: how busy the CPUs were meanwhile; ``own_cores`` is the work of all instances.
    """

    configuration: int
    round: int
    started: Public
    ended: Public
    instances: tuple[InstanceRun, ...]
    window: Time | None = None
    seconds: float | None = None
    usage: CpuUsage | None = None

    @property
    def counted(self) -> int:
        """Batches that all instances completed inside the window."""
        return sum(each.counted for each in self.instances)


class MachinePrice(msgspec.Struct, frozen=True):
    """What the machine costs.

    Attributes:
        per_hour: price of an hour.
        currency: empty if it was not given.
        date: of the price list, ISO 8601; empty if it was given by itself.
        source: name of the price list.
    """

    per_hour: float
    currency: Public = ""
    date: Public = ""
    source: str = ""


class Throughput(Race, frozen=True, tag="throughput"):
    """What ``modelzoo throughput`` measured of one workload.

    Attributes:
        workload: the workload's name.
        unit: what a throughput counts, for example ``images``; the new ``tokens`` of a language model.
        machine: the whole machine; instances see only their own CPUs.
        topology: the cores that could be used.
        configurations: all that were asked for, or that the search began with.
        rounds: number of rounds that were planned for those that are not dropped.
        runs: in the order in which they ended.
        is_search: whether slower configurations were dropped on the way.
        bound: what the latency has to meet.
        ceilings: the measured limits of the machine, if 'modelzoo doctor' has measured them.
        price: of the machine.
        per_item: how many of these an item of a batch is: the new tokens of a prompt, and 1 of other models.
    """

    workload: Public
    unit: Public
    machine: Machine
    topology: Topology
    configurations: tuple[Configuration, ...]
    rounds: int
    runs: tuple[ConfigurationRun, ...] = ()
    is_search: bool = False
    bound: LatencyBound | None = None
    ceilings: Ceilings | None = None
    price: MachinePrice | None = None
    per_item: Positive = 1

    @property
    def entrants(self) -> range:
        """The configurations."""
        return range(len(self.configurations))
