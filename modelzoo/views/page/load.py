"""The section of a measurement under load: what the terminal shows, and the plot of a search."""

from __future__ import annotations

from modelzoo.document import Section
from modelzoo.records.run import Result
from modelzoo.results import load as results
from modelzoo.views import load
from modelzoo.views.plots import load as plots


def section(result: Result, mark: str) -> Section:
    """Return the section of what ``result`` holds of a load.

    Args:
        result: of ``modelzoo load``.
        mark: id of the section.
    """
    answer, *rest = load.document(results.of(result))
    data = plots.of_result(result)
    figure = (plots.plot(data).figure(f"{mark}-curve"),) if data is not None else ()
    return Section("Under load", (answer, *figure, *rest), mark)
