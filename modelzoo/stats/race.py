"""A race: which of several entrants stay for the next stage, and which one wins. Pure.

Every stage measures what is left in the same rounds and keeps the faster half (Karnin, Koren and Somekh, "Almost
optimal exploration in multi-armed bandits", ICML 2013; Jamieson and Talwalkar, "Non-stochastic best arm identification
and hyperparameter optimization", AISTATS 2016). The best of many entrants is partly the luckiest, and entrants that are
equally fast take turns at being the best. So of those that cannot be told from the best the simplest wins, and what is
said of the winner comes from rounds that took no part in the choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec

from modelzoo.stats.comparison import EQUIVALENCE, ratio_test

FINALISTS = 4
"""With so many entrants or fewer, nothing is halved any more."""
TOLD_APART = 0.05
"""Two entrants are told apart if the p-value of their rounds is at most this. It decides about a choice, not about
what is reported, so it is not corrected for the number of entrants."""

Logs = Mapping[int, float]
"""By round: the logarithm of how fast an entrant was, in any unit that is the same in all rounds of a race."""


class Choice(msgspec.Struct, frozen=True):
    """What was chosen from a race, before it was measured again.

    Attributes:
        winner: what was chosen; in a search of settings 0, the default, if nothing seemed to be faster.
        best: the entrant that was the fastest.
        ties: those that could not be told from ``best``, without ``best`` itself.
        steps: the settings that lead from the default to the winner, one option at a time; the winner is the last.
    """

    winner: int
    best: int
    ties: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


def sizes(entrants: int) -> list[int]:
    """Return how many entrants each stage measures.

    >>> sizes(39)
    [39, 20, 10, 5, 3]
    >>> sizes(3)
    [3, 3]
    """
    found = [entrants]
    while found[-1] > FINALISTS:
        found.append(math.ceil(found[-1] / 2))
    # Everything is measured in two stages at least: one process says little.
    return found if len(found) > 1 else [entrants, entrants]


def ranked(found: Mapping[int, Logs]) -> list[int]:
    """The entrants with times, the fastest first."""
    return sorted((each for each, logs in found.items() if logs), key=lambda each: -fmean(found[each].values()))


def speed(logs: Logs) -> float:
    """The geometric mean over the rounds."""
    return math.exp(fmean(logs.values()))


def are_tied(one: Logs, other: Logs) -> bool:
    """Whether the rounds that both were in, if any, do not tell two entrants apart."""
    shared = sorted(set(one) & set(other))
    a, b = ([[math.exp(-logs[number])] for number in shared] for logs in (one, other))
    return len(shared) < 2 or ratio_test(a, b).p_value > TOLD_APART


def pick(order: Sequence[int], found: Mapping[int, Logs], complexity: Mapping[int, int]) -> Choice:
    """Return the simplest of the entrants that are as fast as the first one, as far as the rounds can tell.

    "As fast" means that the rounds do not tell them apart, and that they are at most as much slower as two settings
    that are SAME may be (``EQUIVALENCE``): a few noisy rounds tell nothing apart. Of equally simple ones the
    first wins.

    Args:
        order: the entrants, the fastest first.
        found: how fast each was, by round.
        complexity: of each entrant; less is simpler.
    """
    best, *others = order
    ties = tuple(each for each in others if are_tied(found[best], found[each]))
    close = [best]
    for each in ties:
        shared = set(found[best]) & set(found[each])
        behind = [found[best][number] - found[each][number] for number in sorted(shared)]
        lead = fmean(behind) if behind else math.log(speed(found[best]) / speed(found[each]))
        if math.expm1(lead) <= EQUIVALENCE:
            close.append(each)
    return Choice(min(close, key=complexity.__getitem__), best, ties)
