"""Hosts of one kind compared with each other: which of them is slower or faster than the others."""

from __future__ import annotations

import msgspec

from modelzoo.records.sharding import FleetHost


class HostLevel(msgspec.Struct, frozen=True):
    """How the latency of one host relates to that of the other hosts of its kind.

    Attributes:
        host: its name. rank: of torchrun.
        subject: the workload and setting; empty for the mean over all of them.
        ratio: its latency ÷ the geometric mean of the others'. low, high: the 95 % interval; 0 and a number over 10⁹ if
            it is unbounded.
        p_value: of the hypothesis that it is one of the others, corrected for all hosts and settings.
        odd: whether that hypothesis is rejected.
    """

    host: str
    rank: int
    subject: str
    ratio: float
    low: float
    high: float
    p_value: float
    odd: bool


class HostDifference(msgspec.Struct, frozen=True):
    """A condition of an odd host that no other host of its kind has: ``governor``, ``powersave``, ``performance``."""

    host: str
    name: str
    here: str
    others: str


class HostKind(msgspec.Struct, frozen=True):
    """The hosts of one kind: processor, cores, caches, memory.

    Attributes:
        name: the processor and its cores.
        hosts: their names, by rank.
        levels: each host against the others: first the means over the settings that all hosts have, then each setting;
            empty if there are fewer than three hosts.
        differences: of the odd hosts, the most decisive first.
        missing: what was not timed on all of these hosts, a sentence each.
        unlike: what tells these hosts from those of the largest kind; empty for that kind.
        spread: standard deviation by which hosts of this kind differ, as a fraction, and what it comes from.
        problem: why the hosts were not compared; empty if they were.
    """

    name: str
    hosts: tuple[str, ...]
    levels: tuple[HostLevel, ...] = ()
    differences: tuple[HostDifference, ...] = ()
    spread: str = ""
    problem: str = ""
    missing: tuple[str, ...] = ()
    unlike: str = ""


class FleetComparison(msgspec.Struct, frozen=True):
    """What ``modelzoo fleet run`` found: every host, and those of each kind compared.

    Attributes:
        hosts: every member, failed ones included.
        kinds: the largest first.
    """

    hosts: tuple[FleetHost, ...]
    kinds: tuple[HostKind, ...]
