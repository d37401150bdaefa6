"""How much the sessions of a machine differ: by what it keeps of its earlier sessions, or by assumption."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Optional

import msgspec

from modelzoo.comparison.model import SideSetting
from modelzoo.frozen import replace
from modelzoo.machine.facts import fingerprint
from modelzoo.machine.history import history_path, read_history
from modelzoo.records.history import EarlierSessions, HistoryScope, SessionLevel
from modelzoo.records.machine import Machine
from modelzoo.records.run import Result, RunReport
from modelzoo.results.noise import session_spread
from modelzoo.results.session_levels import work_key
from modelzoo.stats import Variance

ASSUMED_SPREAD = 0.10
"""Standard deviation of the log levels of sessions, if nothing is known of a machine.

It is more than the suite's own recordings show: on a virtual machine with 2 vCPUs of a shared server, sessions of one
setting differed by 2.4 to 8.7 % (benchmarks/precision.py --rows between). Over three months, an application benchmark
in a public cloud varied by less than 3.7 % (Henning et al., "When should I run my application benchmark?", FSE
Companion 2025); microbenchmarks vary by 0.03 % to over 100 %, depending on the benchmark and on the type of instance
(Laaber, Scheuner and Leitner, "Software microbenchmarking in the cloud. How bad is it really?", Empirical Software
Engineering 24, 2019). So no assumption is safe for every machine, and verdicts that rest on it are marked. A factor of
two is told from none even in a table of eight rows; 5 % are not even alone."""
LEAST_STORED = 5
"""Sessions on different days that a machine must have kept, besides those that are compared."""


class Histories(msgspec.Struct, frozen=True):
    """What machines keep of their sessions, by the machines' fingerprints."""

    by_machine: Mapping[str, Sequence[SessionLevel]] = msgspec.field(default_factory=dict)

    def besides(self, machine: str, compared: Collection[str]) -> tuple[SessionLevel, ...]:
        """The sessions of a machine without those that are compared, by when they began."""
        return tuple(level for level in self.by_machine.get(machine, ()) if level.created not in compared)


def read_histories(results: Iterable[Result]) -> Histories:
    """Read what is kept here of the machines on which ``results`` were measured."""
    machines = {fingerprint(report.provenance.machine): report.provenance.machine for report in _reports(results)}
    return Histories({name: _history(machine) for name, machine in machines.items()})


class Known(msgspec.Struct, frozen=True):
    """What a machine's earlier sessions say.

    Attributes:
        sessions: variance of the log level of one session.
        processes: variance of the log value of one process.
        earlier: the first as a standard deviation, and what it comes from.
    """

    sessions: Variance
    processes: Variance
    earlier: EarlierSessions


def known(side: SideSetting, history: Sequence[SessionLevel], slope: Optional[float] = None) -> Optional[Known]:
    """Return what a machine's earlier sessions say; ``None`` if there are not enough.

    Sessions count if they are of different days (``results.noise.session_spread``). Those of the same work by the same
    software are used if there are at least ``LEAST_STORED``; else those of
    the workload in all settings, and else all of the machine's, each work about its own mean. A session that is slow is
    slow in all of its settings, so the degrees of freedom are never more than the sessions less one.

    Args:
        side: one workload under one setting.
        history: levels of sessions that are not compared.
        slope: how the log latency follows the reference load, if adjusted levels are compared. The earlier levels are
            adjusted by the same slope: each session's own would add the differences of the slopes.
    """
    levels = history if slope is None else [_adjusted(each, slope) for each in history if each.reference]
    key = next((work_key(run.report) for runs in side.sessions for run in runs if run.report is not None), "")
    for scope, found in (
        (HistoryScope.SAME_WORK, [level for level in levels if level.key.split()[0] == key]),
        (HistoryScope.WORKLOAD, [level for level in levels if level.workload == side.workload]),
        (HistoryScope.EVERYTHING, levels),
    ):
        spread = session_spread(found)
        if spread is not None and spread.sessions >= LEAST_STORED:
            freedom = min(spread.freedom, spread.sessions - 1)
            earlier = EarlierSessions(spread.value, spread.sessions, scope, side.workload)
            return Known(Variance(spread.value**2, freedom), _between_processes(found), earlier)
    return None


def machine_of(side: SideSetting) -> str:
    """The fingerprint of the machine of a side; empty if nothing was measured."""
    return next((fingerprint(report.provenance.machine) for report in _reports(side.results)), "")


def _between_processes(levels: Sequence[SessionLevel]) -> Variance:
    """The mean variance of a process's log median."""
    value = fmean(level.between + level.tau2 / level.sampled for level in levels if level.sampled)
    return Variance(value, sum(level.processes - 1 for level in levels))


def _adjusted(level: SessionLevel, slope: float) -> SessionLevel:
    """The level at one speed of the load, which is that of other sessions with the same load."""
    assert level.reference is not None
    return replace(level, level=level.level * level.reference**-slope, key=f"{level.key} {level.reference_load}")


def _reports(results: Iterable[Result]) -> Iterable[RunReport]:
    return (run.report for result in results for run in result.runs if run.report is not None)


def _history(machine: Machine) -> tuple[SessionLevel, ...]:
    return read_history(history_path(machine))
