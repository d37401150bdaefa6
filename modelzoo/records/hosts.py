"""What is stored of a fleet: its hosts, how they divided a data set, and which of one kind is odd."""

from __future__ import annotations

import msgspec

from modelzoo.frozen import Message, Public, Word


class HostLevel(msgspec.Struct, frozen=True):
    """How the latency of one host relates to that of the other hosts of its kind.

    Attributes:
        host: its name.
        subject: the workload and setting; empty for the mean over all of them.
        ratio: its latency ÷ the geometric mean of the others'. low, high: the 95 % interval; 0 and a number over 10⁹ if
            it is unbounded.
        p_value: of the hypothesis that it is one of the others, corrected for all hosts and settings; 1 if it certainly
            differs by less than matters.
        odd: whether that hypothesis is rejected.
    """

    host: str
    subject: str
    ratio: float
    low: float
    high: float
    p_value: float
    odd: bool


class HostDifference(msgspec.Struct, frozen=True):
    """A condition of a straggler that no other host of its kind has: ``governor``, ``powersave``, ``performance``.

    Each value is that of a process, or several if they differ.
    """

    host: str
    name: str
    here: tuple[str, ...]
    others: tuple[str, ...]


class Uncompared(Word):
    """Why hosts of a kind were not compared."""

    NOT_MEASURED = "nothing was measured"
    FEW_HOSTS = "fewer than three hosts"
    FEW_TIMED = "fewer than three were timed"
    NO_COMMON_SETTING = "no setting was timed on three"


class NotTimed(msgspec.Struct, frozen=True):
    """Hosts that lack what others of their kind have; ``subject``: the workload and setting, ``None``: all of them."""

    hosts: tuple[str, ...]
    subject: str | None = None


class HostKind(msgspec.Struct, frozen=True):
    """The hosts of one kind: processor, cores, caches, memory.

    Attributes:
        name: the processor and its cores.
        hosts: their names.
        levels: each host against the others: first the means over the settings that all hosts have, then each setting;
            empty if there are fewer than three hosts.
        differences: of the stragglers, the most decisive first.
        missing: what was not timed on all of these hosts.
        unlike: what tells these hosts from those of the largest kind; empty for that kind.
        spread: standard deviation by which hosts of this kind differ, as a fraction; ``None`` if no setting was timed
            on all of them.
        uncompared: why the hosts were not compared; ``None`` if they were.
    """

    name: str
    hosts: tuple[str, ...]
    levels: tuple[HostLevel, ...] = ()
    differences: tuple[HostDifference, ...] = ()
    spread: float | None = None
    uncompared: Uncompared | None = None
    missing: tuple[NotTimed, ...] = ()
    unlike: tuple[HostDifference, ...] = ()


class FleetComparison(msgspec.Struct, frozen=True):
    """What ``modelzoo fleet run`` found: every host, and those of each kind compared.

    Attributes:
        hosts: failed ones included.
        kinds: the largest first.
    """

    hosts: tuple[FleetHost, ...]
    kinds: tuple[HostKind, ...]


class FleetHost(msgspec.Struct, frozen=True):
    """One host of a fleet.

    Attributes:
        host: its name.
        items: number of items that it judged.
        seconds: wall-clock time of judging them, without loading the models.
        problem: why it has no result; empty if it has one, or judged.
        result: the file that holds its result; ``None`` if it judged.
    """

    host: str
    items: int = 0
    seconds: float = 0.0
    problem: Message = ""
    result: str | None = None


class PrecisionDifference(msgspec.Struct, frozen=True):
    """Two processes whose proofs of the precision differ, so that their predictions do not have the same precision.

    Attributes:
        of_reference: whether it is the reference's precision, not that of the model under test.
        check: ``canary`` or ``audit``.
        host: of one process. verdict: what the check says there; ``None`` if it was not made.
        first_host: of the process that judged the first shard. first_verdict: likewise.
    """

    of_reference: bool
    check: Public
    host: str
    verdict: Public | None
    first_host: str
    first_verdict: Public | None


class ShardingReport(msgspec.Struct, frozen=True):
    """How a data set was judged in shards, by several processes.

    Attributes:
        group: index in ``Result.requested`` of what was judged.
        item_name: what is counted: ``picture``, ``question``.
        items: number of items of the data set.
        shards: number of its shards.
        reused: those that an earlier call had finished.
        hosts: who judged them, in the order of their first shards.
        processors: the processors of the hosts whose shards count.
        otherwise: the processes whose proof of the precision is not that of the process that judged the first shard.
    """

    group: int
    item_name: Public
    items: int
    shards: int
    reused: int = 0
    hosts: tuple[FleetHost, ...] = ()
    processors: tuple[Public, ...] = ()
    otherwise: tuple[PrecisionDifference, ...] = ()
