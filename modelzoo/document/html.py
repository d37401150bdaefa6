"""A document as an HTML page, by the templates in ``templates``. All text is escaped."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from modelzoo import __version__
from modelzoo.document import theme
from modelzoo.document.content import Page
from modelzoo.formatting import capitalized, printable

if TYPE_CHECKING:
    from jinja2 import Environment


def html(page: Page) -> str:
    """Return the page. Equal pages give equal documents."""
    # Markup decides what is text and what is a drawing: the template marks the drawings only.
    return _environment().get_template("page.html").render(page=page, plot_css=theme.CSS, version=__version__) + "\n"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("modelzoo.document"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Only plain text: the templates' own output is Markup already.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    found.filters["kind"] = lambda block: type(block).__name__.lower()  # of the macro that shows it
    found.filters["sentence"] = lambda text: f"{capitalized(text)}."
    found.filters["lines"] = lambda text: str(text).split("\n")
    return found
