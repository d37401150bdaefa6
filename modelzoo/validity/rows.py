"""Metrics and checks over rows, as data: an item is a row of named numbers, whatever the task.

    metrics = (Metric("f1"), Metric("em"))
    rules = (Rule("accuracy", ratio, "f1"), Rule("answer_agreement", share, "answer_agreement"))

A rule names a threshold of ``modelzoo.validity.checks``, how the numbers of a sample are compared with it, and which
numbers. Inference is by cluster: items of the same one are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Any

import msgspec

from modelzoo.frozen import replace
from modelzoo.records.partial import Row
from modelzoo.records.validity import Check, MetricChange
from modelzoo.stats import student_t
from modelzoo.validity import bounds, checks

if TYPE_CHECKING:
    from numpy.typing import NDArray

TAIL = 99.0
"""The percentile that ``tail`` checks."""
EDGES = 4
"""Numbers of a box in what ``shift`` checks."""


def column(rows: Sequence[Row], name: str) -> list[float]:
    """The numbers ``name`` of all rows; a row has none, one or several."""
    return [value for row in rows for value in row.values(name)]


def clusters(rows: Sequence[Row], name: str | None = None) -> list[Hashable]:
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
    """The figures ``NAME``_mean and ``NAME``_max of the numbers that there are."""
    values = {name: found for name in names if (found := column(rows, name))}
    return {
        **{f"{name}_mean": sum(found) / len(found) for name, found in values.items()},
        **{f"{name}_max": max(found) for name, found in values.items()},
    }


class Metric(msgspec.Struct, frozen=True):
    """A metric that is a mean over items, from 0 to 1: of the numbers ``NAME``_reference and ``NAME``_tested.

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

    def change(self, rows: Sequence[Row]) -> MetricChange | None:
        """How the metric changed; ``None`` with fewer than two clusters."""
        reference, tested = self.sides(rows)
        sizes, total = totals(rows, self.per), sum(totals(rows, self.per))
        differences = [b - a for a, b in zip(reference, tested)]
        _, (changed, size) = bounds.sums_by_cluster(clusters(rows), differences, sizes)
        if len(size) < 2 or not total:
            return None
        worse, better = sum(each < 0 for each in differences), sum(each > 0 for each in differences)
        typical = bounds.typical_size(size)
        most = (0.0 if self.of else typical, typical)  # an agreement cannot rise
        drawn = bounds.draw(changed, size, (-typical, typical), most)
        found = checks.metric_change(
            self.name,
            sum(reference) / total,
            sum(tested) / total,
            drawn,
            bounds.detectable_loss(bounds.standard_error(changed.tolist(), size.tolist()), total / typical),
            len(rows),
        )
        p_value = bounds.mcnemar(worse, better) if self.right_or_wrong else None
        return replace(found, worse=worse, better=better, p_value=p_value)


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
            return checks.check_value(self.name, None, tolerance)
        return self.kind(self, rows, tolerance)


def ratio(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """A metric under test ÷ that in fp32; the worst cluster is right in one and wrong in the other."""
    sizes, sides = bounds.sums_by_cluster(clusters(rows), *Metric(rule.of).sides(rows))
    size = bounds.typical_size(sizes)
    drawn = bounds.draw(sides[1], sides[0], (0, size), (size, 0))
    return checks.check_ratio(rule.name, drawn, len(rows), tolerance)


def share(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """A mean of numbers that have bounds."""
    if rule.per:
        _, (sums, sizes) = bounds.sums_by_cluster(clusters(rows), totals(rows, rule.of), totals(rows, rule.per))
    else:
        values = [min(value, rule.highest) for value in column(rows, rule.of)]
        sizes, (sums,) = bounds.sums_by_cluster(clusters(rows, rule.of), values)
    return checks.check_ratio(rule.name, _share(sums, sizes, rule.lowest, rule.highest), len(rows), tolerance)


def _share(sums: NDArray[Any], sizes: NDArray[Any], lowest: float = 0.0, highest: float = 1.0) -> bounds.Drawn:
    size = bounds.typical_size(sizes)
    return bounds.draw(sums, sizes, (lowest * size, size), (highest * size, size))


def average(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """A mean of numbers that nothing bounds: the cluster that is added is an average one."""
    sums, sizes, count = totals(rows, rule.of), totals(rows, rule.per), len(rows)
    added = (sum(sums) / count, sum(sizes) / count)
    return checks.check_ratio(rule.name, bounds.draw(sums, sizes, added, added), count, tolerance)


def middle(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """A median of numbers from 0 to the highest."""
    values, groups = column(rows, rule.of), clusters(rows, rule.of)
    found = checks.check_value(rule.name, median(values), tolerance)
    decided = checks.check_bounds(
        found, *bounds.percentile_bounds(values, groups, 50, checks.PASSES, checks.FAILS, rule.highest)
    )
    if not decided.undecided:
        return decided
    # At most half of the values exceed what the median may not exceed.
    sizes, (within,) = bounds.sums_by_cluster(groups, [float(value <= found.required) for value in values])
    return checks.with_items(decided, _share(within, sizes), 0.5, len(rows), above=True)


def tail(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """A high percentile of numbers that nothing bounds."""
    values, groups = column(rows, rule.of), clusters(rows, rule.of)
    found = checks.check_value(rule.name, percentile(values, TAIL), tolerance)
    return checks.check_bounds(found, *bounds.percentile_bounds(values, groups, TAIL, checks.PASSES, checks.FAILS))


def shift(rule: Rule, rows: Sequence[Row], tolerance: Mapping[str, float]) -> Check:
    """The largest mean of the four signed numbers of boxes, which none may exceed in either direction.

    The bounds are Student's t, with the standard error of a ratio over clusters, and Satterthwaite's degrees of freedom
    ("An approximate distribution of estimates of variance components", Biometrics Bulletin 2, 1946) for clusters whose
    sums vary in proportion to their sizes: a few large clusters among many small ones are as few as they are.
    """
    values, groups = column(rows, rule.of), clusters(rows, rule.of)[::EDGES]
    sizes, columns = bounds.sums_by_cluster(groups, *(values[edge::EDGES] for edge in range(EDGES)))
    means = [abs(float(sums.sum())) / len(groups) for sums in columns]
    found, count = checks.check_value(rule.name, max(means), tolerance), len(sizes)
    unknown = replace(found, passed=False, undecided=True)
    if count < 2:
        return unknown
    errors = [bounds.standard_error(sums.tolist(), sizes.tolist()) for sums in columns]
    freedom = float((sizes**2).sum() ** 2 / (sizes**4).sum()) - 1
    passes, fails = student_t(checks.PASSES, freedom), student_t(1 - (1 - checks.FAILS) / (2 * EDGES), freedom)
    if not math.isfinite(passes):
        return unknown
    worst = max(mean + passes * error for mean, error in zip(means, errors))
    best = max(mean - fails * error for mean, error in zip(means, errors))
    decided = checks.check_bounds(found, worst, best)
    distance = abs(max(means) - found.required)
    if not decided.undecided or not distance:
        return decided
    quantile = (passes if max(means) < found.required else fails) + NormalDist().inv_cdf(bounds.POWER)
    needed = math.ceil(count * (quantile * max(errors) / distance) ** 2)
    return replace(decided, more_items=checks.items_of(max(needed - count, 1), count, len(rows)))


def percentile(values: Sequence[float], percent: float) -> float:
    """By linear interpolation, as llama.cpp does."""
    import numpy as np

    return float(np.percentile(values, percent))
