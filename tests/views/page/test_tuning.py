"""The section of a search in a page."""

from __future__ import annotations

from printed import sentences
from stored_search import STAGES, searched

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Details, Figure, Lines
from modelzoo.document.html import html
from modelzoo.records.tuning import LeftOut, Obstacle
from modelzoo.views.page import build


def test_the_section_has_the_answer_the_steps_and_the_candidates() -> None:
    """The answer first."""
    found = build.search_section(searched(left_out=(LeftOut("threads", None, Obstacle.ONE_CORE),)), "r-search")
    answer, figure, candidates = found.blocks
    assert isinstance(answer, Lines)
    assert str(answer.items[0].text).startswith("the fastest is fp32 compile channels-last: 2.512×")
    assert isinstance(figure, Figure)
    assert isinstance(candidates, Details)
    assert sentences(candidates.blocks)[-1] == "threads: there is one core"


def test_a_search_without_a_winner_has_no_plot() -> None:
    """Its candidates are there all the same."""
    found = build.search_section(searched(stages=STAGES[:3]), "r-search")
    assert [type(block) for block in found.blocks] == [Lines, Details]


def test_a_page_shows_the_search_and_the_confirmation_only() -> None:
    """The times of other candidates are in its section alone."""
    given = build.ResultSet("search", (StoredResult("r.json", searched()),))
    page = build.page([given], Question())
    assert [section.title for section in page.sections][:2] == ["Results", "Search"]
    text = html(page)
    assert "the fastest is " in text
    assert "script" in text, "a candidate of the table"
