"""A document in a terminal, by rich.

In a file or a pipe, which has no width, it is plain text: aligned columns without a rule, and nothing is left out.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text as RichText

from modelzoo.document import (
    Block,
    Column,
    Command,
    Details,
    Figure,
    Line,
    Lines,
    Notice,
    Notices,
    Pictures,
    Section,
    Table,
    Tone,
)
from modelzoo.formatting import for_people
from modelzoo.frozen import replace
from modelzoo.warning import Severity

WIDTH = 100
"""Columns of sentences, and of tables whose cells may be wrapped."""
GAP = 2
"""Blanks between two columns."""
_UNLIMITED = 10_000
_INDENT = 8
"""The lines of a sentence after its first are indented by what precedes it, at most by this."""
_STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.FAINT: "dim",
    Tone.BETTER: "green",
    Tone.WORSE: "red",
    Tone.SAME: "cyan",
    Tone.OPEN: "yellow",
    Tone.BAD: "bold red",
}
_SEVERITIES = {Severity.INVALIDATES: "bold red", Severity.DISTORTS: "yellow", Severity.NOTE: "dim"}


class PlainConsole(Console):
    """The door to the terminal for everything that is not a document: each string is one line of text.

    It takes no string for markup, and escapes what would move the cursor or begin a line: names, warnings and errors
    come from result files and from other hosts. Colours are given as ``style``, or by documents, which escape what they
    hold themselves.
    """

    def render_str(self, text: str, **options: Any) -> RichText:
        """Return ``text`` as one line."""
        return RichText(for_people(text), options.get("style", ""))


def console() -> Console:
    """Return the console for people: stderr. It breaks no line that is printed as it is.

    rich honours NO_COLOR and drops colours without a terminal.
    """
    wanted = PlainConsole(stderr=True, highlight=False, soft_wrap=True)
    if not wanted.is_terminal:
        wanted.width = _UNLIMITED
    return wanted


def show(blocks: Sequence[Block], out: Console) -> None:
    """Print a document.

    Args:
        blocks: the document. What only pages have, plots for example, is left out.
        out: where to. A table that is wider than this console is folded, not cut.
    """
    for number, block in enumerate(_flat(blocks)):
        if number:
            out.print()
        for shown in _shown(block, out.width):
            # Lines of text are broken already, or must not be.
            is_text = isinstance(shown, RichText)
            out.print(shown, soft_wrap=is_text, width=None if is_text else out.width)


def text(blocks: Sequence[Block], *, colour: bool, width: int = _UNLIMITED) -> str:
    """Return a document as text.

    Args:
        blocks: the document.
        colour: whether the text goes to a terminal, which may show colours; rich honours NO_COLOR.
        width: columns of the terminal; by default it is for a file or a pipe.
    """
    out = io.StringIO()
    show(blocks, PlainConsole(file=out, force_terminal=colour, width=width, highlight=False, legacy_windows=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _flat(blocks: Sequence[Block], title: str = "") -> Iterator[Block]:
    """Sections as their headings, each followed by its blocks; without what a terminal does not show.

    A caption that only repeats ``title``, the heading above it, is left out.
    """
    for block in blocks:
        if isinstance(block, Section):
            yield Section(block.title, ())
            yield from _flat(block.blocks, block.title)
        elif isinstance(block, Table):
            yield replace(block, caption="") if block.caption == title else block
        elif isinstance(block, (Lines, Notices)):
            yield from (block,) if block.items else ()
        elif not isinstance(block, (Details, Figure, Pictures)):
            yield block


def _shown(block: Block, width: int) -> Iterator[RichText | RichTable]:
    text_width = min(WIDTH, width)
    if isinstance(block, Section):
        yield _lines(block.title, "bold")
    elif isinstance(block, Lines):
        if block.title:
            yield _lines(f"{block.title}:", "bold")
        for line in block.items:
            yield from _line(line, text_width, is_titled=bool(block.title))
    elif isinstance(block, Notices):
        for notice in block.items:
            yield from _notice(notice, text_width)
    elif isinstance(block, Command):
        yield _lines(block.text)
    elif isinstance(block, Table):
        if block.caption:
            yield from _wrapped("", block.caption, text_width)
            yield _lines("")
        is_plain = width >= _UNLIMITED
        limit = text_width if block.is_brief and not is_plain else width
        shown = block if block.wraps else replace(block, columns=fitting(block.columns, limit))
        yield rich_table(shown.columns, text_width if block.wraps else width, is_plain=is_plain)
        said = "\n".join(filter(None, (shown.meanings, shown.note)))
        if said:
            yield _lines("")
            yield from _wrapped("", said, text_width)


def _line(line: Line, width: int, *, is_titled: bool) -> Iterator[RichText]:
    prefix = f"{line.mark} " if line.mark else f"{line.name}: " if line.name else ""
    indent, rest = ("  ", 4) if is_titled else ("", min(len(prefix), _INDENT))
    text = line.text
    if len(prefix) > width // 2:  # a prefix is not broken, so one that is too long becomes part of the sentence
        prefix, text = "", prefix + text
    for shown in _wrapped(indent + prefix, text, width, "bold" if line.name and prefix else "", rest):
        shown.style = _STYLES[line.tone]
        yield shown


def _notice(notice: Notice, width: int) -> Iterator[RichText]:
    prefix = f"{notice.word}: "
    concerns = f"{notice.concerns}: " if notice.concerns else ""
    yield from _wrapped(prefix, f"{concerns}{notice.message}", width, _SEVERITIES[notice.severity])
    arrow = " " * len(prefix) + "→ "
    if isinstance(notice.hint, Command):
        yield _lines(arrow + notice.hint.text)
    else:
        yield from _wrapped(arrow, notice.hint, width)


def _wrapped(prefix: str, text: str, width: int, style: str = "", indent: int | None = None) -> Iterator[RichText]:
    """Lines of at most ``width`` columns.

    Args:
        prefix: begins the first line.
        text: what follows it; each of its own lines begins a new one.
        width: of all of it.
        style: of the prefix.
        indent: of the lines after the first; by default the length of the prefix.
    """
    prefix = for_people(prefix)
    later = " " * (len(prefix) if indent is None else indent)
    found = [
        line
        for number, part in enumerate(text.split("\n"))
        for line in textwrap.wrap(
            for_people(part),
            width,
            initial_indent=later if number else prefix,
            subsequent_indent=later,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    for number, each in enumerate(found):
        shown = _lines(each)
        if number == 0:
            shown.stylize(style, 0, len(prefix.rstrip()))
        yield shown


def _lines(text: str, style: str = "") -> RichText:
    """``text`` with its own line breaks and no others."""
    return RichText("\n".join(map(for_people, text.split("\n"))), style)


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """Return ``columns`` without those that may be left out, as far as ``width`` requires."""
    kept = list(columns)
    while sum(column.width + GAP for column in kept) - GAP > width:
        optional = [column for column in kept if column.order is not None]
        if not optional:
            break
        kept.remove(min(optional, key=lambda column: column.order or 0))
    return kept


def rich_table(columns: Sequence[Column], width: int, *, is_plain: bool = False) -> RichTable:
    """Return the columns as a table for rich, without a heading if no column has a title.

    What does not fit into ``width`` is continued on the next line, not cut; a plain one is as wide as its words.
    """
    shown = RichTable(
        box=None if is_plain else box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, GAP if is_plain else GAP - 1, 0, 0),
        show_header=any(column.title for column in columns),
    )
    for column, wide in zip(columns, _widths(columns, width, is_plain=is_plain)):
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        shown.add_column(_lines(column.title), justify=justify, overflow="fold", width=wide)
    for row in range(len(columns[0].cells)):
        shown.add_row(*(_lines(each.cells[row], _STYLES[each.tone(row)]) for each in columns))
    return shown


def _widths(columns: Sequence[Column], width: int, *, is_plain: bool) -> list[int]:
    """How wide each column is.

    If there is no room for all, the widest give way first; numbers and words are divided only if there is no other way,
    and not in plain text.
    """
    room = width - GAP * (len(columns) - 1)
    words = [_longest(column, None) for column in columns]
    least = [max(word, _longest(each, "\n")) if each.is_number else word for word, each in zip(words, columns)]
    while sum(least) > room and least != words:
        longest = max(range(len(least)), key=lambda index: least[index] - words[index])
        least[longest] = words[longest]
    if sum(least) > room and not is_plain:
        least = [1] * len(columns)
    found = [column.width for column in columns]
    while sum(found) > max(room, sum(least)):
        widest = max(range(len(found)), key=lambda index: (found[index] > least[index], found[index]))
        found[widest] -= 1
    return found


def _longest(column: Column, separator: str | None) -> int:
    """Length of the longest line of its cells, or, with ``None``, of its longest word, that of its title included."""
    texts = column.cells if separator else (column.title, *column.cells)
    return max((len(for_people(part)) for text in texts for part in text.split(separator)), default=0)
