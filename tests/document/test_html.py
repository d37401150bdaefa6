"""The page: its structure, what it needs, and that whatever a result contains is shown as text."""

from __future__ import annotations

import itertools
import re

import pytest
from fake_runs import evidence, make, result_of, warning
from page_reader import Element, read_page
from places import DATA

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Block, Column, Command, Notice, Notices, Page, Section, Table, Tone, lines
from modelzoo.document.html import html
from modelzoo.frozen import replace
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result
from modelzoo.results import store
from modelzoo.setting import Setting
from modelzoo.views.page import build
from modelzoo.views.page.build import ResultSet
from modelzoo.warning import Severity

STORED = sorted((DATA / "results").glob("*.json"))
HOSTILE = "</title></svg><script>alert(1)</script>&\"'<img src=x onerror=alert(2)>\x1b]0;"


def document(*results: Result) -> str:
    """The page of these results."""
    given = [
        ResultSet(f"{number}.json", (StoredResult(f"{number}.json", each),)) for number, each in enumerate(results, 1)
    ]
    return html(build.page(given, Question()))


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """A page of each stored result, and one of all."""
    results = [store.read(path) for path in STORED]
    found = {path.stem: document(result) for path, result in zip(STORED, results)}
    found["all"] = document(*results)
    return found


def test_the_structure_is_what_assistive_technology_needs(pages: dict[str, str]) -> None:
    """Language, title, skip link, landmarks, headings in order, names and scopes, descriptions of what is drawn."""
    for name, text in pages.items():
        page = read_page(text)
        assert text.startswith("<!DOCTYPE html>"), name
        assert page.one("html").attributes["lang"] == "en"
        assert page.one("head").one("title").text == page.one("h1").text
        links = page.one("body").all("a")
        assert links[0].attributes["href"] == f"#{page.one('main').attributes['id']}"
        check_headings(page)
        check_tables(page)
        for svg in page.all("svg"):
            assert svg.attributes["role"] == "img"
            ids = {each.attributes.get("id"): each for each in svg.all("title", "desc")}
            assert ids[svg.attributes["aria-labelledby"]].text
            assert svg.parent is not None
            assert svg.parent.tag == "figure"
            assert svg.parent.all("figcaption")
            assert svg.parent.one("details").all("table"), "every plot has its data as a table"
        for image in page.all("img"):
            assert image.attributes["alt"]


def check_headings(page: Element) -> None:
    """No level is skipped."""
    levels = [int(each.tag[1]) for each in page.all("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels


def check_tables(page: Element) -> None:
    """Every table has a name, and headings that say what they are the headings of; wide ones can be scrolled."""
    for table in page.all("table"):
        assert all(each.attributes["scope"] in ("col", "row") for each in table.all("th"))
        assert table.parent is not None
        assert table.parent.attributes["tabindex"] == "0"
        assert table.parent.attributes["aria-label"]


def test_ids_are_unique_and_links_lead_somewhere(pages: dict[str, str]) -> None:
    """Also across the plots of a page, which are drawn one by one."""
    for name, text in pages.items():
        page = read_page(text)
        ids = [each.attributes["id"] for each in walk(page) if "id" in each.attributes]
        assert len(set(ids)) == len(ids), name
        targets = [each.attributes["href"] for each in page.all("a", "use")]
        assert {target[1:] for target in targets} <= set(ids)
        assert all(target.startswith("#") for target in targets)
        assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)


def walk(element: Element) -> list[Element]:
    """All elements."""
    return [each for child in element.children for each in (child, *walk(child))]


def test_a_page_needs_nothing_else(pages: dict[str, str]) -> None:
    """No scripts, no fonts, style sheets or pictures from elsewhere; and it is small."""
    for name, text in pages.items():
        page = read_page(text)
        assert not page.all("script", "link", "iframe", "object", "base", "form"), name
        assert all(each.attributes["src"].startswith("data:image/jpeg;base64,") for each in page.all("img"))
        without_names = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(?:src|href)=.?https?:|@import|url\((?!#)", without_names)
        assert "default-src 'none'" in text
        assert len(text) < 2_000_000


def test_a_page_is_the_same_every_time() -> None:
    """Equal results give equal files."""
    result = store.read(DATA / "results" / "mlp.json")
    assert document(result) == document(result)


def test_hostile_text_is_text() -> None:
    """In names of workloads, kernels and files, in errors, warnings, commands, and in the text of plots."""
    proof = replace(
        evidence(ProofVerdict.FP32), by_implementation=(TimeShare(HOSTILE, 1.0, 1.0, 1),), problems=(HOSTILE,)
    )
    found = (warning("OTHER_LOAD", HOSTILE, HOSTILE),)
    runs = [
        make([0.1 + i / 1000] * 5, workload=HOSTILE, setting=setting, group=g, round=i, evidence=proof, warnings=found)
        for g, setting in enumerate((Setting(weights=HOSTILE), Setting("bf16", weights=HOSTILE)))
        for i in range(3)
    ]
    runs.append(make(None, workload=f"{HOSTILE}2", group=2, error=HOSTILE))
    result = replace(result_of(*runs), command=("modelzoo", "run", HOSTILE), created=HOSTILE)
    sessions = (StoredResult(HOSTILE, result), StoredResult("b", replace(result, created="2026-01-01")))
    given = [ResultSet(HOSTILE, sessions, is_directory=True), ResultSet("b", sessions[1:])]
    text = html(build.page(given, Question()))
    page = read_page(text)
    assert not page.all("script", "img")
    assert "\x1b" not in text
    assert "<script>alert(1)</script>" in page.one("h1").text
    assert any("<script>" in each.text for each in page.all("text")), "also in plots"
    assert not any(name.startswith("on") for each in walk(page) for name in each.attributes)


def test_sections_of_a_page_are_in_its_contents() -> None:
    """With the sections in them."""
    inner = Section("inner <b>", (lines("text"),), "b")
    page = read_page(html(Page("title", "subtitle", (Section("outer", (inner,), "a"),))))
    links = [(each.attributes["href"], each.text) for each in page.one("nav").all("a")]
    assert links == [("#a", "outer"), ("#b", "inner <b>")]
    assert page.one("section", id="b").all("h3")[0].text == "inner <b>"


def shown(*blocks: Block) -> Element:
    """The only section of a page of these blocks."""
    return read_page(html(Page("title", "subtitle", (Section("outer", blocks, "a"),)))).one("section")


def test_outcomes_have_a_class() -> None:
    """Tones that only stand out or recede have none; the text says the same as the colour."""
    tones = tuple(Tone)
    column = Column("verdict", tuple(tone.value for tone in tones), tones=tones)
    table = Table("t", (Column("row", tuple("x" for _ in tones)), column))
    marked = {cell.text: cell.attributes.get("class") for cell in shown(table).all("td")}
    assert marked == {
        **{"plain": None, "strong": None, "faint": None},
        **{name: f"tone {name}" for name in ("better", "worse", "same", "open", "bad")},
    }


def test_line_breaks_are_kept() -> None:
    """In cells, also in those with a class, in sentences, notes and notices."""
    cells = Column("a", ("1\n2",), tones=(Tone.BAD,))
    notice = Notice(Severity.NOTE, "note", "", "5\n6", "7\n8")
    found = shown(Table("t", (Column("", ("r",)), cells), "3\n4"), lines("9\n10"), Notices((notice,)))
    assert len(found.all("br")) == 5


def test_a_hint_that_is_a_command_can_be_copied() -> None:
    """It is code."""
    found = shown(Notices((Notice(Severity.DISTORTS, "SMT", "toy", "busy", Command("taskset -c 0")),)))
    assert found.one("code").text == "taskset -c 0"
    assert found.one("strong").text == "SMT: toy"


def test_a_table_without_titles_has_no_heading() -> None:
    """Its rows have."""
    found = shown(Table("Machine", (Column("", ("CPU",)), Column("", ("x",)))))
    assert not found.all("thead")
    assert found.one("th").text == "CPU"


def test_meanings_and_notes_stand_below_a_table() -> None:
    """The meanings are one sentence."""
    column = Column("a", ("1",), meaning="a: first")
    found = shown(Table("t", (column,), "a note"))
    assert [each.text for each in found.all("p")] == ["t", "A: first.", "a note"]


def test_a_caption_that_repeats_the_heading_above_it_is_left_out() -> None:
    """As in a terminal."""
    tables = (Table(caption, (Column("a", ("1",)),)) for caption in ("outer", "u"))
    found = shown(*tables)
    assert [each.text for each in found.all("p")] == ["u"]


def test_a_wide_table_can_be_shown_as_lists() -> None:
    """Its cells have their titles, and it stays a table for screen readers; one that is narrow or long is as it is."""
    columns = tuple(Column(title, ("1",)) for title in "abcd")
    wide = shown(Table("t", columns))
    assert wide.one("table").attributes == {"class": "stacks", "role": "table"}
    assert [each.attributes.get("data-title") for each in wide.all("td")] == ["b", "c", "d"]
    for other in (columns[:3], tuple(Column(each.title, 13 * ("1",)) for each in columns)):
        assert "class" not in shown(Table("t", other)).one("table").attributes
