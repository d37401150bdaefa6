"""Documents as Markdown: everything is there, and hostile text in them stays text."""

from __future__ import annotations

from modelzoo.document import (
    Column,
    Command,
    Line,
    Lines,
    Notice,
    Notices,
    Section,
    Table,
    lines,
    named,
)
from modelzoo.document.markdown import markdown
from modelzoo.warning import Severity

HOSTILE = "[x](y)|<b> `c` _d_\x1b[31m\u202e"
SHOWN = "\\[x](y)\\|\\<b> \\`c\\` \\_d\\_\\\\x1b\\[31m\\\\u202e"


def test_every_part_is_shown() -> None:
    """Headings by depth, names and marks, meanings, notes and hints."""
    columns = (Column("a", ("1",), meaning="a: first"),)
    inner = Section("inner", (lines("said"),))
    blocks = [
        Section("outer", (Table("outer", columns), Table("other", columns, "a note"), inner)),
        Lines((Line("why", mark="[1]"), Line("where", "base"))),
        named([("toy", "fast")], title="Found"),
        Notices((Notice(Severity.DISTORTS, "warning", "toy", "busy", "stop it"),)),
        Command("modelzoo run\n  toy"),
        lines(),
    ]
    assert markdown(blocks) == (
        "### outer\n\n| a   |\n| --- |\n| 1   |\n\na: first\n\n"
        "other\n\n| a   |\n| --- |\n| 1   |\n\na: first\n\na note\n\n#### inner\n\n- said\n\n"
        "- \\[1] why\n- base: where\n\n"
        "Found:\n\n- toy: fast\n\n"
        "- warning: toy: busy → stop it\n\n"
        "    modelzoo run\n      toy\n"
    )


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
