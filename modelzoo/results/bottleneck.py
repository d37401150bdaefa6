"""What keeps a reduced precision from being as fast as its products: where the time of its passes goes instead. Pure.

The audits of a setting and of its fp32 baseline tell how long one pass spends in products and in other work. The
shares are those of audited passes, whose operators are observed one by one.
"""

from __future__ import annotations

import msgspec

from modelzoo.frozen import Word
from modelzoo.records.coverage import DISPATCH, MOVEMENT, REORDER
from modelzoo.records.evidence import Evidence
from modelzoo.results.summary import SummaryRow

NOISE = 1.25
"""Products must have gained this times more than the whole. A choice: an audit is of few passes, and its products have
no interval."""
APART = 1.5
"""An audited pass must take no more than this times as long as a timed one, and no less than its inverse, so that its
shares are those of what was timed. A choice, too: passes of microseconds take twenty times as long when observed."""
ALIKE = ("engine", "device", "batch", "threads", "options")
"""Fields of ``Setting`` that would change the time of products, too."""
SMALL_SHARE = 0.05
"""Other work that takes less of the pass than this is not named."""


class Work(Word):
    """What a pass spends its time on besides products."""

    CASTS = "casts and copies"
    REORDERS = "reorders"
    SETUP = "dispatch and set-up"
    OTHER = "other operators"


class Bottleneck(msgspec.Struct, frozen=True):
    """Where the time of a reduced precision goes.

    Attributes:
        products: how many times as fast as in fp32 its products are.
        products_share: the part of its pass in products, 0 to 1.
        shares: the parts of its pass in other work, the largest first.
        possible: how many times as fast as now its pass would be without the casts, copies, reorders and set-up that
            the one in fp32 does not have.
        bound: how many times as fast as fp32 the model would be if its products took no time.
    """

    products: float
    products_share: float
    shares: tuple[tuple[Work, float], ...]
    possible: float
    bound: float


def bottleneck(row: SummaryRow, base: SummaryRow) -> Bottleneck | None:
    """Return what is in the way of a reduced precision.

    Args:
        row: a setting in a reduced precision.
        base: the workload's setting in fp32.

    Returns:
        ``None`` if nothing is, or if it cannot be told: one of them was not timed, audited and proven, its audited
        pass was no such pass as those that were timed, they differ in more than the precision, or the products did not
        gain more than the whole, beyond its interval and what audits differ by.
    """
    own, other = row.proof.ground, base.proof.ground
    if row.speed is None or row.speed.ratio is None or not isinstance(own, Evidence) or not isinstance(other, Evidence):
        return None
    if row.setting.precision == "fp32" or base.setting.precision != "fp32" or not (row.is_proven and base.is_proven):
        return None
    if any(getattr(row.setting, name) != getattr(base.setting, name) for name in ALIKE):
        return None
    for audit, timed in ((own, row.latency), (other, base.latency)):
        if timed is None or not 1 / APART <= audit.seconds / audit.iterations / timed.value <= APART:
            return None
    (products, now), (before, without) = divided(own), divided(other)
    if not (products and before) or before / products < NOISE * row.speed.ratio.high:
        return None
    whole = products + sum(now.values())
    extra = sum(max(now[work] - without[work], 0.0) for work in now if work is not Work.OTHER)
    shares = sorted(((work, seconds / whole) for work, seconds in now.items()), key=lambda each: -each[1])
    return Bottleneck(
        products=before / products,
        products_share=products / whole,
        shares=tuple(each for each in shares if each[1] >= SMALL_SHARE),
        possible=whole / (whole - extra),
        bound=row.speed.ratio.value / (1 - products / whole),
    )


def divided(evidence: Evidence) -> tuple[float, dict[Work, float]]:
    """The seconds of one pass in products, and in other work."""
    kinds = {each.name: each.seconds for each in evidence.by_precision}
    reorders = sum(each.seconds for each in evidence.by_implementation if each.name == REORDER)
    moved, around = kinds.get(MOVEMENT, 0.0), kinds.get(DISPATCH, 0.0)
    seconds = {Work.CASTS: moved - reorders, Work.REORDERS: reorders, Work.SETUP: around}
    seconds[Work.OTHER] = evidence.seconds - evidence.compute_seconds - moved - around
    return evidence.compute_seconds / evidence.iterations, {
        work: each / evidence.iterations for work, each in seconds.items()
    }
