"""The first screen: what a call found in words, the table of verdicts, and what failed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.document import Block, Notices, lines, named
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
        found.append(results_table.page_table(shown))
    others = len(conditions(shown)) - len(serious)
    if others:
        several = "conditions may" if others > 1 else "condition may"
        found.append(lines(f"{others} {several} matter for these numbers; see Conditions."))
    if not found:
        found.append(lines("This result is empty: nothing was measured or judged."))
    return found


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
