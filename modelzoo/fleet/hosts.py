"""Hosts by kind, which of several equal ones is odd, and what is different about it. Pure.

A host is compared with the others of its kind by the externally studentized residual (Cook and Weisberg, "Residuals and
Influence in Regression", 1982, section 2.2.2): its level less the mean of the others, divided by the standard error
that the others show, s · √(1 + 1 / (k − 1)) for k hosts. s is the standard deviation of the other hosts' levels, k − 2
degrees of freedom. It contains everything by which sessions on equal hosts differ: processes, moments, machines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median, stdev

from modelzoo import stats
from modelzoo.comparison.conditions import Difference, conditions
from modelzoo.comparison.estimate import Side, StoredResult
from modelzoo.comparison.pairing import settings_of
from modelzoo.frozen import replace
from modelzoo.records.fleet import HostDifference, HostKind, HostLevel, NotTimed
from modelzoo.records.machine import Machine, fingerprint
from modelzoo.records.race import Throughput
from modelzoo.records.run import Result
from modelzoo.results.refusals import SideSetting
from modelzoo.results.speed import Speed, sides_of
from modelzoo.results.throughput import rows
from modelzoo.stats import Outcome

UNBOUNDED = 1e9
"""Stands for an infinite end of an interval, which JSON cannot express."""
LEAST_HOSTS = 3
"""With two hosts, neither is the odd one."""
Levels = Sequence[float | None]
"""Log seconds by setting, or by host; ``None`` if it was not timed."""


def host_ratios(levels: Sequence[Levels]) -> list[list[Speed | None]]:
    """Compare each host with the others: in the mean over all settings, and in each setting.

    The first finds what slows a host as a whole, the second what concerns one setting. Each is a table whose verdicts
    hold together (``stats.verdicts``) with half of the error, so that all of them do: FASTER and SLOWER are odd, SAME
    is not. The mean is over the settings that all hosts have. In each setting, the hosts that have it are compared if
    there are at least three.

    Args:
        levels: by host and setting, of at least three hosts.

    Returns:
        one list per host: the mean over the settings first, then each setting; ``None`` if it was not compared. With
        one setting there is only the mean.
    """
    columns: list[Levels] = list(zip(*levels))
    whole = [[level for level in column if level is not None] for column in columns if None not in column]
    means: Levels = list(map(fmean, zip(*whole))) if whole else [None] * len(levels)
    tables = [[means], columns] if len(columns) > 1 else [[means]]
    found: list[list[Speed | None]] = [[] for _ in levels]
    for table in tables:
        ratios = [[_ratio(column, host, 1 / len(tables)) for column in table] for host in range(len(levels))]
        verdicts = iter(stats.verdicts([each for row in ratios for each in row if each is not None]))
        for of_host, row in zip(found, ratios):
            of_host += [None if each is None else Speed(each, next(verdicts)) for each in row]
    return found


def _ratio(column: Levels, host: int, share: float) -> stats.Ratio | None:
    """How many times faster a host is than the others that have a level; ``share``: of the error that may be spent."""
    level, others = column[host], [each for other, each in enumerate(column) if other != host and each is not None]
    if level is None or len(others) < LEAST_HOSTS - 1:
        return None
    error = stdev(others) * math.sqrt(1 + 1 / len(others))
    log = stats.LogRatio(fmean(others) - level, error, len(others) - 1)
    return replace(stats.ratio_of(log, len(others), (), (stats.Seen(log, share),)), interval=log.interval())


MOST_DIFFERENCES = 5
"""Differences of an odd host that are kept."""
MOST_UNLIKE = 3
"""Differences between two kinds that are named."""


_Subject = tuple[float, SideSetting]
"""What hosts are compared in: log seconds of a batch or of an item, and the processes that tell what it ran on."""


@dataclass(frozen=True)
class HostResult:
    """A complete result of one host, whose name no other one has."""

    host: str
    result: Result

    @cached_property
    def subjects(self) -> Mapping[str, _Subject]:
        """What it was timed in: settings, or configurations of instances."""
        found: dict[str, _Subject] = {}
        if isinstance(self.result.payload, Throughput):
            sides = sides_of(self.result)
            for row in rows(self.result):
                side = sides[row.configuration.group]
                if row.throughput is not None and row.is_final and side.sessions[0]:
                    name = " ".join(filter(None, (row.setting, row.configuration.name)))
                    found[name] = -math.log(row.throughput.value), side
            return found
        for each in settings_of(Side(self.host, (StoredResult("", self.result),))):
            levels = [math.log(median(run.steady)) for runs in each.sessions for run in runs if run.steady]
            if levels:
                found[f"{each.workload} {each.label}"] = fmean(levels), each
        return found


def kinds(hosts: Sequence[HostResult]) -> tuple[HostKind, ...]:
    """Compare the hosts of each kind, the largest kind first."""
    by_kind: dict[str, list[HostResult]] = {}
    for each in hosts:
        machine = machine_in(each.result)
        by_kind.setdefault("" if machine is None else kind_of(machine), []).append(each)
    # What was not measured comes last: nothing is known of it.
    ordered = sorted(by_kind, key=lambda key: (not key, -len(by_kind[key])))
    largest = by_kind[ordered[0]] if ordered else []
    return tuple(replace(_kind(by_kind[key]), unlike=_unlike(largest, by_kind[key])) for key in ordered)


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


def machine_in(result: Result) -> Machine | None:
    """The machine that a result was measured on; ``None`` if nothing was."""
    if isinstance(result.payload, Throughput):  # its runs see the CPUs of one instance only
        return result.payload.machine
    return next((run.report.provenance.machine for run in result.runs if run.report is not None), None)


def _kind(members: Sequence[HostResult]) -> HostKind:
    machine = machine_in(members[0].result)
    names = tuple(each.host for each in members)
    if machine is None:
        return HostKind("unknown", names, uncompared="nothing was measured")
    name = f"{machine.cpu}, {machine.cores} cores"
    if len(members) < LEAST_HOSTS:
        return HostKind(name, names, uncompared="fewer than three hosts")
    timed = [each for each in members if each.subjects]
    keys = list(dict.fromkeys(key for each in timed for key in each.subjects))
    # Which hosts lack what others have.
    empty = tuple(each.host for each in members if not each.subjects)
    missing = [NotTimed(empty)] if empty else []
    for key in keys:
        lacking = tuple(each.host for each in timed if key not in each.subjects)
        missing += [NotTimed(lacking, key)] if lacking else []
    if len(timed) < LEAST_HOSTS:
        return HostKind(name, names, uncompared="fewer than three were timed", missing=tuple(missing))
    found = host_ratios([[each.subjects[key][0] if key in each.subjects else None for key in keys] for each in timed])
    compared = [
        _level(each.host, subject, speed)
        for number, subject in enumerate(["", *keys] if len(keys) > 1 else [""])
        for each, speed in zip(timed, (row[number] for row in found))
        if speed is not None
    ]
    if not compared:
        return HostKind(name, names, uncompared="no setting was timed on three", missing=tuple(missing))
    odd = [index for index, each in enumerate(timed) if any(of.odd and of.host == each.host for of in compared)]
    whole = [key for key in keys if all(key in each.subjects for each in timed)]
    return HostKind(
        name,
        names,
        levels=tuple(compared),
        differences=tuple(each for index in odd for each in _differences(timed, index)),
        spread=stdev(fmean(each.subjects[key][0] for key in whole) for each in timed) if whole else None,
        missing=tuple(missing),
    )


def _level(host: str, subject: str, found: Speed) -> HostLevel:
    assert found.ratio is not None
    time, outcome = stats.inverse(found.ratio, 1.0), found.verdict.outcome
    # Of a host that certainly differs by less than matters, nothing is rejected.
    p_value = 1.0 if outcome is Outcome.SAME else found.verdict.p_value or 0.0
    odd = outcome in (Outcome.FASTER, Outcome.SLOWER)
    return HostLevel(host, subject, time.value, time.low, min(time.high, UNBOUNDED), p_value, odd)


def _unlike(largest: Sequence[HostResult], members: Sequence[HostResult]) -> tuple[HostDifference, ...]:
    """What tells hosts of one kind from those of the largest kind."""
    base, other = largest[0].subjects, members[0].subjects
    key = next((key for key in base if key in other), None)
    if members is largest or key is None:
        return ()
    found = _apart({key: (base[key][1], other[key][1])})
    return tuple(HostDifference(members[0].host, each.name, each.other, each.base) for each in found[:MOST_UNLIKE])


def _differences(hosts: Sequence[HostResult], index: int) -> list[HostDifference]:
    """The conditions of one host that none of the others has, the most decisive first."""
    here, pairs = hosts[index], dict[str, tuple[SideSetting, SideSetting]]()
    for key, (_, side) in here.subjects.items():
        others = [each.subjects[key][1] for each in hosts if each is not here and key in each.subjects]
        if others:
            joined = replace(
                others[0],
                sessions=tuple(runs for side in others for runs in side.sessions),
                results=tuple(result for side in others for result in side.results),
            )
            pairs[key] = joined, side
    found = [HostDifference(here.host, each.name, each.other, each.base) for each in _apart(pairs)]
    return found[:MOST_DIFFERENCES]


def _apart(pairs: Mapping[str, tuple[SideSetting, SideSetting]]) -> list[Difference]:
    """The conditions that both sides of the pairs know, and of which they share no value."""
    return [each for each in conditions(pairs).differing if each.is_apart and each.base and each.other]
