"""The section of one workload: its processes, distributions, kernels, operators, and its predictions."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from modelzoo import stats
from modelzoo.document import Block, Column, Details, Picture, Pictures, Rows, Section, Table, known, lines
from modelzoo.formatting import seconds
from modelzoo.frozen import replace
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.results.parts import pipelines
from modelzoo.results.summary import SummaryRow
from modelzoo.views import details, explanations, kernel_tables, stages, validity
from modelzoo.views.differences import short_names
from modelzoo.views.judgement import check_table, verdict
from modelzoo.views.plots import bars
from modelzoo.views.plots import lines as line_plots

PERCENTILES = ("p50", "p90", "p95", "p99")
PICTURE_BYTES = 600_000
"""Bytes of all pictures of a page together, so that the page stays below 2 MB: base64 adds a third."""


def section(result: Result, workload: str, shown: Sequence[SummaryRow], mark: str, pictures: int) -> Section:
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
            contents.append(Section(stages.TOKENS, (stages.tokens(shown), tokens.figure(f"{mark}-tokens"))))
        staged = [each for each in pipelines(result) if each.workload == workload]
        if staged:
            figure = bars.stages(workload, staged).figure(f"{mark}-stages")
            contents.append(stages.section(staged, [each.label for each in staged], figure))
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
    drawn = (
        ("network", bars.network(workload, [(name, each.products) for name, each in audits])),
        ("kernels", bars.kernels(workload, [(name, bars.kernel_shares(each)) for name, each in audits])),
    )
    shares: list[Block] = [plot.figure(f"{mark}-{name}") for name, plot in drawn if plot is not None]
    shares += [Details(*part) for name, each in rows for part in kernel_tables.kernel_parts(each, name)]
    explained = explanations.of_run([row for _, row in rows])
    changed: list[Block] = [explanations.section(found, names) for _, names, found in explained]
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
        items = [Picture(each.name, base64.b64encode(each.jpeg).decode("ascii")) for each in chosen]
        stored = len(entry.thumbnails)
        which = f"{len(chosen)} of {stored} stored images" if len(chosen) < stored else "The stored images"
        caption = f"{which}: what the reference (left) and the setting under test (right) detected"
        blocks.append(Pictures(caption, items))
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
