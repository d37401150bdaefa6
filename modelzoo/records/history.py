"""What is kept of each session on a machine: the levels, their spread, and what the processes cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

HISTORY_VERSION = 1


@dataclass(frozen=True)
class SessionLevel:
    """One setting in one session. Times in seconds, variances of log times.

    Attributes:
        created: when the session began; UTC, ISO 8601.
        workload: the workload's name.
        label: the setting, as tables show it.
        key: the same for sessions that ran the same work: digest of workload, setting, weights and versions.
        level: geometric mean of the processes' medians.
        adjusted: the same at the machine's reference speed; ``None`` if it was not adjusted.
        processes: number of processes.
        sampled: how long each process sampled, on average.
        between: variance between processes that sample for ever.
        tau2: variance within a process, per second of sampling.
        cost: wall time of a process besides its samples.
        ratio_spread: standard deviation of the rounds' log ratios to the baseline; ``None`` for the baseline.
        reference: time of the reference load; ``None`` if it did not run.
        reference_version: its version.
        threads: threads of the workers.
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
    adjusted: Optional[float] = None
    ratio_spread: Optional[float] = None
    reference: Optional[float] = None
    reference_version: Optional[int] = None
    threads: int = 1
    version: int = HISTORY_VERSION
