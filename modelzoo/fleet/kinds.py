"""Hosts by kind, their levels, and what is different about an odd one. Pure functions of complete results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Optional

from modelzoo.comparison.basis import Histories, known, machine_of
from modelzoo.comparison.conditions import UNKNOWN, conditions
from modelzoo.comparison.model import Outcome, Row, Side, SideSetting, StoredResult
from modelzoo.comparison.sides import settings_of
from modelzoo.fleet.hosts import LEAST_HOSTS, Standing, pooled, standings
from modelzoo.machine.fingerprint import fingerprint
from modelzoo.records.hosts import HostDifference, HostKind, HostLevel
from modelzoo.records.machine import Machine
from modelzoo.records.run import Result
from modelzoo.results.throughput import rows
from modelzoo.stats import Variance

UNBOUNDED = 1e9
"""Stands for an infinite end of an interval, which JSON cannot express."""
MOST_DIFFERENCES = 5
"""Differences of an odd host that are kept."""


@dataclass(frozen=True)
class HostResult:
    """A complete result of one host."""

    rank: int
    host: str
    result: Result


def kinds(hosts: Sequence[HostResult], histories: Histories = Histories()) -> tuple[HostKind, ...]:  # noqa: B008
    """Compare the hosts of each kind, the largest kind first.

    Args:
        hosts: with their results.
        histories: what machines keep of earlier sessions.
    """
    by_kind: dict[str, list[HostResult]] = {}
    for each in sorted(hosts, key=lambda each: each.rank):
        machine = machine_in(each.result)
        by_kind.setdefault("" if machine is None else kind_of(machine), []).append(each)
    found = [_kind(members, histories) for members in by_kind.values()]
    return tuple(sorted(found, key=lambda each: -len(each.hosts)))


def kind_of(machine: Machine) -> str:
    """Return what equal machines have in common: the fingerprint, without what can be set on a running machine.

    Governor, frequency limits, CPU limits and the memory limit are left out: hosts that differ in them are compared,
    and the difference explains what is found.
    """
    limits = replace(machine.threads, affinity=machine.logical, quota=None)
    memory = machine.memory
    return fingerprint(replace(machine, governor=None, max_mhz=None, threads=limits, memory_limit=memory))


def machine_in(result: Result) -> Optional[Machine]:
    """The machine that a result was measured on; ``None`` if nothing was."""
    if result.throughput is not None:  # its runs see the CPUs of one instance only
        return result.throughput.machine
    return next((run.report.machine for run in result.runs if run.report is not None), None)


def _kind(members: Sequence[HostResult], histories: Histories) -> HostKind:
    machine = machine_in(members[0].result)
    names = tuple(each.host for each in members)
    if machine is None:
        return HostKind("unknown", names, problem="nothing was measured on these hosts")
    name = f"{machine.cpu}, {machine.cores} cores"
    if len(members) < LEAST_HOSTS:
        few = "one host" if len(members) == 1 else "two hosts"
        return HostKind(name, names, problem=f"{few} of this kind: it takes three to say which one is odd")
    subjects_of = [_subjects(each.host, each.result) for each in members]
    common = [key for key in subjects_of[0] if all(key in each for each in subjects_of)]
    if not common:
        return HostKind(name, names, problem="no setting was timed on all of these hosts")
    levels = [[each[key].level for key in common] for each in subjects_of]
    sides = [{key: each[key].side for key in common} for each in subjects_of]
    past = _history(sides[0][common[0]], histories)
    found = standings(levels, past[0] if past else None)
    subjects = ["", *common] if len(common) > 1 else [""]
    compared = [
        _host_level(each, subject, standing)
        for number, subject in enumerate(subjects)
        for each, standing in zip(members, (row[number] for row in found))
    ]
    odd = [index for index, row in enumerate(found) if any(standing.odd for standing in row)]
    return HostKind(
        name,
        names,
        levels=tuple(compared),
        differences=tuple(each for index in odd for each in _differences(members, sides, index, common)),
        spread=_spread([fmean(each) for each in levels], past),
    )


@dataclass(frozen=True)
class _Subject:
    """What hosts are compared in: log seconds of a batch or of an item, and the processes that tell what it ran on."""

    level: float
    side: SideSetting


def _subjects(host: str, result: Result) -> dict[str, _Subject]:
    """What a host was timed in: settings, or configurations of instances."""
    sides = settings_of(Side(host, (StoredResult("", result),)))
    if result.throughput is not None:
        of_group = {each.groups[0]: each for each in sides}
        return {
            " ".join(filter(None, (row.setting, row.configuration.name))): _Subject(
                -math.log(row.throughput.value), of_group[row.configuration.group]
            )
            for row in rows(result)
            if row.throughput is not None and row.is_final and row.configuration.group in of_group
        }
    found = {f"{each.workload} {each.label}": (_levels(each), each) for each in sides}
    return {key: _Subject(fmean(levels), side) for key, (levels, side) in found.items() if levels}


def _levels(side: SideSetting) -> list[float]:
    """The log of each process's median, in log seconds."""
    return [math.log(median(run.steady)) for runs in side.sessions for run in runs if run.steady]


def _history(side: SideSetting, histories: Histories) -> Optional[tuple[Variance, str]]:
    """How much sessions of this machine differed before, and what that comes from."""
    found = known(side, histories.besides(machine_of(side), {result.created for result in side.results}))
    return None if found is None else (found.sessions, found.text)


def _spread(levels: Sequence[float], past: Optional[tuple[Variance, str]]) -> str:
    """Say by how much the hosts differ, and what besides them that rests on."""
    found = pooled(levels, past[0] if past else None)
    text = f"{100 * math.sqrt(found.value):.2g} %"
    return f"{text}, with sessions that differ by {past[1]}" if past else text


def _host_level(host: HostResult, subject: str, standing: Standing) -> HostLevel:
    ratio = standing.ratio
    high = ratio.high if math.isfinite(ratio.high) else UNBOUNDED
    return HostLevel(host.host, host.rank, subject, ratio.value, ratio.low, high, standing.p_value, standing.odd)


def _differences(
    members: Sequence[HostResult], sides: Sequence[Mapping[str, SideSetting]], index: int, common: Sequence[str]
) -> list[HostDifference]:
    """The conditions of one host that none of the others has, the most decisive first."""
    pairs = []
    for key in common:
        others = [side[key] for number, side in enumerate(sides) if number != index]
        pairs.append(_row(key, _joined(others), sides[index][key]))
    found = [
        HostDifference(members[index].host, each.name, each.other, each.base)
        for each in conditions(pairs).differing
        if UNKNOWN not in (each.base, each.other) and not set(each.other.split(", ")) & set(each.base.split(", "))
    ]
    return found[:MOST_DIFFERENCES]


def _joined(sides: Sequence[SideSetting]) -> SideSetting:
    return replace(
        sides[0],
        sessions=tuple(runs for side in sides for runs in side.sessions),
        results=tuple(result for side in sides for result in side.results),
        groups=tuple(group for side in sides for group in side.groups),
    )


def _row(name: str, base: SideSetting, other: SideSetting) -> Row:
    return Row(
        workload=name,
        label=base.label,
        other_label=other.label,
        base=base,
        other=other,
        base_value=None,
        other_value=None,
        estimate=None,
        outcome=Outcome.AMBIGUOUS,
        reason="",
    )
