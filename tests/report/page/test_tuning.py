"""The section of a search in a page."""

from __future__ import annotations

from stored_search import STAGES, searched

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.records.tuning import LeftOut
from modelzoo.report.page import build, rendering, tuning
from modelzoo.report.page.content import Details, Figure, Paragraphs
from modelzoo.report.page.figures import ONE


def test_the_section_has_the_answer_the_steps_and_the_candidates() -> None:
    """The answer first."""
    found = tuning.section(searched(left_out=(LeftOut("thp=on", "off"),)), "r-search", ONE)
    answer, figure, candidates, left_out = found.blocks
    assert isinstance(answer, Paragraphs)
    assert answer.texts[0].startswith("The fastest is fp32 compile channels-last: 2.512×")
    assert isinstance(figure, Figure)
    assert isinstance(candidates, Details)
    assert isinstance(left_out, Details)
    assert left_out.blocks == (Paragraphs(("thp=on: off",)),)


def test_a_search_without_a_winner_has_no_plot() -> None:
    """Its candidates are there all the same."""
    found = tuning.section(searched(stages=STAGES[:3]), "r-search", ONE)
    assert [type(block) for block in found.blocks] == [Paragraphs, Details]


def test_a_page_shows_the_search_and_the_confirmation_only() -> None:
    """The times of other candidates are in its section alone."""
    given = build.Given("search", (StoredResult("r.json", searched()),))
    page = build.page([given], Question())
    assert [section.title for section in page.sections][:2] == ["Results", "Search"]
    html = rendering.html(page)
    assert "The fastest is " in html
    assert "script" in html, "a candidate of the table"
