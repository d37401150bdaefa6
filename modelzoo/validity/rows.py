"""Metrics and checks over rows, as data: an item is a row of named numbers, whatever the task.

    metrics = (Metric("f1"), Metric("em"))
    rules = (Rule("accuracy", ratio, "f1"), Rule("answer_agreement", share, "answer_agreement"))

A rule names a threshold of ``modelzoo.validity.checks``, how the numbers of a sample are compared with it, and which
numbers. Inference is by cluster: items of the same one are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Callable, Optional

import msgspec

from modelzoo.records.partial import Row
from modelzoo.records.validity import Check, MetricChange
from modelzoo.validity.bounds import Extreme, draw, percentile_bounds, sums_by_cluster, typical_size
from modelzoo.validity.changes import item_change
from modelzoo.validity.checks import (
    FAILS,
    PASSES,
    check_bounds,
    check_median,
    check_ratio,
    check_shares,
    check_shift,
    check_value,
)

TAIL = 99.0
"""The percentile that ``tail`` checks."""
EDGES = 4
"""Numbers of a box in what ``shift`` checks."""


def column(rows: Sequence[Row], name: str) -> list[float]:
    """The numbers ``name`` of all rows; a row has none, one or several."""
    return [value for row in rows for value in row.values(name)]


def clusters(rows: Sequence[Row], name: Optional[str] = None) -> list[Hashable]:
    """The cluster of each row, or of each number ``name``."""
    return [row.cluster or row.index for row in rows for _ in ([0] if name is None else row.values(name))]


def totals(rows: Sequence[Row], name: str) -> list[float]:
    """The sum of the numbers ``name`` in each row; 1 for each row without a name."""
    return [math.fsum(row.values(name)) if name else 1.0 for row in rows]


def mean(rows: Sequence[Row], name: str) -> float:
    """The mean of the numbers ``name``; 0 if there are none."""
    values = column(rows, name)
    return sum(values) / len(values) if values else 0.0


def means_and_largest(rows: Sequence[Row], *names: str) -> dict[str, float]:
    """The figures ``NAME_mean`` and ``NAME_max`` of the numbers that there are."""
    values = {name: found for name in names if (found := column(rows, name))}
    return {
        **{f"{name}_mean": sum(found) / len(found) for name, found in values.items()},
        **{f"{name}_max": max(found) for name, found in values.items()},
    }


class Metric(msgspec.Struct, frozen=True):
    """A metric that is a mean over items, from 0 to 1: of the numbers ``NAME_reference`` and ``NAME_tested``.

    Attributes:
        name: of the metric.
        of: for an agreement of the two models, in which fp32 is its own reference: the numbers that are added up.
        per: the numbers that are the sizes of the items; empty if all count alike.
        right_or_wrong: whether every item is right or wrong, and a cluster of its own.
    """

    name: str
    of: str = ""
    per: str = ""
    right_or_wrong: bool = False

    def sides(self, rows: Sequence[Row]) -> tuple[list[float], list[float]]:
        """What each item adds to the metric in fp32, and under test."""
        if self.of:
            return totals(rows, self.per), totals(rows, self.of)
        return totals(rows, f"{self.name}_reference"), totals(rows, f"{self.name}_tested")

    def so_far(self, sums: Sequence[float], count: int) -> tuple[float, ...]:
        """The metric of both models, or the agreement, from the sums of ``sides`` over ``count`` items."""
        return (sums[1] / max(sums[0], 1.0),) if self.of else (sums[0] / count, sums[1] / count)

    def change(self, rows: Sequence[Row]) -> Optional[MetricChange]:
        """How the metric changed; ``None`` with fewer than two clusters."""
        sizes = totals(rows, self.per) if self.per else None
        groups, agreement = clusters(rows), bool(self.of)
        return item_change(
            self.name,
            *self.sides(rows),
            clusters=groups,
            sizes=sizes,
            right_or_wrong=self.right_or_wrong,
            agreement=agreement,
        )


class Rule(msgspec.Struct, frozen=True):
    """A check of what a sample of items shows.

    Attributes:
        name: of the threshold.
        kind: ``ratio``, ``share``, ``average``, ``middle``, ``tail`` or ``shift``.
        of: the numbers that are checked; for ``ratio``, the metric.
        per: the numbers that are the sizes of the items, if ``of`` are sums.
        lowest: the least that a number can be. highest: the most; larger ones count as that.
    """

    name: str
    kind: Callable[[Rule, Sequence[Row], Mapping[str, float]], Check]
    of: str
    per: str = ""
    lowest: float = 0.0
    highest: float = 1.0

    def check(self, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
        """Compare the numbers of ``rows``, of which there is at least one row, with the threshold."""
        if self.kind is not ratio and not column(rows, self.of):
            return check_value(self.name, None, tolerance)
        return self.kind(self, rows, tolerance)


def ratio(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """A metric under test ÷ that in fp32; the worst cluster is right in one and wrong in the other."""
    sizes, sides = sums_by_cluster(clusters(rows), *Metric(rule.of).sides(rows))
    size = typical_size(sizes)
    drawn = draw(sides[1], sides[0], Extreme(0, size), Extreme(size, 0))
    return check_ratio(rule.name, drawn, len(rows), tolerance)


def share(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """A mean of numbers that have bounds."""
    if rule.per:
        _, (sums, sizes) = sums_by_cluster(clusters(rows), totals(rows, rule.of), totals(rows, rule.per))
    else:
        values = [min(value, rule.highest) for value in column(rows, rule.of)]
        sizes, (sums,) = sums_by_cluster(clusters(rows, rule.of), values)
    return check_shares(rule.name, sums, sizes, len(rows), tolerance, lowest=rule.lowest, highest=rule.highest)


def average(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """A mean of numbers that nothing bounds: the cluster that is added is an average one."""
    sums, sizes, count = totals(rows, rule.of), totals(rows, rule.per), len(rows)
    added = Extreme(sum(sums) / count, sum(sizes) / count)
    return check_ratio(rule.name, draw(sums, sizes, added, added), count, tolerance)


def middle(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """A median."""
    return check_median(rule.name, column(rows, rule.of), clusters(rows, rule.of), len(rows), tolerance)


def tail(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """A high percentile of numbers that nothing bounds."""
    values, groups = column(rows, rule.of), clusters(rows, rule.of)
    found = check_value(rule.name, percentile(values, TAIL), tolerance)
    return check_bounds(found, *percentile_bounds(values, groups, TAIL, PASSES, FAILS))


def shift(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """The largest mean of the signed numbers of boxes, of which each has four."""
    values, groups = column(rows, rule.of), clusters(rows, rule.of)
    boxes = [values[start : start + EDGES] for start in range(0, len(values), EDGES)]
    return check_shift(rule.name, boxes, groups[::EDGES], len(rows), tolerance)


def percentile(values: Sequence[float], percent: float) -> float:
    """By linear interpolation, as llama.cpp does."""
    import numpy as np

    return float(np.percentile(values, percent))
