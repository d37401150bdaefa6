"""Values with their intervals as text: a time, a rate, a ratio, each rounded as its interval allows. Pure."""

from __future__ import annotations

import math

from modelzoo.formatting import MISSING, percent, significant, time_unit
from modelzoo.stats import Interval

NOISY, NONE = "(noisy)", "(no interval)"
"""In place of an interval that is wider than its value, and of an unbounded one (of a single process)."""
WIDEST = 1000
"""Ends of an interval that are further apart than this factor are not shown."""


def within(found: Interval) -> str:
    """The relative half width behind its value: ``±1.3 %``; a word if the interval is wider than the value."""
    if math.isinf(found.half_width):
        return NONE
    return f"±{percent(found.half_width)}" if found.half_width < 1 else NOISY


def rounded(value: float, half_width: float) -> str:
    """Round ``value`` as the half width of its interval, which has the same unit, allows.

    The half width keeps two digits if it begins with 100 to 354, else one (Particle Data Group, "Review of Particle
    Physics", introduction, section 5.3); the value ends at the same place.

    >>> rounded(56.1234, 0.73), rounded(264.4, 13.9)
    ('56.1', '264')
    """
    if not 0 < half_width < math.inf or value == 0:
        return significant(value)
    half = min(half_width, abs(value))
    exponent = math.floor(math.log10(half))
    place = -exponent + (half / 10**exponent < 3.55)
    return f"{value:.{place}f}" if place > 0 else f"{round(value, place):.0f}"


def rounded_value(found: Interval, factor: float = 1.0) -> str:
    """The value alone, times ``factor``, rounded as its interval allows."""
    return rounded(factor * found.value, factor * found.value * found.half_width)


def rate(found: Interval) -> str:
    """``35.1 ±1.3 %``."""
    return f"{rounded_value(found)} {within(found)}"


def interval(found: Interval | None) -> str:
    """A time in seconds with a suitable unit: ``56.1 ms ±1.3 %``."""
    if found is None:
        return MISSING
    unit, factor = time_unit(found.value)
    return f"{rounded_value(found, factor)} {unit} {within(found)}"


def ratio(found: Interval | None) -> str:
    """``0.62× [0.60, 0.64]``; a word if the interval says next to nothing."""
    if found is None:
        return MISSING
    if not math.isfinite(found.high):
        return f"{ratio_value(found)} (one process: no interval)"
    digits = _digits(found)
    bounds = f"[{found.low:.{digits}f}, {found.high:.{digits}f}]" if is_bounded(found) else NOISY
    return f"{ratio_value(found)} {bounds}"


def ratio_value(found: Interval) -> str:
    """A ratio alone, rounded as with its interval: ``0.62×``."""
    return f"{found.value:.{_digits(found)}f}×"


def is_bounded(found: Interval) -> bool:
    """Whether the interval of a ratio says anything: its ends are less than a factor of 1000 apart."""
    return found.low > 0 and found.high < WIDEST * found.low


def _digits(found: Interval) -> int:
    """The decimals of a ratio: a third one if the interval is narrower than ±2 %."""
    return 3 if max(found.high - found.value, found.value - found.low) < 0.02 * found.value else 2
