"""How much of the time the cause of a warning may explain: what disturbed a result, by its size. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import msgspec

from modelzoo.results.summary import SPREAD, SummaryRow
from modelzoo.warning import WarningCode, WarningMessage


class Noise(msgspec.Struct, frozen=True):
    """What disturbed a result the most.

    Attributes:
        effect: the share of the time that it may explain.
        code: of its warning; ``None``: the reference load saw the machine's speed vary.
    """

    effect: float
    code: Optional[WarningCode] = None


def effect(row: SummaryRow, found: WarningMessage) -> float:
    """Return the share of the time that a warning's cause may explain; 0 if it is small, or the warning has no size."""
    if found.code == WarningCode.OTHER_LOAD.name:
        share = _number(found, "cores") / (row.setting.threads or 1)
    elif found.code == WarningCode.THROTTLED.name:
        share = _number(found, "seconds") / (_number(found, "total") or 1.0)
    elif found.code in (
        WarningCode.ODD_PROCESS.name,
        WarningCode.STALLED_PROCESS.name,
        WarningCode.PROCESSES_DIFFER.name,
        WarningCode.PROCESSES_DISAGREE.name,
        WarningCode.STOLEN_TIME.name,
    ):
        share = _number(found, "percent") / 100
    elif found.code == WarningCode.DEVICE_THROTTLED.name:
        share = _number(found, "share") / 100
    else:
        return 0.0
    return share if share > SPREAD else 0.0


def noise(rows: Sequence[SummaryRow], spread: Optional[float]) -> Optional[Noise]:
    """Return what disturbed ``rows`` the most; ``None`` if nothing did that matters.

    Args:
        rows: of one result.
        spread: how much the machine's speed varied, by the reference load.
    """
    effects = [(effect(row, each.warning), each.warning.code) for row in rows for each in row.warnings]
    found = [Noise(size, WarningCode[code]) for size, code in effects if size]
    if spread is not None and spread > SPREAD:
        found.append(Noise(spread))
    return max(found, key=lambda each: each.effect, default=None)


def _number(found: WarningMessage, name: str) -> float:
    """A value of a warning; 0 if the result of another version has no such number."""
    value = found.values.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0
