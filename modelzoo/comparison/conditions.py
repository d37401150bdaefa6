"""What both sides have in common, and what differs, the most decisive first. Pure.

For each row, the facts of both sides' processes are compared. A fact that differs between processes of one side has all
of its values. Facts that neither side knows are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from modelzoo.comparison.facts import IMPORTANCE, NONE, FactGroup
from modelzoo.comparison.model import Conditions, Difference, Row, SideSetting
from modelzoo.records.run import Result, RunReport

UNKNOWN = "unknown"
VARIES = "the same on both sides of each row"
"""Value of what both sides have in common in each row, but not in all rows (weights, for example)."""

Values = Mapping[str, str]
"""The facts of one group, as text, by name."""


@dataclass(frozen=True)
class _Compared:
    """The facts of one group in one row; ``None`` if a side did not record them."""

    row: str
    base: Optional[Values]
    other: Optional[Values]

    @property
    def sides(self) -> tuple[Optional[Values], Optional[Values]]:
        return self.base, self.other


def conditions(rows: Sequence[Row]) -> Conditions:
    """Return what both sides have in common, and what differs.

    Only rows for which both sides have a finished process are considered: of the others, nothing can be said.
    """
    both = [(_name(row), _processes(row.base), _processes(row.other)) for row in rows if row.base and row.other]
    found = [(name, base, other) for name, base, other in both if base and other]
    shared: list[tuple[str, str]] = []
    differing: list[Difference] = []
    for group in IMPORTANCE:
        compared = [_Compared(name, _values(group, base), _values(group, other)) for name, base, other in found]
        for name in _names(group, compared):
            values = {each.row: _pair(group, name, each) for each in compared}
            known = {row: pair for row, pair in values.items() if pair != (UNKNOWN, UNKNOWN)}
            differences = {row: pair for row, pair in known.items() if pair[0] != pair[1]}
            if differences:
                differing += _differences(name, differences, len(compared))
            elif known:
                alike = {value for value, _ in known.values()}
                shared += [(name, alike.pop() if len(alike) == 1 else VARIES)] if alike != {NONE} else []
    return Conditions(tuple(shared), tuple(differing))


_Process = tuple[RunReport, Result]


def _processes(side: SideSetting) -> list[_Process]:
    return [
        (run.report, result)
        for session, result in zip(side.sessions, side.results)
        for run in session
        if run.report is not None
    ]


def _values(group: FactGroup, processes: Sequence[_Process]) -> Optional[Values]:
    """The values of each fact in all processes; ``None`` if no process recorded this group."""
    found: dict[str, dict[str, None]] = {}
    recorded = [list(facts) for facts in (group.read(*each) for each in processes) if facts is not None]
    for facts in recorded:
        for name, value in facts:
            values = found.setdefault(name, {})
            if value is not None:
                values[value] = None
    for name, values in found.items():
        if group.absent is not None and any(name not in dict(facts) for facts in recorded):
            values[group.absent] = None
    return {name: ", ".join(sorted(values)) or UNKNOWN for name, values in found.items()} if recorded else None


def _names(group: FactGroup, compared: Sequence[_Compared]) -> list[str]:
    names = list(dict.fromkeys(name for each in compared for side in (each.base, each.other) for name in side or ()))
    return sorted(names) if group.by_name else names


def _pair(group: FactGroup, name: str, each: _Compared) -> tuple[str, str]:
    base, other = ((side or {}).get(name, UNKNOWN if side is None else group.absent or UNKNOWN) for side in each.sides)
    return base, other


def _differences(name: str, values: Mapping[str, tuple[str, str]], rows: int) -> list[Difference]:
    """One difference for each pair of values, with the rows that it concerns unless that is all of them."""
    by_pair: dict[tuple[str, str], list[str]] = {}
    for row, pair in values.items():
        by_pair.setdefault(pair, []).append(row)
    return [
        Difference(name, base, other, () if len(concerned) == rows else tuple(concerned))
        for (base, other), concerned in by_pair.items()
    ]


def _name(row: Row) -> str:
    return f"{row.workload} {row.label}"
