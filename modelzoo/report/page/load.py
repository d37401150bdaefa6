"""The section of a measurement under load: what the terminal shows, and the plot of a search."""

from __future__ import annotations

from modelzoo.document import Section
from modelzoo.records.run import Result
from modelzoo.report import load
from modelzoo.report.page import figures
from modelzoo.report.plots import load as plot
from modelzoo.results import load as results


def section(result: Result, mark: str, widths: figures.Widths) -> Section:
    """Return the section of what ``result`` holds of a load.

    Args:
        result: of ``modelzoo load``.
        mark: id of the section.
        widths: in which the plot is drawn.
    """
    answer, *rest = load.document(results.of(result))
    data = plot.of_result(result)
    figure = (figures.under_load(data, f"{mark}-curve", widths),) if data is not None else ()
    return Section("Under load", (answer, *figure, *rest), mark)
