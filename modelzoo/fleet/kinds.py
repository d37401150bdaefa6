"""Hosts by kind, their levels, and what is different about an odd one. Pure functions of complete results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Optional

from modelzoo.comparison.basis import Histories, Known, known, machine_of
from modelzoo.comparison.conditions import Difference, conditions
from modelzoo.comparison.model import Row, Side, SideSetting, StoredResult
from modelzoo.comparison.sides import settings_of
from modelzoo.fleet.hosts import LEAST_HOSTS, HostRatio, host_ratios, pooled
from modelzoo.frozen import replace
from modelzoo.machine.facts import fingerprint
from modelzoo.records.hosts import HostDifference, HostKind, HostLevel, NotTimed, Uncompared
from modelzoo.records.machine import Machine
from modelzoo.records.run import Result
from modelzoo.results.throughput import rows
from modelzoo.stats import Outcome

UNBOUNDED = 1e9
"""Stands for an infinite end of an interval, which JSON cannot express."""
MOST_DIFFERENCES = 5
"""Differences of an odd host that are kept."""
MOST_UNLIKE = 3
"""Differences between two kinds that are named."""


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
    for each in sorted(_named_apart(hosts), key=lambda each: each.rank):
        machine = machine_in(each.result)
        by_kind.setdefault("" if machine is None else kind_of(machine), []).append(each)
    # What was not measured comes last: nothing is known of it.
    ordered = sorted(by_kind, key=lambda key: (not key, -len(by_kind[key])))
    largest = by_kind[ordered[0]] if ordered else []
    return tuple(replace(_kind(by_kind[key], histories), unlike=_unlike(largest, by_kind[key])) for key in ordered)


def _named_apart(hosts: Sequence[HostResult]) -> list[HostResult]:
    """The hosts, with their ranks in their names if several have the same one (``localhost``, for example)."""
    count = Counter(each.host for each in hosts)
    return [replace(each, host=f"{each.host} (rank {each.rank})") if count[each.host] > 1 else each for each in hosts]


def kind_of(machine: Machine) -> str:
    """Return what equal machines have in common: the fingerprint, without what can be set on a running machine.

    Governor, frequency limits, CPU limits and the memory limit are left out: hosts that differ in them are compared,
    and the difference explains what is found.
    """
    limits = replace(machine.threads, affinity=machine.logical, quota=None)
    memory = None if machine.memory is None else installed(machine.memory)
    return fingerprint(replace(machine, governor=None, max_mhz=None, threads=limits, memory_limit=memory))


def installed(memory: int) -> int:
    """Return about how much memory is installed, in bytes: what the kernel shows is up to an eighth less.

    Kernels reserve amounts that depend on their version and their options. Sizes are rounded up to four steps per power
    of two, so that 503 and 504 GiB both are 512, and 377 GiB are 384.
    """
    step = 1 << max(0, (memory - 1).bit_length() - 3)
    return -(-memory // step) * step


def machine_in(result: Result) -> Optional[Machine]:
    """The machine that a result was measured on; ``None`` if nothing was."""
    if result.throughput is not None:  # its runs see the CPUs of one instance only
        return result.throughput.machine
    return next((run.report.provenance.machine for run in result.runs if run.report is not None), None)


def _kind(members: Sequence[HostResult], histories: Histories) -> HostKind:
    machine = machine_in(members[0].result)
    names = tuple(each.host for each in members)
    if machine is None:
        return HostKind("unknown", names, uncompared=Uncompared.NOT_MEASURED)
    name = f"{machine.cpu}, {machine.cores} cores"
    if len(members) < LEAST_HOSTS:
        return HostKind(name, names, uncompared=Uncompared.FEW_HOSTS)
    of_members = [(each, _subjects(each.host, each.result)) for each in members]
    timed = [_Timed(each, found) for each, found in of_members if found]
    keys = list(dict.fromkeys(key for each in timed for key in each.subjects))
    missing = tuple(_missing(of_members, keys))
    if len(timed) < LEAST_HOSTS:
        return HostKind(name, names, uncompared=Uncompared.FEW_TIMED, missing=missing)
    levels = [[each.level(key) for key in keys] for each in timed]
    past = _history(timed, histories)
    found = host_ratios(levels, past.sessions if past is not None else None)
    compared = [
        _host_level(each.host, subject, of_host)
        for number, subject in enumerate(["", *keys] if len(keys) > 1 else [""])
        for each, of_host in zip(timed, (row[number] for row in found))
        if of_host is not None
    ]
    if not compared:
        return HostKind(name, names, uncompared=Uncompared.NO_COMMON_SETTING, missing=missing)
    odd = [index for index, row in enumerate(found) if any(each is not None and each.odd for each in row)]
    whole = [key for key in keys if all(key in each.subjects for each in timed)]
    return HostKind(
        name,
        names,
        levels=tuple(compared),
        differences=tuple(each for index in odd for each in _differences(timed, index)),
        spread=_spread([fmean(each.subjects[key].level for key in whole) for each in timed], past) if whole else None,
        earlier=past.earlier if whole and past is not None else None,
        missing=missing,
    )


@dataclass(frozen=True)
class _Timed:
    """A host, and what it was timed in, of which there is something."""

    host: HostResult
    subjects: Mapping[str, _Subject]

    def level(self, key: str) -> Optional[float]:
        return self.subjects[key].level if key in self.subjects else None


def _missing(members: Sequence[tuple[HostResult, Mapping[str, _Subject]]], keys: Sequence[str]) -> Iterator[NotTimed]:
    """Which hosts lack what others have."""
    empty = tuple(each.host for each, found in members if not found)
    if empty:
        yield NotTimed(empty)
    for key in keys:
        lacking = tuple(each.host for each, found in members if found and key not in found)
        if lacking:
            yield NotTimed(lacking, key)


def _unlike(largest: Sequence[HostResult], members: Sequence[HostResult]) -> tuple[HostDifference, ...]:
    """What tells hosts of one kind from those of the largest kind."""
    sides = [_subjects(each[0].host, each[0].result) for each in (largest, members)]
    key = next((key for key in sides[0] if key in sides[1]), None)
    if members is largest or key is None:
        return ()
    found = _apart(_row(key, sides[0][key].side, sides[1][key].side))
    return tuple(HostDifference(members[0].host, each.name, each.other, each.base) for each in found[:MOST_UNLIKE])


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


def _history(hosts: Sequence[_Timed], histories: Histories) -> Optional[Known]:
    """How much sessions of this kind of machine differed before."""
    side = next(iter(hosts[0].subjects.values())).side
    compared = {each.host.result.created for each in hosts}  # hosts may share the directory of the history
    return known(side, histories.besides(machine_of(side), compared))


def _spread(levels: Sequence[float], past: Optional[Known]) -> float:
    """By how much the hosts differ."""
    return math.sqrt(pooled(levels, past.sessions if past is not None else None).value)


def _host_level(host: HostResult, subject: str, found: HostRatio) -> HostLevel:
    ratio = found.ratio
    high = ratio.high if math.isfinite(ratio.high) else UNBOUNDED
    return HostLevel(host.host, host.rank, subject, ratio.value, ratio.low, high, found.p_value, found.odd)


def _differences(hosts: Sequence[_Timed], index: int) -> list[HostDifference]:
    """The conditions of one host that none of the others has, the most decisive first."""
    here, pairs = hosts[index], []
    for key, subject in here.subjects.items():
        others = [each.subjects[key].side for each in hosts if each is not here and key in each.subjects]
        if others:
            pairs.append(_row(key, _joined(others), subject.side))
    found = [HostDifference(here.host.host, each.name, each.other, each.base) for each in _apart(*pairs)]
    return found[:MOST_DIFFERENCES]


def _apart(*pairs: Row) -> list[Difference]:
    """The conditions that both sides of the rows know, and of which they share no value."""
    return [each for each in conditions(pairs).differing if each.is_apart and each.base and each.other]


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
    )
