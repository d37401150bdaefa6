"""The section of a search: its answer, the plot of the steps to the winner, and its tables."""

from __future__ import annotations

from modelzoo.document import Block, Details, Section
from modelzoo.records.run import Result
from modelzoo.views import tuning
from modelzoo.views.plots import ratios


def section(result: Result, mark: str) -> Section:
    """Return the section of the search that ``result`` holds.

    Args:
        result: of ``modelzoo tune``.
        mark: id of the section.
    """
    answer, *rest = tuning.blocks(result)
    plot = ratios.steps(ratios.of_search(result))
    found: list[Block] = [answer, *([plot.figure(f"{mark}-ladder")] if plot is not None else [])]
    if rest:
        found.append(Details("Candidates", tuple(rest)))
    return Section("Search", tuple(found), mark)
