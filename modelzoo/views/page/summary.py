"""The first screen: what a call found in words, the table of verdicts, and what failed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.document import Block, Column, Notices, Table, lines, named
from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.results.adjustment import adjustment
from modelzoo.results.summary import SummaryRow
from modelzoo.views import findings, results_table
from modelzoo.views.conditions import conditions
from modelzoo.views.judgement import validity_detail, validity_text
from modelzoo.warning import Severity


def answer(result: Result, shown: Sequence[SummaryRow]) -> list[Block]:
    """Return the answer: a sentence for each workload, the verdicts, and what failed or invalidates a number."""
    found: list[Block] = []
    said = [*findings.sentences(shown).items(), *_judged_only(result, shown)]
    steadiness = findings.steadiness(adjustment(result)) if shown else ""
    said += [("this machine", steadiness)] if steadiness else []
    if said:
        found.append(named(said, stands_out=True))
    serious = [each for each in conditions(shown) if each.severity is Severity.INVALIDATES]
    if serious:
        found.append(Notices(tuple(serious)))
    if shown:
        found.append(verdicts(shown))
    others = len(conditions(shown)) - len(serious)
    if others:
        several = "conditions may" if others > 1 else "condition may"
        found.append(lines(f"{others} {several} matter for these numbers; see Conditions."))
    if not found:
        found.append(lines("This result is empty: nothing was measured or judged."))
    return found


def verdicts(shown: Sequence[SummaryRow]) -> Table:
    """Return the table of the call as printed."""
    table = results_table.table(shown)
    found = table.columns
    # On a phone the first columns are seen without scrolling: which setting it is, and the verdict.
    first = next(index for index, column in enumerate(found) if column.title == "latency")
    ordered = [*found[:first], *sorted(found[first:], key=_rank)]
    return replace(table, columns=tuple(_named(column, shown) for column in ordered))


def _rank(column: Column) -> int:
    return 0 if column.title == "verdict" else 1 if column.title.startswith("speedup") else 2


def _judged_only(result: Result, shown: Sequence[SummaryRow]) -> list[tuple[str, str]]:
    """The judgements of workloads that were not timed."""
    timed = {each.workload for each in shown}
    found = []
    for entry in result.validity:
        if entry.workload in timed:
            continue
        if entry.report is None:
            found.append((entry.workload, f"predictions could not be judged: {entry.error or 'no reason is known'}"))
        else:
            judged = f"{validity_text(entry)} ({validity_detail(entry)})"
            found.append((entry.workload, f"predictions of {result.label(entry.group)} {judged}"))
    return found


def _named(column: Column, shown: Sequence[SummaryRow]) -> Column:
    """A column of the table; every row has the name of its workload, and the baseline has no empty cell."""
    if column.title == "workload":
        return replace(column, cells=tuple(row.workload for row in shown))
    if column.title == "verdict":
        cells = zip(shown, column.cells)
        return replace(column, cells=tuple("baseline" if row.is_baseline else cell for row, cell in cells))
    return column
