"""What is printed after the last of several sessions."""

from __future__ import annotations

from modelzoo.document import Block, Column, Section, Table, lines
from modelzoo.formatting import MISSING, percent
from modelzoo.results.sessions import SessionsSummary
from modelzoo.views.findings import not_adjusted
from modelzoo.views.results_table import interval


def document(summary: SessionsSummary) -> list[Block]:
    """Return one row per workload and setting, and what the intervals cover."""
    title = f"Over {summary.sessions} sessions"
    return [Section(title, (Table(title, tuple(columns(summary))), lines(*notes(summary))))]


def columns(summary: SessionsSummary) -> list[Column]:
    """Return the columns: the level over sessions, and the spread between them, without and with adjustment."""
    rows = summary.rows
    found = [
        Column("workload", tuple(row.workload for row in rows)),
        Column("setting", tuple(row.label for row in rows)),
        Column("latency", tuple(interval(row.level) for row in rows), is_number=True),
        Column("sd between sessions", tuple(_percent(row.spread) for row in rows), is_number=True),
    ]
    if summary.adjustment.refused is None:
        found.append(Column("adjusted", tuple(_percent(row.adjusted_spread) for row in rows), is_number=True))
    if len({row.sessions for row in rows}) > 1:
        found.append(Column("sessions", tuple(str(row.sessions) for row in rows), is_number=True))
    return found


def notes(summary: SessionsSummary) -> list[str]:
    """Return what the columns mean, and which intervals hold for other sessions."""
    found = [
        "latency: geometric mean of the sessions' levels with its 95 % interval, which allows for the differences "
        "between sessions. The intervals of a single session, above, do not cover other sessions."
    ]
    if summary.adjustment.refused is not None:
        return [*found, f"Levels are not adjusted: {not_adjusted(summary.adjustment)}."]
    found.append("adjusted: the same standard deviation of the levels at one speed of the machine.")
    left_out = ", ".join(summary.adjustment.left_out)
    if left_out:
        found.append(f"The reference load does not predict the latency of {left_out}.")
    return found


def _percent(spread: float | None) -> str:
    return MISSING if spread is None else percent(spread)
