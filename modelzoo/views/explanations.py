"""Where a difference in speed comes from: the operations that changed, with the kernels that ran. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from modelzoo.comparison.explanations import EVERYTHING_ELSE, Explanation, Part, explained
from modelzoo.document import Column, Lines, Section, Table, lines, named
from modelzoo.formatting import MISSING, seconds, share
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import launchers
from modelzoo.stats import Outcome
from modelzoo.views.differences import by_workload, short_names

NAMED_PARTS = 3
"""A sentence names up to this many operations."""
NAMED_SHARE = 0.1
"""Operations that changed by less than this fraction of the difference are not in a sentence."""
NAMED_ROWS = 4
"""Rows that are explained without ``--details``."""


class ExplainedRow(NamedTuple):
    """A setting that is faster or slower than its baseline, with what explains it."""

    row: SummaryRow
    names: tuple[str, str]
    found: Explanation


def of_run(shown: Sequence[SummaryRow]) -> list[ExplainedRow]:
    """Return what explains the rows of a call that are faster or slower than their baselines."""
    found: list[ExplainedRow] = []
    for workload, rows in by_workload(shown).items():
        names = short_names(rows)
        for base_name, base in [(name, row) for name, row in zip(names, rows) if row.is_baseline]:
            for name, row in zip(names, rows):
                if row.speed is None or row.speed.verdict.outcome not in (Outcome.FASTER, Outcome.SLOWER):
                    continue
                made = explained(workload, name, base.reports, row.reports)
                found += [ExplainedRow(row, (base_name, name), made)] if made is not None else []
    return found


def brief(shown: Sequence[SummaryRow]) -> Lines | None:
    """Return a sentence for each row that is slower, or that another release, image or engine made faster.

    That another precision or mode is faster is what it is used for; its operations are details. ``None`` if there is
    no such row.
    """
    several, software = len(by_workload(shown)) > 1, (*launchers(), "engine")
    bases = {row.workload: row.setting for row in shown if row.is_baseline}
    said = [
        (f"{row.workload} {names[1]}" if several else names[1], sentence(found))
        for row, names, found in of_run(shown)
        if (row.speed is not None and row.speed.verdict.outcome is Outcome.SLOWER)
        or any(getattr(row.setting, name) != getattr(bases[row.workload], name) for name in software)
    ]
    if len(said) > NAMED_ROWS:
        said = [*said[:NAMED_ROWS], (f"{len(said) - NAMED_ROWS} more", "--details")]
    return named(said, title="Operations that changed most") if said else None


def sentence(found: Explanation) -> str:
    """The operations that changed most, the largest change first, with the kernels of both sides.

    ``audited passes +312.0 ms, timed +298.1 ms; linear: kernels +310.2 ms (brg_matmul:avx10_1_512 → ref:any)``
    """
    change, timed = found.other - found.base, found.other_timed - found.base_timed
    intro = f"{found.source} passes {signed(change)}, timed {signed(timed)}"
    if change * timed <= 0:
        return f"{intro}: they do not explain the difference"
    parts = [
        part
        for part in found.parts
        if part.name != EVERYTHING_ELSE and abs(part.change) >= NAMED_SHARE * abs(change) and part.change
    ][:NAMED_PARTS]
    if not parts:
        return f"{intro}; no operation changed by {share(NAMED_SHARE, 0)} of that"
    said = [intro]
    for part in parts:
        same = " (same kernels)" if part.base_kernels else ""
        kernels = same if part.base_kernels == part.other_kernels else f" ({_kernels(part)})"
        said.append(f"{part.name} {signed(part.change)}{kernels}")
    return "; ".join(said)


def section(found: Explanation, names: tuple[str, str], *, is_decided: bool = True) -> Section:
    """Return the operations of both sides as a table, and what their sum explains.

    Args:
        found: the explanation.
        names: of the baseline and of the other side.
        is_decided: whether there is a significant difference, so that there is something to explain.
    """
    row = f"{found.workload} {found.label}"
    title = f"Where the difference of {row} comes from" if is_decided else f"Operations of {row} on both sides"
    said = lines(passes_text(found, names, is_decided=is_decided))
    return Section(title, (said, Table(title, tuple(columns(found, names)), wraps=True)))


def columns(found: Explanation, names: tuple[str, str]) -> list[Column]:
    """Return the operations that explain the difference of a row, the largest change first, and their sum."""
    parts = found.parts
    changes = [part.change for part in parts]
    shown = [
        Column("operation", (*(part.name for part in parts), "sum")),
        Column(names[0], (*(seconds(part.base) for part in parts), seconds(found.base)), is_number=True),
        Column(names[1], (*(seconds(part.other) for part in parts), seconds(found.other)), is_number=True),
        Column("change", (*map(signed, changes), signed(found.other - found.base)), is_number=True),
    ]
    kernels = [_kernels(part) for part in parts]
    return [*shown, Column("kernels", (*kernels, ""))] if any(kernels) else shown


def signed(value: float) -> str:
    """A time with its sign. Less than a nanosecond is what rounding leaves of a sum."""
    rounded = round(value, 9)
    return f"{'+' if rounded >= 0 else '−'}{seconds(abs(rounded))}"


def _kernels(part: Part) -> str:
    """The kernels of an operation; of both sides if they differ."""
    here, there = (", ".join(each) or MISSING for each in (part.base_kernels, part.other_kernels))
    if here == there:
        return "" if here == MISSING else here
    return f"{here} → {there}"


def passes_text(found: Explanation, names: tuple[str, str], *, is_decided: bool = True) -> str:
    """Say how much longer or shorter the audited or profiled passes were than the timed ones, and what they explain.

    Args:
        found: the explanation.
        names: of the baseline and of the other side.
        is_decided: whether there is a difference to explain.
    """
    said = []
    for name, passed, timed, count in (
        (names[0], found.base, found.base_timed, found.base_passes),
        (names[1], found.other, found.other_timed, found.other_passes),
    ):
        passes = f"{count} {found.source} pass{'es' if count > 1 else ''} of {seconds(passed)}"
        slower = f"{share(abs(passed / timed - 1), 0)} {'more' if passed >= timed else 'less'}"
        said.append(f"{name}: {passes}, {slower} than the timed ones ({seconds(timed)} as measured)")
    change, timed = found.other - found.base, found.other_timed - found.base_timed
    part = ""
    if is_decided and change * timed > 0:
        part = (
            f"They differ by {signed(change)}, {share(change / timed, 0)} of the timed difference ({signed(timed)}). "
        )
    elif is_decided:
        part = (
            f"They differ by {signed(change)} and the timed ones by {signed(timed)}, so they do not explain the timed "
            "difference. "
        )
    return f"{said[0]}; {said[1]}. {part}A single operation's time has no interval."
