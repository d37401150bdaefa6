"""What people read, as a document: lines, tables, notices and figures under headings.

These are its parts, plain data: none knows how it is shown. The modules show it: in a terminal, as Markdown, as an
HTML page and, a table by itself, as CSV. Whatever a part contains (markup, line breaks, control characters) is shown as
text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from modelzoo.formatting import MISSING, for_people
from modelzoo.frozen import replace
from modelzoo.warning import Severity, WarningMessage, rank

if TYPE_CHECKING:
    from modelzoo.records.run import Thumbnail

R = TypeVar("R")


class Tone(Enum):
    """What a cell says, for whoever sees colours; its text says the same.

    BETTER, WORSE, SAME, OPEN (not decided) and BAD (a failure) are outcomes. STRONG stands out, FAINT recedes.
    """

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    OPEN = "open"
    BAD = "bad"


class Column(msgspec.Struct, frozen=True):
    """One column of a table.

    Attributes:
        title: its heading.
        cells: one text per row; line breaks are kept where there is room for them.
        is_number: aligned to the right.
        order: columns with a number are left out, the lowest first, if the table is too wide; ``None``: never.
        tones: by row, or empty.
        meaning: what its cells are, as far as the title does not say it; shown with the table unless the column is
            left out.
    """

    title: str
    cells: tuple[str, ...]
    is_number: bool = False
    order: int | None = None
    tones: tuple[Tone, ...] = ()
    meaning: str = ""

    @property
    def width(self) -> int:
        return max(len(for_people(line)) for text in (self.title, *self.cells) for line in text.split("\n"))

    def tone(self, row: int) -> Tone:
        """The tone of the cell in ``row``."""
        return self.tones[row] if self.tones else Tone.PLAIN


class Line(msgspec.Struct, frozen=True):
    """A sentence.

    Attributes:
        text: the sentence; line breaks are kept where there is room for them.
        name: what it is about; may be empty.
        mark: of a footnote, ``[1]`` for example; may be empty.
        tone: of the sentence.
    """

    text: str
    name: str = ""
    mark: str = ""
    tone: Tone = Tone.PLAIN


class Lines(msgspec.Struct, frozen=True):
    """Sentences, one below the other.

    Attributes:
        items: the sentences.
        stands_out: whether they are an answer, not a detail.
        title: what stands above them; may be empty.
    """

    items: Sequence[Line]
    stands_out: bool = False
    title: str = ""


class Table(msgspec.Struct, frozen=True):
    """A table.

    Attributes:
        caption: what it shows.
        columns: the first one names the rows; at least one.
        note: what is to be said of it besides the meanings of its columns.
        wraps: whether its cells are long and may take several lines, so that it is no wider than sentences.
        is_brief: whether columns that have an order are left out until it is no wider than sentences; otherwise they
            are left out only if there is no room for them.
    """

    caption: str
    columns: Sequence[Column]
    note: str = ""
    wraps: bool = False
    is_brief: bool = False

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells, row by row."""
        return list(zip(*(column.cells for column in self.columns)))

    def first(self, count: int) -> Table:
        """The table with at most so many rows."""
        some = [replace(each, cells=each.cells[:count], tones=each.tones[:count]) for each in self.columns]
        return replace(self, columns=some)

    @property
    def meanings(self) -> str:
        """What the columns mean, in one sentence; empty if no column says it."""
        return "; ".join(column.meaning for column in self.columns if column.meaning)


class Figure(msgspec.Struct, frozen=True):
    """A plot with its data.

    Attributes:
        caption: what it shows, and how to read it.
        drawing: an ``<svg>`` element, which is put into a page as it is.
        data: the same as a table.
    """

    caption: str
    drawing: str
    data: Table


class Pictures(msgspec.Struct, frozen=True):
    """Small pictures side by side, each above its name, with one caption."""

    caption: str
    items: Sequence[Thumbnail]


class Command(msgspec.Struct, frozen=True):
    """A command line that can be copied."""

    text: str

    def __str__(self) -> str:
        return self.text


class Notice(msgspec.Struct, frozen=True):
    """A condition, or a failure.

    Attributes:
        severity: what it does to the result.
        word: what it begins with, for example ``warning``.
        concerns: the rows that it concerns; empty if it concerns all.
        message: what it is.
        hint: how to fix it; a command is shown so that it can be copied.
    """

    severity: Severity
    word: str
    concerns: str
    message: str
    hint: str | Command = ""


class Notices(msgspec.Struct, frozen=True):
    """Conditions and failures, the most harmful first.

    Attributes:
        items: the conditions.
        mark: what their ids in a page begin with; empty if nothing refers to them.
        is_index: whether this is only a list that leads to the conditions with that mark.
    """

    items: Sequence[Notice]
    mark: str = ""
    is_index: bool = False

    @classmethod
    def of(cls, warnings: Iterable[WarningMessage]) -> Notices:
        """Warnings about a machine, each with a command that helps."""
        return cls([Notice(rank(each.code)[0], each.code, "", each.message, Command(each.hint)) for each in warnings])


class Details(msgspec.Struct, frozen=True):
    """Blocks that are shown on demand, and in print.

    Attributes:
        summary: what they are.
        blocks: the blocks.
    """

    summary: str
    blocks: Sequence[Block]


class Section(msgspec.Struct, frozen=True):
    """A heading with its blocks, which may be sections.

    Attributes:
        title: the heading.
        blocks: what follows it.
        mark: the section's id, unique in the page; only sections that have one are in the list of contents.
    """

    title: str
    blocks: Sequence[Block]
    mark: str | None = None

    @property
    def sections(self) -> list[Section]:
        """The sections in it that the list of contents names."""
        return [block for block in self.blocks if isinstance(block, Section) and block.mark]


Block = Lines | Table | Figure | Pictures | Notices | Command | Details | Section


class Page(msgspec.Struct, frozen=True):
    """A page.

    Attributes:
        title: its heading, and the title of the document.
        subtitle: what was measured on, and when.
        sections: the first one answers the question that was asked.
    """

    title: str
    subtitle: str
    sections: Sequence[Section]


class Rows(Generic[R]):
    """What a table has a row for each of.

    Its methods return a column. The cell of a row is what ``cell`` returns for it, which may be a number; ``None``
    is shown as not known.
    """

    def __init__(self, rows: Iterable[R]) -> None:
        self.rows = tuple(rows)

    def text(
        self,
        title: str,
        cell: Callable[[R], object],
        tone: Callable[[R], Tone] | None = None,
        *,
        order: int | None = None,
        meaning: str = "",
    ) -> Column:
        """Return a column of texts; for the other arguments see ``Column``."""
        cells = tuple(MISSING if (found := cell(each)) is None else str(found) for each in self.rows)
        tones = tuple(map(tone, self.rows)) if tone is not None else ()
        return Column(title, cells, order=order, tones=tones, meaning=meaning)

    def number(
        self,
        title: str,
        cell: Callable[[R], object],
        tone: Callable[[R], Tone] | None = None,
        *,
        order: int | None = None,
        meaning: str = "",
    ) -> Column:
        """Return a column of numbers."""
        return replace(self.text(title, cell, tone, order=order, meaning=meaning), is_number=True)


def known(*columns: Column) -> list[Column]:
    """Return the columns in which any row has a value."""
    return [column for column in columns if not {"", MISSING}.issuperset(column.cells)]


def columns_of(
    rows: Sequence[Mapping[str, str]], texts: Collection[str], optional: Sequence[str], tones: tuple[Tone, ...]
) -> list[Column]:
    """Return the columns in which any row has a value; of numbers, unless they are ``texts``.

    Args:
        rows: the cells of each by the titles of their columns, the same for all.
        texts: titles of columns.
        optional: titles of columns that are left out if the table is too wide, the first one first.
        tones: of the rows.
    """
    order = {title: number for number, title in enumerate(optional)}
    found = ((title, tuple(each[title] for each in rows)) for title in (rows[0] if rows else ()))
    return known(*(Column(title, cells, title not in texts, order.get(title), tones) for title, cells in found))


def lines(*texts: str) -> Lines:
    """Return sentences without names; empty ones are left out."""
    return Lines(tuple(Line(text) for text in texts if text))


def first_line(text: str, tone: Tone = Tone.STRONG) -> Lines:
    """Return the answer, as the sentence that comes first."""
    return Lines((Line(text, tone=tone),), stands_out=True)


def named(pairs: Iterable[tuple[str, str]], *, title: str = "") -> Lines:
    """Return sentences, or mere values, from pairs of name and text; empty texts are left out."""
    return Lines(tuple(Line(text, name) for name, text in pairs if text), title=title)
