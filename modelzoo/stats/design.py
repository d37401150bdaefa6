"""How measuring time is best divided: how long each process samples, and how many processes there are.

The model is nested. The log of a process's median has the variance ``between + tau2 / T``: ``between`` is how much
processes differ however long they sample, and ``tau2 / T`` is the part that T seconds of sampling average out. A
process that costs c seconds besides its samples is best used if T = sqrt(c · tau2 / between) (Kalibera and Jones,
"Rigorous benchmarking in reasonable time", ISMM 2013, section 6; Cochran, "Sampling Techniques", section 10.6). They
assume independent samples; here neighbouring samples are correlated, so ``tau2`` comes from batches of about a second.

When a comparison may be decided while its rounds are still being measured, and what each look at the data costs.

Whoever tests after every round and stops at the first small p-value is wrong far more often than one test is. So
the numbers of rounds at which a comparison is looked at are planned in advance, and each look gets a share of the
error that is allowed in total (Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70,
1983, with their spending function after Pocock). The shares add up to 1, and a look rejects what lies outside of its
interval of 1 - alpha · share confidence. By the union bound the intervals of all looks then hold together with a
probability of 1 - alpha, however the looks depend on each other, and so does every verdict that follows from one of
them. Exact boundaries would use their correlation and be slightly narrower, but hold only for known variances.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, median, variance

import msgspec

from modelzoo.stats.intervals import student_t

SPACING = 1.25
"""The last planned look has at least this many times the rounds of the one before it; a look that adds little data
adds little power."""


class Looks(msgspec.Struct, frozen=True):
    """The looks of a comparison.

    Attributes:
        planned: numbers of rounds after which the comparison is looked at, ascending.
        maximum: the number of rounds at which the whole error has been spent.
        final: whether sampling has ended for a reason that does not depend on how the settings differ (the number of
            rounds was fixed, the time was up). Then the last look spends all that remains. It must be false while
            sampling goes on, if it ended because the comparisons were decided, and if somebody who saw the data ended
            it.

    Raises:
        ValueError: the planned looks do not ascend, or exceed the maximum.
    """

    planned: tuple[int, ...]
    maximum: int
    final: bool = False

    def __post_init__(self) -> None:
        if list(self.planned) != sorted({*self.planned}) or (self.planned and self.planned[-1] > self.maximum):
            raise ValueError(f"planned looks must ascend up to {self.maximum}, not {self.planned}")

    def taken(self, rounds: int) -> tuple[tuple[int, float], ...]:
        """Return the looks that ``rounds`` rounds allow: of each the number of rounds that it uses, the first ones, and
        its share of the total error, which is more than nothing.

        A look after more rounds than the maximum has nothing left to spend if that one was planned: it is not taken.
        """
        passed = [each for each in self.planned if each <= rounds]
        if self.final and rounds not in passed:
            passed.append(rounds)
        found, spent = [], 0.0
        for number in passed:
            total = 1.0 if self.final and number == rounds else spending(number / self.maximum)
            if total > spent:
                found.append((number, total - spent))
            spent = total
        return tuple(found)


def spending(t: float) -> float:
    """Return the share of the error that is spent when the fraction ``t`` of the planned rounds has been measured.

    ln(1 + (e - 1) t), the spending function after Pocock of Lan and DeMets (1983).
    """
    return math.log1p((math.e - 1) * min(max(t, 0.0), 1.0))


def planned_looks(minimum: int, maximum: int) -> tuple[int, ...]:
    """Return the numbers of rounds to look at: ``minimum``, then 8, 12, 16, 24, 32, 48 … beyond it, and ``maximum``.

    Each number is about a third to a half larger than the one before, so each look adds enough data to matter.
    """
    if minimum >= maximum:
        return (maximum,)
    powers = range(3, max(4, maximum.bit_length()))
    grid = [each for power in powers for each in (2**power, 3 * 2 ** (power - 1)) if minimum < each < maximum]
    return (*(each for each in (minimum, *grid) if each * SPACING <= maximum), maximum)


STEPS = 200
"""Of the integral in ``power``."""
BATCH_SECONDS = 1.0
"""Length of a batch of samples. Batches must be longer than the correlation of neighbouring samples lasts (Schmeiser,
"Batch size effects in the analysis of simulation output", Operations Research 30, 1982)."""
BATCH_SAMPLES = 5
"""Fewest samples in a batch, and fewest samples of a process that is designed here."""
PRIOR_WEIGHT = 8.0
"""The degrees of freedom that an earlier estimate counts for."""
POWER = 0.8
"""Probability with which a difference that can be detected is detected; the usual choice (Cohen, "Statistical Power
Analysis for the Behavioral Sciences", 1988)."""


class Components(msgspec.Struct, frozen=True):
    """The two components of the variance of a log process median.

    Attributes:
        between: variance between processes that sample for ever (in squared log units, that is relative).
        tau2: variance within a process, per second: T seconds of sampling leave tau2 / T.
    """

    between: float
    tau2: float


def components(processes: Sequence[Sequence[float]], prior: Components | None = None) -> Components:
    """Estimate the components from the samples of several processes of one setting.

    ``tau2`` is the variance of the log medians of batches within processes, times a batch's length. ``between`` is
    the variance of the processes' log medians minus what ``tau2`` explains. From few processes this difference varies
    much and is often negative; it is first shrunk towards the prior, in proportion to the degrees of freedom of the
    two estimates, and then cut off at 0.

    Args:
        processes: the samples of each process, in seconds.
        prior: an earlier estimate on this machine.

    Raises:
        ValueError: there is no prior and nothing to estimate a component from: fewer than two processes, or only
            processes of one sample.
    """
    batches = [_batches(samples) for samples in processes]
    own_freedom = sum(len(levels) - 1 for levels, _ in batches)
    weighted = sum(seconds * variance(levels) * (len(levels) - 1) for levels, seconds in batches if len(levels) > 1)
    tau2 = _shrunk(weighted, own_freedom, prior.tau2 if prior else None)
    freedom = len(processes) - 1
    spread = variance([math.log(median(samples)) for samples in processes]) if freedom > 0 else 0.0
    explained = fmean(tau2 / sum(samples) for samples in processes) if processes else 0.0
    between = _shrunk((spread - explained) * freedom, freedom, prior.between if prior else None)
    return Components(max(0.0, between), tau2)


def pooled(found: Sequence[Components]) -> Components:
    """The components of several settings together, for one choice of T for all of them.

    Raises:
        ValueError: there are none.
    """
    return Components(fmean(each.between for each in found), fmean(each.tau2 for each in found))


def seconds_per_process(cost: float, sample: float, found: Components, limits: tuple[float, float]) -> float:
    """Return how many seconds each process should sample: sqrt(cost · tau2 / between).

    Args:
        cost: seconds of wall time of everything in a process but its samples: start, build, warm-up, audit; of a round
            with several settings, the mean of its processes.
        sample: seconds of one sample.
        found: of one setting, or pooled.
        limits: the result is at least the first and at most the second. Within them it has time for 5 samples.
    """
    low, high = limits
    ideal = math.sqrt(cost * found.tau2 / found.between) if found.between > 0 else math.inf
    return min(high, max(low, BATCH_SAMPLES * sample, ideal if found.tau2 > 0 else 0.0))


def power(spread: float, rounds: int, difference: float, alpha: float) -> float:
    """Return the probability that ``rounds`` rounds tell a difference from none, in its direction.

    The test statistic has a noncentral t distribution with rounds - 1 degrees of freedom and the noncentrality
    difference · sqrt(rounds) / spread: given how large the spread of these rounds happens to be, it is normal (Johnson,
    Kotz and Balakrishnan, "Continuous Univariate Distributions", volume 2, 1995, chapter 31). The integral over that
    spread, which has a scaled chi distribution, is computed by the midpoint rule.

    Args:
        spread: standard deviation of the rounds' log ratios.
        rounds: number of rounds; of one, nothing can be told.
        difference: the true log ratio.
        alpha: the two-sided error that is allowed.
    """
    if rounds < 2 or not spread:
        return float(rounds > 1 and difference > 0)
    freedom, normal = rounds - 1, NormalDist()
    critical, effect = student_t(1 - alpha / 2, freedom), difference * math.sqrt(rounds) / spread
    # Of the spread seen, relative to the true one: its standard deviation is about 1 / sqrt(2 · freedom).
    start, end = max(0.0, 1 - 8 / math.sqrt(freedom)), 1 + 8 / math.sqrt(freedom)
    step = (end - start) / STEPS
    constant = math.log(2) + freedom / 2 * math.log(freedom / 2) - math.lgamma(freedom / 2)
    found = 0.0
    for number in range(STEPS):
        seen = start + (number + 0.5) * step
        density = math.exp(constant + (freedom - 1) * math.log(seen) - freedom * seen**2 / 2)
        found += step * density * normal.cdf(effect - critical * seen)
    return min(found, 1.0)


def rounds_to_tell(spread: float, difference: float, alpha: float) -> int:
    """Return the fewest rounds, at least 2, that tell a relative ``difference`` from none with a power of ``POWER``.

    Raises:
        ValueError: the difference is not positive.
    """
    if difference <= 0:
        raise ValueError(f"the difference must be positive, not {difference}")
    quantiles = NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(POWER)
    count = max(2, math.ceil((quantiles * spread / math.log1p(difference)) ** 2))
    while power(spread, count, math.log1p(difference), alpha) < POWER:
        count += 1
    return count


def _batches(samples: Sequence[float]) -> tuple[list[float], float]:
    """Divide the samples into batches of equal numbers, of about a second and at least 5 samples each.

    A process too short for two such batches is divided into its samples.

    Returns:
        the log medians of the batches, and the mean length of a batch in seconds.
    """
    total, count = sum(samples), len(samples)
    number = min(int(total / BATCH_SECONDS), count // BATCH_SAMPLES)
    number = number if number >= 2 else count
    edges = [round(i * count / number) for i in range(number + 1)]
    return [math.log(median(samples[a:b])) for a, b in itertools.pairwise(edges)], total / number


def _shrunk(squares: float, freedom: int, prior: float | None) -> float:
    """The variance with this sum of squares, averaged with the prior by degrees of freedom."""
    if prior is None:
        if freedom < 1:
            raise ValueError("a variance needs at least two values, or an earlier estimate")
        return squares / freedom
    return (squares + PRIOR_WEIGHT * prior) / (max(0, freedom) + PRIOR_WEIGHT)
