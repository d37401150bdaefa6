"""What a comparison of stored results is made of: its sides and its rows."""

from __future__ import annotations

from enum import Enum
from typing import Optional, Union

import msgspec

from modelzoo import stats
from modelzoo.frozen import Word
from modelzoo.records.run import Result, Run, ValidityEntry
from modelzoo.records.validity import Validity
from modelzoo.results.speed import Incomparable, Unproven
from modelzoo.setting import Setting
from modelzoo.warning import WarningMessage


class Metric(Word):
    """What is compared. Of throughput, more is better; of everything else, less."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    COLD_START = "cold-start"
    WARM_START = "warm-start"
    FIRST_TOKEN = "ttft"
    PER_TOKEN = "tpot"
    MEMORY = "memory"


class Basis(Word):
    """Where the variance comes from that an interval needs: rounds that both sides have, or else days, or a guess."""

    ROUNDS = "rounds"
    SESSIONS = "sessions"
    ASSUMED = "assumed"


class Obstacle(Word):
    """What makes two sides not comparable. All but ``MISSING`` can be allowed."""

    WEIGHTS = "weights"
    INPUTS = "inputs"
    BATCH = "batch"
    WORK = "work"
    OUTPUTS = "outputs"
    WRONG = "wrong"
    UNPROVEN = "unproven"
    INACTIVE = "inactive"
    EMULATOR = "emulator"
    INVALID = "invalid"
    UNRECORDED = "unrecorded"
    MISSING = "missing"


class Failed(msgspec.Struct, frozen=True):
    """No process of a side ended; with the error of one, or ``None`` if they were interrupted."""

    error: Optional[str]


class NotTimed(msgspec.Struct, frozen=True):
    """These sides have no values of the metric."""

    sides: tuple[str, ...]
    metric: Metric = Metric.LATENCY


class Batches(msgspec.Struct, frozen=True):
    """The sides ran different batch sizes."""

    base: tuple[int, ...]
    other: tuple[int, ...]


class Unrecorded(Enum):
    """What was not recorded on both sides."""

    WEIGHTS = "weights"
    INPUTS = "inputs"
    WORK = "work"


class Refusal(msgspec.Struct, frozen=True):
    """Why the two sides of a row are not comparable.

    Attributes:
        obstacle: what kind of reason it is.
        side: name of the side that it is about; empty if it is about both.
        fact: what shows it. A text is the name of an emulator.
    """

    obstacle: Obstacle
    side: str = ""
    fact: Union[Failed, NotTimed, Batches, Unproven, WarningMessage, Unrecorded, Validity, Incomparable, str, None] = (
        None
    )


class StoredResult(msgspec.Struct, frozen=True):
    """A result with the path that it was read from."""

    path: str
    result: Result


class Side(msgspec.Struct, frozen=True):
    """One side of a comparison: the sessions that were measured in the same way on one machine.

    Attributes:
        name: how the output calls it: the name that was given, or that of its file or directory.
        results: oldest first; each is a session.
    """

    name: str
    results: tuple[StoredResult, ...]


class SideSetting(msgspec.Struct, frozen=True):
    """One workload under one setting, as one side has it.

    Attributes:
        workload: the workload's name.
        requested: the setting as asked for.
        label: what tells it from the side's other settings of this workload, as it was asked for.
        sessions: the runs of each session, failed ones included, oldest session first.
        results: the session's results, in the same order.
        groups: its group within each of them, in the same order.
        validity: the latest judgement of its predictions; ``None`` if they were not judged.
    """

    workload: str
    requested: Setting
    label: str
    sessions: tuple[tuple[Run, ...], ...]
    results: tuple[Result, ...]
    groups: tuple[int, ...]
    validity: Optional[ValidityEntry] = None


class SideLevel(msgspec.Struct, frozen=True):
    """What one side of a row measured.

    Attributes:
        value: the level in the metric's unit (seconds of one forward batch, items per second, bytes), with the 95 %
            interval that its own processes, or from three sessions on its sessions, give it.
        sessions: number of sessions.
        processes: number of processes of all sessions.
    """

    value: stats.Interval
    sessions: int
    processes: int


class Spread(msgspec.Struct, frozen=True):
    """How much the sessions of one side differ.

    Attributes:
        basis: where it comes from.
        deviation: standard deviation of the log levels of days.
        sessions: number of the side's own sessions.
        days: number of days on which they were.
        processes: standard deviation of the log values of processes, if there are too few to trust their own spread.
    """

    basis: Basis
    deviation: float
    sessions: int
    days: int
    processes: Optional[float] = None


class Estimate(msgspec.Struct, frozen=True):
    """The ratio of two sides, before it is judged together with the other rows.

    Attributes:
        base: what the baseline measured.
        other: what the other side measured.
        ratio: how many times better the other side is, with the 95 % interval that contains what changes between
            sessions; it is not corrected for the other rows.
        p_value: two-sided, of the hypothesis that the sides are equal.
        spreads: how much the sessions of each side differ.
        error: standard error of the log ratio.
        freedom: its degrees of freedom; infinite if the variance is assumed.
        seen: what each look saw if the looks were planned, which may be none so far; ``None``: one look, at the end.
    """

    base: SideLevel
    other: SideLevel
    ratio: stats.Interval
    p_value: float
    spreads: tuple[Spread, ...]
    error: float
    freedom: float
    seen: Optional[tuple[stats.Seen, ...]] = None

    @property
    def basis(self) -> Basis:
        """Where the variance comes from: the least certain of the sides'."""
        return max((each.basis for each in self.spreads), key=list(Basis).index)


class Row(msgspec.Struct, frozen=True):
    """One workload and setting of both sides.

    Attributes:
        workload: the workload's name.
        label: the baseline's setting.
        other_label: the other side's; it differs only if the two were paired on purpose.
        base: the baseline's runs; ``None`` if it does not have this setting.
        other: the other side's.
        base_value: the baseline's level in the metric's unit with its own interval, also if the sides cannot be
            compared; ``None`` if it has none.
        other_value: the other side's.
        estimate: ``None`` if the sides cannot be compared.
        outcome: corrected for all comparable rows.
        verdict: what the outcome follows from; ``None`` if the sides cannot be compared.
        refused: what makes the sides not comparable.
        allowed: what would make them not comparable and was let through.
    """

    workload: str
    label: str
    other_label: str
    base: Optional[SideSetting]
    other: Optional[SideSetting]
    base_value: Optional[stats.Interval]
    other_value: Optional[stats.Interval]
    estimate: Optional[Estimate]
    outcome: stats.Outcome
    verdict: Optional[stats.Verdict] = None
    refused: tuple[Refusal, ...] = ()
    allowed: tuple[Refusal, ...] = ()

    @property
    def setting(self) -> str:
        """The setting, or both sides' if they were paired on purpose; no two rows of a workload have the same."""
        return self.label if self.label == self.other_label else f"{self.label} → {self.other_label}"

    @property
    def name(self) -> str:
        """``bert fp32``."""
        return f"{self.workload} {self.setting}"
