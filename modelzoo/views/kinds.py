"""How each kind of result is shown, and what a call of ``modelzoo run`` found. Pure.

There is a ``View`` for each type of payload, which whatever shows results looks up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from modelzoo.document import Block, Notices, Section, lines, named
from modelzoo.formatting import share
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.race import Throughput, Tuning
from modelzoo.records.run import Latency, Result
from modelzoo.records.serving import Load
from modelzoo.results import load as loads
from modelzoo.results import summary
from modelzoo.results import tuning as searches
from modelzoo.results.parts import pipelines
from modelzoo.results.refusals import contradictions
from modelzoo.results.summary import SummaryRow, is_unproven, rows
from modelzoo.views import findings, kernel_tables, load, proof, tables, throughput, tuning, validity
from modelzoo.views.details import brief_explanations, detail_lines, explanation, explanations
from modelzoo.views.differences import conditions, machine
from modelzoo.views.plots import Plot, forest, scatter
from modelzoo.warning import Severity

SHOWN_PRODUCTS = 25
"""Products of a setting that ``--details`` lists one by one; a page lists all of them."""
SHOWN_CONDITIONS = 2
"""Conditions that are shown without ``--details``; those that invalidate a number always are."""


def run_document(result: Result, shown: Sequence[SummaryRow], *, details: bool = False) -> list[Block]:
    """Return the headline, the table, what may be concluded, what failed, and the conditions that matter most.

    Args:
        result: what was measured.
        shown: those of ``summary.rows(result)``, at least one.
        details: also the details of each row, and all conditions.
    """
    table, levels = tables.table(shown), pipelines(result)
    table = replace(table, caption="; ".join(filter(None, [machine(shown), table.caption])))
    blocks: list[Block] = [findings.headline(shown), *([table] if any(row.reports for row in shown) else [])]
    blocks += [tables.stage_section(levels, [f"{each.workload} {each.label}" for each in levels])] if levels else []
    blocks += [tables.token_table(shown)] if any(row.generation for row in shown) else []
    blocks.append(named(findings.remarks(shown).items(), title="Within this session"))
    blocks += [] if details else [brief_explanations(shown)]
    notices = conditions(shown)
    serious = [each for each in notices if each.severity is Severity.INVALIDATES]
    others = [each for each in notices if each.severity is Severity.DISTORTS]
    kept = notices if details else [*serious, *others[: max(0, SHOWN_CONDITIONS - len(serious))]]
    left_out = len(notices) - len(kept) if kept else 0
    blocks += [Notices(kept), lines(f"{left_out} more: --details" if left_out else "")]
    if details:
        blocks += [replace(lines(*detail_lines(each)), title=f"{each.workload} {each.label}") for each in shown]
        blocks += [explanation(found, names) for _, names, found in explanations(shown)]
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


def run_kernels(result: Result) -> list[Block]:
    """Return the kernel evidence and the operator tables of each setting's first process that has them."""
    sections: list[Block] = []
    for row in rows(result):
        name = f"{row.workload} {row.requested}"
        parts = (*kernel_tables.kernel_parts(row, name, SHOWN_PRODUCTS), *kernel_tables.operator_parts(row, name))
        sections += [Section(title, blocks) for title, blocks in parts]
    return sections


class View(msgspec.Struct, frozen=True):
    """How one kind of result is shown.

    Attributes:
        title: what a page about such a result is called.
        document: what the command that measured it printed, with ``--details`` and ``--kernels`` or without.
        answer: what a page begins with. It takes the rows of the page as well, and what ids in it begin with.
        rows: the settings that were timed one by one; none of instances and requests.
    """

    title: str
    document: Callable[[Result, bool, bool], list[Block]]
    answer: Callable[[Result, Sequence[SummaryRow], str], list[Block]]
    rows: Callable[[Result], list[SummaryRow]]


def of(result: Result) -> View:
    """The view of a result."""
    view = _VIEWS[type(result.payload)]
    if result.validity and not result.runs and view is _VIEWS[Latency]:
        return msgspec.structs.replace(view, title="Accuracy check")
    return view


def _session(result: Result, details: bool, kernels: bool) -> list[Block]:
    rows, blocks = summary.rows(result), list[Block]()
    if rows:
        blocks += run_document(result, rows, details=details)
        blocks += run_kernels(result) if details or kernels else []
    if not rows or details or kernels:
        blocks += [block for each in result.validity for block in validity.document(each, details=details or kernels)]
    return blocks


def _search(result: Result, details: bool, kernels: bool) -> list[Block]:
    part = searches.measured(result)
    more = _session(part, details, kernels) if details or kernels or not summary.rows(part) else []
    return [*tuning.document(result), *more]


def drawn(plot: Plot | None, mark: str) -> list[Block]:
    """A plot as a part of a page, if there is one; ``mark`` is its id."""
    return [plot.figure(mark)] if plot is not None else []


def section(title: str, blocks: Sequence[Block], mark: str) -> list[Block]:
    """A section; none if it would be empty."""
    return [Section(title, blocks, mark)] if blocks else []


def _index(shown: Sequence[SummaryRow], mark: str) -> Notices:
    """What distorts the numbers, with links to what helps."""
    return Notices(conditions(shown), f"{mark}-condition", is_index=True)


def _session_answer(result: Result, shown: Sequence[SummaryRow], mark: str) -> list[Block]:
    """Headline, latencies and verdicts; then what qualifies them, what is open, and the speedups."""
    blocks: list[Block] = []
    if shown:
        latencies = drawn(forest.latencies(shown), f"{mark}-latencies")
        blocks += [findings.headline(shown), *latencies, tables.page_table(shown)]
    timed = {row.workload for row in shown}
    blocks += [block for each in result.validity if each.workload not in timed for block in validity.answer(each)]
    blocks = blocks or [lines("This result is empty: nothing was measured or judged.")]
    blocks += [_index(shown, mark), named(findings.remarks(shown).items())]
    return [*blocks, *section("Speedups", drawn(forest.of_rows(shown), f"{mark}-forest"), f"{mark}-ratios")]


def _search_answer(result: Result, shown: Sequence[SummaryRow], mark: str) -> list[Block]:
    answer, *steps = tuning.answer(result)
    plot = forest.of_search(result) or forest.latencies(shown)
    searched = section("Search", tuning.search(result), f"{mark}-search")
    return [answer, *drawn(plot, f"{mark}-ladder"), *steps, _index(shown, mark), *searched]


def _serving(title: str, document: Callable[[Result], list[Block]], plot: Callable[[Result], Plot | None]) -> View:
    """The view of instances, which are not timed one by one."""

    def page(result: Result, shown: Sequence[SummaryRow], mark: str) -> list[Block]:
        answer, *rest = document(result)
        return [answer, *drawn(plot(result), f"{mark}-plot"), *rest, _index(shown, mark)]

    return View(title, lambda result, *_: document(result), page, lambda _: [])


_VIEWS = {
    Latency: View("Inference benchmark", _session, _session_answer, summary.rows),
    Tuning: View("Tuning", _search, _search_answer, lambda result: summary.rows(searches.measured(result))),
    Throughput: _serving("Throughput", throughput.document, scatter.frontier),
    Load: _serving(
        "Load test",
        lambda result: load.document(loads.of(result)),
        lambda result: scatter.load_curve(loads.of(result)),
    ),
}
