"""From results to the content of a page: its sections, those of a workload, and what it shows of several sessions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

import msgspec

from modelzoo import stats
from modelzoo.comparison.compare import Question, compare, gate
from modelzoo.comparison.estimate import Side, StoredResult
from modelzoo.comparison.machines import Price, prices_of
from modelzoo.comparison.pairing import make_side
from modelzoo.document import Block, Column, Details, Notices, Page, Pictures, Rows, Section, Table, known, lines
from modelzoo.errors import InputError
from modelzoo.formatting import MISSING, counted, seconds
from modelzoo.frozen import replace
from modelzoo.records.race import Throughput, Tuning
from modelzoo.records.run import Result, RunReport, ValidityEntry
from modelzoo.records.serving import Load
from modelzoo.results import summary
from modelzoo.results import tuning as results_tuning
from modelzoo.results.parts import pipelines
from modelzoo.results.summary import SummaryRow
from modelzoo.views import circumstances, details, differences, kernel_tables, kinds, tables, validity
from modelzoo.views import compare as compare_view
from modelzoo.views.differences import conditions, grouped, short_names
from modelzoo.views.judgement import check_table, verdict
from modelzoo.views.kinds import drawn, section
from modelzoo.views.plots import bars, forest, scatter
from modelzoo.views.plots import lines as line_plots
from modelzoo.views.plots.lines import history, moment
from modelzoo.views.speed import PERCENTILES, interval

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


def page(given: Sequence[ResultSet], question: Question, prices: Sequence[Price] = ()) -> Page:
    """Return the page of some results.

    Args:
        given: at least one. The first one is the baseline of the others.
        question: how they are compared.
        prices: of their machines; none, or those of all that are compared, unless they are stored.

    Raises:
        UsageError: a price is missing, belongs to none of them, or does not fit the metric.
    """
    if len(given) > MOST_IN_FULL:  # as if they were in one directory
        joined = sorted((each for one in given for each in one.sessions), key=lambda each: moment(each.result.created))
        given = [ResultSet(f"{len(joined)} results", tuple(joined), is_directory=True)]
    pictures = pictures_each([each.latest for each in given])
    shown = list(map(_rows, given))
    sides = [Side(each.name, each.sessions) for each in given]
    priced = prices_of(prices, sides) if len(sides) > 1 else ()
    sections = [
        compared(sides[0], sides[number], question, f"c{number}", (priced[0], priced[number]) if priced else ())
        for number in range(1, len(sides))
    ]
    for number, (each, rows) in enumerate(zip(given, shown), 1):
        mark = "r" if len(given) == 1 else f"r{number}"
        parts = _of_kind(each, rows, mark, pictures)
        if each.is_directory:
            last = each.sessions[-1]
            parts.insert(0, lines(f"The latest of {len(each.sessions)} sessions: {last.path}, {last.result.created}."))
        if len(given) > 1:
            sections.append(Section(each.name, parts, mark))
            continue
        # The answer first, everything else below it.
        answer = [block for block in parts if not isinstance(block, Section)]
        sections += [Section("Results", answer, "results"), *(block for block in parts if isinstance(block, Section))]
    histories = [
        history_section(each.name, each.sessions, f"h{number}")
        for number, each in enumerate(given, 1)
        if each.is_directory
    ]
    # Of a single directory, the latest results come first, then what happened before.
    place = 1 if len(given) == 1 else len(sections)
    kind = "Comparison" if len(given) > 1 else kinds.of(given[0].sessions[-1].result).title
    names = dict.fromkeys(requested.workload for each in given for requested in each.latest.requested)
    machines = dict.fromkeys(filter(None, map(_machine, given, shown)))
    days = sorted({session.result.created[:10] for each in given for session in each.sessions})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    title = f"{kind}: {', '.join(names)}" if names else kind
    return Page(title, "; ".join([*machines, when]), (*sections[:place], *histories, *sections[place:]))


def compared(base: Side, other: Side, question: Question, mark: str, prices: Sequence[Price] = ()) -> Section:
    """Return the section of one comparison, or one that says why the two cannot be compared.

    Args:
        base: the baseline, whose results need not belong together.
        other: the other side, likewise.
        question: what is to be compared, and how.
        mark: id of the section.
        prices: of both machines, or none.
    """
    title = f"{other.name} compared with {base.name}"
    try:
        mine, theirs = (make_side(each.name, each.results, question.allowed) for each in (base, other))
        found = compare(mine, theirs, question, prices)
    except InputError as error:
        return Section(title, (lines(f"Not compared: {error}."),), mark)
    whole, *others = compare_view.document(found, gate(found, ()), details=True)
    assert isinstance(whole, Section)
    headline, sides, *rest = (_filled(block) for block in whole.blocks)
    if all(row.ratio is None for row in found.rows):
        return Section(title, (headline, *rest, Details("What both have", (sides, *others))), mark)
    # The plots of the ratios before any prose.
    plot = [*drawn(forest.of_costs(found), f"{mark}-costs"), *drawn(forest.of_comparison(found), f"{mark}-ratios")]
    shared = Details("Baseline and candidate, and what they have in common", (sides,))
    return Section(title, (headline, *plot, *rest, shared, *others), mark)


def _filled(block: Block) -> Block:
    """A table with the name of its workload in every row; any other block as it is."""
    if not isinstance(block, Table) or block.columns[0].title != "workload":
        return block
    named, *columns = block.columns
    cells: list[str] = []
    for cell in named.cells:
        cells.append(cell or cells[-1])
    return replace(block, columns=[replace(named, cells=tuple(cells)), *columns])


def _rows(given: ResultSet) -> list[SummaryRow]:
    """The rows of the latest result; what a search measured again has the names that the search gives it."""
    found, whole = summary.rows(given.latest), given.sessions[-1].result
    if not isinstance(whole.payload, Tuning):
        return found
    chosen = whole.payload.choice
    names = [results_tuning.name(whole, group) for group in (0, chosen.winner if chosen is not None else 0)]
    return [replace(row, name=names[row.runs[0].group]) for row in found]


def _of_kind(given: ResultSet, shown: Sequence[SummaryRow], mark: str, pictures: int) -> list[Block]:
    """The answer to what this kind of call asks, with its plot, and the sections that explain it."""
    whole, result = given.sessions[-1].result, given.latest
    parts = kinds.of(whole).answer(whole, shown, mark)
    by_workload = differences.by_workload(shown)
    for number, name in enumerate(dict.fromkeys([*by_workload, *(entry.workload for entry in result.validity)]), 1):
        parts.append(workload_section(result, name, by_workload.get(name, []), f"{mark}-w{number}", pictures))
    names = dict(zip((row.runs[0].group for row in shown), differences.full_names(shown)))
    parts += section("Roofline", drawn(scatter.roofline_of(result, names), f"{mark}-roofs"), f"{mark}-roofline")
    notices = conditions(shown)
    parts += section("Conditions", [Notices(notices, f"{mark}-condition")] if notices else [], f"{mark}-conditions")
    parts += section("Machine", circumstances.machine(result), f"{mark}-machine")
    parts += section("Settings", circumstances.settings(result, shown), f"{mark}-settings")
    return [*parts, Section("Command", circumstances.command(result), f"{mark}-command")]


def _machine(given: ResultSet, shown: Sequence[SummaryRow]) -> str:
    """What the latest result was measured on, as far as known."""
    result = given.latest
    if isinstance(result.payload, (Load, Throughput)):
        reports = [report.provenance for row in shown for report in row.reports]
        return differences.ran_on([result.payload.machine], reports)
    if shown:
        return differences.machine(shown)
    judged = [entry.report.provenance for entry in result.validity if entry.report is not None]
    known = list(filter(None, judged))
    return differences.ran_on([each.machine for each in known], known)


class SessionLevel(NamedTuple):
    """What one session measured of one setting: in which file, its label as run, its first process, its latency."""

    file: str
    result: Result
    label: str
    report: RunReport
    latency: stats.Interval

    @property
    def machine(self) -> str:
        """What tells the machine from others; levels of different machines are different series."""
        return self.report.provenance.fingerprint or self.report.provenance.machine.cpu

    @property
    def suite(self) -> str:
        """The commit of the suite, with ``+`` if files had been changed, or its version."""
        commit = self.result.commit or ""
        return f"{commit[:10]}{'+' * commit.endswith('+')}" if commit else self.result.version


def history_section(name: str, sessions: Sequence[StoredResult], mark: str) -> Section:
    """Return the histories of all workloads.

    Args:
        name: of the directory.
        sessions: what is in it, oldest first.
        mark: id of the section.
    """
    found = grouped(
        (row.workload, SessionLevel(PurePath(each.path).name, each.result, row.label, row.first, row.latency))
        for each in sessions
        for row in summary.rows(each.result)
        if row.latency is not None and row.first is not None
    )
    machines = list(dict.fromkeys(each.machine for own in found.values() for each in own))
    said = "Their intervals hold within a session, and do not cover what changes between sessions."
    blocks: list[Block] = [lines(f"{counted(len(sessions), 'session')}. {said}")]
    for number, (workload, own) in enumerate(found.items(), 1):
        names = (f", machine {1 + machines.index(each.machine)}" if len(machines) > 1 else "" for each in own)
        series = grouped((f"{each.label}{name}", (each.result.created, each.latency)) for each, name in zip(own, names))
        of = Rows(own)
        cpu = of.text(
            "machine", lambda each: f"{1 + machines.index(each.machine)}: {each.report.provenance.machine.cpu}"
        )
        columns = [
            of.text("session (UTC)", lambda each: each.result.created.replace("+00:00", "")),
            of.text("setting", lambda each: each.label),
            *([cpu] if len(machines) > 1 else []),
            of.number("latency", lambda each: interval(each.latency)),
            of.text("file", lambda each: each.file),
            # What may explain a change.
            of.text("torch", lambda each: each.report.provenance.versions.get("torch")),
            of.text("modelzoo", lambda each: each.suite),
            of.text("kernel", lambda each: each.report.provenance.machine.kernel),
            of.text("weights", lambda each: (each.report.prepared.weights.sha256 or MISSING)[:8]),
        ]
        plot = drawn(history(workload, series), f"{mark}-{number}")
        blocks.append(Section(workload, (*plot, Table("Sessions", columns))))
    return Section(f"History of {name}", blocks, mark)


PICTURE_BYTES = 600_000
"""Bytes of all pictures of a page together, so that the page stays below 2 MB: base64 adds a third."""


def workload_section(result: Result, workload: str, shown: Sequence[SummaryRow], mark: str, pictures: int) -> Section:
    """Return the section of ``workload``.

    Args:
        result: that contains it.
        workload: its name.
        shown: its rows; empty if it was only judged.
        mark: id of the section.
        pictures: show at most that many pictures of each judgement.
    """
    contents: list[Block] = []
    rows = list(zip(short_names(shown), shown)) if shown else []
    if shown:
        contents += [_measured(shown)] if any(row.samples or row.failed for row in shown) else []
        contents += [
            Details(f"Details of {name}", [lines(*said)]) for name, each in rows if (said := details.detail_lines(each))
        ]
        series = (line_plots.series(name, each.runs) for name, each in rows)
        for title, kind, plot in (
            ("Processes", "processes", line_plots.processes(shown)),
            ("Distribution of the samples", "samples", line_plots.samples(workload, list(filter(None, series)))),
        ):
            contents += [Section(title, [plot.figure(f"{mark}-{kind}")])] if plot is not None else []
        made = [(name, each.generation.by_position) for name, each in rows if each.generation is not None]
        tokens = line_plots.tokens(workload, made)
        if tokens is not None:
            contents.append(Section(tables.TOKENS, (tables.token_table(shown), tokens.figure(f"{mark}-tokens"))))
        staged = [each for each in pipelines(result) if each.workload == workload]
        if staged:
            figure = bars.stages(workload, staged).figure(f"{mark}-stages")
            contents.append(tables.stage_section(staged, [each.label for each in staged], figure))
        contents += _kernels(workload, rows, mark)
    by_group = {row.runs[0].group: name for name, row in rows}
    blocks: list[Block] = []
    for entry in (each for each in result.validity if each.workload == workload):
        as_run = entry.report.validity.tested_name if entry.report is not None else result.label(entry.group)
        blocks += predictions(entry, by_group.get(entry.group, as_run), pictures)
    contents += [Section("Accuracy check", blocks)] if blocks else []
    return Section(workload, contents, mark)


def _kernels(workload: str, rows: Sequence[tuple[str, SummaryRow]], mark: str) -> list[Section]:
    audits = [(name, found) for name, row in rows if (found := kernel_tables.evidence_of(row)) is not None]
    shares = drawn(bars.network(workload, [(name, each.products) for name, each in audits]), f"{mark}-network")
    timed = bars.kernels(workload, [(name, bars.kernel_shares(each)) for name, each in audits])
    shares += drawn(timed, f"{mark}-kernels")
    shares += [Details(*part) for name, each in rows for part in kernel_tables.kernel_parts(each, name)]
    explained = details.explanations([row for _, row in rows])
    changed: list[Block] = [details.explanation(found, names) for _, names, found in explained]
    operators: list[Block] = [
        Details(*part) for name, each in rows for part in kernel_tables.operator_parts(each, name)
    ]
    parts = (("Time by kernel and precision", shares), ("Operations that changed", changed), ("Operators", operators))
    return [Section(title, blocks) for title, blocks in parts if blocks]


def _measured(rows: Sequence[SummaryRow]) -> Table:
    """What was measured of each setting besides its level."""
    of = Rows((name, row, stats.percentiles(row.samples)) for name, row in zip(short_names(rows), rows))

    def percentile(name: str) -> Column:
        return of.number(name, lambda each: seconds(each[2].get(name)))

    columns = [
        of.text("setting", lambda each: each[0]),
        *known(*map(percentile, PERCENTILES)),
        of.number("first answer", lambda each: seconds(each[1].cold_start)),
        *known(
            of.number("compiling", lambda each: seconds(each[1].compile_seconds)),
            of.number("first answer, cached", lambda each: seconds(each[1].warm_start)),
        ),
        of.number(
            "processes", lambda each: f"{each[1].processes}{f' ({each[1].failed} failed)' if each[1].failed else ''}"
        ),
        of.number("samples", lambda each: f"{len(each[1].samples):,}"),
        of.number(
            "peak memory", lambda each: f"{each[1].peak_memory / 2**30:.2f} GiB" if each[1].peak_memory else None
        ),
        *known(of.number("weights", lambda each: details.weight_size(each[1]))),
    ]
    note = (
        "Percentiles: of the steady samples of all processes. First answer: from the end of loading the weights to the "
        "first output, compiling included, median of the processes"
    )
    if any(row.warm_start is not None for row in rows):
        note += "; cached: if all compiled code came from the cache"
    if columns[-1].title == "weights":
        note += "; weights: the size of the parameters as the model holds them"
    title = next((report.title for row in rows for report in row.reports), "")
    return Table(title or "Measurements", columns, f"{note}.")


def predictions(entry: ValidityEntry, label: str, pictures: int) -> list[Block]:
    """Return the judgement of one setting.

    Args:
        entry: the judgement.
        label: of the setting.
        pictures: show at most that many pictures.
    """
    if entry.report is None:
        return validity.answer(replace(entry, workload=f"{entry.workload} {label}"))
    judged = replace(entry.report.validity, tested_name=label)
    blocks: list[Block] = [verdict(judged), check_table(judged)]
    blocks += [Details(table.caption, [table]) for table in validity.tables(judged)]
    chosen = entry.thumbnails[:pictures]
    if chosen:
        stored = len(entry.thumbnails)
        which = f"{len(chosen)} of {stored} stored images" if len(chosen) < stored else "The stored images"
        caption = f"{which}: what the reference (left) and the setting under test (right) detected"
        blocks.append(Pictures(caption, chosen))
    if entry.files:
        count = len(entry.files)
        blocks.append(Details(f"{count} file{'s were' if count > 1 else ' was'} written", (lines(*entry.files),)))
    return blocks


def pictures_each(results: list[Result]) -> int:
    """Return how many pictures each judgement may show so that all of them together stay below ``PICTURE_BYTES``."""
    sizes = [[len(each.jpeg) for each in entry.thumbnails] for result in results for entry in result.validity]
    most = max(map(len, sizes), default=0)
    while most and sum(sum(each[:most]) for each in sizes) > PICTURE_BYTES:
        most -= 1
    return most
