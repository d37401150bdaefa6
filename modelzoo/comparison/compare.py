"""A baseline and another side, row by row, with verdicts that hold together; stages, and what --fail-on makes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from modelzoo import stats
from modelzoo.comparison.conditions import Conditions, conditions
from modelzoo.comparison.estimate import (
    ASSUMED_SPREAD,
    Row,
    Side,
    StoredResult,
    is_one_day,
    level,
    mean_ratio,
    ratio,
    worse_by_more,
)
from modelzoo.comparison.explanations import Explanation, explanation
from modelzoo.comparison.machines import Cost, Price, RowRates, costs, row_rates, same_machine
from modelzoo.comparison.pairing import Pairing, best_of, is_served, pairs, settings_of
from modelzoo.errors import InputError, UsageError
from modelzoo.frozen import replace
from modelzoo.records.race import Throughput
from modelzoo.records.run import Result, Run
from modelzoo.records.timing import FIRST_TOKEN, PER_TOKEN, StopReason
from modelzoo.results.refusals import (
    ALLOWABLE,
    Metric,
    NotTimed,
    Obstacle,
    Pair,
    Refusal,
    SideSetting,
    divided,
    refusals,
)
from modelzoo.results.speed import Divided, Speed, of_rounds, pair_in_rounds, sides_of, table
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
        costs: of a million items, if prices were given.
        stages: of the rows whose sides timed pipelines; of language models, their tokens.
    """

    metric: Metric
    base: Side
    other: Side
    same_machine: bool
    rows: tuple[Row, ...]
    mean: stats.Interval | None
    conditions: Conditions
    explanations: tuple[Explanation, ...] = ()
    rates: tuple[RowRates, ...] = ()
    costs: tuple[Cost, ...] = ()
    stages: tuple[StageRow, ...] = ()


class Question(msgspec.Struct, frozen=True):
    """What is to be compared, and how.

    Attributes:
        metric: what is compared; ``None``: the throughput of instances, and the latency of everything else.
        pairings: what is paired on purpose although it differs.
        allowed: what does not make sides incomparable.
        assumed: standard deviation of the log levels of days if a side has too few of them.
    """

    metric: Metric | None = None
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
        InputError: one side holds what many instances served, and the other one the times of single processes.
        UsageError: a pairing pairs nothing, or the metric does not fit the prices or the results.
    """
    served, timed = (
        [side.name for side in (base, other) if is_served(side.results[0]) is is_one] for is_one in (True, False)
    )
    if served and timed:
        raise InputError(
            f"{served[0]} is a result of 'modelzoo throughput', and {timed[0]} is none; compare results of one command"
        )
    metric = question.metric or (Metric.THROUGHPUT if served else Metric.LATENCY)
    if served and metric is not Metric.THROUGHPUT:
        raise UsageError(f"--metric {metric}: results of 'modelzoo throughput' are compared by throughput only")
    settings = best_of if served else settings_of
    paired = pairs(settings(base), settings(other), question.pairings)

    def divide(pair: Pair) -> Divided:
        return divided(refusals(pair, metric), question.allowed)

    speeds = table(paired, divide, lambda pair: ratio(pair, metric, question.assumed))
    one_day = [pair for pair in paired if is_one_day(pair)]
    alone = table(one_day, divide, lambda pair: ratio(pair, metric, is_alone=True))
    by_pair = dict(zip(map(id, one_day), alone))
    rows = tuple(_row(pair, found, metric, _value, by_pair.get(id(pair))) for pair, found in zip(paired, speeds))
    rated = [row_rates(row, metric) for row in rows]
    return replace(
        _comparison(metric, base, other, rows, is_same=same_machine(base, other)),
        rates=tuple(each for each in rated if each is not None),
        costs=costs(rows, metric, *prices) if prices else (),
        stages=stage_rows(rows, metric, question.assumed),
    )


def compare_interleaved(stored: StoredResult, names: tuple[str, str], allowed: Collection[Obstacle] = ()) -> Comparison:
    """Compare the two settings of each workload that one call measured in the same rounds.

    Their ratio is that of the rounds, which is free of what changes between sessions. Everything else is as for stored
    results: what makes the sides not comparable, what differs, what explains it, ``--fail-on``.

    Args:
        stored: the result; its settings are, workload by workload, the baseline's and the other side's.
        names: of the sides.
        allowed: what does not make them incomparable.
    """
    # The sides differ by the interpreter, which is no part of the label.
    sides = [replace(side, label=side.requested.replace(python=None).label) for side in sides_of(stored.result, *names)]
    paired = [pair_in_rounds(base, other) for base, other in zip(sides[::2], sides[1::2])]
    speeds = table(paired, lambda pair: divided(refusals(pair), allowed), _of_rounds)
    rows = tuple(_row(pair, found, Metric.LATENCY, _value_in_rounds) for pair, found in zip(paired, speeds))
    base, other = (Side(name, (stored,)) for name in names)
    return _comparison(Metric.LATENCY, base, other, rows, is_same=True)


def _of_rounds(pair: Pair) -> stats.Ratio | Refusal:
    found = of_rounds(pair)
    if isinstance(found, stats.Ratio):
        return found
    sides = [side for side in (pair.base, pair.other) if side is not None]
    untimed = [side for side in sides if _value_in_rounds(side) is None]
    return Refusal(Obstacle.MISSING, fact=NotTimed(tuple(side.side for side in untimed or sides)))


def _value_in_rounds(side: SideSetting, metric: Metric = Metric.LATENCY) -> stats.Interval | None:
    timed = [run.steady for run in side.sessions[0] if run.steady]
    narrow = side.results[0].is_precise(side.workload)
    return stats.setting_interval(timed, by_precision=narrow) if timed else None


def _comparison(metric: Metric, base: Side, other: Side, rows: tuple[Row, ...], *, is_same: bool) -> Comparison:
    explained = (explanation(row, metric) for row in rows)
    return Comparison(
        metric=metric,
        base=base,
        other=other,
        same_machine=is_same,
        rows=rows,
        mean=mean_ratio([row.speed.found for row in rows if row.speed.found is not None]),
        conditions=conditions({row.name: (row.base, row.other) for row in rows if row.base and row.other}),
        explanations=tuple(each for each in explained if each is not None),
    )


def _row(
    pair: Pair,
    found: Speed,
    metric: Metric,
    value: Callable[[SideSetting, Metric], stats.Interval | None],
    alone: Speed | None = None,
) -> Row:
    sides = [side for side in (pair.base, pair.other) if side is not None]
    if metric is Metric.MEMORY:  # the verdict on times as one on bytes
        found, alone = _of_memory(found), _of_memory(alone) if alone is not None else None
    return Row(
        workload=sides[0].workload,
        label=sides[0].label,
        other_label=sides[-1].label,
        base=pair.base,
        other=pair.other,
        base_value=value(pair.base, metric) if pair.base is not None else None,
        other_value=value(pair.other, metric) if pair.other is not None else None,
        speed=found,
        alone=alone,
    )


def _of_memory(found: Speed) -> Speed:
    outcome = {Outcome.FASTER: Outcome.LESS, Outcome.SLOWER: Outcome.MORE}.get(found.verdict.outcome)
    return found if outcome is None else replace(found, verdict=replace(found.verdict, outcome=outcome))


def _value(side: SideSetting | None, metric: Metric) -> stats.Interval | None:
    """The level of a side on its own."""
    found = level(side, metric) if side is not None else None
    return found.interval if found is not None else None


def share_sessions(base: Side, other: Side) -> bool:
    """Whether some sessions belong to both sides."""
    mine, theirs = ({stored.result.created for stored in side.results} for side in (base, other))
    return bool(mine & theirs)


def is_complete(result: Result) -> bool:
    """Whether the call had ended by itself; results of older versions do not say."""
    if isinstance(result.payload, Throughput):
        return result.payload.is_complete
    return all(design.stop_reason not in (None, StopReason.INTERRUPTED) for design in result.latency.designs)


def stage_rows(rows: Sequence[Row], metric: Metric, assumed: float = ASSUMED_SPREAD) -> tuple[StageRow, ...]:
    """Return the stages of every row, in the order in which they run; none if something else than times is compared.

    Args:
        rows: of the comparison.
        metric: what is compared.
        assumed: as for ``estimate``.
    """
    found = []
    for index, row in enumerate(rows if metric is Metric.LATENCY else ()):
        for name in dict.fromkeys(name for side in (row.base, row.other) for name in _names(side)):
            base, other = _of_stage(row.base, name), _of_stage(row.other, name)
            compared = None
            if row.ratio is not None and base is not None and other is not None:
                compared = ratio(Pair(base, other), metric, assumed)
            of_stage = compared.interval if isinstance(compared, stats.Ratio) else None
            found.append(StageRow(index, name, _value(base, metric), _value(other, metric), of_stage))
    return tuple(found)


def _names(side: SideSetting | None) -> list[str]:
    """The stages of a side, or the times of its tokens; none if it timed forward passes of the model alone."""
    reports = side.reports if side is not None else []
    if any(each.generation is not None for each in reports):
        return [FIRST_TOKEN, PER_TOKEN]
    pipelines = [each.pipeline for each in reports if each.pipeline is not None]
    return [stage.name for stage in pipelines[0]] if pipelines else []


def _of_stage(side: SideSetting | None, name: str) -> SideSetting | None:
    """``side`` as if only the stage ``name`` had been timed; ``None`` if it has no such stage."""
    if side is None or name not in _names(side):
        return None

    def watching(run: Run) -> Run:
        report = run.report
        if report is None or report.timing is None:
            return run
        return replace(run, report=replace(report, timing=replace(report.timing, watched=name)))

    return replace(side, sessions=tuple(tuple(map(watching, runs)) for runs in side.sessions))


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
    base: stats.Interval | None
    other: stats.Interval | None
    ratio: stats.Interval | None


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
    fraction: float | None = None

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
    meeting = [(condition, _meeting(rows, condition)) for condition in conditions]
    met = tuple(tuple(condition for condition, of in meeting if index in of) for index in range(len(rows)))
    code = NOTHING if all(row.ratio is None for row in rows) else FAILED if any(met) else PASSED
    return Gate(tuple(conditions), met, code)


def _meeting(rows: Sequence[Row], condition: FailOn) -> list[int]:
    if condition.fraction == 0:  # a difference that is shown, but does not matter, is SAME
        return [index for index, row in enumerate(rows) if row.outcome in (Outcome.SLOWER, Outcome.MORE)]
    if condition.fraction is not None:
        compared = [(index, row.speed.found) for index, row in enumerate(rows) if row.speed.found is not None]
        worse = worse_by_more([found for _, found in compared], condition.fraction)
        return [index for (index, _), is_worse in zip(compared, worse) if is_worse]
    outcome = {AMBIGUOUS: Outcome.AMBIGUOUS, NOT_COMPARABLE: Outcome.NOT_COMPARABLE}.get(condition.name)
    if outcome is not None:
        return [index for index, row in enumerate(rows) if row.outcome is outcome]
    obstacle = Obstacle(condition.name)
    return [
        index
        for index, row in enumerate(rows)
        if any(each.obstacle is obstacle for each in (*row.speed.refused, *row.speed.allowed))
    ]


def fits(condition: FailOn, metric: Metric) -> bool:
    """Whether ``condition`` can be met by a comparison of ``metric``: memory is not slower, and times are not more."""
    if condition.fraction is None:
        return True
    return (condition.name == MORE) == (metric is Metric.MEMORY)
