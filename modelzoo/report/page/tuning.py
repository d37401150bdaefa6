"""The section of a search: its answer, the plot of the steps to the winner, and its tables."""

from __future__ import annotations

from modelzoo.document import Block, Details, Section
from modelzoo.records.run import Result
from modelzoo.report import tuning
from modelzoo.report.page import figures
from modelzoo.report.plots import ladder


def section(result: Result, mark: str, widths: figures.Widths) -> Section:
    """Return the section of the search that ``result`` holds.

    Args:
        result: of ``modelzoo tune``.
        mark: id of the section.
        widths: in which the plot is drawn.
    """
    answer, *rest = tuning.blocks(result)
    figure = figures.steps(ladder.of_result(result), f"{mark}-ladder", widths)
    found: list[Block] = [answer, *([figure] if figure is not None else [])]
    if rest:
        found.append(Details("Candidates", tuple(rest)))
    return Section("Search", tuple(found), mark)
