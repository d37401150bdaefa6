"""The section of many instances in a page."""

from __future__ import annotations

from instances import configuration, ran, result

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.records.throughput import Soak, SoakPoint
from modelzoo.report.page import build, rendering, throughput
from modelzoo.report.page.content import Details, Figure, Paragraphs, Table
from modelzoo.report.page.figures import ONE

OWN = [configuration(1), configuration(4)]
RUNS = [ran(i, each, n, [0.1] * each.instances) for i, each in enumerate(OWN) for n in range(2)]


def test_the_answer_comes_before_the_plot_and_the_table() -> None:
    """The answer first."""
    found = throughput.blocks(result(OWN, RUNS), "r-instances", ONE)
    assert [type(block) for block in found] == [Paragraphs, Figure, Table, Details]
    assert isinstance(found[0], Paragraphs)
    assert found[0].texts[0].startswith("4 × 1 core, batch 1 has the highest throughput")
    (none, *_) = throughput.blocks(result(OWN, []), "r-instances", ONE)
    assert none == Paragraphs(("No configuration could be measured.",))


def test_a_soak_test_has_its_table_and_trends() -> None:
    """Below the configurations."""
    points = tuple(SoakPoint(60.0 * n, 60.0, 600, 0.1, 0.12, 10**9) for n in range(20))
    found = throughput.blocks(result(OWN, RUNS, soak=Soak(1, 1200.0, points)), "r-instances", ONE)
    assert [type(block) for block in found] == [Paragraphs, Figure, Table, Table, Paragraphs, Details]


def test_a_page_begins_with_it() -> None:
    """Such a result has no times of its own to show."""
    given = build.Given("instances", (StoredResult("r.json", result(OWN, RUNS)),))
    page = build.page([given], Question())
    assert page.sections[0].title == "Results"
    assert isinstance(page.sections[0].blocks[1], Figure)
    html = rendering.html(page)
    assert "4 × 1 core, batch 1 has the highest throughput" in html
    assert "not timed" not in html
    several = build.page([given, build.Given("again", given.sessions)], Question())
    assert rendering.html(several).count("4 × 1 core, batch 1 has the highest throughput") == 2
