"""A baseline and another side, row by row, with verdicts that hold together; stages, and what --fail-on makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import msgspec

from modelzoo import stats
from modelzoo.comparison import refusals
from modelzoo.comparison.conditions import Conditions, conditions
from modelzoo.comparison.estimate import ASSUMED_SPREAD, estimate, mean_ratio, outcomes, worse_by_more
from modelzoo.comparison.explanations import Explanation, explanation
from modelzoo.comparison.levels import interval, session_levels
from modelzoo.comparison.machines import Cost, Price, RowRates, costs, reports_of, row_rates, same_machine
from modelzoo.comparison.model import Metric, NotTimed, Obstacle, Refusal, Row, Side, SideSetting
from modelzoo.comparison.pairing import Pair, Pairing, pairs, settings_of
from modelzoo.comparison.refusals import ALLOWABLE
from modelzoo.frozen import replace
from modelzoo.records.run import Result, Run
from modelzoo.records.timing import FIRST_TOKEN, PER_TOKEN, StopReason
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
        stages: of the rows whose sides timed pipelines; of language models, their tokens.
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
        assumed: standard deviation of the log levels of days if a side has too few of them.
    """

    metric: Metric = Metric.LATENCY
    pairings: tuple[Pairing, ...] = ()
    allowed: frozenset[Obstacle] = frozenset()
    assumed: float = ASSUMED_SPREAD


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
    metric = question.metric
    paired = pairs(settings_of(base), settings_of(other), question.pairings)
    rows = judged([_row(pair, (base.name, other.name), question) for pair in paired], metric)
    explained = [explanation(row, metric) for row in rows]
    rated = [row_rates(row, metric) for row in rows]
    return Comparison(
        metric=metric,
        base=base,
        other=other,
        same_machine=same_machine(base, other),
        rows=rows,
        mean=mean_ratio([row.estimate for row in rows if row.estimate is not None]),
        conditions=conditions(rows),
        explanations=tuple(each for each in explained if each is not None),
        rates=tuple(each for each in rated if each is not None),
        costs=costs(rows, metric, *prices) if prices else (),
        stages=stage_rows(rows, metric, question.assumed),
    )


def _row(pair: Pair, names: tuple[str, str], question: Question) -> Row:
    """A row that is not judged yet: comparable rows are AMBIGUOUS until all of them are known."""
    metric = question.metric
    refused, allowed = refusals.divided(refusals.refusals(pair, names, metric), question.allowed)
    found = None
    if not refused and pair.base is not None and pair.other is not None:
        found = estimate(pair.base, pair.other, metric, question.assumed)
        if found is None:
            refused = (Refusal(Obstacle.MISSING, fact=NotTimed(_not_timed(pair, names, metric), metric)),)
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
    return all(design.stop_reason not in (None, StopReason.INTERRUPTED) for design in result.latency.designs)


def stage_rows(rows: Sequence[Row], metric: Metric, assumed: float = ASSUMED_SPREAD) -> tuple[StageRow, ...]:
    """Return the stages of every row, in the order in which they run; none if something else than times is compared.

    Args:
        rows: of the comparison.
        metric: what is compared.
        assumed: as for ``estimate``.
    """
    if metric is not Metric.LATENCY:
        return ()
    return tuple(each for index, row in enumerate(rows) for each in _stages(index, row, assumed))


def _stages(index: int, row: Row, assumed: float) -> list[StageRow]:
    names = list(dict.fromkeys(name for side in (row.base, row.other) for name in _names(side)))
    found = []
    for name in names:
        base, other = _of_stage(row.base, name), _of_stage(row.other, name)
        ratio = None
        if row.estimate is not None and base is not None and other is not None:
            compared = estimate(base, other, Metric.LATENCY, assumed)
            ratio = compared.ratio if compared is not None else None
        found.append(StageRow(index, name, _level(base), _level(other), ratio))
    return found


def _names(side: Optional[SideSetting]) -> list[str]:
    """The stages of a side, or the times of its tokens; none if it timed forward passes of the model alone."""
    reports = reports_of(side) if side is not None else []
    if any(each.generation is not None for each in reports):
        return [FIRST_TOKEN, PER_TOKEN]
    pipelines = [each.pipeline for each in reports if each.pipeline is not None]
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
    """One stage of a row's pipelines, or one of the times of its tokens; ``row`` is the row's index.

    Attributes:
        name: of the stage, or of the series.
        base: the baseline's seconds per batch (``PER_TOKEN``: per token); ``None`` if it has no such stage.
        other: the other side's.
        ratio: how many times faster the other side's is, with an interval as the row's; ``None`` without a comparison.
    """

    row: int
    name: str
    base: Optional[stats.Interval]
    other: Optional[stats.Interval]
    ratio: Optional[stats.Interval]


SLOWER, MORE, AMBIGUOUS, NOT_COMPARABLE = "slower", "more", "ambiguous", "not-comparable"
NAMES = (SLOWER, MORE, AMBIGUOUS, NOT_COMPARABLE, *map(str, ALLOWABLE))
"""What ``--fail-on`` can name; the first two may have a bound."""
PASSED, FAILED, NOTHING = 0, 1, 2
"""Exit codes: every row passed, at least one did not, or a comparison has no comparable row at all."""


class FailOn(msgspec.Struct, frozen=True):
    """A condition that no row may meet.

    Attributes:
        name: one of ``NAMES``.
        fraction: by how much a row must be worse (slower, or more memory) at least; ``None`` for other conditions.
    """

    name: str
    fraction: Optional[float] = None

    def __str__(self) -> str:
        return self.name if not self.fraction else f"{self.name}:{100 * self.fraction:g}%"


class Gate(msgspec.Struct, frozen=True):
    """What became of a comparison's rows.

    Attributes:
        conditions: what no row may meet; empty if nothing was asked for.
        failures: of each row, the conditions that it meets.
        exit_code: 0, 1 or 2.
    """

    conditions: tuple[FailOn, ...]
    failures: tuple[tuple[FailOn, ...], ...]
    exit_code: int


def gate(comparison: Comparison, conditions: Sequence[FailOn]) -> Gate:
    """Return which rows meet which of ``conditions``.

    A row is worse by more than a bound if its interval lies wholly beyond the bound at the confidence that Holm's
    correction gives it (``estimate.worse_by_more``); without a bound, if its verdict is SLOWER, or MORE. An AMBIGUOUS
    row passes unless ``ambiguous`` is a condition.
    """
    rows = comparison.rows
    met: list[list[FailOn]] = [[] for _ in rows]
    for condition in conditions:
        for index in _meeting(comparison, condition):
            met[index].append(condition)
    code = FAILED if any(met) else PASSED
    if all(row.estimate is None for row in rows):
        code = NOTHING
    return Gate(tuple(conditions), tuple(map(tuple, met)), code)


def _meeting(comparison: Comparison, condition: FailOn) -> list[int]:
    rows = comparison.rows
    if condition.fraction == 0:  # a difference that is shown, but does not matter, is SAME
        return [index for index, row in enumerate(rows) if row.outcome in (Outcome.SLOWER, Outcome.MORE)]
    if condition.fraction is not None:
        compared = [(index, row.estimate) for index, row in enumerate(rows) if row.estimate is not None]
        worse = worse_by_more([estimate for _, estimate in compared], condition.fraction)
        return [index for (index, _), is_worse in zip(compared, worse) if is_worse]
    outcome = {AMBIGUOUS: Outcome.AMBIGUOUS, NOT_COMPARABLE: Outcome.NOT_COMPARABLE}.get(condition.name)
    if outcome is not None:
        return [index for index, row in enumerate(rows) if row.outcome is outcome]
    obstacle = Obstacle(condition.name)
    return [
        index
        for index, row in enumerate(rows)
        if any(each.obstacle is obstacle for each in (*row.refused, *row.allowed))
    ]


def fits(condition: FailOn, metric: Metric) -> bool:
    """Whether ``condition`` can be met by a comparison of ``metric``: memory is not slower, and times are not more."""
    if condition.fraction is None:
        return True
    return (condition.name == MORE) == (metric is Metric.MEMORY)
