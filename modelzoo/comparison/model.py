"""What a comparison of stored results consists of: its sides, its rows, and what explains them."""

from __future__ import annotations

import math
from enum import Enum
from typing import Optional

import msgspec

from modelzoo import stats
from modelzoo.comparison.stage_row import StageRow
from modelzoo.records.run import Result, Run, ValidityEntry
from modelzoo.setting import Setting


class Metric(str, Enum):
    """What is compared. Of throughput, more is better; of everything else, less."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    COLD_START = "cold-start"
    MEMORY = "memory"

    def __str__(self) -> str:
        return self.value


class Outcome(str, Enum):
    """Conclusion of a row. LESS and MORE are what FASTER and SLOWER are for times: better and worse."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    LESS = "LESS"
    MORE = "MORE"
    SAME = "SAME"
    AMBIGUOUS = "AMBIGUOUS"
    NOT_COMPARABLE = "NOT COMPARABLE"

    def __str__(self) -> str:
        return self.value


class Basis(str, Enum):
    """Where the variance between sessions comes from, which an interval between stored results needs."""

    SESSIONS = "sessions"
    HISTORY = "history"
    ASSUMED = "assumed"

    def __str__(self) -> str:
        return self.value


class Obstacle(str, Enum):
    """What makes two sides not comparable. All but ``MISSING`` can be allowed."""

    WEIGHTS = "weights"
    INPUTS = "inputs"
    BATCH = "batch"
    WORK = "work"
    OUTPUTS = "outputs"
    UNPROVEN = "unproven"
    INACTIVE = "inactive"
    EMULATOR = "emulator"
    INVALID = "invalid"
    UNRECORDED = "unrecorded"
    MISSING = "missing"

    def __str__(self) -> str:
        return self.value


class Refusal(msgspec.Struct, frozen=True):
    """Why the two sides of a row are not comparable, in one sentence."""

    obstacle: Obstacle
    text: str


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
        asked: the setting as asked for.
        label: what tells it from the side's other settings of this workload, as it was asked for.
        sessions: the runs of each session, failed ones included, oldest session first.
        results: the session's results, in the same order.
        groups: its group within each of them, in the same order.
        validity: the latest judgement of its predictions; ``None`` if they were not judged.
    """

    workload: str
    asked: Setting
    label: str
    sessions: tuple[tuple[Run, ...], ...]
    results: tuple[Result, ...]
    groups: tuple[int, ...]
    validity: Optional[ValidityEntry] = None


class Measured(msgspec.Struct, frozen=True):
    """What one side of a row measured.

    Attributes:
        value: the level in the metric's unit (seconds of one forward batch, items per second, bytes), with the 95 %
            interval that its own processes, or from three sessions on its sessions, give it.
        sessions: number of sessions.
        processes: number of processes of all sessions.
        is_adjusted: whether it is the level at the machine's reference speed.
    """

    value: stats.Interval
    sessions: int
    processes: int
    is_adjusted: bool = False


class Estimate(msgspec.Struct, frozen=True):
    """The ratio of two sides, before it is judged together with the other rows.

    Attributes:
        base: what the baseline measured.
        other: what the other side measured.
        ratio: how many times better the other side is, with the 95 % interval that contains what changes between
            sessions; it is not corrected for the other rows.
        p_value: two-sided, of the hypothesis that the sides are equal.
        basis: where the variance between sessions comes from.
        basis_text: the same in words, with its value: ``sessions differ by 10 % (assumed), standard deviation``.
        error: standard error of the log ratio.
        freedom: its degrees of freedom; infinite if the variance is assumed.
    """

    base: Measured
    other: Measured
    ratio: stats.Interval
    p_value: float
    basis: Basis
    basis_text: str
    error: float
    freedom: float


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
    outcome: Outcome
    verdict: Optional[stats.Verdict] = None
    refused: tuple[Refusal, ...] = ()
    allowed: tuple[Refusal, ...] = ()


class Difference(msgspec.Struct, frozen=True):
    """A condition that differs between the sides.

    Attributes:
        name: ``CPU``, ``torch``, ``variable OMP_NUM_THREADS`` ….
        base: the baseline's value as text.
        other: the other side's.
        rows: names of the rows that it concerns; empty if it concerns all.
        is_apart: whether no process of one side has a value of the other.
    """

    name: str
    base: str
    other: str
    rows: tuple[str, ...] = ()
    is_apart: bool = True


class Conditions(msgspec.Struct, frozen=True):
    """What the sides have in common, and what differs, the most decisive first."""

    shared: tuple[tuple[str, str], ...]
    differing: tuple[Difference, ...]


class Part(msgspec.Struct, frozen=True):
    """What one kind of operation contributes to a difference.

    Attributes:
        name: ``conv: kernels``, ``aten::copy_`` …; ``everything else`` for what is not listed.
        base: seconds per batch; 0 if the baseline does not have it.
        other: likewise.
        base_kernels: the kernels in which the baseline spent most of it, as far as the evidence names them.
        other_kernels: likewise.
    """

    name: str
    base: float
    other: float
    base_kernels: tuple[str, ...] = ()
    other_kernels: tuple[str, ...] = ()

    @property
    def change(self) -> float:
        """Seconds per batch that the other side takes more."""
        return self.other - self.base


class Explanation(msgspec.Struct, frozen=True):
    """Where the difference of a row comes from.

    Attributes:
        workload: of the row.
        label: of the row.
        source: what the parts come from: ``audited`` or ``profiled`` passes.
        parts: the largest change first, everything else last; they add up to the difference of these passes.
        base_passes: number of passes that the baseline's seconds are the mean of.
        other_passes: likewise.
        base_timed: seconds per batch as timed without audit or profiler: the geometric mean of the processes' medians.
        other_timed: likewise.
    """

    workload: str
    label: str
    source: str
    parts: tuple[Part, ...]
    base_passes: int
    other_passes: int
    base_timed: float
    other_timed: float

    @property
    def base(self) -> float:
        """Seconds of one of the baseline's passes."""
        return math.fsum(part.base for part in self.parts)

    @property
    def other(self) -> float:
        """Seconds of one of the other side's passes."""
        return math.fsum(part.other for part in self.parts)


class Rates(msgspec.Struct, frozen=True):
    """The throughput of one side of a row, in items per second, with 95 % intervals.

    Attributes:
        machine: of the whole machine.
        core: of each physical core; ``None`` if the model does not run on the CPU.
        vcpu: of each logical CPU; ``None`` likewise.
        extrapolated: what is assumed because the run did not use the whole machine; empty if it did.
        assumed: what is assumed of the machine's physical cores; empty if their number is known.
    """

    machine: stats.Interval
    core: Optional[stats.Interval]
    vcpu: Optional[stats.Interval]
    extrapolated: str = ""
    assumed: str = ""


class RowRates(msgspec.Struct, frozen=True):
    """The throughput of both sides of a row; ``unit`` is what is counted (``images`` …)."""

    workload: str
    label: str
    unit: str
    base: Rates
    other: Rates


class Price(msgspec.Struct, frozen=True):
    """What a machine costs.

    Attributes:
        name: of a side, or of a type of cloud instance.
        per_hour: for the whole machine.
        currency: as given; may be empty.
        date: when the price was valid, ISO 8601; empty if it was given without one.
        source: where the price is from: ``--price`` or the name of a file.
    """

    name: str
    per_hour: float
    currency: str = ""
    date: str = ""
    source: str = "--price"


class Cost(msgspec.Struct, frozen=True):
    """What a million inferences cost on both sides of a row, in the currency of the prices, with 95 % intervals.

    Attributes:
        workload: of the row.
        label: of the row.
        unit: what counts as an inference: one item of a batch (``images`` …).
        base: on the baseline's machine.
        other: on the other side's.
        ratio: how many times cheaper the other side is; like the row's ratio, its interval contains what changes
            between sessions.
        base_price: of the baseline's machine.
        other_price: of the other side's.
        base_extrapolated: what is assumed because the baseline did not use the whole machine; empty if it did.
        other_extrapolated: likewise.
    """

    workload: str
    label: str
    unit: str
    base: stats.Interval
    other: stats.Interval
    ratio: stats.Interval
    base_price: Price
    other_price: Price
    base_extrapolated: str = ""
    other_extrapolated: str = ""


class Comparison(msgspec.Struct, frozen=True):
    """A baseline and another side.

    Attributes:
        metric: what was compared.
        base: the baseline.
        other: the other side.
        same_machine: whether both ran on one machine, as far as what decides its speed says.
        rows: in the baseline's order; what only the other side has comes last.
        mean: geometric mean of the ratios of the comparable rows, with its 95 % interval; ``None`` without such rows.
        conditions: what is common and what differs.
        explanations: of the rows whose sides both have profiles or audits.
        notes: what the numbers do not say by themselves, one sentence each.
        rates: throughput per machine, core and vCPU, of the rows for which it is known.
        costs: of a million inferences, if prices were given.
        stages: of the rows whose sides timed pipelines.
    """

    metric: Metric
    base: Side
    other: Side
    same_machine: bool
    rows: tuple[Row, ...]
    mean: Optional[stats.Interval]
    conditions: Conditions
    explanations: tuple[Explanation, ...] = ()
    notes: tuple[str, ...] = ()
    rates: tuple[RowRates, ...] = ()
    costs: tuple[Cost, ...] = ()
    stages: tuple[StageRow, ...] = ()
