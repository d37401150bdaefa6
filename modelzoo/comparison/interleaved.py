"""Two sides that one call measured in the same rounds, row by row. Pure.

Their ratio is that of the rounds (``results.speed``), which is free of what changes between sessions. Everything else
is as for stored results: what makes the sides not comparable, what differs, what explains it, ``--fail-on``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Optional

from modelzoo import stats
from modelzoo.comparison import refusals
from modelzoo.comparison.compare import Comparison
from modelzoo.comparison.conditions import conditions
from modelzoo.comparison.estimate import mean_ratio
from modelzoo.comparison.explanations import explanation
from modelzoo.comparison.model import (
    Basis,
    Estimate,
    Metric,
    NotTimed,
    Obstacle,
    Refusal,
    Row,
    Side,
    SideLevel,
    SideSetting,
    Spread,
    StoredResult,
)
from modelzoo.comparison.pairing import Pair
from modelzoo.records.run import Result
from modelzoo.results.speed import Speed, looks, speeds
from modelzoo.results.summary import by_precision
from modelzoo.setting import Setting, labels
from modelzoo.stats import Outcome


def compare_interleaved(stored: StoredResult, names: tuple[str, str], allowed: Collection[Obstacle] = ()) -> Comparison:
    """Compare the two settings of each workload of a result.

    Args:
        stored: the result; its settings are, workload by workload, the baseline's and the other side's.
        names: of the sides.
        allowed: what does not make them incomparable.
    """
    found, result = speeds(stored.result), stored.result
    rows = []
    for first in range(0, len(result.requested), 2):
        pair = Pair(_side_setting(result, first), _side_setting(result, first + 1))
        rows.append(_row(pair, names, found.get(first + 1), allowed))
    explained = (explanation(row, Metric.LATENCY) for row in rows)
    return Comparison(
        metric=Metric.LATENCY,
        base=Side(names[0], (stored,)),
        other=Side(names[1], (stored,)),
        same_machine=True,
        rows=tuple(rows),
        mean=mean_ratio([row.estimate for row in rows if row.estimate is not None]),
        conditions=conditions(rows),
        explanations=tuple(each for each in explained if each is not None),
    )


def _side_setting(result: Result, group: int) -> SideSetting:
    requested = result.requested[group]
    runs = tuple(result.groups().get(group, ()))
    return SideSetting(
        workload=requested.workload,
        requested=requested.setting,
        label=_label(requested.setting),
        sessions=(runs,),
        results=(result,),
        groups=(group,),
        validity=result.judged().get(group),
    )


def _label(setting: Setting) -> str:
    """The label without the interpreter, by which the sides differ."""
    return labels([setting.replace(python=None)])[0]


def _row(pair: Pair, names: tuple[str, str], found: Optional[Speed], allowed: Collection[Obstacle]) -> Row:
    base, other = pair.base, pair.other
    assert base is not None and other is not None  # both were asked for
    refused, let_through = refusals.divided(refusals.refusals(pair, names, Metric.LATENCY), allowed)
    if not refused and found is not None and found.refused is not None:
        refused = (Refusal(Obstacle.WORK, fact=found.refused),)
    values = [_level(side) for side in (base, other)]
    if not refused and (found is None or found.ratio is None):
        untimed = tuple(name for name, value in zip(names, values) if value is None)
        refused = (Refusal(Obstacle.MISSING, fact=NotTimed(untimed or names)),)
    ratio = found.ratio if found is not None and not refused else None
    return Row(
        workload=base.workload,
        label=base.label,
        other_label=other.label,
        base=base,
        other=other,
        base_value=values[0].value if values[0] is not None else None,
        other_value=values[1].value if values[1] is not None else None,
        estimate=_estimate(base, other, ratio) if ratio is not None else None,
        outcome=found.verdict.outcome if found is not None and ratio is not None else Outcome.NOT_COMPARABLE,
        verdict=found.verdict if ratio is not None and found is not None else None,
        refused=refused,
        allowed=let_through,
    )


def _level(side: SideSetting) -> Optional[SideLevel]:
    timed = [run.steady for run in side.sessions[0] if run.steady]
    if not timed:
        return None
    narrow = by_precision(side.results[0], side.workload)
    return SideLevel(stats.setting_interval(timed, by_precision=narrow), sessions=1, processes=len(timed))


def _estimate(base: SideSetting, other: SideSetting, ratio: stats.Interval) -> Estimate:
    """The ratio of the rounds that both sides have, with what each planned look saw of it."""
    mine, theirs = ({run.round: run.steady for run in side.sessions[0] if run.steady} for side in (base, other))
    shared = sorted(set(mine) & set(theirs))
    samples: tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]
    samples = [mine[number] for number in shared], [theirs[number] for number in shared]
    planned = looks(base.results[0], base.workload)
    tested = stats.ratio_test(*samples, paired=True, looks=planned)
    levels = _level(base), _level(other)
    assert levels[0] is not None and levels[1] is not None and shared  # there is a ratio
    spread = tested.spread if tested.spread is not None else math.inf
    return Estimate(
        base=levels[0],
        other=levels[1],
        ratio=ratio,
        p_value=tested.p_value,
        spreads=(Spread(Basis.ROUNDS, spread, sessions=1, days=1),),
        error=spread / math.sqrt(len(shared)),
        freedom=len(shared) - 1,
        seen=stats.seen_at_looks(*samples, planned),
    )
