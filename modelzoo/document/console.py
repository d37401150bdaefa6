"""The door to the terminal for everything that is not a document: each string is one line of text."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from modelzoo.formatting import for_people


class PlainConsole(Console):
    """A console that takes no string for markup, and escapes what would move the cursor or begin a line.

    Names, warnings and errors come from result files and from other hosts. Colours are given as ``style``, or by
    documents, which escape what they hold themselves (``modelzoo.document.terminal``).
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Return ``text`` as one line."""
        return Text(for_people(text), options.get("style", ""))
