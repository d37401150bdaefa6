"""A baseline and another side, row by row, with verdicts that hold together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import msgspec

from modelzoo import stats
from modelzoo.comparison import refusals
from modelzoo.comparison.basis import ASSUMED_SPREAD, Histories
from modelzoo.comparison.conditions import Conditions, conditions
from modelzoo.comparison.estimate import Context, context, estimate, mean_ratio, outcomes
from modelzoo.comparison.explanations import Explanation, explanation
from modelzoo.comparison.levels import interval, session_levels
from modelzoo.comparison.machines import RowRates, row_rates, same_machine
from modelzoo.comparison.model import Metric, NotTimed, Obstacle, Refusal, Row, Side, SideSetting
from modelzoo.comparison.pairing import Pair, Pairing, pairs
from modelzoo.comparison.prices import Cost, Price, costs
from modelzoo.comparison.sides import settings_of
from modelzoo.comparison.stages import StageRow, stage_rows
from modelzoo.frozen import replace
from modelzoo.records.design import Ending
from modelzoo.records.run import Result
from modelzoo.stats import Outcome


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
    rates: tuple[RowRates, ...] = ()
    costs: tuple[Cost, ...] = ()
    stages: tuple[StageRow, ...] = ()


class Question(msgspec.Struct, frozen=True):
    """What is to be compared, and how.

    Attributes:
        metric: what is compared.
        pairings: what is paired on purpose although it differs.
        allowed: what does not make sides incomparable.
        assumed: standard deviation of the log levels of sessions if nothing is known.
        histories: what the machines keep of their sessions.
    """

    metric: Metric = Metric.LATENCY
    pairings: tuple[Pairing, ...] = ()
    allowed: frozenset[Obstacle] = frozenset()
    assumed: float = ASSUMED_SPREAD
    histories: Histories = msgspec.field(default_factory=Histories)


def compare(base: Side, other: Side, question: Question, prices: Sequence[Price] = ()) -> Comparison:
    """Compare ``other`` with the baseline.

    Args:
        base: the baseline.
        other: the other side.
        question: what is to be compared.
        prices: of the baseline's machine and of the other side's, or none.

    Raises:
        UsageError: a pairing pairs nothing, or the metric does not fit the prices.
    """
    metric, is_same = question.metric, same_machine(base, other)
    common = context(base, other, same_machine=is_same, histories=question.histories, assumed=question.assumed)
    paired = pairs(settings_of(base), settings_of(other), question.pairings)
    rows = judged([_row(pair, (base.name, other.name), question, common) for pair in paired], metric)
    explained = [explanation(row, metric) for row in rows]
    rated = [row_rates(row, metric) for row in rows]
    return Comparison(
        metric=metric,
        base=base,
        other=other,
        same_machine=is_same,
        rows=rows,
        mean=mean_ratio([row.estimate for row in rows if row.estimate is not None]),
        conditions=conditions(rows),
        explanations=tuple(each for each in explained if each is not None),
        rates=tuple(each for each in rated if each is not None),
        costs=costs(rows, metric, *prices) if prices else (),
        stages=stage_rows(rows, metric, common),
    )


def _row(pair: Pair, names: tuple[str, str], question: Question, common: Context) -> Row:
    """A row that is not judged yet: comparable rows are AMBIGUOUS until all of them are known."""
    metric = question.metric
    refused, allowed = refusals.divided(refusals.refusals(pair, names, metric), question.allowed)
    found = None
    if not refused and pair.base is not None and pair.other is not None:
        found = estimate(pair.base, pair.other, metric, common)
        if found is None:
            refused = (Refusal(Obstacle.MISSING, fact=NotTimed(_not_timed(pair, names, metric))),)
    labels = [side.label for side in (pair.base, pair.other) if side is not None]
    workload = next(side.workload for side in (pair.base, pair.other) if side is not None)
    return Row(
        workload=workload,
        label=labels[0],
        other_label=labels[-1],
        base=pair.base,
        other=pair.other,
        base_value=found.base.value if found is not None else _value(pair.base, metric),
        other_value=found.other.value if found is not None else _value(pair.other, metric),
        estimate=found,
        outcome=Outcome.AMBIGUOUS if found is not None else Outcome.NOT_COMPARABLE,
        refused=refused,
        allowed=allowed,
    )


def judged(rows: Sequence[Row], metric: Metric) -> tuple[Row, ...]:
    """Return ``rows`` with the outcomes of those that have an estimate, which are corrected for each other."""
    estimates = [row.estimate for row in rows if row.estimate is not None]
    verdicts = iter(outcomes(estimates, metric))
    found = []
    for row in rows:
        if row.estimate is not None:
            outcome, verdict = next(verdicts)
            row = replace(row, outcome=outcome, verdict=verdict)
        found.append(row)
    return tuple(found)


def _value(side: Optional[SideSetting], metric: Metric) -> Optional[stats.Interval]:
    """The level of a side that is not compared with anything."""
    levels = session_levels(side, metric) if side is not None else None
    return interval(levels) if levels is not None else None


def _not_timed(pair: Pair, names: tuple[str, str], metric: Metric) -> tuple[str, ...]:
    sides = zip((pair.base, pair.other), names)
    return tuple(name for side, name in sides if _value(side, metric) is None)


def share_sessions(base: Side, other: Side) -> bool:
    """Whether some sessions belong to both sides."""
    mine, theirs = ({stored.result.created for stored in side.results} for side in (base, other))
    return bool(mine & theirs)


def is_complete(result: Result) -> bool:
    """Whether the call had ended by itself; results of older versions do not say."""
    return all(design.ending not in (None, Ending.INTERRUPTED) for design in result.designs)
