"""The door to the terminal: a string is one line of text, whoever wrote it."""

from __future__ import annotations

import io

import pytest

from modelzoo.document.console import PlainConsole


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
