"""The section of one workload: its processes, distributions, kernels, operators, and its predictions."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from modelzoo import stats
from modelzoo.document import Block, Column, Details, Picture, Pictures, Section, Table, lines, named
from modelzoo.formatting import MISSING, capitalized, seconds
from modelzoo.frozen import replace
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.results.pipeline import pipelines
from modelzoo.results.summary import SummaryRow
from modelzoo.views import details, explanations, generation, kernel_tables, stages
from modelzoo.views.differences import short_names
from modelzoo.views.judgement import check_table, metric_text, reason_text, resolution_text, scope_text
from modelzoo.views.plots import bars, samples
from modelzoo.views.plots import lines as line_plots
from modelzoo.views.validity_tables import tables

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
    if shown:
        names = short_names(shown)
        contents += [_measured(shown)] if any(row.samples or row.failed for row in shown) else []
        contents += [
            Details(f"Details of {name}", (lines(*said),))
            for name, each in zip(names, shown)
            if (said := details.detail_lines(each))
        ]
        series = (samples.series(name, each.runs) for name, each in zip(names, shown))
        for title, kind, plot in (
            ("Processes", "processes", line_plots.processes(shown)),
            ("Distribution of the samples", "samples", samples.plot(workload, list(filter(None, series)))),
        ):
            contents += [Section(title, (plot.figure(f"{mark}-{kind}"),))] if plot is not None else []
        made = [(name, each.generation.by_position) for name, each in zip(names, shown) if each.generation is not None]
        tokens = line_plots.tokens(workload, made)
        if tokens is not None:
            contents.append(Section(generation.TITLE, (generation.table(shown), tokens.figure(f"{mark}-tokens"))))
        contents += _stages(result, workload, mark)
        contents += _kernels(shown, mark)
    judged = [entry for entry in result.validity if entry.workload == workload]
    by_group = dict(zip((row.runs[0].group for row in shown), short_names(shown)))
    blocks: list[Block] = []
    for entry in judged:
        as_run = entry.report.validity.tested_name if entry.report is not None else result.label(entry.group)
        blocks += predictions(entry, by_group.get(entry.group, as_run), pictures)
    if blocks:
        contents.append(Section("Accuracy check", tuple(blocks)))
    return Section(workload, tuple(contents), mark)


def _stages(result: Result, workload: str, mark: str) -> list[Block]:
    """The stages of the pipelines; none if the model alone was timed."""
    timed = [each for each in pipelines(result) if each.workload == workload]
    if not timed:
        return []

    def full(*said: str) -> str:
        """Sentences as printed in the terminal, with a capital and a full stop each, one on a line."""
        return "\n".join(f"{capitalized(each)}." for each in said)

    said = named([(each.label, full(*stages.sentences(each))) for each in timed])
    table = Table("Stages", tuple(stages.columns(timed)), full(stages.CAPTION))
    figure = bars.stages(workload, timed).figure(f"{mark}-stages")
    return [Section("Stages", (said, table, figure))]


def _kernels(shown: Sequence[SummaryRow], mark: str) -> list[Block]:
    found = zip(short_names(shown), map(kernel_tables.evidence_of, shown))
    audits = [(name, evidence) for name, evidence in found if evidence is not None]
    drawn = (
        ("network", bars.network(shown[0].workload, [(name, each.products) for name, each in audits])),
        ("kernels", bars.kernels(shown[0].workload, [(name, bars.kernel_shares(each)) for name, each in audits])),
    )
    shares: list[Block] = [plot.figure(f"{mark}-{name}") for name, plot in drawn if plot is not None]
    named_rows = list(zip(short_names(shown), shown))
    shares += [Details(*part) for name, each in named_rows for part in kernel_tables.kernel_parts(each, name)]
    changed: list[Block] = [explanations.section(each.found, each.names) for each in explanations.of_run(shown)]
    operators = [Details(*part) for name, each in named_rows for part in kernel_tables.operator_parts(each, name)]
    parts = (("Time by kernel and precision", shares), ("Operations that changed", changed), ("Operators", operators))
    return [Section(title, tuple(blocks)) for title, blocks in parts if blocks]


def _measured(rows: Sequence[SummaryRow]) -> Table:
    """What was measured of each setting besides its level."""
    title = next((report.title for row in rows for report in row.reports), "")
    columns = [Column("setting", tuple(short_names(rows)))]
    percentiles = [stats.percentiles(row.samples) for row in rows]
    for name in PERCENTILES:
        values = [each.get(name) for each in percentiles]
        if any(value is not None for value in values):
            columns.append(Column(name, tuple(map(seconds, values)), True))
    columns += [
        Column("first answer", tuple(seconds(row.cold_start) for row in rows), True),
        Column(
            "processes",
            tuple(f"{row.processes}" + (f" ({row.failed} failed)" if row.failed else "") for row in rows),
            True,
        ),
        Column("samples", tuple(f"{len(row.samples):,}" for row in rows), True),
        Column(
            "peak memory",
            tuple(f"{row.peak_memory / 2**30:.2f} GiB" if row.peak_memory else MISSING for row in rows),
            True,
        ),
    ]
    if any(row.compile_seconds is not None for row in rows):
        columns.insert(-3, Column("compiling", tuple(seconds(row.compile_seconds) for row in rows), True))
    note = (
        "Percentiles: of the steady samples of all processes. First answer: from the end of loading the weights to the "
        "first output, compiling included, median of the processes"
    )
    if any(row.warm_start is not None for row in rows):
        columns.insert(-3, Column("first answer, cached", tuple(seconds(row.warm_start) for row in rows), True))
        note += "; cached: if all compiled code came from the cache"
    sizes = [details.weight_size(row) for row in rows]
    if any(sizes):
        columns.append(Column("weights", tuple(size or MISSING for size in sizes), True))
        note += "; weights: the size of the parameters as the model holds them"
    return Table(title or "Measurements", tuple(columns), f"{note}.")


def predictions(entry: ValidityEntry, label: str, pictures: int) -> list[Block]:
    """Return the judgement of one setting.

    Args:
        entry: the judgement.
        label: of the setting.
        pictures: show at most that many pictures.
    """
    if entry.report is None:
        return [lines(f"The accuracy of {label} could not be checked: {entry.error or 'no reason is known'}")]
    judged = replace(entry.report.validity, tested_name=label)
    said = (
        (judged.tested_name, str(judged.verdict)),
        ("metric", metric_text(judged)),
        ("data", scope_text(judged)),
        ("reason", reason_text(judged)),
        ("this can show", resolution_text(judged)),
    )
    blocks: list[Block] = [named((name, text) for name, text in said if text), check_table(judged)]
    blocks += [Details(table.caption, (table,)) for table in tables(judged)]
    chosen = entry.thumbnails[:pictures]
    if chosen:
        items = tuple(Picture(each.name, base64.b64encode(each.jpeg).decode("ascii")) for each in chosen)
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
