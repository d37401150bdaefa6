"""What a page consists of: sections of blocks, in the order in which they are read. All text is plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Optional, Union

from modelzoo.formatting import MISSING
from modelzoo.records import validity
from modelzoo.report.table import Column
from modelzoo.warning import Severity

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class Paragraphs:
    """Text, one string for each paragraph."""

    kind: ClassVar[str] = "paragraphs"
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Fact:
    """A name with its value; line breaks of the value are kept."""

    name: str
    value: str


@dataclass(frozen=True)
class Facts:
    """A list of facts.

    Attributes:
        items: the facts, in their order.
        stands_out: whether the list is an answer, not a detail.
    """

    kind: ClassVar[str] = "facts"
    items: tuple[Fact, ...]
    stands_out: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: what it shows.
        columns: the first one names the rows.
        note: what its columns mean; may be empty.
    """

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[Column, ...]
    note: str = ""

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells, row by row."""
        return list(zip(*(column.cells for column in self.columns)))


@dataclass(frozen=True)
class Figure:
    """A plot with its data.

    Attributes:
        caption: what it shows, and how to read it.
        drawings: ``<svg>`` elements, which are put into the page as they are.
        data: the same as a table.
    """

    kind: ClassVar[str] = "figure"
    caption: str
    drawings: tuple[str, ...]
    data: Table


@dataclass(frozen=True)
class Picture:
    """A small picture.

    Attributes:
        name: what is below it.
        jpeg: the file in base64.
    """

    name: str
    jpeg: str


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side, with one caption."""

    kind: ClassVar[str] = "pictures"
    caption: str
    items: tuple[Picture, ...]


@dataclass(frozen=True)
class Notice:
    """A condition, or a failure.

    Attributes:
        severity: what it does to the result.
        word: what it begins with, for example ``warning``.
        concerns: the rows that it concerns; empty if it concerns all.
        message: what it is.
        hint: how to fix it; may be empty.
    """

    severity: Severity
    word: str
    concerns: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Notices:
    """Conditions and failures, the most harmful first."""

    kind: ClassVar[str] = "notices"
    items: tuple[Notice, ...]


@dataclass(frozen=True)
class Command:
    """A command line that can be copied."""

    kind: ClassVar[str] = "command"
    text: str


@dataclass(frozen=True)
class Details:
    """Blocks that are shown on demand, and in print.

    Attributes:
        summary: what they are.
        blocks: the blocks.
    """

    kind: ClassVar[str] = "details"
    summary: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Section:
    """A heading with its blocks, which may be sections.

    Attributes:
        title: the heading.
        blocks: what follows it.
        mark: the section's id, unique in the page; only sections that have one are in the list of contents.
    """

    kind: ClassVar[str] = "section"
    title: str
    blocks: tuple[Block, ...]
    mark: Optional[str] = None

    @property
    def sections(self) -> list[Section]:
        """The sections in it that the list of contents names."""
        return [block for block in self.blocks if isinstance(block, Section) and block.mark]


Block = Union[Paragraphs, Facts, Table, Figure, Pictures, Notices, Command, Details, Section]


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        title: its heading, and the title of the document.
        subtitle: what was measured on, and when.
        sections: the first one answers the question that was asked.
    """

    title: str
    subtitle: str
    sections: tuple[Section, ...]


def facts(pairs: Sequence[tuple[str, str]]) -> Facts:
    """Return facts from pairs of name and value."""
    return Facts(tuple(Fact(name, value) for name, value in pairs))


def from_rich(table: RichTable) -> Table:
    """Return a table that was made for the terminal."""
    columns = tuple(
        Column(str(each.header), tuple(map(str, each.cells)), is_number=each.justify == "right")
        for each in table.columns
    )
    return Table(str(table.title or ""), columns, str(table.caption or ""))


def from_record(table: validity.Table) -> Table:
    """Return a table of a stored judgement. A column is one of numbers if most of its cells begin with a digit."""
    columns = []
    for index, title in enumerate(table.columns):
        cells = tuple(row[index] for row in table.rows)
        known = [cell.lstrip("≥≤<>+-−±≈ ")[:1] for cell in cells if cell not in ("", MISSING)]
        numbers = sum(first.isdigit() for first in known)
        columns.append(Column(title, cells, is_number=index > 0 and 2 * numbers > len(known)))
    return Table(table.title, tuple(columns), table.note)
