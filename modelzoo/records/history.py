"""What is kept of each session on a machine: the levels, their spread, and what the processes cost."""

from __future__ import annotations

from enum import Enum
from typing import Optional

import msgspec

from modelzoo import stats

HISTORY_VERSION = 1


class HistoryScope(str, Enum):
    """Which of a machine's earlier sessions count."""

    SAME_WORK = "the same work"
    WORKLOAD = "the workload in all settings"
    EVERYTHING = "all workloads"


class EarlierSessions(msgspec.Struct, frozen=True):
    """How much the earlier sessions of a machine differ.

    Attributes:
        deviation: standard deviation of their log levels.
        days: number of sessions, each on another day.
        scope: which sessions these are.
        workload: the workload that was asked about.
    """

    deviation: float
    days: int
    scope: HistoryScope
    workload: str


class SessionLevel(msgspec.Struct, frozen=True):
    """One setting in one session. Times in seconds, variances of log times.

    Attributes:
        created: when the session began; UTC, ISO 8601.
        workload: the workload's name.
        label: the setting, as tables show it.
        key: equal for sessions that ran the same work with the same software.
        level: geometric mean of the processes' medians.
        processes: number of processes.
        sampled: how long each process sampled, on average.
        between: variance between processes that sample for ever.
        tau2: variance within a process, per second of sampling.
        cost: wall time of a process besides its samples.
        ratio_spread: standard deviation of the rounds' log ratios to the baseline; ``None`` for the baseline.
        reference: time of the reference load beside these processes, their geometric mean; ``None`` if it did not run.
        reference_load: what ran as the reference load; only times of the same load can be compared.
        sums: of its log latencies and the load's log times; ``None`` if the load did not run or they were not kept.
        version: of this record.
    """

    created: str
    workload: str
    label: str
    key: str
    level: float
    processes: int
    sampled: float
    between: float
    tau2: float
    cost: float
    ratio_spread: Optional[float] = None
    reference: Optional[float] = None
    reference_load: str = ""
    sums: Optional[stats.Sums] = None
    version: int = HISTORY_VERSION
