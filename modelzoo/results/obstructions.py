"""What is in the way of speed: where the time of a reduced precision goes besides products, and how much of the time of
any setting the cause of a warning may explain. Pure.

The audits of a setting and of its fp32 baseline tell how long one pass spends in products and in other work. The
shares are those of audited passes, whose operators are observed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median, quantiles

import msgspec

from modelzoo.frozen import Word
from modelzoo.records.coverage import DISPATCH, MOVEMENT, REORDER
from modelzoo.records.evidence import Evidence
from modelzoo.records.run import Run
from modelzoo.results.summary import SPREAD, SummaryRow
from modelzoo.warning import WarningCode, WarningMessage

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


LEAST_SAMPLES = 5
"""Samples of a stretch: its median then withstands two outliers."""
LEAST_STRETCHES = 5
"""With fewer of them, nothing is said of how a setting's speed varied."""
_BETWEEN_PROCESSES = tuple(
    code.name
    for code in (
        WarningCode.ODD_PROCESS,
        WarningCode.STALLED_PROCESS,
        WarningCode.PROCESSES_DIFFER,
        WarningCode.PROCESSES_DISAGREE,
    )
)


def effect(row: SummaryRow, found: WarningMessage) -> float:
    """Return the share of the time that a warning's cause may explain; 0 if it is small, or the warning has no size."""
    if found.code == WarningCode.OTHER_LOAD.name:
        share = _number(found, "cores") / (row.setting.threads or 1)
    elif found.code == WarningCode.THROTTLED.name:
        share = _number(found, "seconds") / (_number(found, "total") or 1.0)
    elif found.code in (*_BETWEEN_PROCESSES, WarningCode.STOLEN_TIME.name):
        share = _number(found, "percent") / 100
    elif found.code == WarningCode.DEVICE_THROTTLED.name:
        share = _number(found, "share") / 100
    else:
        return 0.0
    return share if share > SPREAD else 0.0


def variation(runs: Sequence[Run]) -> float | None:
    """Return by how much the speed of one setting varied, over all of its processes.

    It is the 90th percentile of the median latencies of stretches divided by the 10th, less 1: how much longer the
    slow moments took than the fast ones, whatever a few of them took. A stretch is a turn of a process, or several that
    follow each other, until it has ``LEAST_SAMPLES``.

    Returns:
        ``None`` with fewer than ``LEAST_STRETCHES``: then nothing is known.
    """
    found = [median(stretch) for run in runs for stretch in _stretches(run)]
    if len(found) < LEAST_STRETCHES:
        return None
    tenths = quantiles(found, n=10, method="inclusive")
    return tenths[-1] / tenths[0] - 1


def _stretches(run: Run) -> Iterator[Sequence[float]]:
    """The samples of a process in stretches; what is left at the end is left out."""
    counts = [turn.samples or 0 for turn in (run.report.turns or ())] if run.report is not None else []
    begin = end = 0
    for count in counts or [len(run.steady)]:
        end += count
        stretch = run.steady[begin:end]  # shorter than the turns say in a damaged result
        if len(stretch) >= LEAST_SAMPLES:
            yield stretch
            begin = end


def noise(rows: Sequence[SummaryRow]) -> tuple[float, WarningCode | None] | None:
    """Return what disturbed ``rows``, those of one result, the most; ``None`` if nothing did that matters.

    Returns:
        the share of the time that it may explain, and what was seen to disturb it; ``None`` in place of that: only that
        the speed of the settings themselves varied.
    """
    effects = [(effect(row, each.warning), each.warning.code) for row in rows for each in row.warnings]
    found = [(size, None if code in _BETWEEN_PROCESSES else WarningCode[code]) for size, code in effects if size]
    varied = [variation(row.runs) for row in rows]
    found += [(size, None) for size in varied if size is not None and size > SPREAD]
    return max(found, key=lambda each: each[0], default=None)


def _number(found: WarningMessage, name: str) -> float:
    """A value of a warning; 0 if the result of another version has no such number."""
    value = found.values.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0
