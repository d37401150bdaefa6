"""What a page shows of many instances: what the terminal shows, and the plot with the frontier."""

from __future__ import annotations

from modelzoo.document import Block
from modelzoo.records.run import Result
from modelzoo.views import throughput
from modelzoo.views.plots import throughput as plots


def blocks(result: Result, mark: str) -> tuple[Block, ...]:
    """Return what is shown of the instances that ``result`` holds.

    Args:
        result: of ``modelzoo throughput``.
        mark: what the id of its plot begins with.
    """
    answer, *rest = throughput.document(result)
    data = plots.of_result(result)
    figure = (plots.plot(data).figure(f"{mark}-frontier"),) if data is not None else ()
    return (answer, *figure, *rest)
