"""What is shown, as tests read it: documents as text, elements of a page, the marks and texts of a plot."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import combinations
from xml.etree import ElementTree

from modelzoo.comparison.compare import Question
from modelzoo.comparison.estimate import StoredResult
from modelzoo.document import Block, Details, Lines, Notices, Page, Section, Table, terminal
from modelzoo.document.terminal import PlainConsole
from modelzoo.records.run import Result
from modelzoo.views.page import ResultSet, page
from modelzoo.views.plots import Plot


def printed(blocks: Sequence[Block], *, width: int = 100) -> str:
    """What a terminal of ``width`` columns shows, without colours and without blanks at the ends of lines."""
    out = io.StringIO()
    terminal.show(blocks, PlainConsole(file=out, width=width, highlight=False))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def sentences(blocks: Sequence[Block]) -> list[str]:
    """All prose, a sentence each, with the name or the mark before it."""
    return [text for block in blocks for text in _said(block)]


def _said(block: Block) -> Iterator[str]:
    if isinstance(block, (Section, Details)):
        yield from sentences(block.blocks)
    elif isinstance(block, Lines):
        for line in block.items:
            name = line.mark or (line.name and f"{line.name}:")
            yield f"{name} {line.text}".strip()
    elif isinstance(block, Notices):
        for notice in block.items:
            yield f"{notice.word}: {notice.message}"
    elif isinstance(block, Table):
        yield from (str(each) for each in (block.meanings, block.note) if each is not None)


def headings(blocks: Sequence[Block]) -> list[str]:
    """The titles of all sections."""
    return [title for block in blocks if isinstance(block, Section) for title in (block.title, *headings(block.blocks))]


def cells(table: Block) -> dict[str, tuple[str, ...]]:
    """The columns of a table by their titles."""
    assert isinstance(table, Table)
    return {column.title: column.cells for column in table.columns}


def given(name: str, *results: Result, is_directory: bool = False) -> ResultSet:
    """Results as the user named them."""
    sessions = tuple(StoredResult(f"{name}/{number}.json", each) for number, each in enumerate(results, 1))
    return ResultSet(name, sessions, is_directory)


def page_of(*results: Result) -> Page:
    """A page of results, each in a file of its own."""
    return page([given(f"r{number}", each) for number, each in enumerate(results)], Question())


VOID = {"meta", "br", "img", "link", "input", "hr"}


@dataclass
class Element:
    """One element."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, *tags: str) -> list[Element]:
        """The descendants, or those with one of these names, in the order of the document."""
        found = []
        for child in self.children:
            found += [child] if not tags or child.tag in tags else []
            found += child.all(*tags)
        return found

    def one(self, tag: str, **attributes: str) -> Element:
        """The only descendant with this name and these attributes."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        [found] = [each for each in self.all(tag) if wanted.items() <= each.attributes.items()]
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, self.open)
        self.open.children.append(element)
        if tag not in VOID:
            self.open = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.children.append(Element(tag, {name: value or "" for name, value in attrs}, self.open))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.tag == tag, f"</{tag}> closes <{self.open.tag}>"
        assert self.open.parent is not None
        self.open = self.open.parent

    def handle_data(self, data: str) -> None:
        place: Element | None = self.open
        while place is not None:
            place.text += data
            place = place.parent


def read_page(html: str) -> Element:
    """Return the root of a page in which every element is closed where it must be."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open is reader.root, f"<{reader.open.tag}> is not closed"
    return reader.root


HOSTILE = "$x_1^2$ <script>alert(1)</script> &amp; ]]> \x1b[31m \x00 #0072b2 url(#a) 中文 \ud800"
"""Markup, mathematics, control characters, a colour of the theme, a reference, half a surrogate pair."""
_SVG = "{http://www.w3.org/2000/svg}"


def svg(plot: Plot | None) -> str:
    """The plot as a page has it; empty without one."""
    return "" if plot is None else plot.figure("a").drawing


def checked(plot: Plot | None) -> str:
    """The same, with what holds for every plot."""
    text = svg(plot)
    check(text)
    return text


def columns(plot: Plot | None) -> dict[str, tuple[str, ...]]:
    """The data of the plot by their titles."""
    assert plot is not None
    return {column.title: column.cells for column in plot.columns}


def parsed(text: str) -> ElementTree.Element:
    root = ElementTree.fromstring(text)
    for part in root.iter():
        part.tag = part.tag.replace(_SVG, "")
    return root


def texts(text: str) -> list[str]:
    return ["".join(part.itertext()) for part in parsed(text).iter("text")]


def marks(text: str, variable: str) -> int:
    """The number of data markers in a colour of the theme; they have an edge in the colour of the page."""
    styles = [part.get("style", "") for part in parsed(text).iter("use")]
    return sum(f"fill: var({variable}," in style and "stroke: var(--plot-page," in style for style in styles)


def arrows(text: str) -> int:
    """The number of triangles that point to the left or to the right."""
    root = parsed(text)
    shapes = {part.get("id"): part.get("d", "").split() for part in root.iter("path")}
    used = [shapes[part.attrib["href"][1:]] for part in root.iter("use")]
    return sum(shape[-1] == "z" and shape.count("L") == 2 and float(shape[2]) == 0 for shape in used)


def filled(text: str, variable: str) -> int:
    """The number of areas that are filled with a colour of the theme."""
    return sum(f"fill: var({variable}," in part.get("style", "") for part in parsed(text).iter("path"))


@dataclass(frozen=True)
class Box:
    """About where a text stands, in CSS pixels."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        return min(self.right, other.right) > max(self.left, other.left) and min(self.bottom, other.bottom) > max(
            self.top, other.top
        )


def boxes(text: str) -> list[Box]:
    """The boxes of all texts, by the average width of a sans-serif character."""
    found = []
    for part in parsed(text).iter("text"):
        style, content = part.get("style", ""), "".join(part.itertext())
        size = float(re.findall(r"font-size: ([\d.]+)px", style)[0])
        # Lines of a longer text, and what is turned, are moved instead of placed.
        moved = re.match(r"translate\(([\d.-]+) ([\d.-]+)\)", part.get("transform", ""))
        x, y = map(float, moved.groups() if moved else (part.attrib["x"], part.attrib["y"]))
        width = 0.5 * size * len(content)
        before = width * (0.5 if "middle" in style else 1 if "end" in style else 0)
        if "rotate(-90" in part.get("transform", ""):
            found.append(Box(content, x - 0.72 * size, y - width + before, x, y + before))
        else:
            found.append(Box(content, x - before, y - 0.72 * size, x - before + width, y))
    return found


def check(text: str) -> None:
    """What holds for every plot: it fits a page, its texts are large enough, inside, and beside each other."""
    root = parsed(text)
    assert root.tag == "svg" and text.startswith("<svg ")
    assert root.get("role") == "img" and root.get("viewBox")
    assert [part.tag for part in root][:2] == ["title", "desc"]
    assert not re.search(r"<(style|metadata|script|image|foreignObject)\b", text)
    ids = [part.get("id") for part in root.iter() if "id" in part.attrib]
    referenced = set(re.findall(r"url\(#([^)]+)\)", " ".join(v for p in root.iter() for v in p.attrib.values())))
    referenced |= {part.attrib["href"][1:] for part in root.iter() if "href" in part.attrib}
    referenced |= {root.attrib["aria-labelledby"], root.attrib["aria-describedby"]}
    assert len(ids) == len(set(ids)) and referenced == set(ids)
    styles = " ".join(part.get("style", "") for part in root.iter())
    assert not re.search(r"(?<!, )#[0-9a-f]{6}", styles), "a colour that is not a variable of the theme"
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    found = boxes(text)
    for box in found:
        assert box.left > -1 and box.right < width + 1 and box.top > 0 and box.bottom < height, box
    for a, b in combinations(found, 2):
        assert not a.overlaps(b), (a, b)
    assert min(float(size) for size in re.findall(r"font-size: ([\d.]+)px", styles)) >= 11
