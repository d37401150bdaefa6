"""From results to the sections of a page."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Block, Notices, Page, Section, lines
from modelzoo.frozen import replace
from modelzoo.records.load import Load
from modelzoo.records.run import Result
from modelzoo.records.throughput import Throughput
from modelzoo.records.tuning import Tuning
from modelzoo.results import summary as rows_of
from modelzoo.results import tuning as results_tuning
from modelzoo.results.summary import SummaryRow
from modelzoo.views import differences, kinds
from modelzoo.views.differences import conditions, group_names
from modelzoo.views.page import circumstances, comparisons, history, workloads
from modelzoo.views.plots import roofline

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
        # The answer first, everything else below it.
        parts = _blocks(given[0], shown[0], "r", pictures)
        first = tuple(block for block in parts if not isinstance(block, Section))
        sections += [Section("Results", first, "results"), *(block for block in parts if isinstance(block, Section))]
    else:
        marks = [f"r{number}" for number in range(1, len(given) + 1)]
        sections += [
            Section(each.name, tuple(_blocks(each, rows, mark, pictures)), mark)
            for each, rows, mark in zip(given, shown, marks)
        ]
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


def _blocks(given: ResultSet, shown: Sequence[SummaryRow], mark: str, pictures: int) -> list[Block]:
    """The answer to what this kind of call asks, and the sections that explain it."""
    result = given.sessions[-1].result
    which = []
    if given.is_directory:
        path = given.sessions[-1].path
        which.append(lines(f"The latest of {len(given.sessions)} sessions: {path}, {result.created}."))
    answer = kinds.of(result).answer(result, shown, mark)
    return [*which, *answer, *_sections(given.latest, shown, mark, pictures)]


def _sections(result: Result, shown: Sequence[SummaryRow], mark: str, pictures: int) -> list[Section]:
    """What explains the answer."""
    parts: list[Section] = []
    by_workload = differences.by_workload(shown)
    names = dict.fromkeys([*by_workload, *(entry.workload for entry in result.validity)])
    for number, name in enumerate(names, 1):
        own = by_workload.get(name, [])
        parts.append(workloads.section(result, name, own, f"{mark}-w{number}", pictures))
    roofs = roofline.of_result(result, group_names(shown))
    parts += [Section("Roofline", (roofs.figure(f"{mark}-roofs"),), f"{mark}-roofline")] if roofs is not None else []
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


def _title(given: Sequence[ResultSet]) -> str:
    kind = "Comparison" if len(given) > 1 else kinds.of(given[0].sessions[-1].result).title
    names = dict.fromkeys(requested.workload for each in given for requested in each.latest.requested)
    return f"{kind}: {', '.join(names)}" if names else kind


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
