"""A page begins with the answer to what its kind of result asks, and its plot: requests, instances, a search."""

from __future__ import annotations

import instances
import load_results
from printed import page_of, printed
from stored_search import searched

from modelzoo.document import Figure, Lines, Notices, Page, Table
from modelzoo.document.written import html
from modelzoo.frozen import replace
from modelzoo.records.run import SettingRequest
from modelzoo.setting import Setting


def shown_kinds(page: Page) -> list[type]:
    """The kinds of blocks in the first section, without those that are empty, which are not shown."""
    return [type(block) for block in page.sections[0].blocks if getattr(block, "items", True)]


def answer(page: Page) -> str:
    """What it begins with."""
    return printed(page.sections[0].blocks[:1])


def test_a_search_under_load_has_its_answer_its_plot_and_its_runs() -> None:
    """It names the machine, and is not said to be empty; without a plot, why a run is INVALID is said."""
    found = load_results.measured(load_results.load(is_search=True, rate=None, repeats=2, queries=662))
    page = page_of(load_results.result(found))
    assert shown_kinds(page) == [Lines, Figure, Table, Lines]
    assert page.title.startswith("Load test: ") and page.subtitle.startswith(f"{found.machine.cpu}, ")
    assert "requests/s pass p99=50ms in each of 2 repeats" in answer(page)
    invalid = load_results.result(load_results.measured(load_results.load(queries=662, rate=200.0)))
    assert shown_kinds(page_of(invalid)) == [Lines, Table, Notices]


def test_of_instances_the_answer_comes_before_the_plot_and_the_table() -> None:
    """Such a result has no times of its own to show."""
    own = [instances.configuration(1), instances.configuration(4)]
    runs = [instances.ran(i, each, n, [0.1] * each.instances) for i, each in enumerate(own) for n in range(2)]
    result = instances.result(own, runs)
    page, several = page_of(result), page_of(result, result)
    assert shown_kinds(page) == [Lines, Figure, Table, Lines]
    assert answer(page).startswith("toy: 4 × 1 core, batch 1 has the highest throughput")
    assert (page.title[:11], several.title[:11]) == ("Throughput:", "Comparison:")
    assert "not timed" not in html(page)


def test_a_setting_has_one_name_in_the_whole_page() -> None:
    """That of the search, also in the sections of the confirmation; what the default leaves open is not part of it."""
    found = searched()
    found = replace(found, requested=(*found.requested, SettingRequest("toy", Setting(threads=1))))
    text = html(page_of(found))
    assert "threads=default" not in text
    assert "Details of fp32 compile channels-last" in text
    assert "Details of fp32</summary>" in text
