"""A document as an HTML page, as Markdown and as CSV, with hostile texts in it."""

from __future__ import annotations

import csv
import io
import itertools
import re

import pytest
from places import DATA
from printed import Element, page_of, read_page

from modelzoo.document import Block, Column, Command, Notice, Notices, Page, Section, Table, Tone, lines, named
from modelzoo.document.written import csv_lines, html, markdown
from modelzoo.records.run import Result
from modelzoo.results import store
from modelzoo.warning import Severity


def document(*results: Result) -> str:
    """The page of these results."""
    return html(page_of(*results))


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """A page of each of some stored results, and one of all of them."""
    results = {name: store.read(DATA / "results" / f"{name}.json") for name in ("mlp", "sessions", "ssdlite", "bert")}
    return {**{name: document(result) for name, result in results.items()}, "all": document(*results.values())}


def test_the_structure_is_what_assistive_technology_needs(pages: dict[str, str]) -> None:
    """Language, title, skip link, landmarks, headings in order, names and scopes, descriptions of what is drawn."""
    for name, text in pages.items():
        page = read_page(text)
        assert text.startswith("<!DOCTYPE html>"), name
        assert page.one("html").attributes["lang"] == "en"
        assert page.one("head").one("title").text == page.one("h1").text
        assert page.one("body").all("a")[0].attributes["href"] == f"#{page.one('main').attributes['id']}"
        levels = [int(each.tag[1]) for each in page.all("h1", "h2", "h3", "h4", "h5", "h6")]
        assert levels[0] == levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels
        for table in page.all("table"):
            assert all(each.attributes["scope"] in ("col", "row") for each in table.all("th"))
            assert table.parent.attributes["tabindex"] == "0" and table.parent.attributes["aria-label"]
        for svg in page.all("svg"):
            assert svg.attributes["role"] == "img"
            ids = {each.attributes.get("id"): each for each in svg.all("title", "desc")}
            assert ids[svg.attributes["aria-labelledby"]].text
            assert svg.parent.tag == "figure" and svg.parent.all("figcaption")
            assert svg.parent.one("details").all("table"), "every plot has its data as a table"
        assert all(image.attributes["alt"] for image in page.all("img"))


def test_ids_are_unique_and_links_lead_somewhere(pages: dict[str, str]) -> None:
    """Also across the plots of a page, which are drawn one by one."""
    for name, text in pages.items():
        page = read_page(text)
        ids = [each.attributes["id"] for each in walk(page) if "id" in each.attributes]
        assert len(set(ids)) == len(ids), name
        targets = {each.attributes["href"] for each in page.all("a", "use")}
        assert targets <= {f"#{each}" for each in ids}
        assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)


def walk(element: Element) -> list[Element]:
    """All elements."""
    return [each for child in element.children for each in (child, *walk(child))]


def test_a_page_needs_nothing_else(pages: dict[str, str]) -> None:
    """No fonts, style sheets or pictures from elsewhere; ``test_hostile_results`` looks for scripts. It is small."""
    for text in pages.values():
        assert all(each.attributes["src"].startswith("data:image/jpeg;base64,") for each in read_page(text).all("img"))
        assert not re.search(r"@import|url\((?!#)", text)
        assert "default-src 'none'" in text
        assert len(text) < 2_000_000


def test_a_page_is_the_same_every_time() -> None:
    """Equal results give equal files."""
    result = store.read(DATA / "results" / "mlp.json")
    assert document(result) == document(result)


def test_sections_of_a_page_are_in_its_contents() -> None:
    """With the sections in them that have a mark."""
    inner = Section("inner <b>", (Section("not a link", (lines("text"),)),), "b")
    page = read_page(html(Page("title", "subtitle", (Section("outer", (inner,), "a"),))))
    links = [(each.attributes["href"], each.text) for each in page.one("nav").all("a")]
    assert links == [("#a", "outer"), ("#b", "inner <b>")]
    assert page.one("section", id="b").all("h3")[0].text == "inner <b>"


def shown(*blocks: Block) -> Element:
    """The only section of a page of these blocks."""
    return read_page(html(Page("title", "subtitle", (Section("outer", blocks, "a"),)))).one("section")


def test_line_breaks_are_kept_and_a_command_can_be_copied() -> None:
    """In cells, also in those with a class, in sentences, notes and notices; a hint that is a command is code."""
    cells = Column("a", ("1\n2",), tones=(Tone.BAD,))
    notice = Notice(Severity.NOTE, "note", "", "5\n6", "7\n8")
    found = shown(Table("t", (Column("", ("r",)), cells), "3\n4"), lines("9\n10"), Notices((notice,)))
    assert len(found.all("br")) == 5
    found = shown(Notices((Notice(Severity.DISTORTS, "SMT", "toy", "busy", Command("taskset -c 0")),)))
    assert (found.one("code").text, found.one("strong").text) == ("taskset -c 0", "SMT: toy")


HOSTILE = "[x](y)|<b> `c` _d_\x1b[31m\u202e"
SHOWN = "\\[x](y)\\|\\<b> \\`c\\` \\_d\\_\\\\x1b\\[31m\\\\u202e"


def test_lists_notices_and_commands_are_shown() -> None:
    """``tests/snapshots`` has the other parts."""
    blocks = [
        Section("outer", (Section("inner", (lines("said"),)),)),
        named([("toy", "fast")], title="Found"),
        Notices((Notice(Severity.DISTORTS, "warning", "toy", "busy", "stop it"),)),
        Command("modelzoo run\n  toy"),
        lines(),
    ]
    found = "Found:\n\n- toy: fast\n\n- warning: toy: busy → stop it\n\n    modelzoo run\n      toy\n"
    assert markdown(blocks) == f"### outer\n\n#### inner\n\n- said\n\n{found}"


def test_hostile_text_stays_text() -> None:
    """In headings, captions, sentences, notices and cells."""
    found = markdown(
        [
            Section(HOSTILE, (Table("t " + HOSTILE, (Column(HOSTILE, (HOSTILE,)),), HOSTILE),)),
            named([(HOSTILE, HOSTILE)], title=HOSTILE),
            Notices((Notice(Severity.NOTE, HOSTILE, HOSTILE, HOSTILE, HOSTILE),)),
        ]
    )
    assert found.count(SHOWN) == 12
    assert "\x1b" not in found
    assert "<b>" not in found.replace("\\<b>", "")


def test_a_line_break_keeps_a_cell_on_its_line() -> None:
    """In a table a line would end the row, and in a sentence it could begin a heading or a list."""
    found = markdown([Table("", (Column("a", ("b\n# c",)),)), lines("d\n- e")])
    assert "| b<br># c |\n" in found
    assert found.endswith("- d<br>- e\n")


FORMULAS = ("=1+1", "+a", "-a", "@SUM(A1)", " =1", "＝1+1")


def test_a_row_is_one_line_and_no_cell_a_formula() -> None:
    """A formula begins with an apostrophe; numbers, commas and quotes come back as they were."""
    found = csv_lines([("a,b", 'x"y'), ("-1.5", "b\n\x1b[31mc"), FORMULAS])
    assert found.count("\n") == 3
    assert list(csv.reader(io.StringIO(found))) == [
        ["a,b", 'x"y'],
        ["-1.5", r"b\n\x1b[31mc"],
        [f"'{each}" for each in FORMULAS],
    ]
