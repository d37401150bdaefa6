"""What a ratio of sums over the clusters of a data set could be in the population that they were drawn from.

A cluster is what was drawn independently: a picture with its objects, a passage with its questions. The bounds are
those of Gaffke ("Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable",
Mathematical Methods of Statistics 14, 2005): the clusters get random weights, exponentially distributed, and so does
one more, the worst that there could be. The quantile of the weighted mean is the bound. For clusters of one item that
is right or wrong it equals Clopper and Pearson's; if no cluster differs, it is the rule of three. Percentiles of the
usual bootstrap, which has no such cluster, promise 95 % and keep at most 63 % if 1 picture in 100 is lost and 100 are
drawn, because 37 % of such sets hold none that is.

Pure functions of numbers. Draws are seeded, so that the same items give the same values, whether they were judged in
one pass or in shards.

Both models process the same items, so the differences item by item are the data of the paired tests.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import msgspec

from modelzoo.stats.intervals import incomplete_beta

if TYPE_CHECKING:
    from numpy.typing import NDArray


SEES = NormalDist().inv_cdf(0.95) + NormalDist().inv_cdf(0.80)
"""Standard errors that a difference must have to be found in four sets of five, by a one-sided test at 5 %: 2.49."""
RULE_OF_THREE = 3.0
DRAWS = 4000
"""With another seed, a bound at 95 % has a confidence of 95 ± 0.3 %."""
CHUNK = 200
"""Draws that are computed together, which bounds the memory."""
TAIL_KEPT = 5
"""Items that are ranked for a bound of a percentile: this many times as many as are above it."""
POWER = 0.80
"""How probably as many clusters as ``clusters_needed`` says decide."""


def standard_error(differences: Sequence[float], sizes: Sequence[float]) -> float:
    """Compute the standard error of sum(differences) ÷ sum(sizes) over two or more independent clusters of items.

    It is that of a ratio (Cochran, "Sampling Techniques", 1977, section 2.11).
    """
    count, total = len(differences), sum(sizes)
    ratio = sum(differences) / total
    squares = math.fsum((difference - ratio * size) ** 2 for difference, size in zip(differences, sizes))
    return math.sqrt(squares * count / (count - 1)) / total


def detectable_loss(error: float, count: float) -> float:
    """Compute the smallest loss that a set of ``count`` independent items shows: smaller ones cannot be told from none.

    This is the minimum detectable effect, 2.49 standard errors: a one-sided test at 5 % finds it with a power of 80 %
    (Bloom, "Minimum detectable effects", Evaluation Review 19, 1995). But at least 3 ÷ count: a fault that ruins a
    smaller fraction of all items may have hit none of these, with a probability of over 5 % (Hanley & Lippman-Hand,
    "If nothing goes wrong, is everything all right?", JAMA 249, 1983). This also covers a set in which no item
    changed, whose standard error is 0.
    """
    return max(SEES * error, RULE_OF_THREE / count)


def mcnemar(worse: int, better: int) -> float:
    """Return the two-sided p-value of McNemar's exact test: do as many items get better as get worse?

    If the models are equally good, each of the items on which one is right and the other wrong falls to either side
    with probability ½ (McNemar, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12, 1947).
    """
    return min(1.0, 2 * binomial_tail(max(worse, better), worse + better, 0.5))


def binomial_tail(successes: int, trials: int, probability: float) -> float:
    """Return the probability of ``successes`` or more in ``trials`` (https://dlmf.nist.gov/8.17.E5)."""
    if successes <= 0 or probability >= 1:
        return 1.0
    if successes > trials or probability <= 0:
        return 0.0
    return incomplete_beta(probability, successes, trials - successes + 1)


def lower_bound(successes: int, trials: int, significance: float) -> float:
    """Return the one-sided lower bound of a probability (Clopper & Pearson, Biometrika 26, 1934).

    It is the probability at which ``successes`` or more have a chance of ``significance``; 0 without successes.
    """
    if successes <= 0:
        return 0.0
    low, high = 0.0, successes / trials
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_tail(successes, trials, middle) < significance else (low, middle)
    return low


Extreme = tuple[float, float]
"""A cluster that was not observed: its numerator and its denominator."""


class Drawn(msgspec.Struct, frozen=True):
    """The ratio of two means over clusters as observed, and as it would be with random weights of the clusters.

    Attributes:
        numerator: mean over the observed clusters. denominator: likewise.
        numerators: [draws] what the observed clusters contribute to the weighted mean. denominators: likewise.
        added: [draws] share of the weight that the added cluster has.
        lowest: the cluster that lowers the ratio most. highest: the one that raises it most.
        clusters: number of clusters.
    """

    numerator: float
    denominator: float
    numerators: NDArray[Any]
    denominators: NDArray[Any]
    added: NDArray[Any]
    lowest: Extreme
    highest: Extreme
    clusters: int

    @property
    def value(self) -> float | None:
        """The observed ratio; ``None`` if the denominator is 0."""
        return self.numerator / self.denominator if self.denominator else None

    def lower(self, confidence: float) -> float:
        """The one-sided lower bound of the ratio in the population; minus infinity if there is none."""
        return self._bound(self.lowest, 1 - confidence, "lower", -math.inf)

    def upper(self, confidence: float) -> float:
        """The one-sided upper bound of the ratio in the population; infinity if there is none."""
        return self._bound(self.highest, confidence, "higher", math.inf)

    def _bound(self, extreme: Extreme, quantile: float, method: Any, unbounded: float) -> float:
        import numpy as np

        numerators = self.numerators + self.added * extreme[0]
        denominators = self.denominators + self.added * extreme[1]
        ratios = np.full(len(numerators), unbounded)
        np.divide(numerators, denominators, out=ratios, where=denominators > 0)
        return float(np.quantile(ratios, quantile, method=method))


def sums_by_cluster(
    clusters: Sequence[Hashable], *columns: Sequence[float]
) -> tuple[NDArray[Any], tuple[NDArray[Any], ...]]:
    """Sum columns over the items of each cluster, in the order in which clusters occur.

    Args:
        clusters: what each item belongs to. columns: a value for each item.

    Returns:
        [G] number of items in each cluster, and the columns' sums, [G] each.
    """
    import numpy as np

    places, sizes = _places(clusters)
    sums = tuple(np.bincount(places, weights=np.asarray(column, "float64"), minlength=1) for column in columns)
    return sizes, sums


def _places(clusters: Sequence[Hashable]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The number of each item's cluster, and the number of items in each cluster."""
    import numpy as np

    numbers: dict[Hashable, int] = {}
    places = np.array([numbers.setdefault(each, len(numbers)) for each in clusters], dtype=int)
    return places, np.bincount(places, minlength=1).astype("float64")


def typical_size(sizes: Sequence[float] | NDArray[Any]) -> float:
    """Size of the added cluster: that in which a lost item is on average, if whole clusters are lost.

    It is assumed that a cluster is lost with a probability in proportion to its size: crowded pictures and long
    passages are the harder ones. Clusters of equal size have that size. With the size of the cluster that an average
    item is in, Σ size² ÷ Σ size, a bound at 95 % kept 93 % in simulations of that case with 200 and 400 clusters; with
    the largest cluster it would keep its promise whatever is lost, but show far less.
    """
    import numpy as np

    found = np.asarray(sizes, dtype="float64")
    squares = float((found**2).sum())
    return float((found**3).sum()) / squares if squares else 0.0


def draw(
    numerators: Sequence[float] | NDArray[Any],
    denominators: Sequence[float] | NDArray[Any],
    lowest: Extreme,
    highest: Extreme,
) -> Drawn:
    """Weight clusters at random; the ratio is sum(numerators) ÷ sum(denominators).

    Args:
        numerators: of each cluster; one or more. denominators: likewise.
        lowest: the cluster that lowers the ratio most. highest: the one that raises it most.
    """
    import numpy as np

    pairs = np.column_stack([numerators, denominators]).astype("float64")
    # Equal clusters are interchangeable: the sum of their weights has the gamma distribution.
    values, counts = np.unique(pairs, axis=0, return_counts=True)
    random, several = np.random.default_rng(0), counts > 1
    drawn = []
    for _ in range(DRAWS // CHUNK):
        weights = random.standard_exponential((CHUNK, len(counts)))
        weights[:, several] = random.standard_gamma(counts[several].astype("float64"), (CHUNK, int(several.sum())))
        added = random.standard_exponential(CHUNK)
        total = weights.sum(axis=1) + added
        drawn.append(np.column_stack([weights @ values, added]) / total[:, None])
    first, second, share = np.concatenate(drawn).T
    means = pairs.mean(axis=0)
    return Drawn(float(means[0]), float(means[1]), first, second, share, lowest, highest, len(pairs))


def percentile_bounds(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    percent: float,
    upper: float,
    lower: float,
    highest: float | None = None,
) -> tuple[float, float]:
    """Return the one-sided upper and lower bound of a percentile over items.

    The clusters get random weights, exponentially distributed (the Bayesian bootstrap: Rubin, Annals of Statistics 9,
    1981). If values have no highest one, there is no worst cluster that could be added, so the bounds say nothing about
    clusters unlike these.

    Args:
        values: of each item; one or more. clusters: what each item belongs to.
        percent: 50 for the median, 99 for p99.
        upper: confidence of the upper bound. lower: of the lower bound.
        highest: value of all items of the worst cluster, if there is one; those of the best one have 0.
    """
    import numpy as np

    places, sizes = _places(clusters)
    # Far more items than are above the percentile, with any weights that occur.
    kept = min(len(values), max(1000, math.ceil(len(values) * TAIL_KEPT * (1 - percent / 100))))
    order = np.argsort(np.negative(values), kind="stable")[:kept]
    places, ranked = places[order], np.asarray(values, dtype="float64")[order]
    random, size = np.random.default_rng(0), 0.0 if highest is None else typical_size(sizes)
    with_worst, with_best = np.insert(ranked, 0, highest or 0.0), np.append(ranked, 0.0 if size else ranked[-1])
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(DRAWS // CHUNK):
        weights = random.standard_exponential((CHUNK, len(sizes)))
        added = random.standard_exponential((CHUNK, 1)) * size if size else np.zeros((CHUNK, 1))
        above = np.cumsum(weights[:, places], axis=1)
        limit = (1 - percent / 100) * ((weights @ sizes)[:, None] + added)
        below_worst = (np.hstack([added, added + above]) <= limit).sum(axis=1)
        found[0].extend(with_worst[np.minimum(below_worst, kept)])
        found[1].extend(with_best[(above <= limit).sum(axis=1)])
    return (
        float(np.quantile(found[0], upper, method="higher")),
        float(np.quantile(found[1], 1 - lower, method="lower")),
    )


def clusters_needed(drawn: Drawn, limit: float, confidence: float, *, above: bool) -> int | None:
    """Return how many clusters like these would show, with a probability of ``POWER``, on which side the ratio is.

    They are assumed to have the ratio and the spread that were observed. n clusters decide if the distance from the
    limit is z standard errors plus what the added cluster contributes at this confidence, −ln(1 − confidence) ÷ n.

    Args:
        limit: the limit of the ratio.
        confidence: of the bound that decides. above: whether it is the lower bound, which must be above the limit.

    Returns:
        ``None`` if the observed ratio is not on that side of the limit.
    """
    import numpy as np

    sign = 1.0 if above else -1.0
    distance = sign * (drawn.numerator - limit * drawn.denominator)
    if distance <= 0:
        return None
    numerator, denominator = drawn.lowest if above else drawn.highest
    added = max(0.0, -sign * (numerator - limit * denominator)) * -math.log(1 - confidence)
    spread = float(np.std(drawn.numerators - limit * drawn.denominators)) * math.sqrt(drawn.clusters)
    errors = (NormalDist().inv_cdf(confidence) + NormalDist().inv_cdf(POWER)) * spread
    root = (errors + math.sqrt(errors**2 + 4 * distance * added)) / (2 * distance)
    return math.ceil(root**2)
