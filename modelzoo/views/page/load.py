"""The section of a measurement under load: what the terminal shows, and the plot of a search."""

from __future__ import annotations

from modelzoo.document import Section
from modelzoo.records.load import Load
from modelzoo.views import load as view
from modelzoo.views.plots import load as plots


def section(load: Load, mark: str) -> Section:
    """Return the section of a measurement under load.

    Args:
        load: what ``modelzoo load`` measured.
        mark: id of the section.
    """
    answer, *rest = view.document(load)
    data = plots.of_load(load)
    figure = (plots.plot(data).figure(f"{mark}-curve"),) if data is not None else ()
    return Section("Under load", (answer, *figure, *rest), mark)
