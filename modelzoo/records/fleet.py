"""Several processes or hosts: a data set that they judge in shards, and what is stored of a fleet: its hosts, how they
divided the data set, and which of one kind is odd.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from modelzoo.frozen import PUBLIC, Message, Public
from modelzoo.records.partial import PartialResult
from modelzoo.records.run_report import Provenance, SideReport
from modelzoo.records.validity import ValidityRequest
from modelzoo.setting import Setting


class Shard(msgspec.Struct, frozen=True):
    """Consecutive items of a data set, cut between batches.

    Attributes:
        number: position among the shards, from 0.
        start: index of the first item.
        stop: index after the last item.
        identity: SHA-256 of everything that its predictions depend on, without the contents of images. Equal on every
            host that would judge the same. Files are named after it.
    """

    number: int
    start: int
    stop: int
    identity: Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z]+\Z")]

    @property
    def items(self) -> int:
        """Number of its items."""
        return self.stop - self.start


class ShardPlan(msgspec.Struct, frozen=True):
    """How a data set is divided. Every host makes the plan by itself, and all must agree.

    Attributes:
        facts: what all shards depend on, by name: the setting, weights, versions, the data set. If two hosts do not
            agree, they say what differs.
        item_name: what is counted: ``picture``, ``question``.
        shards: in the order of their items.
    """

    facts: dict[str, str]
    item_name: str
    shards: Annotated[tuple[Shard, ...], msgspec.Meta(min_length=1)]

    @property
    def items(self) -> int:
        """Number of items of the data set."""
        return self.shards[-1].stop


class JudgedBy(msgspec.Struct, frozen=True):
    """The process that judged a shard, with the proof of what both of its models ran.

    Attributes:
        session: an id of the process. A shard that two processes judged has two.
        host: the name of its host.
        tested: the model under test. reference: the fp32 model.
        provenance: what it ran with, and on what.
    """

    session: str
    host: str
    tested: SideReport
    reference: SideReport
    provenance: Provenance


class ShardResult(msgspec.Struct, frozen=True):
    """What judging one shard gave; a file of its own on the disk of the host.

    Attributes:
        content: SHA-256 of the files of its items, as they were when it was judged; empty if the items have none.
        result: the comparison of each item.
        seconds: wall-clock time, without loading the models.
    """

    shard: Shard
    content: str
    result: PartialResult
    by: JudgedBy
    seconds: float = 0.0


class ShardedCall(msgspec.Struct, frozen=True):
    """What is judged in shards, wherever that is.

    Attributes:
        workload: name of a workload that comes with the suite, or the absolute path of its directory.
        setting: with absolute paths.
        request: the data and the thresholds.
        shard_items: items per shard; ``None``: a hundredth of them.
        timeout: seconds that a call of the model may take; ``None``: any.
    """

    workload: str
    setting: Setting
    request: ValidityRequest
    shard_items: int | None = None
    timeout: float | None = None


class JudgedPart(msgspec.Struct, frozen=True, tag="modelzoo-part/2", tag_field="format"):
    """A file of ``modelzoo validate --shard NUMBER/COUNT``.

    Attributes:
        call: what was judged.
        number: from 1. count: number of parts.
        facts: what the predictions depend on (``ShardPlan.facts``).
        results: its shards.
    """

    call: ShardedCall
    number: int
    count: int
    facts: dict[str, str]
    results: tuple[ShardResult, ...]


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


Uncompared = Annotated[
    Literal[
        "nothing was measured", "fewer than three hosts", "fewer than three were timed", "no setting was timed on three"
    ],
    PUBLIC,
]
"""Why hosts of a kind were not compared."""


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
