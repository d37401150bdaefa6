"""The section of a measurement under load in a page."""

from __future__ import annotations

from load_results import load, measured, result

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Figure, Lines, Notices, Page, Table
from modelzoo.document.html import html
from modelzoo.records.load import Load
from modelzoo.views.page import build


def page_of(found: Load) -> Page:
    """The page of one such result."""
    return build.page([build.ResultSet("load", (StoredResult("r.json", result(found)),))], Question())


def test_a_search_has_its_answer_its_plot_and_its_runs() -> None:
    """The answer first, also on a page: it says of no such result that it is empty, and names the machine."""
    found = measured(load(is_search=True, rate=None, repeats=2, queries=662))
    page = page_of(found)
    assert [type(block) for block in page.sections[0].blocks] == [Lines, Figure, Table, Lines]
    assert page.title.startswith("Load test: ")
    assert page.subtitle.startswith(f"{found.machine.cpu}, ")
    assert "requests/s pass p99=50ms in each of 2 repeats" in html(page)


def test_reasons_are_shown() -> None:
    """Why a run is INVALID."""
    found = measured(load(queries=662, rate=200.0))
    assert [type(block) for block in page_of(found).sections[0].blocks] == [Lines, Table, Notices]
