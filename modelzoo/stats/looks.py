"""When a comparison may be decided while its rounds are still being measured, and what each look at the data costs.

Whoever tests after every round and stops at the first small p-value is wrong far more often than one test is. So
the numbers of rounds at which a comparison is looked at are planned in advance, and each look gets a share of the
error that is allowed in total (Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70,
1983, with their spending function after Pocock). The shares add up to 1, and a look rejects what lies outside of its
interval of 1 - alpha · share confidence. By the union bound the intervals of all looks then hold together with a
probability of 1 - alpha, however the looks depend on each other, and so does every verdict that follows from one of
them. Exact boundaries would use their correlation and be slightly narrower, but hold only for known variances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SPACING = 1.25
"""The last planned look has at least this many times the rounds of the one before it; a look that adds little data
adds little power."""


@dataclass(frozen=True)
class Look:
    """One look at the data.

    Attributes:
        rounds: the number of rounds that it uses, the first ones.
        share: its share of the total error.
    """

    rounds: int
    share: float


@dataclass(frozen=True)
class Looks:
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

    def taken(self, rounds: int) -> tuple[Look, ...]:
        """Return the looks that ``rounds`` rounds allow, each with its share of the error."""
        passed = [each for each in self.planned if each <= rounds]
        if self.final and rounds not in passed:
            passed.append(rounds)
        found, spent = [], 0.0
        for number in passed:
            total = 1.0 if self.final and number == rounds else spending(number / self.maximum, 1.0)
            found.append(Look(number, total - spent))
            spent = total
        return tuple(found)


def spending(t: float, alpha: float) -> float:
    """Return the error spent when the fraction ``t`` of the planned rounds has been measured.

    alpha · ln(1 + (e - 1) t), the spending function after Pocock of Lan and DeMets (1983).
    """
    return alpha * math.log1p((math.e - 1) * min(max(t, 0.0), 1.0))


def planned_looks(minimum: int, maximum: int) -> tuple[int, ...]:
    """Return the numbers of rounds to look at: ``minimum``, then 8, 12, 16, 24, 32, 48 … beyond it, and ``maximum``.

    Each number is about a third to a half larger than the one before, so each look adds enough data to matter.
    """
    if minimum >= maximum:
        return (maximum,)
    between = [each for each in _grid(maximum) if each > minimum]
    return (*(each for each in (minimum, *between) if each * SPACING <= maximum), maximum)


def _grid(maximum: int) -> Sequence[int]:
    """8, 12, 16, 24, 32, 48 … below ``maximum``."""
    powers = range(3, max(4, maximum.bit_length()))
    return [each for power in powers for each in (2**power, 3 * 2 ** (power - 1)) if each < maximum]
