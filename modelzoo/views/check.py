"""What ``modelzoo check`` found, on one page: the verdicts, the kernels that changed, accuracy, what is open. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from modelzoo import stats
from modelzoo.comparison.compare import SLOWER, Comparison, Gate
from modelzoo.comparison.explanations import KernelChanges, kernel_changes
from modelzoo.document import Block, Notices, Rows, Section, Table, lines, named
from modelzoo.formatting import counted, seconds
from modelzoo.records.run import Result
from modelzoo.results import summary
from modelzoo.results.refusals import ALLOWABLE, Metric
from modelzoo.stats import Outcome
from modelzoo.views import compare_columns, differences
from modelzoo.views.compare import DIFFERING, QUANTITY, accuracy, correction, explained, gate_lines, headline
from modelzoo.views.details import signed
from modelzoo.views.kernel_tables import shapes_text
from modelzoo.views.speed import basis_text, outlook_text, reason, refusal

MOST_CHANGES = 10
"""The most shapes of a row whose kernels are listed without ``--details``."""
MOST_DIFFERENCES = 12
"""The most conditions that are listed without ``--details``."""


def document(
    result: Result, comparison: Comparison, gate: Gate, asked: tuple[str, str], *, details: bool = False
) -> list[Block]:
    """Return the page.

    Args:
        result: of the call.
        comparison: of its two sides.
        gate: what ``--fail-on`` makes of it.
        asked: what the sides were asked to be.
        details: list everything, and explain rows that are neither faster nor slower.
    """
    names = (comparison.base.name, comparison.other.name)
    shown = summary.rows(result)
    title = f"{names[1]} compared with {names[0]}"
    first = (
        headline(comparison),
        lines(*(gate_lines(comparison, gate) if gate.conditions else ())),
        named([*zip(names, asked), ("both", differences.machine(shown))]),
        Table(title, compare_columns.row_columns(comparison, {})),
        lines(*_legend(comparison, gate)),
    )
    blocks: list[Block] = [Section(title, first), *_open(comparison)]
    blocks += [_kernels(found, names, details=details) for found in map(kernel_changes, comparison.rows) if found]
    blocks += explained(comparison, details=details)
    blocks += [_accuracy(comparison, names), _differences(comparison, details=details)]
    notices = differences.conditions(shown)
    return [*blocks, *([Section("Conditions", [Notices(notices)])] if notices else [])]


SLOWDOWNS = (0.02, 0.05, 0.1)
"""What is said with which probability it would have been found, each beyond the bound of ``--fail-on slower:…``."""


def _legend(comparison: Comparison, gate: Gate) -> Iterator[str]:
    base, head = comparison.base.name, comparison.other.name
    yield f"{base}, {head}: {QUANTITY[Metric.LATENCY]}, geometric mean of the processes' medians, ± its 95 % interval."
    compared = [(row, row.speed.found) for row in comparison.rows if row.speed.found is not None]
    if compared:
        yield (
            f"ratio: speedup of {head} (below 1: slower) with its 95 % interval, from rounds in which both sides ran "
            f"in alternating turns.{correction(len(compared))}"
        )
    bound = min((each.fraction or 0.0 for each in gate.conditions if each.name == SLOWER), default=0.0)
    for row, found in compared:
        said = f"{row.name}: {counted(found.rounds, 'round')}; {basis_text(found)}."
        powers = [(bound + each, found.power(bound + each, bound, len(compared))) for each in SLOWDOWNS]
        # One table in fifty may be wrong whatever the power: 2 % slower is at the edge of SAME.
        least = [(size, min(p, stats.VERDICT_CONFIDENCE)) for size, p in powers if p is not None]
        known = [(f"{100 * size:g} %", f"{math.floor(100 * p)} %") for size, p in least]
        if known:
            sizes, shares = map(_listed, zip(*known))
            said += f" If rounds differ no more than these did, a slowdown of {sizes} is found with a probability of at"
            said += f" least {shares}."
        yield said


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _open(comparison: Comparison) -> list[Block]:
    """What could not be decided, and what would decide it."""
    found: list[tuple[str, str]] = []
    for row in comparison.rows:
        if row.outcome is Outcome.AMBIGUOUS:
            outlook = row.speed.verdict.outlook
            more = f"; {outlook_text(outlook)}: give a larger --budget" if outlook is not None else ""
            found.append((row.name, f"{reason(row.speed)}{more}"))
        for each in row.speed.refused:
            way = f" (--allow {each.obstacle} compares all the same)" if each.obstacle in ALLOWABLE else ""
            found.append((row.name, f"not comparable: {refusal(each)}{way}"))
        found += [(row.name, f"allowed: {refusal(each)}") for each in row.speed.allowed]
    return [Section("Not decided", (named(found),))] if found else []


def _kernels(found: KernelChanges, names: tuple[str, str], *, details: bool) -> Section:
    """The shapes whose products other kernels computed."""
    title = f"Kernels of {found.workload} {found.label}"
    if not found.changes:
        said = f"The same kernels computed all products on both sides (shapes: {found.shapes})."
        return Section(title, (lines(said),))
    changes = found.changes if details else found.changes[:MOST_CHANGES]
    left_out = len(found.changes) - len(changes)
    said = f"Other kernels computed {len(found.changes)} of {found.shapes} shapes of products"
    said += f"; the {len(changes)} whose time changed most (--details lists all)." if left_out else "."
    of, (base, other) = Rows(changes), names
    columns = (
        of.text("operation", lambda each: each.operator_class),
        of.text("shapes", lambda each: shapes_text(each.shapes)),
        of.text(f"kernel of {base}", lambda each: ", ".join(each.base.kernels) or None),
        of.text(f"kernel of {other}", lambda each: ", ".join(each.other.kernels) or None),
        of.number(f"{base} per pass", lambda each: seconds(each.base.seconds if each.base.kernels else None), order=0),
        of.number(
            f"{other} per pass", lambda each: seconds(each.other.seconds if each.other.kernels else None), order=0
        ),
        of.number("change", lambda each: signed(each.change)),
    )
    note = "Times are those of audited passes, without intervals."
    return Section(title, (lines(said), Table(title, columns, note)))


def _accuracy(comparison: Comparison, names: tuple[str, str]) -> Section:
    """What the judgement of each side says."""
    title = "Accuracy"
    sides = [(row, name, side) for row in comparison.rows for name, side in zip(names, (row.base, row.other)) if side]
    judged = []
    for row, name, side in sides:
        if side.validity is not None:
            judged.append((f"{row.name}, {name}", accuracy(side)))
    why = "--validate judges the predictions of each side against its own fp32."
    if all(side.requested == side.requested.reference() for _, _, side in sides):
        why = (
            "fp32 in eager mode is what other settings are judged against. --bf16 or --mode, with --validate, judges "
            "each side against its own fp32."
        )
    return Section(title, (named(judged) if judged else lines(f"Not checked: {why}"),))


def _differences(comparison: Comparison, *, details: bool) -> Section:
    """What differs between the sides; kernels, which are a consequence, have tables of their own."""
    found = len(comparison.conditions.differing)
    if not found:
        ran = any(row.base and row.other and row.base.reports and row.other.reports for row in comparison.rows)
        said = "Nothing that is recorded." if ran else "Not known: no workload ran on both sides."
        return Section("What differs", [lines(said)])
    table = Table(DIFFERING, compare_columns.difference_columns(comparison), wraps=True)
    if details or found <= MOST_DIFFERENCES:
        return Section(DIFFERING, [table])
    more = lines(f"{found - MOST_DIFFERENCES} more with --details")
    return Section(DIFFERING, (table.first(MOST_DIFFERENCES), more))
