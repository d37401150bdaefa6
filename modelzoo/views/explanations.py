"""Where a difference in speed comes from: the operations that changed, with the kernels that ran. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelzoo.comparison.explanations import EVERYTHING_ELSE, Explanation, Part, explained
from modelzoo.document import Column, Lines, Rows, Section, Table, known, lines, named
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


def of_run(shown: Sequence[SummaryRow]) -> Iterator[tuple[SummaryRow, tuple[str, str], Explanation]]:
    """Yield the rows of a call that are faster or slower than their baselines, both names, and what explains it."""
    for workload, rows in by_workload(shown).items():
        names = short_names(rows)
        for base_name, base in [(name, row) for name, row in zip(names, rows) if row.is_baseline]:
            for name, row in zip(names, rows):
                if row.speed is not None and row.speed.verdict.outcome in (Outcome.FASTER, Outcome.SLOWER):
                    found = explained(workload, name, base.reports, row.reports)
                    if found is not None:
                        yield row, (base_name, name), found


def brief(shown: Sequence[SummaryRow]) -> Lines:
    """Return a sentence for each row that is slower, or that another release, image or engine made faster.

    That another precision or mode is faster is what it is used for; its operations are details.
    """
    several, software = len(by_workload(shown)) > 1, (*launchers(), "engine")
    bases = {row.workload: row.setting for row in shown if row.is_baseline}
    said = [
        (f"{row.workload} {name}" if several else name, sentence(found))
        for row, (_, name), found in of_run(shown)
        if (row.speed is not None and row.speed.verdict.outcome is Outcome.SLOWER)
        or any(getattr(row.setting, field) != getattr(bases[row.workload], field) for field in software)
    ]
    more = [(f"{len(said) - NAMED_ROWS} more", "--details")] if len(said) > NAMED_ROWS else []
    return named([*said[:NAMED_ROWS], *more], title="Operations that changed most")


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
    return Section(title, (said, Table(title, columns(found, names), wraps=True)))


def columns(found: Explanation, names: tuple[str, str]) -> list[Column]:
    """Return the operations that explain the difference of a row, the largest change first, and their sum."""
    of = Rows((*found.parts, Part("sum", found.base, found.other)))
    return known(
        of.text("operation", lambda part: part.name),
        of.number(names[0], lambda part: seconds(part.base)),
        of.number(names[1], lambda part: seconds(part.other)),
        of.number("change", lambda part: signed(part.change)),
        of.text("kernels", _kernels),
    )


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
    part = f"They differ by {signed(change)} "
    if change * timed > 0:
        part = f"{part[:-1]}, {share(change / timed, 0)} of the timed difference ({signed(timed)}). "
    else:
        part += f"and the timed ones by {signed(timed)}, so they do not explain the timed difference. "
    return f"{said[0]}; {said[1]}. {part if is_decided else ''}A single operation's time has no interval."
