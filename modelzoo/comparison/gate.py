"""Which rows do not pass what ``--fail-on`` names, and the exit code that follows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import msgspec

from modelzoo.comparison.compare import Comparison
from modelzoo.comparison.estimate import worse_by_more
from modelzoo.comparison.model import Metric, Obstacle
from modelzoo.comparison.refusals import ALLOWABLE
from modelzoo.stats import Outcome

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
        return self.name if self.fraction is None else f"{self.name}:{100 * self.fraction:g}%"


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
    correction gives it (``estimate.worse_by_more``). An AMBIGUOUS row passes unless ``ambiguous`` is a condition.
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
