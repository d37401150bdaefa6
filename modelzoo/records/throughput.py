"""Many instances on one host: what was planned, and what each instance did in each round."""

from __future__ import annotations

import msgspec

from modelzoo.frozen import Message, Public, Word
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.machine import CpuUsage, Machine, Placement, Positive, Seconds, Topology
from modelzoo.records.profile import Ceilings
from modelzoo.records.race import Race
from modelzoo.records.serving import LatencyBound
from modelzoo.records.timing import Time


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
