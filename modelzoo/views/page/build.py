"""From results to the content of a page: its sections, and what it shows of searches, instances and requests."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Block, Lines, Notices, Page, Section, Tone, first_line, lines, named
from modelzoo.frozen import replace
from modelzoo.records.load import Load
from modelzoo.records.run import Result
from modelzoo.records.throughput import Throughput
from modelzoo.records.tuning import Tuning
from modelzoo.results import summary as rows_of
from modelzoo.results import tuning as results_tuning
from modelzoo.results.summary import SummaryRow
from modelzoo.views import differences, findings, results_table, throughput, tuning, validity
from modelzoo.views import load as load_view
from modelzoo.views.differences import conditions, full_names
from modelzoo.views.page import circumstances, comparisons, history, workloads
from modelzoo.views.plots import forest, roofline, scatter

MOST_IN_FULL = 6
"""Files that get a section each; more are treated as one directory, to keep the page below 2 MB."""


class ResultSet(msgspec.Struct, frozen=True):
    """What the user named: a file, or a directory of sessions.

    Attributes:
        name: what the page calls it.
        sessions: the results, oldest first; at least one.
        is_directory: whether the page shows the history of the sessions.
    """

    name: str
    sessions: tuple[StoredResult, ...]
    is_directory: bool = False

    @property
    def latest(self) -> Result:
        """The result that is shown in full; of a search, what it says of the speed of settings."""
        return results_tuning.measured(self.sessions[-1].result)


def page(given: Sequence[ResultSet], question: Question) -> Page:
    """Return the page of some results.

    Args:
        given: at least one. The first one is the baseline of the others.
        question: how they are compared.
    """
    if len(given) > MOST_IN_FULL:
        given = [_joined(given)]
    pictures = workloads.pictures_each([each.latest for each in given])
    shown = [_rows(each) for each in given]
    sections = [
        comparisons.section((given[0].name, given[0].sessions), (each.name, each.sessions), question, f"c{number}")
        for number, each in enumerate(given[1:], 1)
    ]
    if len(given) == 1:
        sections += _single(given[0], shown[0], pictures)
    else:
        sections += [_several(each, rows, number, pictures) for number, (each, rows) in enumerate(zip(given, shown), 1)]
    histories = [
        history.section(each.name, each.sessions, f"h{number}")
        for number, each in enumerate(given, 1)
        if each.is_directory
    ]
    # Of a single directory, the latest results come first, then what happened before.
    place = 1 if len(given) == 1 else len(sections)
    return Page(_title(given), _subtitle(given, shown), (*sections[:place], *histories, *sections[place:]))


def _rows(given: ResultSet) -> list[SummaryRow]:
    """The rows of the latest result; what a search measured again has the names that the search gives it."""
    found, whole = rows_of.rows(given.latest), given.sessions[-1].result
    if not isinstance(whole.payload, Tuning):
        return found
    chosen = whole.payload.choice
    names = [results_tuning.name(whole, group) for group in (0, chosen.winner if chosen is not None else 0)]
    return [replace(row, name=names[row.runs[0].group]) for row in found]


def _joined(given: Sequence[ResultSet]) -> ResultSet:
    """Many files as if they were in one directory."""
    sessions = [session for each in given for session in each.sessions]
    sessions.sort(key=lambda each: history.start(each.result))
    return ResultSet(f"{len(sessions)} results", tuple(sessions), is_directory=True)


def _single(given: ResultSet, shown: Sequence[SummaryRow], pictures: int) -> list[Section]:
    """The sections of a page about one result: the answer first, everything else below it."""
    parts = _of_kind(given, shown, "r", pictures)
    answer: list[Block] = [block for block in parts if not isinstance(block, Section)]
    if given.is_directory:
        answer.insert(0, _which(given))
    return [Section("Results", tuple(answer), "results"), *(block for block in parts if isinstance(block, Section))]


def _several(given: ResultSet, shown: Sequence[SummaryRow], number: int, pictures: int) -> Section:
    parts = _of_kind(given, shown, f"r{number}", pictures)
    if given.is_directory:
        parts.insert(0, _which(given))
    return Section(given.name, tuple(parts), f"r{number}")


def _of_kind(given: ResultSet, shown: Sequence[SummaryRow], mark: str, pictures: int) -> list[Block]:
    """The answer to what this kind of call asks, and the sections that explain it."""
    result = given.sessions[-1].result
    if isinstance(result.payload, Throughput):
        own = [*throughput_blocks(result, mark), *_index(shown, mark)]
    elif isinstance(result.payload, Load):
        own = load_blocks(result.payload, mark)
    elif isinstance(result.payload, Tuning):
        own = search_blocks(result, shown, mark)
    else:
        own = [*answer(result, shown, mark), *_speedups(shown, mark)]
    return [*own, *_sections(given.latest, shown, mark, pictures)]


def _which(given: ResultSet) -> Lines:
    latest = given.sessions[-1]
    return lines(f"The latest of {len(given.sessions)} sessions: {latest.path}, {latest.result.created}.")


def _speedups(shown: Sequence[SummaryRow], mark: str) -> list[Section]:
    plot = forest.of_rows(shown)
    return [Section("Speedups", (plot.figure(f"{mark}-forest"),), f"{mark}-ratios")] if plot is not None else []


def _sections(result: Result, shown: Sequence[SummaryRow], mark: str, pictures: int) -> list[Section]:
    """What explains the answer."""
    parts: list[Section] = []
    by_workload = differences.by_workload(shown)
    names = dict.fromkeys([*by_workload, *(entry.workload for entry in result.validity)])
    for number, name in enumerate(names, 1):
        own = by_workload.get(name, [])
        parts.append(workloads.section(result, name, own, f"{mark}-w{number}", pictures))
    parts += _roofline(result, shown, mark)
    notices = conditions(shown)
    if notices:
        listed = Notices(tuple(notices), f"{mark}-condition")
        parts.append(Section("Conditions", (listed,), f"{mark}-conditions"))
    where = circumstances.machine(result)
    if where:
        parts.append(Section("Machine", tuple(where), f"{mark}-machine"))
    settings = [*circumstances.settings(shown), *circumstances.plan(result, shown), *circumstances.build(result)]
    if settings:
        parts.append(Section("Settings", tuple(settings), f"{mark}-settings"))
    parts.append(Section("Command", tuple(circumstances.command(result)), f"{mark}-command"))
    return parts


def _roofline(result: Result, shown: Sequence[SummaryRow], mark: str) -> list[Section]:
    names = dict(zip((row.runs[0].group for row in shown), full_names(shown)))
    plot = roofline.of_result(result, names)
    return [Section("Roofline", (plot.figure(f"{mark}-roofs"),), f"{mark}-roofline")] if plot is not None else []


def _title(given: Sequence[ResultSet]) -> str:
    kind = "Comparison" if len(given) > 1 else _kind(given[0].sessions[-1].result)
    names = dict.fromkeys(requested.workload for each in given for requested in each.latest.requested)
    return f"{kind}: {', '.join(names)}" if names else kind


def _kind(result: Result) -> str:
    if isinstance(result.payload, Throughput):
        return "Throughput"
    if isinstance(result.payload, Load):
        return "Load test"
    if isinstance(result.payload, Tuning):
        return "Tuning"
    return "Accuracy check" if result.validity and not result.runs else "Inference benchmark"


def _subtitle(given: Sequence[ResultSet], shown: Sequence[Sequence[SummaryRow]]) -> str:
    machines = dict.fromkeys(filter(None, map(_machine, given, shown)))
    days = sorted({session.result.created[:10] for each in given for session in each.sessions})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return "; ".join([*machines, when])


def _machine(given: ResultSet, shown: Sequence[SummaryRow]) -> str:
    """What the latest result was measured on, as far as known."""
    result = given.latest
    if isinstance(result.payload, (Load, Throughput)):
        reports = [report.provenance for row in shown for report in row.reports]
        return differences.ran_on([result.payload.machine], reports)
    if shown:
        return differences.machine(shown)
    judged = [entry.report.provenance for entry in result.validity if entry.report is not None]
    known = [each for each in judged if each is not None]
    return differences.ran_on([each.machine for each in known], known)


def answer(result: Result, shown: Sequence[SummaryRow], mark: str) -> list[Block]:
    """Return the answer: headline, latencies and verdicts; then what qualifies them, and what is open.

    Args:
        result: what was measured.
        shown: its rows.
        mark: what ids in it begin with.
    """
    blocks: list[Block] = []
    timed = {row.workload for row in shown}
    judged = [entry for entry in result.validity if entry.workload not in timed]
    said = list(findings.remarks(shown).items())
    if shown:
        blocks.append(findings.headline(shown))
        drawn = forest.latencies(shown)
        blocks += [drawn.figure(f"{mark}-latencies")] if drawn is not None else []
        blocks.append(results_table.page_table(shown))
    for each in judged:
        blocks += [*validity.wrong_results(each.report), validity.verdict(each.report.validity)] if each.report else []
    unknown = [(each.workload, each.error or "no reason is known") for each in judged if each.report is None]
    blocks += [first_line(f"{name}: no accuracy check: {why}", Tone.BAD) for name, why in unknown]
    blocks += _index(shown, mark)
    if said:
        blocks.append(named(said))
    if not blocks:
        blocks.append(lines("This result is empty: nothing was measured or judged."))
    return blocks


def _index(shown: Sequence[SummaryRow], mark: str) -> list[Notices]:
    """What distorts the numbers, with links to what helps."""
    notices = conditions(shown)
    return [Notices(tuple(notices), f"{mark}-condition", is_index=True)] if notices else []


def load_blocks(load: Load, mark: str) -> list[Block]:
    """Return what is shown of a measurement under load, the answer first.

    Args:
        load: what ``modelzoo load`` measured.
        mark: what the id of its plot begins with.
    """
    answer, *rest = load_view.document(load)
    plot = scatter.load_curve(load)
    figure = [plot.figure(f"{mark}-curve")] if plot is not None else []
    return [answer, *figure, *rest]


def throughput_blocks(result: Result, mark: str) -> list[Block]:
    """Return what is shown of the instances that ``result`` holds, the answer first.

    Args:
        result: of ``modelzoo throughput``.
        mark: what the id of its plot begins with.
    """
    answer, *rest = throughput.document(result)
    plot = scatter.frontier(result)
    figure = [plot.figure(f"{mark}-frontier")] if plot is not None else []
    return [answer, *figure, *rest]


def search_blocks(result: Result, shown: Sequence[SummaryRow], mark: str) -> list[Block]:
    """Return what is shown of the search that ``result`` holds, the answer first.

    Args:
        result: of ``modelzoo tune``.
        shown: the rows of its confirmation, or of the default.
        mark: what the ids in it begin with.
    """
    answer, *steps = tuning.answer(result)
    plot = forest.of_search(result) or forest.latencies(shown)
    figure = [plot.figure(f"{mark}-ladder")] if plot is not None else []
    searched = Section("Search", tuple(tuning.search(result)), f"{mark}-search")
    return [answer, *figure, *steps, *_index(shown, mark), *([searched] if searched.blocks else [])]
