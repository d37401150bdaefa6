"""Documents as Markdown: everything is there, and hostile text in them stays text."""

from __future__ import annotations

from modelzoo.document import Column, Command, Notice, Notices, Section, Table, lines, named
from modelzoo.document.markdown import markdown
from modelzoo.warning import Severity

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
