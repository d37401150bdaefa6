"""Two settings: the ratio of their times, and the verdict that it supports.

The unit is the process. If both sides ran in the same rounds, it is the round: its log ratio is free of whatever slowed
down both sides. The verdicts of a table share one error, 1 - ``VERDICT_CONFIDENCE``. Each comparison has a repeated
confidence interval, which widens with the share of the error that a look may spend (``modelzoo.stats.design``) and
therefore holds at all looks together (Jennison and Turnbull, "Interim analyses: the repeated confidence interval
approach", JRSS B 51, 1989). FASTER and SLOWER mean that it excludes equal times, SAME that it excludes differences that
matter. ``corrected`` divides the error among the comparisons of a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from statistics import fmean, median

import msgspec

from modelzoo.frozen import Word
from modelzoo.stats.design import Looks, power
from modelzoo.stats.intervals import CONFIDENCE, Interval, LogRatio

VERDICT_CONFIDENCE = 0.98
"""At most 1 - this of all tables contain a verdict that is wrong: FASTER or SLOWER of equals, SAME of settings that
differ by ``EQUIVALENCE`` or more. At 0.95, one table of equals in twenty would contain a false alarm
(benchmarks/verdicts_speed.py replays this)."""
LARGEST_P = 1 - VERDICT_CONFIDENCE
"""The largest corrected p-value from which a verdict follows."""
EQUIVALENCE = 0.02
"""Two settings are SAME if it is certain that neither takes longer than the other by this fraction. The same binary
differs by about as much from day to day on one server, so smaller differences do not matter."""

SAME_WITHIN = -math.log1p(EQUIVALENCE), math.log1p(EQUIVALENCE)
"""The same as log ratios; symmetric, so that a verdict does not depend on which side is the baseline."""

Samples = Sequence[Sequence[float]]
"""The samples of each process of a setting, in seconds."""


class Outcome(Word):
    """Conclusion of a comparison. LESS and MORE are for memory what FASTER and SLOWER are for times: better and worse;
    so are CHEAPER and DEARER for costs. NOT_COMPARABLE: the two sides did not do the same work, or it is not known
    whether they did.
    """

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    LESS = "LESS"
    MORE = "MORE"
    CHEAPER = "CHEAPER"
    DEARER = "DEARER"
    SAME = "SAME"
    AMBIGUOUS = "AMBIGUOUS"
    NOT_COMPARABLE = "NOT COMPARABLE"


class Outlook(msgspec.Struct, frozen=True):
    """What is expected to decide a comparison that is AMBIGUOUS.

    Attributes:
        processes: how many more of each setting.
        seconds: the wall time that they take; ``None`` if it is not known.
        difference: the relative difference that they would show.
    """

    processes: int
    seconds: float | None
    difference: float


class Doubt(Enum):
    """Why a comparison is AMBIGUOUS.

    CHANCE: its p-value is too large. FEW_ROUNDS: there are fewer than were planned for a verdict. ONE_PROCESS: a side
    has a single one, so that its spread is unknown. FEW_PROCESSES: a side has too few to know their spread.
    CONTRADICTED: later rounds show the opposite of earlier ones.
    NO_BASELINE: it was not timed. NO_COMMON_ROUND: no round has both settings.
    """

    CHANCE = "chance"
    FEW_ROUNDS = "few rounds"
    ONE_PROCESS = "one process"
    FEW_PROCESSES = "few processes"
    CONTRADICTED = "contradicted"
    NO_BASELINE = "no baseline"
    NO_COMMON_ROUND = "no common round"


class Verdict(msgspec.Struct, frozen=True):
    """The outcome of a comparison, and what it follows from.

    Attributes:
        outcome: the conclusion.
        doubt: why it is AMBIGUOUS; ``None`` unless it is.
        p_value: what was rejected, or could not be: that the sides are equal; with SAME, that they differ by
            ``EQUIVALENCE`` or more. Corrected for the table. ``None`` if there is nothing to compare.
        table: number of comparisons for which it is corrected.
        rounds: number of rounds that were compared.
        outlook: what would decide it; ``None`` unless it is AMBIGUOUS and this can be said.
    """

    outcome: Outcome
    doubt: Doubt | None = None
    p_value: float | None = None
    table: int = 1
    rounds: int = 0
    outlook: Outlook | None = None


class Basis(Word):
    """Where the variance of a ratio comes from: rounds that both sides have, or else days, or a guess."""

    ROUNDS = "rounds"
    SESSIONS = "sessions"
    ASSUMED = "assumed"


class Spread(msgspec.Struct, frozen=True):
    """How much the log ratios of rounds differ, or the log levels of one side's days.

    Attributes:
        basis: where it comes from.
        deviation: standard deviation; infinite if there is only one round.
        sessions: number of sessions.
        days: number of days on which they were.
        processes: standard deviation of the log values of processes, if there are too few to trust their own spread.
    """

    basis: Basis
    deviation: float
    sessions: int = 1
    days: int = 1
    processes: float | None = None


class Seen(msgspec.Struct, frozen=True):
    """What one look saw.

    Attributes:
        ratio: the log of A's time over B's.
        share: the look's share of the total error.
    """

    ratio: LogRatio
    share: float = 1.0


class Ratio(msgspec.Struct, frozen=True):
    """How many times faster B is than A, as far as the data shows it: what a verdict follows from.

    Attributes:
        interval: time of A over time of B, from all rounds, with its repeated 95 % interval, which holds although the
            data decided when to stop. It is of this comparison alone: it is not corrected for others.
        p_value: the smallest total error at which a look would have told the two sides apart.
        p_outside: the smallest total error at which a look would have ruled out ratios that are not within
            1 ± ``EQUIVALENCE``.
        decisive: the log ratio at the look of ``p_value``; its sign is the direction.
        rounds: number of rounds; of stored results, of the sessions of the side that has fewer.
        seen: what each look saw.
        spreads: of the rounds, or of the days of each side.
    """

    interval: Interval
    p_value: float = 1.0
    p_outside: float = 1.0
    decisive: float = 0.0
    rounds: int = 0
    seen: tuple[Seen, ...] = ()
    spreads: tuple[Spread, ...] = ()

    @property
    def basis(self) -> Basis:
        """Where the variance comes from: the least certain of the sides'."""
        return max((each.basis for each in self.spreads), key=list(Basis).index, default=Basis.ROUNDS)

    @property
    def spread(self) -> float | None:
        """Standard deviation of the rounds' log ratios; ``None`` if it is not known."""
        of_rounds = (each.deviation for each in self.spreads if each.basis is Basis.ROUNDS)
        return next((each for each in of_rounds if math.isfinite(each)), None)

    def p_slower(self, fraction: float) -> float:
        """Return the smallest total error at which a look shows that B takes longer than A by more than ``fraction``.

        Two-sided, as the verdicts are; 1 if no look saw that.
        """
        limit = -math.log1p(fraction)
        found = (each.ratio.p_of(limit) / each.share for each in self.seen if each.ratio.value < limit)
        return min([1.0, *found])

    def power(self, slower: float, beyond: float = 0.0, table: int = 1) -> float | None:
        """Return the least probability with which the looks find that B takes longer, if it does by ``slower``.

        Each look finds it with ``stats.power``, for the spread that was seen; together they do at least as often as the
        best of them. ``None`` if the spread of the rounds is not known, or nobody has looked.

        Args:
            slower: the true difference, relative.
            beyond: the difference that is to be exceeded.
            table: number of comparisons for which verdicts are corrected; the first to be rejected has this share.
        """
        if self.spread is None or not self.seen:
            return None
        difference = math.log1p(slower) - math.log1p(beyond)
        return max(
            power(self.spread, int(each.ratio.freedom) + 1, difference, LARGEST_P * each.share / table)
            for each in self.seen
        )


def ratio_test(a: Samples, b: Samples, looks: Looks | None = None) -> Ratio:
    """Compute the ratio of A's time to B's, with an interval and p-values that hold although there were several looks.

    Args:
        a: samples of each of A's processes, in the order of the rounds.
        b: samples of each of B's processes; ``a[i]`` and ``b[i]`` ran in the same round, in alternating turns.
        looks: the design; by default the data is looked at once, now.

    Raises:
        ValueError: the sides have different numbers of processes, or there are none.
    """
    if not a or len(a) != len(b):
        raise ValueError(f"both sides must have the same number of rounds, at least one, not {len(a)} and {len(b)}")
    logs = [math.log(median(mine)) - math.log(median(theirs)) for mine, theirs in zip(a, b)]
    rounds, whole = len(logs), _log_ratio(logs)
    taken = looks.taken(rounds) if looks is not None else ((rounds, 1.0),)
    seen = tuple(Seen(whole if used == rounds else _log_ratio(logs[:used]), share) for used, share in taken)
    return ratio_of(whole, rounds, (Spread(Basis.ROUNDS, whole.error * math.sqrt(rounds)),), seen)


def ratio_of(whole: LogRatio, rounds: int, spreads: tuple[Spread, ...], seen: Sequence[Seen] | None = None) -> Ratio:
    """Return what the looks at a ratio show.

    A look's interval has 1 - alpha s confidence if the look may spend the share s of the error alpha. That of the ratio
    has 1 - alpha = 95 % and the share of the last look. The sequential p-value is the smallest alpha for which the
    interval of a look excludes the hypothesis: the smallest p-value of a look divided by its share (Liu and Anderson,
    "On adaptive extensions of group sequential trials for clinical investigations", JASA 103, 2008). It only gets
    smaller as looks are added.

    Args:
        whole: the log ratio of all rounds, or of two stored sides.
        rounds: number of rounds.
        spreads: what its error comes from.
        seen: what each look saw, which may be none so far; by default there was one look, at all of it.
    """
    seen = (Seen(whole),) if seen is None else tuple(seen)
    best, outside, decisive = 1.0, 1.0, whole.value
    for look in seen:
        if look.ratio.p_value < best * look.share:
            best, decisive = look.ratio.p_value / look.share, look.ratio.value
        outside = min(outside, look.ratio.p_outside(*SAME_WITHIN) / look.share)
    interval = whole.interval(1 - (1 - CONFIDENCE) * (seen[-1].share if seen else 1.0))
    return Ratio(interval, best, outside, decisive, rounds, seen, spreads)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values of several hypotheses, corrected so that all rejections hold together.

    The probability that any corrected p-value of a true hypothesis is at most alpha is at most alpha, whatever the
    dependence between them (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6, 1979). Which hypotheses take part must not depend on the data.
    """
    corrected, largest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def corrected(found: Sequence[Ratio]) -> list[tuple[float, float]]:
    """Return ``p_value`` and ``p_outside`` of each row of a table, corrected so that all of its verdicts hold together.

    Each comparison has two hypotheses: that the sides are equal, and that they differ by ``EQUIVALENCE`` or more. At
    most one of the two is true. As in Holm's method, the hypothesis with the smallest p-value is rejected first, and
    the error is divided among those that may still be true: one part for each comparison whose sides may be equal, and
    half a part for each one whose sides are known to differ but may be outside ``EQUIVALENCE``, because such a pair can
    only be called SAME by an error at one end of its interval. When all false hypotheses have been rejected, the true
    ones together have the whole error, so by the sequential rejection principle (Goeman and Solari, "The sequential
    rejection principle of familywise error control", Annals of Statistics 38, 2010) the probability of a wrong verdict
    in the table is at most the error, whatever the dependence between the comparisons. The same holds for sequential
    p-values, and because they only get smaller, what has been rejected at one look stays rejected (Maurer and Bretz,
    "Multiple testing in group sequential trials using graphical approaches", Statistics in Biopharmaceutical Research
    5, 2013). Which comparisons take part must not depend on their times.
    """
    equal, outside = dict(enumerate(each.p_value for each in found)), dict(enumerate(each.p_outside for each in found))
    corrected_equal, corrected_outside = [1.0] * len(found), [1.0] * len(found)
    parts, largest = float(len(found)), 0.0
    while equal or outside:
        # The p-value of the ends is one-sided, so half a part is worth twice of it.
        first = min(((p * parts, index) for index, p in equal.items()), default=(math.inf, -1))
        second = min(
            ((p * (2 * parts - 1 if index in equal else 2 * parts), index) for index, p in outside.items()),
            default=(math.inf, -1),
        )
        largest = min(1.0, max(largest, min(first, second)[0]))
        if first <= second:
            index = first[1]
            corrected_equal[index] = largest
            del equal[index]
            parts -= 0.5 if index in outside else 1.0
        else:
            index = second[1]
            corrected_outside[index] = largest
            del outside[index]
            parts -= 0.0 if index in equal else 0.5
    return list(zip(corrected_equal, corrected_outside))


def verdicts(found: Sequence[Ratio]) -> list[Verdict]:
    """Judge all rows of a table together; see ``corrected``.

    SAME must be shown by a look, and by the interval of all rounds. A difference that was found at an early look, and
    that the rounds since then have reversed, is AMBIGUOUS.
    """
    judged = []
    for each, (p_value, p_outside) in zip(found, corrected(found)):
        ratio, outcome, doubt = each.interval, Outcome.AMBIGUOUS, None
        if not each.seen:
            doubt = Doubt.FEW_ROUNDS
        elif not math.isfinite(ratio.high):
            doubt = Doubt.ONE_PROCESS
        elif p_outside <= LARGEST_P and ratio.low >= 1 / (1 + EQUIVALENCE) and ratio.high <= 1 + EQUIVALENCE:
            outcome, p_value = Outcome.SAME, p_outside
        elif p_value > LARGEST_P:
            doubt = Doubt.CHANCE
        elif each.decisive * math.log(ratio.value) <= 0:
            doubt = Doubt.CONTRADICTED
        else:
            outcome = Outcome.FASTER if each.decisive > 0 else Outcome.SLOWER
        judged.append(Verdict(outcome, doubt, p_value, len(found), each.rounds))
    return judged


def _log_ratio(logs: Sequence[float]) -> LogRatio:
    """Their mean with its standard error, which is infinite for a single round."""
    mean, count = fmean(logs), len(logs)
    squares = math.fsum((each - mean) ** 2 for each in logs)
    return LogRatio(mean, math.sqrt(squares / (count - 1) / count) if count > 1 else math.inf, count - 1)
