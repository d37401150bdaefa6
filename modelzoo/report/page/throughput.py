"""What a page shows of many instances: what the terminal shows, and the plot with the frontier."""

from __future__ import annotations

from modelzoo.document import Block
from modelzoo.records.run import Result
from modelzoo.report import throughput
from modelzoo.report.page import figures
from modelzoo.report.plots import throughput as plot


def blocks(result: Result, mark: str, widths: figures.Widths) -> tuple[Block, ...]:
    """Return what is shown of the instances that ``result`` holds.

    Args:
        result: of ``modelzoo throughput``.
        mark: what the ids of its plot begin with.
        widths: in which the plot is drawn.
    """
    answer, *rest = throughput.document(result)
    data = plot.of_result(result)
    figure = (figures.frontier(data, f"{mark}-frontier", widths),) if data is not None else ()
    return (answer, *figure, *rest)
