"""A page begins with the answer to what its kind of result asks, and its plot: requests, instances, a search."""

from __future__ import annotations

import instances
import load_results
from printed import sentences
from stored_search import searched

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Figure, Lines, Notices, Page, Table, Tone, first_line
from modelzoo.document.html import html
from modelzoo.frozen import replace
from modelzoo.records.run import Result, SettingRequest
from modelzoo.records.tuning import LeftOut, Obstacle
from modelzoo.setting import Setting
from modelzoo.views.page import build

OWN = [instances.configuration(1), instances.configuration(4)]
RUNS = [instances.ran(i, each, n, [0.1] * each.instances) for i, each in enumerate(OWN) for n in range(2)]


def page_of(*results: Result) -> Page:
    """Each of them in a file of its own."""
    given = [build.ResultSet(f"r{n}", (StoredResult(f"r{n}.json", each),)) for n, each in enumerate(results)]
    return build.page(given, Question())


def shown_kinds(page: Page) -> list[type]:
    """The kinds of blocks in the first section, without those that are empty, which are not shown."""
    return [type(block) for block in page.sections[0].blocks if getattr(block, "items", True)]


def test_a_search_under_load_has_its_answer_its_plot_and_its_runs() -> None:
    """It names the machine, and is not said to be empty; without a plot, why a run is INVALID is said."""
    found = load_results.measured(load_results.load(is_search=True, rate=None, repeats=2, queries=662))
    page = page_of(load_results.result(found))
    assert shown_kinds(page) == [Lines, Figure, Table, Lines]
    assert page.title.startswith("Load test: ")
    assert page.subtitle.startswith(f"{found.machine.cpu}, ")
    assert "requests/s pass p99=50ms in each of 2 repeats" in html(page)
    invalid = load_results.result(load_results.measured(load_results.load(queries=662, rate=200.0)))
    assert shown_kinds(page_of(invalid)) == [Lines, Table, Notices]


def test_of_instances_the_answer_comes_before_the_plot_and_the_table() -> None:
    """Such a result has no times of its own to show."""
    result = instances.result(OWN, RUNS)
    page, answer = page_of(result), "4 × 1 core, batch 1 has the highest throughput"
    found = page.sections[0].blocks
    assert shown_kinds(page) == [Lines, Figure, Table, Lines]
    assert isinstance(found[0], Lines)
    assert str(found[0].items[0].text).startswith(f"toy: {answer}")
    failed = page_of(instances.result(OWN, [])).sections[0]
    assert failed.blocks[0] == first_line("toy: no configuration could be measured", Tone.BAD)
    assert page.title.startswith("Throughput: ")
    assert page.sections[0].title == "Results"
    assert "not timed" not in html(page)
    several = page_of(result, result)
    assert several.title.startswith("Comparison: ")
    assert html(several).count(answer) == 2


def test_a_search_for_a_setting_has_the_answer_the_steps_and_the_candidates() -> None:
    """Of other candidates, the times are in its section alone."""
    result = searched(left_out=(LeftOut("threads", None, Obstacle.ONE_CORE),))
    page = page_of(result)
    assert page.title.startswith("Tuning: ")
    answer, figure, steps, *_ = page.sections[0].blocks
    assert isinstance(answer, Lines)
    assert str(answer.items[0].text).startswith("toy: the fastest is fp32 compile channels-last: 2.512×")
    assert (type(figure), type(steps)) == (Figure, Table)
    candidates = page.sections[1]
    assert candidates.title == "Search"
    assert sentences(candidates.blocks)[-1] == "threads: there is one core"
    text = html(page)
    assert text.count('class="headline') == 1
    assert "script" in text, "a candidate of the table"


def test_a_setting_has_one_name_in_the_whole_page() -> None:
    """That of the search, also in the sections of the confirmation; what the default leaves open is not part of it."""
    found = searched()
    found = replace(found, requested=(*found.requested, SettingRequest("toy", Setting(threads=1))))
    text = html(page_of(found))
    assert "threads=default" not in text
    assert "Details of fp32 compile channels-last" in text
    assert "Details of fp32</summary>" in text
