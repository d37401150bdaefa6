"""How each kind of result is shown: a ``View`` for each type of payload, which whatever shows results looks up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from modelzoo.document import Block, Notices, Section, Tone, first_line, lines, named
from modelzoo.records.load import Load
from modelzoo.records.run import Latency, Result
from modelzoo.records.throughput import Throughput
from modelzoo.records.tuning import Tuning
from modelzoo.results import load as loads
from modelzoo.results import summary
from modelzoo.results import tuning as searches
from modelzoo.results.summary import SummaryRow
from modelzoo.views import findings, load, results_table, run, throughput, tuning, validity
from modelzoo.views.differences import conditions
from modelzoo.views.headline import headline
from modelzoo.views.plots import forest, scatter
from modelzoo.views.plots.plot import Plot


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
        blocks += run.document(result, rows, details=details)
        blocks += run.kernels(result) if details or kernels else []
    if not rows or details or kernels:
        blocks += [block for each in result.validity for block in validity.document(each, details=details or kernels)]
    return blocks


def _search(result: Result, details: bool, kernels: bool) -> list[Block]:
    part = searches.measured(result)
    more = _session(part, details, kernels) if details or kernels or not summary.rows(part) else []
    return [*tuning.document(result), *more]


def index(shown: Sequence[SummaryRow], mark: str) -> list[Block]:
    """What distorts the numbers, with links to what helps."""
    notices = conditions(shown)
    return [Notices(tuple(notices), f"{mark}-condition", is_index=True)] if notices else []


def _session_answer(result: Result, shown: Sequence[SummaryRow], mark: str) -> list[Block]:
    """Headline, latencies and verdicts; then what qualifies them, a sentence per workload, and the speedups."""
    blocks: list[Block] = []
    if shown:
        drawn = forest.latencies(shown)
        latencies = [drawn.figure(f"{mark}-latencies")] if drawn is not None else []
        blocks += [headline(shown), *latencies, results_table.page_table(shown)]
    timed = {row.workload for row in shown}
    judged = [entry for entry in result.validity if entry.workload not in timed]
    for each in judged:
        blocks += [*validity.wrong_results(each.report), validity.verdict(each.report.validity)] if each.report else []
    for each in judged:
        if each.report is None:
            why = each.error or "no reason is known"
            blocks.append(first_line(f"{each.workload}: no accuracy check: {why}", Tone.BAD))
    blocks += index(shown, mark)
    said = findings.sentences(shown)
    blocks += [named(list(said.items()))] if said else []
    plot = forest.of_rows(shown)
    speedups = [Section("Speedups", (plot.figure(f"{mark}-forest"),), f"{mark}-ratios")] if plot is not None else []
    return [*(blocks or [lines("This result is empty: nothing was measured or judged.")]), *speedups]


def _served_answer(
    plot: Callable[[Result], Plot | None], result: Result, shown: Sequence[SummaryRow], mark: str
) -> list[Block]:
    answer, *rest = of(result).document(result, False, False)
    drawn = plot(result)
    return [answer, *([drawn.figure(f"{mark}-plot")] if drawn is not None else []), *rest, *index(shown, mark)]


def _search_answer(result: Result, shown: Sequence[SummaryRow], mark: str) -> list[Block]:
    answer, *steps = tuning.answer(result)
    plot = forest.of_search(result) or forest.latencies(shown)
    figure = [plot.figure(f"{mark}-ladder")] if plot is not None else []
    found = tuple(tuning.search(result))
    searched = [Section("Search", found, f"{mark}-search")] if found else []
    return [answer, *figure, *steps, *index(shown, mark), *searched]


_VIEWS = {
    Latency: View("Inference benchmark", _session, _session_answer, summary.rows),
    Tuning: View("Tuning", _search, _search_answer, lambda result: summary.rows(searches.measured(result))),
    Throughput: View(
        "Throughput",
        lambda result, *_: throughput.document(result),
        partial(_served_answer, scatter.frontier),
        lambda _: [],
    ),
    Load: View(
        "Load test",
        lambda result, *_: load.document(loads.of(result)),
        partial(_served_answer, lambda result: scatter.load_curve(loads.of(result))),
        lambda _: [],
    ),
}
