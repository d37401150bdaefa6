"""Whether two sides ran on one machine, and what a machine, a core and a vCPU achieve. Pure."""

from __future__ import annotations

import math
from typing import Optional, Union

import msgspec

from modelzoo import stats
from modelzoo.comparison.model import Measured, Metric, Row, Side, SideSetting
from modelzoo.machine.facts import fingerprint
from modelzoo.records.machine import Machine
from modelzoo.records.run import RunReport

RATED = (Metric.LATENCY, Metric.THROUGHPUT)
"""The metrics that say how many items a machine processes per second."""
VCPUS_PER_CORE = {"x86_64": 2, "aarch64": 1}
"""How many vCPUs are assumed to share a physical core if the virtual machine does not show it.

A vCPU is usually one of the two hardware threads of an x86 core, and a whole ARM core (AWS, "Amazon EC2 User Guide",
"Optimize CPU options", says so of its instances). Some instances have SMT switched off, so this is an assumption."""


class IdleCores(msgspec.Struct, frozen=True):
    """A run used ``used`` of ``cores`` cores; the rate is that of as many such runs as the cores allow."""

    used: float
    cores: int


class OneDevice(msgspec.Struct, frozen=True):
    """A run used this accelerator; the machine is taken to have no other one like it."""

    device: str


Extrapolation = Union[IdleCores, OneDevice]
"""What the rate of a whole machine takes for granted."""


class AssumedCores(msgspec.Struct, frozen=True):
    """The virtual machine does not show how many vCPUs share a core; so many is usual for this architecture."""

    vcpus: int
    architecture: str


class Rates(msgspec.Struct, frozen=True):
    """The throughput of one side of a row, in items per second, with 95 % intervals.

    Attributes:
        machine: of the whole machine.
        core: of each physical core; ``None`` if the model does not run on the CPU.
        vcpu: of each logical CPU; ``None`` likewise.
        extrapolated: what is assumed because the run did not use the whole machine; ``None`` if it did.
        assumed: what is assumed of the machine's physical cores; ``None`` if their number is known.
    """

    machine: stats.Interval
    core: Optional[stats.Interval]
    vcpu: Optional[stats.Interval]
    extrapolated: Optional[Extrapolation] = None
    assumed: Optional[AssumedCores] = None


class RowRates(msgspec.Struct, frozen=True):
    """The throughput of both sides of a row; ``unit`` is what is counted (``images`` …)."""

    workload: str
    label: str
    unit: str
    base: Rates
    other: Rates


def machines_of(side: Side) -> frozenset[str]:
    """Return the fingerprints of the machines that ``side`` was measured on.

    They are computed from the recorded facts, also for results that hold a fingerprint: another version of the suite
    may have computed that in another way.
    """
    runs = (run for stored in side.results for run in stored.result.runs)
    return frozenset(fingerprint(run.report.provenance.machine) for run in runs if run.report is not None)


def same_machine(base: Side, other: Side) -> bool:
    """Return whether both sides ran on one machine, as far as what decides its speed says.

    That is ``modelzoo.machine.facts``: processor, cores, caches, memory, frequency limits, governor, and the
    CPUs and the memory that the processes could use. The current frequency is not part of it. Accelerators that were
    used must be of the same product.
    """
    machines, accelerators = machines_of(base), _accelerators(base)
    same = accelerators == _accelerators(other) and len(accelerators) <= 1
    return same and len(machines) == 1 and machines == machines_of(other)


def _accelerators(side: Side) -> frozenset[tuple[str, Optional[int]]]:
    """Products and memory of the accelerators that ``side`` used."""
    runs = (run for stored in side.results for run in stored.result.runs)
    used = (run.report.accelerator for run in runs if run.report is not None)
    return frozenset((each.device.name, each.device.memory) for each in used if each is not None)


def row_rates(row: Row, metric: Metric) -> Optional[RowRates]:
    """Return what both sides of ``row`` achieve per machine, core and vCPU.

    ``None`` if the sides were not compared, or by a metric that says nothing about throughput.
    """
    if row.estimate is None or row.base is None or row.other is None or metric not in RATED:
        return None
    base = rates(row.base, row.estimate.base, metric)
    other = rates(row.other, row.estimate.other, metric)
    unit = next((report.unit for report in reports_of(row.base)), "items")
    return None if base is None or other is None else RowRates(row.workload, row.label, unit, base, other)


def rates(side: SideSetting, measured: Measured, metric: Metric) -> Optional[Rates]:
    """Return what one side achieves; ``None`` if no run of it has a report, or ``metric`` is not one of ``RATED``.

    A run that leaves cores idle is extrapolated to the whole machine: as many processes at the same time as its cores
    allow, each as fast as the one that was measured.
    """
    report = next(iter(reports_of(side)), None)
    if report is None or metric not in RATED:
        return None
    items = measured.value if metric is Metric.THROUGHPUT else _inverse(measured.value, report.setting.batch)
    if report.setting.device != "cpu":
        return Rates(items, None, None, extrapolated=OneDevice(report.setting.device))
    machine = report.provenance.machine
    used = _cores_used(report)
    whole = items if used >= machine.cores else multiplied(items, machine.cores / used)
    cores, assumed = _physical_cores(machine)
    return Rates(
        machine=whole,
        core=multiplied(whole, 1 / cores),
        vcpu=multiplied(whole, 1 / machine.logical),
        extrapolated=IdleCores(used, machine.cores) if used < machine.cores else None,
        assumed=assumed,
    )


def reports_of(side: SideSetting) -> list[RunReport]:
    """Return the reports of all processes of ``side``, the oldest session first."""
    return [run.report for session in side.sessions for run in session if run.report is not None]


def multiplied(interval: stats.Interval, factor: float) -> stats.Interval:
    """Return ``interval`` times a positive number."""
    return stats.Interval(interval.value * factor, interval.low * factor, interval.high * factor)


def _inverse(interval: stats.Interval, numerator: float) -> stats.Interval:
    """Return ``numerator`` divided by an interval of positive values; 0 becomes infinity, and the other way round."""
    low, high = interval.low, interval.high
    return stats.Interval(numerator / interval.value, numerator / high, numerator / low if low > 0 else math.inf)


def _cores_used(report: RunReport) -> float:
    """The cores that a run could keep busy: its threads, unless its CPUs or its quota are fewer.

    Cores are counted as the system shows them; in a virtual machine they may be halves of physical ones.
    """
    limits = report.provenance.machine.threads
    return min(report.setting.threads, limits.physical_cores, limits.quota or math.inf)


def _physical_cores(machine: Machine) -> tuple[float, Optional[AssumedCores]]:
    """The number of physical cores, and what had to be assumed for it."""
    if machine.hypervisor is None:
        return machine.cores, None
    if machine.vcpus_per_core is not None:
        return machine.logical / machine.vcpus_per_core, None
    vcpus = VCPUS_PER_CORE.get(machine.architecture, 1)
    return machine.logical / vcpus, AssumedCores(vcpus, machine.architecture)
