"""From the SVG file that matplotlib writes to an element for a page, or to a small file of its own. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from modelzoo.document.theme import INK, PAGE, VARIABLES

HALO = "halo"
"""Elements in a group with this id get an outline in the colour of the page, to be readable on lines."""
_NAMESPACE = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONT_SIZE = re.compile(r"\b([\d.]+)px")
_FONT_PROPERTIES = ("font", "font-family", "font-stretch")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")


def svg_element(drawn: str, name: str, title: str, description: str) -> str:
    """Return a plot as an ``<svg>`` element whose colours follow the page.

    Args:
        drawn: the file that matplotlib wrote, with text as text.
        name: unique within the page; the element's ids are made from it.
        title: what the plot shows, for readers who do not see it.
        description: what can be seen in it, likewise.
    """
    root = _clean(drawn, f"p{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:10]}-", title, description)
    root.set("class", "plot")
    for part in root.iter():
        if "style" in part.attrib:
            part.set("style", _COLOUR.sub(_variable, part.attrib["style"]))
    return ElementTree.tostring(root, encoding="unicode")


def svg_file(drawn: str, title: str, description: str) -> str:
    """Return a plot as the text of an SVG file, in the colours of the light theme on a white ground.

    Args: as for ``svg_element``.
    """
    root = _clean(drawn, "", title, description)
    _, _, width, height = root.attrib["viewBox"].split()
    root.set("width", width)
    root.set("height", height)
    ground = Element("rect", {"width": width, "height": height, "style": f"fill: {PAGE}"})
    root.insert(2, ground)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _clean(drawn: str, prefix: str, title: str, description: str) -> Element:
    """Leave out what a page does not need; make the ids unique; add the accessible name."""
    found = ElementTree.fromstring(drawn)
    for part in found.iter():
        part.tag = part.tag.rpartition("}")[2]
    root = Element("svg", {"xmlns": _NAMESPACE, "viewBox": found.attrib["viewBox"], "role": "img"})
    # matplotlib sets these for all elements by a style sheet, which would hold for the whole page.
    root.set("style", f"stroke-linejoin: round; stroke-linecap: butt; fill: {INK}; font-family: system-ui, sans-serif")
    for tag, text in (("title", title), ("desc", description)):
        part = ElementTree.SubElement(root, tag, {"id": f"{prefix}{tag}"})
        part.text = text
    root.set("aria-labelledby", f"{prefix}title")
    root.set("aria-describedby", f"{prefix}desc")
    root.extend(part for part in found if part.tag not in ("metadata", "title"))
    _drop_style_sheets(root)
    _outline(root)
    referenced = set(_references(root))
    for part in root.iter():
        _shorten(part)
        _rename(part, prefix, referenced)
    return root


def _drop_style_sheets(root: Element) -> None:
    for part in root.iter():
        for child in [child for child in part if child.tag == "style"]:
            part.remove(child)


def _outline(root: Element) -> None:
    for group in root.iter("g"):
        if group.get("id") == HALO:
            for text in group.iter("text"):
                outline = f"paint-order: stroke; stroke: {PAGE}; stroke-width: 3px"
                text.set("style", f"{text.get('style', '')}; {outline}")


def _shorten(part: Element) -> None:
    """Text has the font of the page; whitespace between elements goes; coordinates are rounded to 0.01 pixels."""
    if part.tag == "text":
        style = dict(item.split(": ", 1) for item in part.get("style", "").split("; ") if ": " in item)
        size = _FONT_SIZE.search(style.get("font-size", style.get("font", "")))
        kept = {key: value for key, value in style.items() if key not in _FONT_PROPERTIES}
        if size:
            kept["font-size"] = f"{size.group(1)}px"
        part.set("style", "; ".join(f"{key}: {value}" for key, value in kept.items()))
    elif not (part.text or "").strip():
        part.text = None
    for name in ("d", "x", "y"):
        if name in part.attrib:
            part.set(name, _LONG_NUMBER.sub(lambda match: f"{float(match.group()):.2f}", part.attrib[name]))
    if not (part.tail or "").strip():
        part.tail = None


def _references(root: Element) -> Iterator[str]:
    for part in root.iter():
        for value in part.attrib.values():
            yield from _REFERENCE.findall(value)
        yield part.get(_HREF, "#")[1:]
        for name in ("aria-labelledby", "aria-describedby"):
            yield part.get(name, "")


def _rename(part: Element, prefix: str, referenced: set[str]) -> None:
    """Ids that something refers to get the prefix, the others go."""
    for name, value in list(part.attrib.items()):
        part.set(name, _REFERENCE.sub(lambda match: f"url(#{prefix}{match.group(1)})", value))
    if _HREF in part.attrib:
        part.set("href", f"#{prefix}{part.attrib.pop(_HREF)[1:]}")
    own = part.attrib.pop("id", None)
    if own in referenced:
        part.set("id", own if part.tag in ("title", "desc") else f"{prefix}{own}")


def _variable(match: re.Match[str]) -> str:
    colour = match.group().lower()
    return f"var({VARIABLES[colour]}, {colour})" if colour in VARIABLES else colour
