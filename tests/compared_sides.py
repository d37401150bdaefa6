"""Made-up sides and rows of comparisons: sessions of one setting, as a stored result would hold them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fake_runs import make, result_of

from modelzoo.comparison.estimate import Row, Side, StoredResult
from modelzoo.frozen import replace
from modelzoo.records.run import Result, Run
from modelzoo.results.refusals import SideSetting
from modelzoo.results.speed import Speed
from modelzoo.stats import Basis, Interval, Outcome, Ratio, Spread, Verdict


def session(processes: Sequence[float], day: int = 1, **changes: Any) -> Result:
    """The session of this day of July: one process of three equal samples for each of ``processes`` (seconds)."""
    runs = [make([seconds] * 3, round=number, **changes) for number, seconds in enumerate(processes)]
    return replace(result_of(*runs), created=f"2026-07-{day:02}T00:00:00+00:00")


def side_setting(*results: Result) -> SideSetting:
    """The only setting of these sessions."""
    first = results[0].runs[0]
    runs = tuple(result.runs for result in results)
    return SideSetting(first.workload, first.requested, "fp32", runs, results)


def side_of(name: str, *runs: Run) -> Side:
    """A side that is one session with these runs."""
    return Side(name, (StoredResult(f"{name}.json", result_of(*runs)),))


def row_of(base: SideSetting, other: SideSetting, *, spread: float = 0.1, outcome: Outcome = Outcome.FASTER) -> Row:
    """A row that was compared by latency: of 2 s and 1 s, each within ``spread`` of its logarithm."""
    base_value, other_value = (Interval(value, value * math.exp(-spread), value * math.exp(spread)) for value in (2, 1))
    interval = Interval(2, 2 * math.exp(-2 * spread), 2 * math.exp(2 * spread))
    return Row(
        workload=base.workload,
        label=base.label,
        other_label=base.label,
        base=base,
        other=other,
        base_value=base_value,
        other_value=other_value,
        speed=Speed(Ratio(interval, 0.001, spreads=(Spread(Basis.ASSUMED, 0.1),)), Verdict(outcome)),
    )
