"""Hosts of a fleet that measured the same, for tests of how they are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fake_runs import MACHINE, make, result_of

from modelzoo.fleet.hosts import HostResult
from modelzoo.frozen import replace
from modelzoo.records.machine import Machine
from modelzoo.setting import Setting

PERFORMANCE = replace(MACHINE, governor="performance")


def host(rank: int, seconds: float, machine: Machine = PERFORMANCE) -> HostResult:
    """A host whose processes all took about ``seconds`` per batch."""
    runs = [make([seconds * (1 + 0.001 * number)] * 3, round=number, machine=machine) for number in range(3)]
    return HostResult(f"host-{rank}", result_of(*runs))


def timed(rank: int, seconds: Mapping[str, float]) -> HostResult:
    """A host that was timed in several precisions."""
    runs = [
        make([value * (1 + 0.001 * number)] * 3, round=number, machine=PERFORMANCE, group=group, setting=Setting(name))
        for group, (name, value) in enumerate(seconds.items())
        for number in range(3)
    ]
    return HostResult(f"host-{rank}", result_of(*runs))


def wobble(rank: int, seconds: float = 0.1) -> float:
    """Equal hosts differ by half a per cent."""
    return seconds * math.exp(0.005 * math.sin(3 * rank))


def fleet(slow: HostResult) -> list[HostResult]:
    """Nine equal hosts, which differ by half a per cent, and one more."""
    return [*(host(rank, wobble(rank)) for rank in range(9)), slow]
