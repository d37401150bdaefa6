"""A stage of two pipelines, as a comparison has it."""

from __future__ import annotations

from typing import Optional

import msgspec

from modelzoo import stats


class StageRow(msgspec.Struct, frozen=True):
    """One stage of a row's pipelines; ``row`` is the row's index.

    Attributes:
        name: of the stage.
        base: the baseline's seconds per batch; ``None`` if it has no such stage.
        other: the other side's.
        ratio: how many times faster the other side's is, with an interval as the row's; ``None`` without a comparison.
    """

    row: int
    name: str
    base: Optional[stats.Interval]
    other: Optional[stats.Interval]
    ratio: Optional[stats.Interval]
