"""The section of a measurement under load: the answer, the plot of a search, the runs, and what is INVALID."""

from __future__ import annotations

from modelzoo.formatting import capitalized
from modelzoo.records.run import Result
from modelzoo.report import load
from modelzoo.report.page import figures
from modelzoo.report.page.content import Block, Details, Paragraphs, Section, Table
from modelzoo.report.plots import load as plot
from modelzoo.results import load as results


def section(result: Result, mark: str, widths: figures.Widths) -> Section:
    """Return the section of what ``result`` holds of a load.

    Args:
        result: of ``modelzoo load``.
        mark: id of the section.
        widths: in which the plot is drawn.
    """
    found = results.of(result)
    blocks: list[Block] = [Paragraphs((f"{capitalized(load.headline(found))}.",))]
    data = plot.of_result(result)
    if data is not None:
        blocks.append(figures.under_load(data, f"{mark}-curve", widths))
    if found.runs:
        blocks.append(Table("Runs", tuple(load.columns(found)), load.caption(found)))
    reasons = load.reason_lines(found)
    if reasons:
        blocks.append(Paragraphs(tuple(f"{load.failing(found)}: {each}" for each in reasons)))
    if found.loadgen is not None:
        columns = tuple(load.loadgen_columns(found))
        blocks.append(Table("MLPerf LoadGen beside this suite", columns, load.loadgen_sentence(found.loadgen)))
    notes = load.notes(found)
    if notes:
        blocks.append(Details("Notes", (Paragraphs(tuple(capitalized(note) for note in notes)),)))
    return Section("Under load", tuple(blocks), mark)
