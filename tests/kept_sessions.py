"""Sessions as they are kept of a machine, and runs with a reference load beside them."""

from __future__ import annotations

from typing import Any

from modelzoo.frozen import replace
from modelzoo.records.history import SessionLevel
from modelzoo.records.run import Run
from modelzoo.records.timing import ReferenceTurn

LEVEL = SessionLevel(
    created="2026-01-01T00:00:00+00:00",
    workload="toy",
    label="fp32",
    key="k",
    level=0.1,
    processes=8,
    sampled=3.0,
    between=0.01**2,
    tau2=0.05**2,
    cost=4.5,
)


def kept(day: int = 1, **changes: Any) -> SessionLevel:
    """One setting of the session of this day of January."""
    return replace(LEVEL, created=f"2026-01-{day:02}T00:00:00+00:00", **changes)


def beside(run: Run, *seconds: float) -> Run:
    """``run`` with turns of a reference load that took ``seconds``."""
    return replace(run, reference=tuple(ReferenceTurn(i, i + 0.1, each, 1) for i, each in enumerate(seconds)))
