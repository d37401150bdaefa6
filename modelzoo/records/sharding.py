"""What is stored of a fleet: its hosts, and how they divided a data set."""

from __future__ import annotations

from typing import Optional

import msgspec


class FleetHost(msgspec.Struct, frozen=True):
    """One member of a fleet. A host that was restarted is a member each time.

    Attributes:
        rank: of torchrun.
        host: its name.
        restarts: how often torchrun had restarted it when it joined.
        items: number of items that it judged.
        seconds: wall-clock time of judging them, without loading the models.
        problem: why it did not do its part; empty if it did.
        result: the file that holds its result; ``None`` if it judged.
    """

    rank: int
    host: str
    restarts: int = 0
    items: int = 0
    seconds: float = 0.0
    problem: str = ""
    result: Optional[str] = None


class PrecisionDifference(msgspec.Struct, frozen=True):
    """Two processes whose proofs of the precision differ, so that their predictions do not have the same precision.

    Attributes:
        of_reference: whether it is the reference's precision, not that of the model under test.
        check: ``canary`` or ``audit``.
        host: of one process. verdict: what the check says there; ``None`` if it was not made.
        first_host: of the process that judged the first shard. first_verdict: likewise.
    """

    of_reference: bool
    check: str
    host: str
    verdict: Optional[str]
    first_host: str
    first_verdict: Optional[str]


class ShardingReport(msgspec.Struct, frozen=True):
    """How a data set was judged by several hosts.

    Attributes:
        group: index in ``Result.asked`` of what was judged.
        item_name: what is counted: ``picture``, ``question``.
        items: number of items of the data set.
        shards: number of its shards.
        reused: those that were finished before: by earlier calls, or by processes that torchrun has restarted.
        judged_twice: items of shards that two processes judged; the first of both counts.
        differing: how many of those have a comparison that is not equal to the last digit.
        hosts: every member.
        processors: the processors of the hosts whose shards count.
        otherwise: the processes whose proof of the precision is not that of the process that judged the first shard.
    """

    group: int
    item_name: str
    items: int
    shards: int
    reused: int = 0
    judged_twice: int = 0
    differing: int = 0
    hosts: tuple[FleetHost, ...] = ()
    processors: tuple[str, ...] = ()
    otherwise: tuple[PrecisionDifference, ...] = ()
