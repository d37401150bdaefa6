"""HTML from the content of a page, by the templates in ``templates``. All text is escaped."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from modelzoo.formatting import printable
from modelzoo.report.page.content import Page
from modelzoo.report.plots import theme
from modelzoo.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

TONES = {
    "FASTER": "better",
    "LESS": "better",
    "SLOWER": "worse",
    "MORE": "worse",
    "SAME": "same",
    "AMBIGUOUS": "open",
    "NOT COMPARABLE": "bad",
    "FAIL": "bad",
    "BROKEN": "bad",
    "NOT VALID": "bad",
    "INCONCLUSIVE": "open",
    "undecided": "open",
    "CANNOT JUDGE": "open",
    "VALID": "better",
    "NOT fp32": "bad",
    "NOT bf16": "bad",
    "partly bf16": "bad",
    "failed": "bad",
}
"""Class of a cell by its text. The text says the same as the colour."""
_FOOTNOTES = re.compile(r"( \(assumed\))?( \[\d+\])*$")


def html(page: Page) -> str:
    """Return the document. Equal pages give equal documents."""
    # Markup decides what is text and what is a drawing: the template marks the drawings only.
    return _environment().get_template("page.html").render(page=page, plot_css=theme.CSS, version=__version__) + "\n"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("modelzoo.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Only plain strings: the templates' own output is Markup already.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    found.filters["lines"] = lambda text: text.split("\n")
    found.filters["tone"] = lambda text: TONES.get(_FOOTNOTES.sub("", text), "")
    return found
