"""From matplotlib's file to an element of a page."""

from __future__ import annotations

import re

from drawn import HOSTILE, parsed, texts
from matplotlib.figure import Figure

from modelzoo.document import Text, theme
from modelzoo.formatting import printable
from modelzoo.views.plots.plot import Plot
from modelzoo.views.plots.svg import HALO, svg_element, svg_file


def _drawn(text: str = "label") -> str:
    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.plot([1, 2, 3], [1.23456789, 2, 3], marker="o", color=theme.BLUE)
        axes.bar([1], [1], hatch="//", color=theme.ORANGE, ec=theme.PAGE)
        axes.text(1, 2, text, gid=HALO, in_layout=False)

    return Plot("t", Text("d"), (), 100, draw)._drawn()


def test_ids_of_two_plots_of_a_page_differ_and_equal_plots_are_equal() -> None:
    """Every id, and every reference to it, depends on the name; nothing depends on anything else."""
    first, again, other = (svg_element(_drawn(), name, "t", "d") for name in ("a", "a", "b"))
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (first, other)]
    assert first == again and ids[0] and ids[1] and not ids[0] & ids[1]
    for text, own in zip((first, other), ids):
        referenced = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"|aria-\w+="([^"]+)"', text)
        assert {name for names in referenced for name in names if name} == own


def test_colours_are_variables_and_texts_are_not_changed() -> None:
    """A text that looks like a colour, a reference or markup stays what it is."""
    text = svg_element(_drawn(HOSTILE), "a", printable(HOSTILE), "d")
    root = parsed(text)
    assert printable(HOSTILE) in texts(text)
    assert root[0].text == printable(HOSTILE) and root[1].text == "d"
    assert f"var({theme.VARIABLES[theme.BLUE]}, {theme.BLUE})" in text
    assert "<script" not in text


def test_an_element_has_no_size_no_style_sheet_and_short_coordinates() -> None:
    """It scales with its box, does not style the page, and is small."""
    text = svg_element(_drawn(), "a", "t", "d")
    root = parsed(text)
    assert root.get("class") == "plot" and not {"width", "height"} & set(root.attrib)
    assert not list(root.iter("style")) and not list(root.iter("metadata"))
    assert not any(re.search(r"\d\.\d{3}", part.get("d", "")) for part in root.iter("path"))
    assert root.get("viewBox") == "0 0 400 100"


def test_a_halo_outlines_its_text() -> None:
    """The outline is painted below the letters."""
    (text,) = [part for part in parsed(svg_element(_drawn(), "a", "t", "d")).iter("text") if part.text == "label"]
    assert "paint-order: stroke" in text.attrib["style"]


def test_a_file_has_plain_colours_and_a_ground() -> None:
    """Viewers of files know no CSS variables and show a dark ground."""
    text = svg_file(_drawn(), "t", "d")
    assert text.startswith("<?xml") and "var(" not in text
    root = parsed(text.partition("\n")[2])
    assert (root.get("width"), root.get("height")) == ("400", "100")
    assert root[2].tag == "rect" and root[2].attrib["style"] == f"fill: {theme.PAGE}"
