"""Whether instances ran as was planned: the same kernels, on their own CPUs, with their memory there. Pure."""

from __future__ import annotations

import msgspec

from modelzoo.records.machine import Placement
from modelzoo.records.run import Result
from modelzoo.records.throughput import InstancePlace, InstanceRun, Throughput
from modelzoo.results import throughput
from modelzoo.results.throughput import Row


class InstanceKernels(msgspec.Struct, frozen=True):
    """Whether every instance ran the kernels of the one that was audited in full.

    Attributes:
        instances: how many there were in all rounds.
        is_known: whether the kernels of the audited one are known.
        unlike: the places of those that ran other kernels.
        unknown: how many of them did not say which kernels they ran.
    """

    instances: int
    is_known: bool
    unlike: tuple[InstancePlace, ...] = ()
    unknown: int = 0

    @property
    def are_same(self) -> bool:
        """Whether all ran the same kernels."""
        return self.is_known and not self.unlike and not self.unknown


class InstancePlacement(msgspec.Struct, frozen=True):
    """Whether every instance ran on its CPUs and had its memory on their node.

    Attributes:
        instances: how many there were in all rounds.
        elsewhere: how many did not run on the CPUs that they were given.
        unproven: the placements of which it is not known.
    """

    instances: int
    elsewhere: int
    unproven: tuple[Placement, ...]


def kernels(result: Result, row: Row) -> InstanceKernels | None:
    """Compare the kernels of all instances; ``None`` if all of them failed."""
    report = throughput.context(result, row.configuration.group)
    instances = _instances(throughput.of(result), row)
    if not instances:
        return None
    if report is None or report.observed.kernels is None:
        return InstanceKernels(len(instances), False)
    wanted, verdict = report.observed.kernels.sha256, report.observed.canary_verdict
    others = [each for each in instances if each.kernels not in (None, wanted) or each.canary_verdict != verdict]
    unknown = sum(each.kernels is None for each in instances)
    return InstanceKernels(len(instances), True, tuple(each.place for each in others), unknown)


def placement(found: Throughput, row: Row) -> InstancePlacement | None:
    """Look where the instances ran; ``None`` if all of them failed."""
    instances = _instances(found, row)
    if not instances:
        return None
    elsewhere = sum(each.placement is None or each.placement.cpus != each.place.cpus for each in instances)
    placements = [each.placement for each in instances if each.placement is not None]
    return InstancePlacement(len(instances), elsewhere, tuple(each for each in placements if not each.is_proven))


def _instances(found: Throughput, row: Row) -> list[InstanceRun]:
    return [each for run in throughput.runs_of(found, row.index) for each in run.instances if each.error is None]
