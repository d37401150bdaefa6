"""Results as a page takes them, and a page as tests read it: its elements with their attributes, and its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from modelzoo.comparison.compare import Question
from modelzoo.comparison.estimate import StoredResult
from modelzoo.document import Page
from modelzoo.records.run import Result
from modelzoo.views.page import ResultSet, page


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
