"""What is kept of each session on a machine: levels, spread and costs; how unsteady the sessions show it to be."""

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
        reference: time of the calibration workload beside these processes, their geometric mean; ``None`` if it
            did not run.
        reference_load: what ran as the calibration workload; only times of the same load can be compared.
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


class WorkloadNoise(msgspec.Struct, frozen=True):
    """The noise of one workload, all of its settings together. Standard deviations are fractions of the latency.

    Attributes:
        workload: the workload's name.
        sessions: number of sessions that this comes from.
        between_processes: standard deviation between processes, however long they sample.
        within_process: standard deviation between stretches of one second of a process.
        between_sessions: standard deviation between the levels of sessions that ran the same work; ``None`` if no
            work was repeated on at least 3 days.
        repeated: number of sessions, each on another day, that ``between_sessions`` comes from.
        detectable: smallest difference between two settings that 5 minutes of alternating rounds are expected to show,
            as a fraction; ``None`` if no two settings were compared, or if 5 minutes show none.
    """

    workload: str
    sessions: int
    between_processes: float
    within_process: float
    between_sessions: Optional[float] = None
    repeated: int = 0
    detectable: Optional[float] = None


class MachineNoise(msgspec.Struct, frozen=True):
    """What the sessions that are kept of a machine say about its noise.

    Attributes:
        sessions: their number.
        first: when the oldest began; UTC, ISO 8601.
        last: when the newest began.
        reference_spread: standard deviation of the calibration workload's time between sessions, a fraction; ``None``
            if it ran in fewer than 3.
        workloads: sorted by name.
    """

    sessions: int
    first: str
    last: str
    reference_spread: Optional[float]
    workloads: tuple[WorkloadNoise, ...]
