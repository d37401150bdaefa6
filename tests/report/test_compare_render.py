"""The document of a comparison in a terminal and as Markdown."""

from __future__ import annotations

from modelzoo.report.compare import Block, Heading, Items, Tabular
from modelzoo.report.compare_render import WIDTH, markdown, terminal
from modelzoo.report.table import Column

BLOCKS: list[Block] = [
    Heading("new compared with old"),
    Items((("[1]", "word " * 40), ("", "plain"))),
    Tabular((Column("workload", ("bert",)), Column("ratio", ("2.00×",), is_number=True))),
]
HOSTILE = "[red]x[/]\n\x1b[31m|<b>"


def test_sentences_are_wrapped_and_tables_are_not() -> None:
    """A table is as wide as it must be, also beyond the width of sentences."""
    wide = Tabular(tuple(Column(f"column {i}", ("x" * 30,)) for i in range(8)))
    lines = terminal([*BLOCKS, wide], colour=False).splitlines()
    sentences = [line for line in lines if "word" in line]
    assert len(sentences) == 3
    assert max(map(len, sentences)) <= WIDTH
    assert sentences[1].startswith("    word")
    assert any(line.count("x" * 30) == 8 for line in lines)


def test_long_cells_are_wrapped_if_the_table_allows_it() -> None:
    """The kernels of a model are many; no word is lost."""
    found = terminal([Tabular((Column("a", ("word " * 40,)), Column("b", ("other " * 40,))), wraps=True)], colour=False)
    assert max(map(len, found.splitlines())) <= WIDTH
    assert (found.count("word"), found.count("other")) == (40, 40)


def test_colours_are_for_terminals() -> None:
    """A file or a pipe gets plain text."""
    assert "\x1b[" not in terminal(BLOCKS, colour=False)
    assert "\x1b[1m" in terminal(BLOCKS, colour=True)


def test_no_line_ends_in_blanks() -> None:
    """So that the text can be compared and pasted."""
    assert all(line == line.rstrip() for line in terminal(BLOCKS, colour=False).splitlines())


def test_markdown_has_a_heading_a_list_and_a_table() -> None:
    """As GitHub shows it in a comment."""
    found = markdown(BLOCKS)
    assert found.startswith("### new compared with old\n\n- \\[1] word")
    assert "\n| workload | ratio |\n| -------- | ----: |\n| bert     | 2.00× |\n" in found


def test_hostile_text_stays_text() -> None:
    """In headings, sentences and cells."""
    blocks: list[Block] = [Heading(HOSTILE), Items(((HOSTILE, HOSTILE),)), Tabular((Column(HOSTILE, (HOSTILE,)),))]
    for colour in (False, True):
        plain = terminal(blocks, colour=colour)
        assert "\x1b[31m" not in plain
        assert plain.count("[red]x[/]\\n\\x1b[31m|<b>") == 5
    page = markdown(blocks)
    assert "\x1b" not in page
    assert "<b>" not in page.replace("\\<b>", "")
    assert len([line for line in page.splitlines() if line]) == 5
