"""Documents in a terminal: as wide as it is, plain without one, and nothing taken for markup."""

from __future__ import annotations

import io

import pytest
from printed import printed

from modelzoo.document import (
    Block,
    Column,
    Command,
    Line,
    Lines,
    Notice,
    Notices,
    Section,
    Table,
    Tone,
    lines,
    named,
    terminal,
)
from modelzoo.document.terminal import WIDTH, PlainConsole, fitting
from modelzoo.warning import Severity

HOSTILE = "[red]x[/] \x1b[31m|<b>\u202e"
SHOWN = r"[red]x[/] \x1b[31m|<b>\u202e"


def test_line_breaks_are_kept_and_a_long_word_is_not_broken() -> None:
    """A long name is wrapped with its sentence; ``tests/snapshots`` has the other ways to wrap."""
    assert printed([lines("a\nb", "x" * 120)]).splitlines() == ["a", "b", "x" * 120]
    shown = printed([named([(", ".join(["a setting"] * 20), "why they are out")], title="Out")]).splitlines()
    assert max(map(len, shown)) <= WIDTH
    assert "why they are out" in shown[-1]


def test_a_command_is_not_wrapped() -> None:
    """Copying it must give the same text, also as the hint of a notice."""
    command = "taskset -c $(x | grep -v '^#' | [y]) " + "long " * 30
    notice = Notice(Severity.DISTORTS, "SMT", "", "busy", Command(command))
    found = printed([Command(f"{command}\nnext"), Notices((notice,))])
    assert found == f"{command.rstrip()}\nnext\n\nSMT: busy\n     → {command.rstrip()}\n"


def test_columns_are_left_out_in_their_order_until_the_table_fits() -> None:
    """Those without an order stay, whatever the width."""
    wide = ("x" * 10,)
    found = [Column("a", wide), Column("b", wide, order=2), Column("c", wide, order=0), Column("d", wide, order=1)]
    assert Column("a", ("\x1b",)).width == len(r"\x1b"), "that of the text shown"
    widths = {46: "abcd", 45: "abd", 34: "abd", 33: "ab", 10: "a"}
    for width, expected in widths.items():
        assert "".join(column.title for column in fitting(found, width)) == expected


@pytest.mark.parametrize("width", [100, 60, 40, 20])
def test_no_character_is_lost(width: int) -> None:
    """A word that is too long is continued; numbers are divided only if there is no other way."""
    table = Table("", (Column("a", ("x" * 50,)), *(Column(f"n{n}", ("9" * 8,), is_number=True) for n in range(3))))
    found = printed([table], width=width)
    assert (found.count("x"), found.count("9")) == (50, 24)
    assert ("9" * 8 in found) == (width >= 40)


def test_a_pipe_gets_plain_columns() -> None:
    """No rule, no column left out and no word divided, so that grep and awk find what they look for."""
    path = "/" + "x" * 120
    brief = Table("", (Column("a", ("1",)), Column("b", ("y" * 99,), order=0)), is_brief=True)
    wraps = Table("", (Column("name", ("n",)), Column("path", (path,))), wraps=True)
    found = terminal.text([brief, wraps], colour=False)
    assert found == f"a  b\n1  {'y' * 99}\n\nname  path\nn     {path}\n"


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or a pipe gets plain text, and no line of it ends in blanks; NO_COLOR on a terminal drops colours only."""
    table = Table("", (Column("workload", ("bert",)), Column("ratio", ("2.00×",), tones=(Tone.BETTER,))))
    blocks = [Section("new compared with old", (table, named([("toy", "word " * 30)])))]
    plain = terminal.text(blocks, colour=False)
    assert "\x1b[" not in plain
    assert all(line == line.rstrip() for line in plain.splitlines())
    coloured = terminal.text(blocks, colour=True)
    for code in ("\x1b[1mnew compared with old", "\x1b[32m2.00×", "\x1b[1mtoy:\x1b[0m word"):
        assert code in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in terminal.text(blocks, colour=True)


def test_hostile_text_stays_text() -> None:
    """In headings, captions, sentences, notices, commands, cells and notes."""
    blocks: list[Block] = [
        Section(HOSTILE, (Table("t " + HOSTILE, (Column(HOSTILE, (HOSTILE,)),), HOSTILE),)),
        named([(HOSTILE, HOSTILE)], title=HOSTILE),
        Lines((Line(HOSTILE, mark=HOSTILE),)),
        Notices((Notice(Severity.NOTE, HOSTILE, HOSTILE, HOSTILE, HOSTILE),)),
        Notices((Notice(Severity.NOTE, "n", "", "m", Command(HOSTILE)),)),
        Command(HOSTILE),
    ]
    for colour in (False, True):
        found = terminal.text(blocks, colour=colour)
        for code in ("\x1b[31m", "\u202e"):
            assert code not in found
        assert found.count(r"\x1b[31m|<b>\u202e") == 16
    assert terminal.text(blocks, colour=False).count(SHOWN) == 16


def test_the_console_is_stderr_and_cuts_nothing_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """stdout is for scripts."""
    out = terminal.console()
    out.print("x" * 1300)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "x" * 1300 + "\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[/x] [bold]net[/bold] :smile:", "[/x] [bold]net[/bold] :smile:"),
        ("a\n[TARGET] resnet50 Time 0.0001", r"a\n\x5bTARGET] resnet50 Time 0.0001"),
        ("\x1b[2J\x9b31m\r\x07", r"\x1b[2J\x9b31m\r\x07"),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
    ],
)
def test_a_string_is_one_line_of_text(text: str, shown: str) -> None:
    """No markup, no emoji, no control character, no change of direction, no line that scripts parse."""
    out = io.StringIO()
    PlainConsole(file=out, force_terminal=True, width=200, color_system=None).print(text, soft_wrap=True)
    assert out.getvalue() == f"{shown}\n"
