"""The section of a search in a page."""

from __future__ import annotations

from printed import sentences
from stored_search import STAGES, searched

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Figure, Lines, Section, Table
from modelzoo.document.html import html
from modelzoo.frozen import replace
from modelzoo.records.run import SettingRequest
from modelzoo.records.tuning import LeftOut, Obstacle
from modelzoo.setting import Setting
from modelzoo.views import kinds
from modelzoo.views.page import build


def test_the_section_has_the_answer_the_steps_and_the_candidates() -> None:
    """The answer first."""
    stored = searched(left_out=(LeftOut("threads", None, Obstacle.ONE_CORE),))
    found = kinds.of(stored).answer(stored, (), "r")
    answer, figure, steps, candidates = found
    assert isinstance(answer, Lines)
    assert str(answer.items[0].text).startswith("toy: the fastest is fp32 compile channels-last: 2.512×")
    assert isinstance(figure, Figure)
    assert isinstance(steps, Table)
    assert isinstance(candidates, Section)
    assert sentences(candidates.blocks)[-1] == "threads: there is one core"


def test_a_search_without_a_winner_has_no_plot() -> None:
    """Its candidates are there all the same."""
    stored = searched(stages=STAGES[:3])
    found = kinds.of(stored).answer(stored, (), "r")
    assert [type(block) for block in found] == [Lines, Section]


def test_a_page_shows_the_search_and_the_confirmation_only() -> None:
    """The times of other candidates are in its section alone."""
    given = build.ResultSet("search", (StoredResult("r.json", searched()),))
    page = build.page([given], Question())
    assert page.title.startswith("Tuning: ")
    assert [section.title for section in page.sections][:2] == ["Results", "Search"]
    text = html(page)
    assert "the fastest is " in text
    assert text.count('class="headline') == 1
    assert "script" in text, "a candidate of the table"


def test_a_setting_has_one_name_in_the_whole_page() -> None:
    """That of the search, also in the sections of the confirmation; what the default leaves open is not part of it."""
    found = searched()
    found = replace(found, requested=(*found.requested, SettingRequest("toy", Setting(threads=1))))
    text = html(build.page([build.ResultSet("search", (StoredResult("r.json", found),))], Question()))
    assert "threads=default" not in text
    assert "Details of fp32 compile channels-last" in text
    assert "Details of fp32</summary>" in text
