"""How much of the time the cause of a warning may explain, and how unsteady the machine was. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median, quantiles

import msgspec

from modelzoo.records.run import Run
from modelzoo.results.summary import SPREAD, SummaryRow
from modelzoo.warning import WarningCode, WarningMessage

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


class Noise(msgspec.Struct, frozen=True):
    """What disturbed a result the most.

    Attributes:
        effect: the share of the time that it may explain.
        cause: what was seen to disturb it; ``None``: only that the speed of the settings themselves varied.
    """

    effect: float
    cause: WarningCode | None = None


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


def noise(rows: Sequence[SummaryRow]) -> Noise | None:
    """Return what disturbed ``rows``, those of one result, the most; ``None`` if nothing did that matters."""
    effects = [(effect(row, each.warning), each.warning.code) for row in rows for each in row.warnings]
    found = [Noise(size, None if code in _BETWEEN_PROCESSES else WarningCode[code]) for size, code in effects if size]
    varied = [variation(row.runs) for row in rows]
    found += [Noise(size) for size in varied if size is not None and size > SPREAD]
    return max(found, key=lambda each: each.effect, default=None)


def _number(found: WarningMessage, name: str) -> float:
    """A value of a warning; 0 if the result of another version has no such number."""
    value = found.values.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0
