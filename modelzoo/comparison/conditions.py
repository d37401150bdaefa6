"""What both sides have in common, and what differs, the most decisive first. Pure.

For each row, the facts of both sides' processes are compared. A fact that differs between processes of one side has all
of its values. Facts that neither side knows are left out; those that only one side knows may be equal and come last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

import msgspec

from modelzoo.comparison.facts import IMPORTANCE, NONE, FactGroup
from modelzoo.comparison.model import Row, SideSetting
from modelzoo.records.run import Result, RunReport

Values = Mapping[str, frozenset[str]]
"""All values of the facts of one group, by name."""
Pair = tuple[frozenset[str], frozenset[str]]
"""The baseline's values of a fact, and the other side's."""
_UNKNOWN: frozenset[str] = frozenset()
_NONE = frozenset({NONE})


class Difference(msgspec.Struct, frozen=True):
    """A condition that differs between the sides.

    Attributes:
        name: ``CPU``, ``torch``, ``variable OMP_NUM_THREADS`` ….
        base: the baseline's values, of all its processes; empty if they are not known.
        other: the other side's.
        rows: names of the rows that it concerns; empty if it concerns all.
        is_apart: whether no process of one side has a value of the other.
    """

    name: str
    base: tuple[str, ...]
    other: tuple[str, ...]
    rows: tuple[str, ...] = ()
    is_apart: bool = True


class Conditions(msgspec.Struct, frozen=True):
    """What the sides have in common, by name, and what differs, the most decisive first.

    What is the same on both sides of each row, but not in all rows (weights, for example), is shared without values.
    """

    shared: tuple[tuple[str, tuple[str, ...]], ...]
    differing: tuple[Difference, ...]


class _Compared(msgspec.Struct, frozen=True):
    """The facts of one group in one row; ``None`` if a side did not record them."""

    row: str
    base: Optional[Values]
    other: Optional[Values]


def conditions(rows: Sequence[Row]) -> Conditions:
    """Return what both sides have in common, and what differs.

    Only rows for which both sides have a finished process are considered: of the others, nothing can be said.
    """
    both = [(_name(row), _processes(row.base), _processes(row.other)) for row in rows if row.base and row.other]
    found = [(name, base, other) for name, base, other in both if base and other]
    shared: list[tuple[str, tuple[str, ...]]] = []
    differing: list[Difference] = []
    for group in IMPORTANCE:
        compared = [_Compared(name, _values(group, base), _values(group, other)) for name, base, other in found]
        for name in _names(group, compared):
            values = {each.row: _pair(group, name, each) for each in compared}
            known = {row: pair for row, pair in values.items() if any(pair)}
            differences = {row: pair for row, pair in known.items() if pair[0] != pair[1]}
            if differences:
                differing += _differences(name, differences, len(compared))
            elif known:
                alike = {value for value, _ in known.values()}
                shared += [(name, tuple(sorted(alike.pop())) if len(alike) == 1 else ())] if alike != {_NONE} else []
    return Conditions(tuple(shared), tuple(sorted(differing, key=_is_half_known)))


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
    found: dict[str, set[str]] = {}
    recorded = [list(facts) for facts in (group.read(*each) for each in processes) if facts is not None]
    for facts in recorded:
        for name, value in facts:
            found.setdefault(name, set()).update([] if value is None else [value])
    if group.absent is not None:
        for names in [{name for name, _ in facts} for facts in recorded]:
            for name in found.keys() - names:
                found[name].add(group.absent)
    return {name: frozenset(values) for name, values in found.items()} if recorded else None


def _names(group: FactGroup, compared: Sequence[_Compared]) -> list[str]:
    names = list(dict.fromkeys(name for each in compared for side in (each.base, each.other) for name in side or ()))
    return sorted(names) if group.by_name else names


def _pair(group: FactGroup, name: str, each: _Compared) -> Pair:
    absent = _UNKNOWN if group.absent is None else frozenset({group.absent})
    base, other = (_UNKNOWN if side is None else side.get(name, absent) for side in (each.base, each.other))
    return base, other


def _is_half_known(difference: Difference) -> bool:
    return not (difference.base and difference.other)


def _differences(name: str, values: Mapping[str, Pair], rows: int) -> list[Difference]:
    """One difference for each pair of values, with the rows that it concerns unless that is all of them."""
    by_pair: dict[Pair, list[str]] = {}
    for row, pair in values.items():
        by_pair.setdefault(pair, []).append(row)
    found = []
    for (base, other), concerned in by_pair.items():
        names = () if len(concerned) == rows else tuple(concerned)
        found.append(Difference(name, tuple(sorted(base)), tuple(sorted(other)), names, not base & other))
    return found


def _name(row: Row) -> str:
    return f"{row.workload} {row.label}"
