"""What a comparison of results is made of: its sides and its rows."""

from __future__ import annotations

import msgspec

from modelzoo import stats
from modelzoo.records.run import Result
from modelzoo.results.refusals import SideSetting
from modelzoo.results.speed import Speed


class StoredResult(msgspec.Struct, frozen=True):
    """A result with the path that it was read from."""

    path: str
    result: Result


class Side(msgspec.Struct, frozen=True):
    """One side of a comparison: the sessions that were measured in the same way on one machine.

    Attributes:
        name: how the output calls it: the name that was given, or that of its file or directory.
        results: oldest first; each is a session.
        judged: results of ``modelzoo validate`` alone, which say whether the predictions are right.
    """

    name: str
    results: tuple[StoredResult, ...]
    judged: tuple[StoredResult, ...] = ()


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
        speed: how many times better the other side is; why the sides are not comparable, or what was let through.
        alone: the same of these sessions alone, without what changes between days; ``None`` unless all of them are of
            one day.
    """

    workload: str
    label: str
    other_label: str
    base: SideSetting | None
    other: SideSetting | None
    base_value: stats.Interval | None
    other_value: stats.Interval | None
    speed: Speed
    alone: Speed | None = None

    @property
    def outcome(self) -> stats.Outcome:
        """The verdict, corrected for all comparable rows."""
        return self.speed.verdict.outcome

    @property
    def ratio(self) -> stats.Interval | None:
        """How many times better the other side is; ``None`` if the two cannot be compared."""
        return self.speed.ratio

    @property
    def setting(self) -> str:
        """The setting, or both sides' if they were paired on purpose; no two rows of a workload have the same."""
        return self.label if self.label == self.other_label else f"{self.label} → {self.other_label}"

    @property
    def name(self) -> str:
        """``bert fp32``."""
        return f"{self.workload} {self.setting}"
