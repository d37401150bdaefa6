"""The stages of two pipelines side by side. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import msgspec

from modelzoo import stats
from modelzoo.comparison.estimate import Context, estimate
from modelzoo.comparison.levels import interval, session_levels
from modelzoo.comparison.machines import reports_of
from modelzoo.comparison.model import Metric, Row, SideSetting
from modelzoo.frozen import replace
from modelzoo.records.run import Run


def stage_rows(rows: Sequence[Row], metric: Metric, common: Context) -> tuple[StageRow, ...]:
    """Return the stages of every row, in the order in which they run; none if something else than times is compared.

    Ratios are estimated as those of the rows, but not adjusted: how a stage follows the reference load is not known.

    Args:
        rows: of the comparison.
        metric: what is compared.
        common: what the estimates have in common.
    """
    if metric is not Metric.LATENCY:
        return ()
    unadjusted = replace(common, fit=None)
    return tuple(each for index, row in enumerate(rows) for each in _stages(index, row, unadjusted))


def _stages(index: int, row: Row, common: Context) -> list[StageRow]:
    names = list(dict.fromkeys(name for side in (row.base, row.other) for name in _names(side)))
    found = []
    for name in names:
        base, other = _of_stage(row.base, name), _of_stage(row.other, name)
        ratio = None
        if row.estimate is not None and base is not None and other is not None:
            compared = estimate(base, other, Metric.LATENCY, common)
            ratio = compared.ratio if compared is not None else None
        found.append(StageRow(index, name, _level(base), _level(other), ratio))
    return found


def _names(side: Optional[SideSetting]) -> list[str]:
    """The stages of a side; none if it timed the model alone."""
    pipelines = [each.pipeline for each in reports_of(side) if each.pipeline is not None] if side is not None else []
    return [stage.name for stage in pipelines[0].stages] if pipelines else []


def _of_stage(side: Optional[SideSetting], name: str) -> Optional[SideSetting]:
    """``side`` as if only the stage ``name`` had been timed; ``None`` if it has no such stage."""
    if side is None or name not in _names(side):
        return None
    return replace(side, sessions=tuple(tuple(_watching(run, name) for run in runs) for runs in side.sessions))


def _watching(run: Run, name: str) -> Run:
    """``run`` with the series ``name`` in place of the latency."""
    report = run.report
    if report is None or report.timing is None:
        return run
    return replace(run, report=replace(report, timing=replace(report.timing, watched=name)))


def _level(side: Optional[SideSetting]) -> Optional[stats.Interval]:
    levels = session_levels(side, Metric.LATENCY) if side is not None else None
    return interval(levels) if levels is not None else None


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
