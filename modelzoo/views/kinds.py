"""How each kind of result is shown: a ``View`` for each type of payload, which whatever shows results looks up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from modelzoo.document import Block, Notices, Section, lines, named
from modelzoo.records.race import Throughput, Tuning
from modelzoo.records.run import Latency, Result
from modelzoo.records.serving import Load
from modelzoo.results import load as loads
from modelzoo.results import summary
from modelzoo.results import tuning as searches
from modelzoo.results.summary import SummaryRow
from modelzoo.views import findings, load, results_table, run, throughput, tuning, validity
from modelzoo.views.differences import conditions
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
        blocks += [findings.headline(shown), *latencies, results_table.page_table(shown)]
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
    Throughput: _serving("Throughput", lambda result: throughput.document(result), scatter.frontier),
    Load: _serving(
        "Load test",
        lambda result: load.document(loads.of(result)),
        lambda result: scatter.load_curve(loads.of(result)),
    ),
}
