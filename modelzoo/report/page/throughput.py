"""What a page shows of many instances: the answer, the plot with the frontier, the configurations, and notes."""

from __future__ import annotations

from modelzoo.formatting import capitalized
from modelzoo.records.run import Result
from modelzoo.report import soak, throughput
from modelzoo.report.page import figures
from modelzoo.report.page.content import Block, Details, Paragraphs, Table
from modelzoo.report.plots import throughput as plot
from modelzoo.results import throughput as results


def blocks(result: Result, mark: str, widths: figures.Widths) -> tuple[Block, ...]:
    """Return what is shown of the instances that ``result`` holds.

    Args:
        result: of ``modelzoo throughput``.
        mark: what the ids of its plot begin with.
        widths: in which the plot is drawn.
    """
    found, rows = results.of(result), results.rows(result)
    shown: list[Block] = [Paragraphs((capitalized(throughput.answer(result)),))]
    data = plot.of_result(result)
    if data is not None:
        shown.append(figures.frontier(data, f"{mark}-frontier", widths))
    shown.append(Table("Configurations", tuple(throughput.columns(result, rows)), throughput.caption(result)))
    again = results.confirmed(result)
    if again:
        shown.append(Table("Measured again", tuple(throughput.columns(result, again)), throughput.CONFIRMATION))
    if found.soak is not None:
        name = found.configurations[found.soak.configuration].name
        said = Paragraphs(tuple(soak.lines(found.soak)))
        table = [Table(f"Soak test of {name}", tuple(soak.columns(found.soak)))] if found.soak.points else []
        shown += [*table, said]
    notes = throughput.notes(result, rows)
    if notes:
        shown.append(Details("Notes", (Paragraphs(tuple(capitalized(note) for note in notes)),)))
    return tuple(shown)
