"""From results to the content of a page: its sections, and what it shows of searches, instances and requests."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Block, Details, Lines, Notices, Page, Section, lines, named
from modelzoo.records.load import Load
from modelzoo.records.run import Result
from modelzoo.records.throughput import Throughput
from modelzoo.records.tuning import Tuning
from modelzoo.results import summary as rows_of
from modelzoo.results import tuning as results_tuning
from modelzoo.results.adjustment import adjustment
from modelzoo.results.summary import SummaryRow
from modelzoo.views import differences, findings, results_table, throughput, tuning
from modelzoo.views import load as load_view
from modelzoo.views.differences import conditions, group_names
from modelzoo.views.headline import headline
from modelzoo.views.judgement import validity_detail, validity_text
from modelzoo.views.page import circumstances, comparisons, history, workloads
from modelzoo.views.plots import latencies, ratios, roofline
from modelzoo.views.plots import load as load_plot
from modelzoo.views.plots import throughput as throughput_plot

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
    shown = [rows_of.rows(each.latest) for each in given]
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
    """The answer and the sections that explain it, with what only this kind of call measures."""
    parts, result = _parts(given.latest, shown, mark, pictures), given.sessions[-1].result
    if isinstance(result.payload, Throughput):
        # Its runs were not timed; they tell what the instances were.
        own = throughput_blocks(result, f"{mark}-instances")
        return [*own, *(block for block in parts if isinstance(block, Section))]
    if isinstance(result.payload, Tuning):
        return [search_section(result, f"{mark}-search"), *parts]
    if isinstance(result.payload, Load):
        return [load_section(result.payload, f"{mark}-load"), *parts]
    return parts


def _which(given: ResultSet) -> Lines:
    latest = given.sessions[-1]
    return lines(f"The latest of {len(given.sessions)} sessions: {latest.path}, {latest.result.created}.")


def _parts(result: Result, shown: Sequence[SummaryRow], mark: str, pictures: int) -> list[Block]:
    """The answer, then the sections that explain it."""
    parts = answer(result, shown, mark)
    speedups = ratios.plot(ratios.of_result(result))
    if speedups is not None:
        parts.append(Section("Speedups", (speedups.figure(f"{mark}-forest"),), f"{mark}-ratios"))
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
    data = roofline.of_result(result, names=group_names(shown))
    if data is None:
        return []
    return [Section("Roofline", (roofline.plot(data).figure(f"{mark}-roofs"),), f"{mark}-roofline")]


def _title(given: Sequence[ResultSet]) -> str:
    names = dict.fromkeys(requested.workload for each in given for requested in each.latest.requested)
    return f"Inference benchmark: {', '.join(names)}" if names else "Inference benchmark"


def _subtitle(given: Sequence[ResultSet], shown: Sequence[Sequence[SummaryRow]]) -> str:
    machines = dict.fromkeys(filter(None, (differences.machine(rows) for rows in shown if rows)))
    days = sorted({session.result.created[:10] for each in given for session in each.sessions})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return "; ".join([*machines, when])


def answer(result: Result, shown: Sequence[SummaryRow], mark: str) -> list[Block]:
    """Return the answer: headline, latencies and verdicts; then what qualifies them, and a sentence per workload.

    Args:
        result: what was measured.
        shown: its rows.
        mark: what ids in it begin with.
    """
    blocks: list[Block] = []
    said = [*findings.sentences(shown).items(), *_judged_only(result, shown)]
    if shown:
        machine = adjustment(result)
        blocks.append(headline(shown, machine.spread))
        drawn = latencies.plot(latencies.of_rows(shown))
        blocks += [drawn.figure(f"{mark}-latencies")] if drawn is not None else []
        blocks.append(results_table.page_table(shown))
        steadiness = findings.steadiness(machine)
        said += [("this machine", steadiness)] if steadiness else []
    notices = conditions(shown)
    if notices:
        blocks.append(Notices(tuple(notices), f"{mark}-condition", is_index=True))
    if said:
        blocks.append(named(said, stands_out=not shown))
    if not blocks:
        blocks.append(lines("This result is empty: nothing was measured or judged."))
    return blocks


def _judged_only(result: Result, shown: Sequence[SummaryRow]) -> list[tuple[str, str]]:
    """The judgements of workloads that were not timed."""
    timed = {each.workload for each in shown}
    sentences = []
    for entry in result.validity:
        if entry.workload in timed:
            continue
        if entry.report is None:
            sentences.append(
                (entry.workload, f"predictions could not be judged: {entry.error or 'no reason is known'}")
            )
        else:
            judged = f"{validity_text(entry)} ({validity_detail(entry)})"
            sentences.append((entry.workload, f"predictions of {result.label(entry.group)} {judged}"))
    return sentences


def load_section(load: Load, mark: str) -> Section:
    """Return the section of a measurement under load.

    Args:
        load: what ``modelzoo load`` measured.
        mark: id of the section.
    """
    answer, *rest = load_view.document(load)
    data = load_plot.of_load(load)
    figure = (load_plot.plot(data).figure(f"{mark}-curve"),) if data is not None else ()
    return Section("Under load", (answer, *figure, *rest), mark)


def throughput_blocks(result: Result, mark: str) -> tuple[Block, ...]:
    """Return what is shown of the instances that ``result`` holds.

    Args:
        result: of ``modelzoo throughput``.
        mark: what the id of its plot begins with.
    """
    answer, *rest = throughput.document(result)
    data = throughput_plot.of_result(result)
    figure = (throughput_plot.plot(data).figure(f"{mark}-frontier"),) if data is not None else ()
    return (answer, *figure, *rest)


def search_section(result: Result, mark: str) -> Section:
    """Return the section of the search that ``result`` holds.

    Args:
        result: of ``modelzoo tune``.
        mark: id of the section.
    """
    answer, *rest = tuning.blocks(result)
    plot = ratios.steps(ratios.of_search(result))
    shown: list[Block] = [answer, *([plot.figure(f"{mark}-ladder")] if plot is not None else [])]
    if rest:
        shown.append(Details("Candidates", tuple(rest)))
    return Section("Search", tuple(shown), mark)
