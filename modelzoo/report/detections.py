"""Draw detections: one picture of what was found, and one of both sides with the changes marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelzoo.validity.matching import Found, Matched

SHORTEST, LONGEST = 960, 1280
"""Pixels of the longer side of a drawing: small pictures are enlarged, so that labels can be read."""
PALETTE = (
    *("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080"),
    *("#9a6324", "#800000", "#808000", "#000075", "#d6409f", "#46b8b0"),
)
COMMON, LOST, NEW, MOVED = "#2e9e5b", "#e01b24", "#c01ccf", "#f57900"
LEGEND = (
    (COMMON, "in both"),
    (LOST, "LOST: fp32 only"),
    (NEW, "NEW: tested only"),
    (MOVED, "MOVED: IoU under 0.9"),
)


def drawn(image: Any, found: Found, names: Mapping[int, str], shown: float) -> Any:
    """Return a copy of ``image`` with boxes, labels with scores, and masks of what scores ``shown`` or more.

    The boxes are in pixels of ``image``.
    """
    rows = [i for i in range(len(found.scores)) if found.scores[i] >= shown]
    marks = [(i, PALETTE[int(found.labels[i]) % len(PALETTE)], _label(found, i, names), False) for i in reversed(rows)]
    return _panel(image, found, marks)


def compared(
    image: Any,
    sides: tuple[Found, Found],
    matched: Matched,
    names: Mapping[int, str],
    titles: tuple[str, str],
) -> Any:
    """Both sides beside each other: common boxes thin and green, lost, new and moved ones thick and named."""
    from PIL import Image, ImageDraw

    panels = []
    for side, found in enumerate(sides):
        marks: list[tuple[int, str, str, bool]] = []
        for pair in matched.pairs:
            row = (pair.reference, pair.tested)[side]
            text = _label(found, row, names)
            if pair.moved:
                marks.append((row, MOVED, f"MOVED {pair.iou:.2f} {text}", True))
            else:
                marks.insert(0, (row, COMMON, text, False))
        only, colour, word = ((matched.lost, LOST, "LOST"), (matched.new, NEW, "NEW"))[side]
        marks += [(row, colour, f"{word} {_label(found, row, names)}", True) for row in only]
        panels.append(_panel(image, found, marks))
    width, height = panels[0].size
    font = _font(20)
    bar, gap = 34, 8
    sheet = Image.new("RGB", (2 * width + gap, height + 2 * bar), "white")
    pen = ImageDraw.Draw(sheet)
    moved = sum(pair.moved for pair in matched.pairs)
    words = f"{len(matched.lost)} lost, {len(matched.new)} new, {moved} moved"
    for side, panel in enumerate(panels):
        sheet.paste(panel, (side * (width + gap), bar))
        count = len(matched.pairs) + len((matched.lost, matched.new)[side])
        text = f"{titles[side]}: {count} object{'' if count == 1 else 's'}" + (f" ({words})" if side else "")
        pen.text((side * (width + gap) + 6, 4), text, "black", _fitting(pen, text, width - 12))
    at = 6.0
    for colour, text in LEGEND:
        pen.rectangle((at, height + bar + 9, at + 18, height + bar + 25), fill=colour)
        pen.text((at + 24, height + bar + 4), text, "black", font)
        at += 24 + pen.textlength(text, font) + 28
    return sheet


def save(image: Any, path: Path) -> str:
    """Write ``image`` as JPEG; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, quality=90)
    return str(path)


def _label(found: Found, row: int, names: Mapping[int, str]) -> str:
    label = int(found.labels[row])
    return f"{names.get(label, f'class {label}')} {float(found.scores[row]):.2f}"


def _font(size: int) -> Any:
    from matplotlib import get_data_path
    from PIL import ImageFont

    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans-Bold.ttf"), size)


def _fitting(pen: Any, text: str, width: float) -> Any:
    """The largest font, from 20 down to 8, with which ``text`` fits into ``width``."""
    fonts = (_font(size) for size in range(20, 8, -2))
    return next((font for font in fonts if pen.textlength(text, font) <= width), _font(8))


def _panel(image: Any, found: Found, marks: Sequence[tuple[int, str, str, bool]]) -> Any:
    """Draw ``marks`` (row, colour, text, thick), later ones on top; labels keep clear of each other."""
    from PIL import ImageDraw

    longest = max(image.size)
    factor = min(max(longest, SHORTEST), LONGEST) / longest
    size = (round(image.size[0] * factor), round(image.size[1] * factor))
    panel = image.resize(size)
    if found.masks is not None:
        panel = _masked(panel, found, marks)
    pen = ImageDraw.Draw(panel)
    font = _font(max(13, round(max(size) / 72)))
    placed: list[tuple[float, float, float, float]] = []
    boxes = {row: [float(v) * factor for v in found.boxes[row]] for row, *_ in marks}
    for row, colour, _, thick in marks:
        box = boxes[row]
        if box[2] > box[0] and box[3] > box[1]:
            pen.rectangle(box, outline=colour, width=5 if thick else 3)
    for row, colour, text, _ in reversed(marks):
        left, top, right, bottom = pen.textbbox((0, 0), text, font)
        rectangle = _free(boxes[row], right - left + 8, bottom - top + 6, size, placed)
        placed.append(rectangle)
        pen.rectangle(rectangle, fill=colour)
        pen.text((rectangle[0] + 4 - left, rectangle[1] + 3 - top), text, "white", font)
    return panel


def _masked(panel: Any, found: Found, marks: Sequence[tuple[int, str, str, bool]]) -> Any:
    """Lay the masks over the panel, half transparent."""
    import numpy as np
    from PIL import Image, ImageColor

    pixels = np.asarray(panel, dtype="float32").copy()
    for row, colour, *_ in marks:
        assert found.masks is not None
        if row < len(found.masks):
            mask = Image.fromarray(np.asarray(found.masks[row], dtype="uint8") * 255).resize(panel.size)
            inside = np.asarray(mask) > 127
            pixels[inside] = 0.5 * pixels[inside] + 0.5 * np.array(ImageColor.getrgb(colour), dtype="float32")
    return Image.fromarray(pixels.astype("uint8"))


def _free(
    box: Sequence[float],
    width: float,
    height: float,
    size: tuple[int, int],
    placed: Sequence[Sequence[float]],
) -> tuple[float, float, float, float]:
    """A free place for a label: above the box, in it, below it, at its right end, else further down."""
    tops = [box[1] - height, box[1], box[3], box[3] - height]
    places = [(box[0], top) for top in tops] + [(box[2] - width, top) for top in tops]
    places += [(box[0], box[1] + step * height / 2) for step in range(1, 40)]
    chosen = None
    for left, top in places:
        if top < 0 or top + height > size[1]:
            continue
        left = min(max(left, 0), max(0, size[0] - width))
        place = (left, top, left + width, top + height)
        chosen = chosen or place
        if not any(_overlap(place, other) for other in placed):
            return place
    return chosen or (0.0, 0.0, width, height)


def _overlap(a: Sequence[float], b: Sequence[float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
