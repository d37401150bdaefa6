"""What a call of ``modelzoo run`` found, as a document. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.document import Block, Notices, Section, lines, named
from modelzoo.formatting import share
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result
from modelzoo.results.parts import pipelines
from modelzoo.results.refusals import contradictions
from modelzoo.results.summary import SummaryRow, is_unproven, rows
from modelzoo.views import explanations, findings, kernel_tables, proof, results_table, stages
from modelzoo.views.details import detail_lines
from modelzoo.views.differences import conditions, machine
from modelzoo.warning import Severity

SHOWN_PRODUCTS = 25
"""Products of a setting that ``--details`` lists one by one; a page lists all of them."""
SHOWN_CONDITIONS = 2
"""Conditions that are shown without ``--details``; those that invalidate a number always are."""


def document(result: Result, shown: Sequence[SummaryRow], *, details: bool = False) -> list[Block]:
    """Return the headline, the table, what may be concluded, what failed, and the conditions that matter most.

    Args:
        result: what was measured.
        shown: those of ``summary.rows(result)``, at least one.
        details: also the details of each row, and all conditions.
    """
    table, levels = results_table.table(shown), pipelines(result)
    table = replace(table, caption="; ".join(filter(None, [machine(shown), table.caption])))
    blocks: list[Block] = [findings.headline(shown), *([table] if any(row.reports for row in shown) else [])]
    blocks += [stages.section(levels, [f"{each.workload} {each.label}" for each in levels])] if levels else []
    blocks += [stages.tokens(shown)] if any(row.generation for row in shown) else []
    blocks.append(named(findings.remarks(shown).items(), title="Within this session"))
    blocks += [] if details else [explanations.brief(shown)]
    notices = conditions(shown)
    serious = [each for each in notices if each.severity is Severity.INVALIDATES]
    others = [each for each in notices if each.severity is Severity.DISTORTS]
    kept = notices if details else [*serious, *others[: max(0, SHOWN_CONDITIONS - len(serious))]]
    left_out = len(notices) - len(kept) if kept else 0
    blocks += [Notices(kept), lines(f"{left_out} more: --details" if left_out else "")]
    if details:
        blocks += [replace(lines(*detail_lines(each)), title=f"{each.workload} {each.label}") for each in shown]
        blocks += [explanations.section(found, names) for _, names, found in explanations.of_run(shown)]
    return blocks


def baseline_lines(shown: Sequence[SummaryRow]) -> list[str]:
    """Say what was the baseline, whose ``[TARGET]`` line names no setting; nothing if only one setting was run."""
    compared = {row.workload for row in shown if not row.is_baseline}
    baselines = [row for row in shown if row.is_baseline and row.workload in compared]
    settings = list(dict.fromkeys(row.requested for row in baselines))
    if not settings:
        return []
    if len(settings) == 1:
        return [f"baseline: {settings[0]} (its line for scripts names no setting)"]
    each = ", ".join(f"{row.workload} {row.requested}" for row in baselines)
    return [f"baselines: {each} (their lines for scripts name no setting)"]


def objections(shown: Sequence[SummaryRow]) -> list[str]:
    """Return what ``--strict`` objects to, one line each: a precision that is not verified, reference kernels."""
    said = []
    for row in filter(is_unproven, shown):
        name = f"{row.workload} {row.label}"
        if row.proof.verdict is ProofVerdict.WRONG_RESULTS:
            said.append(f"{name}: {proof.sentence(row.proof)}")
        elif not row.is_proven:
            said.append(f"{name} is not verified: {proof.sentence(row.proof) or f'{proof.NO_EVIDENCE} (--no-audit?)'}")
        said += dict.fromkeys(f"{name}: {each.message}" for each in contradictions(row.reports))
        if row.used_reference_kernels:
            said.append(f"{name}: reference kernels took {share(row.proof.reference_share)} of the time")
    return said


def kernels(result: Result) -> list[Block]:
    """Return the kernel evidence and the operator tables of each setting's first process that has them."""
    sections: list[Block] = []
    for row in rows(result):
        name = f"{row.workload} {row.requested}"
        parts = (*kernel_tables.kernel_parts(row, name, SHOWN_PRODUCTS), *kernel_tables.operator_parts(row, name))
        sections += [Section(title, blocks) for title, blocks in parts]
    return sections
