"""The section of many instances in a page."""

from __future__ import annotations

from instances import configuration, ran, result

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Figure, Lines, Table, Tone, first_line
from modelzoo.document.html import html
from modelzoo.views import kinds
from modelzoo.views.page import build

OWN = [configuration(1), configuration(4)]
RUNS = [ran(i, each, n, [0.1] * each.instances) for i, each in enumerate(OWN) for n in range(2)]


def test_the_answer_comes_before_the_plot_and_the_table() -> None:
    """The answer first."""
    found = kinds.of(result(OWN, RUNS)).answer(result(OWN, RUNS), (), "r")
    assert [type(block) for block in found] == [Lines, Figure, Table, Lines]
    assert isinstance(found[0], Lines)
    assert str(found[0].items[0].text).startswith("toy: 4 × 1 core, batch 1 has the highest throughput")
    answer, *_ = kinds.of(result(OWN, [])).answer(result(OWN, []), (), "r")
    assert answer == first_line("toy: no configuration could be measured", Tone.BAD)


def test_a_page_begins_with_it() -> None:
    """Such a result has no times of its own to show."""
    given = build.ResultSet("instances", (StoredResult("r.json", result(OWN, RUNS)),))
    page = build.page([given], Question())
    assert page.title.startswith("Throughput: ")
    assert page.sections[0].title == "Results"
    assert isinstance(page.sections[0].blocks[1], Figure)
    text = html(page)
    assert "4 × 1 core, batch 1 has the highest throughput" in text
    assert "not timed" not in text
    several = build.page([given, build.ResultSet("again", given.sessions)], Question())
    assert several.title.startswith("Comparison: ")
    assert html(several).count("4 × 1 core, batch 1 has the highest throughput") == 2
