"""Write what a judgement shows: CSV files, pictures with detections, plots.

A judge describes each of them in an ``Exhibit``; the parent process passes it to an ``ExhibitWriter``, which reads the
picture again and draws on it:

    writer = ExhibitWriter(directory, "ssd")
    for exhibit in ...:
        writer.write(exhibit)
    writer.files, writer.thumbnails()  # for the stored result

``modelzoo.views.validity`` says in two lines what was written.

All drawing functions take a picture as read (see ``DetectionPicture.source``) and the record that describes what to
draw on it.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import msgspec

from modelzoo.document.delimited import csv_lines
from modelzoo.errors import UsageError, WorkerError
from modelzoo.records.exhibits import CsvRows, DetectionPicture, DrawnDetections, Exhibit, LayerErrorPlot
from modelzoo.records.run import THUMBNAIL_BYTES, THUMBNAILS, Thumbnail
from modelzoo.validity.picture_sets import read
from modelzoo.views.validity import PICTURES
from modelzoo.workload.inputs import large_pictures_allowed

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont


NAMED_LAYERS = 40
"""Layers with a name on the axis."""
INCHES_PER_CHARACTER = 0.05
"""Of a name on the axis; the names are vertical."""
JPEG_QUALITY = 90
THUMBNAIL_SIDES = (480, 400, 320, 240, 160)
"""Pixels of the longer side of a thumbnail; the first with which the file is small enough."""
SHORTEST, LONGEST = 960, 1280
"""Pixels of the longer side of a drawing; small pictures are enlarged, so that labels can be read."""
PALETTE = (
    *("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080"),
    *("#9a6324", "#800000", "#808000", "#000075", "#d6409f", "#46b8b0"),
)
COMMON, LOST, NEW, MOVED = "#2e9e5b", "#e01b24", "#c01ccf", "#f57900"
LEGEND = (
    (COMMON, "in both"),
    (LOST, "LOST: fp32 only"),
    (NEW, "NEW: tested only"),
    (MOVED, "MOVED: IoU below 0.9"),
)
BAR, GAP = 34, 8
"""Pixels: height of the title and of the legend, and distance between the two panels."""
Rectangle = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""


def write_plot(plot: LayerErrorPlot, workload: str, path: Path) -> None:
    """Write the plot as PNG.

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    layers = plot.layers
    name_height = max(len(layer.name) for layer in layers) * INCHES_PER_CHARACTER
    figure = Figure(figsize=(10, 4 + name_height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    order = range(len(layers))
    # A logarithmic axis has no place for 0: layers with equal outputs get no point.
    errors = [layer.error or math.nan for layer in layers]
    baseline = [math.nan if layer.baseline is None else layer.baseline for layer in layers]
    axes.semilogy(order, errors, ".-", label=f"{plot.tested_name} compared with fp32 (no point: equal)")
    axes.semilogy(order, baseline, color="grey", label="explained by rounding")
    limits = [plot.limit * each for each in baseline]
    axes.semilogy(order, limits, "--", color="grey", label=f"{plot.limit:g} × that")
    if plot.first_suspect is not None:
        name = layers[plot.first_suspect].name
        axes.axvline(plot.first_suspect, color="tab:red", label=f"first beyond the limit: {name}")
    step = max(1, len(layers) // NAMED_LAYERS)
    axes.set_xticks(list(order)[::step], [layer.name for layer in layers[::step]], rotation=90, fontsize=6)
    axes.set_ylabel("relative error of the layer's output")
    axes.set_title(f"{workload}: error by layer")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150, format="png")


class ExhibitWriter:
    """Writes the exhibits of one judgement into ``directory``, named after the workload.

    ``DIR/<workload>_top5.csv``, ``DIR/<workload>_layers.png`` … and, in ``DIR/<workload>_pictures``, one picture with
    the detections under test and one with the comparison per input. Existing files are replaced.

    Attributes:
        files: the paths written so far, in order.
    """

    def __init__(self, directory: Path, workload: str) -> None:
        self.files: list[Path] = []
        self._directory = directory
        self._workload = workload
        self._thumbnails: list[Thumbnail] = []

    def write(self, exhibit: Exhibit) -> None:
        """Write one exhibit, and add its paths to ``files``.

        Raises:
            UsageError: the directory or file cannot be written.
            InputError: the picture to draw on cannot be read any more.
            WorkerError: what the worker described cannot be drawn.
        """
        target = self._directory / f"{self._workload}_{_file_name(exhibit.name)}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if exhibit.csv is not None:
                self._write_csv(exhibit.csv, target)
            elif exhibit.layer_errors is not None:
                write_plot(exhibit.layer_errors, self._workload, target)
                self.files.append(target)
            elif exhibit.detections is not None:
                self._write_pictures(exhibit.detections, exhibit.name)
        except OSError as error:
            place = error.filename or self._directory
            raise UsageError(
                f"cannot write {place}: {error.strerror}; name another directory with --artifacts DIR"
            ) from error
        except (ValueError, LookupError, ArithmeticError, MemoryError) as error:
            # The description comes from a worker, which may run in a stranger's image.
            raise WorkerError(f"{target.name} cannot be drawn as the worker describes it: {error}") from error

    def _write_csv(self, content: CsvRows, path: Path) -> None:
        is_new = path not in self.files
        with path.open("w" if is_new else "a", newline="", encoding="utf-8") as file:
            file.write(csv_lines((content.columns, *content.rows) if is_new else content.rows))
        if is_new:
            self.files.append(path)

    def _write_pictures(self, content: DetectionPicture, name: str) -> None:
        folder = self._directory / f"{self._workload}{PICTURES}"
        folder.mkdir(parents=True, exist_ok=True)
        stem = self._free_stem(folder, _file_name(name.rsplit(".", 1)[0]))
        with large_pictures_allowed():
            image = read(content.source).image
        drawings = {
            folder / f"{stem}.jpg": draw_detections(image, content),
            folder / f"{stem}_compared.jpg": draw_comparison(image, content),
        }
        for path, drawing in drawings.items():
            drawing.save(path, quality=JPEG_QUALITY)
            self.files.append(path)
        if len(self._thumbnails) < THUMBNAILS:
            path, drawing = list(drawings.items())[-1]
            jpeg = _thumbnail(drawing)
            self._thumbnails += [Thumbnail(path.name, jpeg)] if jpeg is not None else []

    def _free_stem(self, folder: Path, stem: str) -> str:
        """``stem``, numbered if another input of the same name (``a.jpg`` and ``a.png``) was written before."""
        number, candidate = 1, stem
        while folder / f"{candidate}.jpg" in self.files:
            number += 1
            candidate = f"{stem}_{number}"
        return candidate

    def thumbnails(self) -> tuple[Thumbnail, ...]:
        """Small copies of the first comparisons written, for the stored result."""
        return tuple(self._thumbnails)


def _file_name(name: str) -> str:
    """``name`` without characters that are special in paths."""
    return re.sub(r"[^\w.-]+", "_", name)


def _thumbnail(image: Image) -> Optional[bytes]:
    """``image`` as a small JPEG; ``None`` if it cannot be made small enough."""
    for side in THUMBNAIL_SIDES:
        small = image.copy()
        small.thumbnail((side, side))
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=80, optimize=True)
        if buffer.tell() <= THUMBNAIL_BYTES:
            return buffer.getvalue()
    return None


class Mark(msgspec.Struct, frozen=True):
    """A detection to draw: its row, the colour of its box, its label, and whether the box is thick."""

    row: int
    colour: str
    text: str
    thick: bool = False


def draw_detections(image: Image, picture: DetectionPicture) -> Image:
    """Return a copy of ``image`` with the boxes, labels, scores and masks detected under test."""
    detections = picture.tested
    rows = [row for row, score in enumerate(detections.scores) if score >= picture.threshold]
    colours = [PALETTE[label % len(PALETTE)] for label in detections.labels]
    return _panel(image, detections, [Mark(row, colours[row], _label(detections, row)) for row in reversed(rows)])


def draw_comparison(image: Image, picture: DetectionPicture) -> Image:
    """Return both models' detections side by side.

    Boxes in common are thin and green; lost, new and moved ones are thick, with a word in their label.
    """
    from PIL import Image as Images
    from PIL import ImageDraw

    panels = [_compared_panel(image, picture, side) for side in (0, 1)]
    width, height = panels[0].size
    sheet = Images.new("RGB", (2 * width + GAP, height + 2 * BAR), "white")
    pen = ImageDraw.Draw(sheet)
    for panel, title, left in zip(panels, _titles(picture), (0, width + GAP)):
        sheet.paste(panel, (left, BAR))
        pen.text((left + 6, 4), title, "black", _fitting_font(pen, title, width - 12))
    _draw_legend(pen, height + BAR)
    return sheet


def _titles(picture: DetectionPicture) -> tuple[str, str]:
    matches = picture.matches
    moved = sum(pair.moved for pair in matches.pairs)
    changes = f" ({len(matches.lost)} lost, {len(matches.new)} new, {moved} moved)"
    counts = [len(matches.pairs) + len(only) for only in (matches.lost, matches.new)]
    objects = [f"{count} object{'' if count == 1 else 's'}" for count in counts]
    return f"{picture.reference_name}: {objects[0]}", f"{picture.tested_name}: {objects[1]}{changes}"


def _compared_panel(image: Image, picture: DetectionPicture, side: int) -> Image:
    """The panel of the reference (``side`` 0) or of the model under test (1)."""
    matches = picture.matches
    detections = (picture.reference, picture.tested)[side]
    marks: list[Mark] = []
    for pair in matches.pairs:
        row = (pair.reference_row, pair.tested_row)[side]
        text = _label(detections, row)
        if pair.moved:
            marks.append(Mark(row, MOVED, f"MOVED {pair.iou:.2f} {text}", True))
        else:
            marks.insert(0, Mark(row, COMMON, text))
    only, colour, word = ((matches.lost, LOST, "LOST"), (matches.new, NEW, "NEW"))[side]
    marks += [Mark(each.row, colour, f"{word} {_label(detections, each.row)}", True) for each in only]
    return _panel(image, detections, marks)


def _draw_legend(pen: ImageDraw, top: int) -> None:
    font = _font(20)
    left = 6.0
    for colour, text in LEGEND:
        pen.rectangle((left, top + 9, left + 18, top + 25), fill=colour)
        pen.text((left + 24, top + 4), text, "black", font)
        left += 24 + pen.textlength(text, font) + 28


def _label(detections: DrawnDetections, row: int) -> str:
    return f"{detections.names[row]} {detections.scores[row]:.2f}"


@cache
def _font(size: int) -> FreeTypeFont:
    from matplotlib import get_data_path
    from PIL import ImageFont

    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans-Bold.ttf"), size)


def _fitting_font(pen: ImageDraw, text: str, width: float) -> FreeTypeFont:
    """The largest font, from 20 down to 8, with which ``text`` fits into ``width``."""
    fonts = (_font(size) for size in range(20, 8, -2))
    return next((font for font in fonts if pen.textlength(text, font) <= width), _font(8))


def _panel(image: Image, detections: DrawnDetections, marks: Sequence[Mark]) -> Image:
    """Draw ``marks``, later ones on top; labels do not cover each other if there is room."""
    from PIL import ImageDraw

    longest = max(image.size)
    factor = min(max(longest, SHORTEST), LONGEST) / longest
    size = (round(image.size[0] * factor), round(image.size[1] * factor))
    panel = image.resize(size)
    if detections.masks:
        panel = _with_masks(panel, detections, marks)
    pen = ImageDraw.Draw(panel)
    font = _font(max(13, round(max(size) / 72)))
    boxes = {mark.row: [value * factor for value in detections.boxes[mark.row]] for mark in marks}
    for mark in marks:
        box = boxes[mark.row]
        if box[2] > box[0] and box[3] > box[1]:
            pen.rectangle((box[0], box[1], box[2], box[3]), outline=mark.colour, width=5 if mark.thick else 3)
    occupied: list[Rectangle] = []
    for mark in reversed(marks):
        left, top, right, bottom = pen.textbbox((0, 0), mark.text, font)
        place = free_place(boxes[mark.row], (right - left + 8, bottom - top + 6), size, occupied)
        occupied.append(place)
        pen.rectangle(place, fill=mark.colour)
        pen.text((place[0] + 4 - left, place[1] + 3 - top), mark.text, "white", font)
    return panel


def _with_masks(panel: Image, detections: DrawnDetections, marks: Sequence[Mark]) -> Image:
    """The panel with half-transparent masks."""
    import numpy as np
    from PIL import Image as Images
    from PIL import ImageColor

    pixels = np.asarray(panel, dtype="float32").copy()
    for mark in marks:
        mask = Images.fromarray(_decoded(detections, mark.row) * 255).resize(panel.size)
        inside = np.asarray(mask) > 127
        pixels[inside] = 0.5 * pixels[inside] + 0.5 * np.array(ImageColor.getrgb(mark.colour), dtype="float32")
    return Images.fromarray(pixels.astype("uint8"))


def _decoded(detections: DrawnDetections, row: int) -> NDArray[Any]:
    """The mask of a detection, 0 or 1 in each pixel."""
    from pycocotools import mask as rle

    pixels: NDArray[Any] = rle.decode({"size": list(detections.mask_size), "counts": detections.masks[row]})
    return pixels


def free_place(
    box: Sequence[float], label: tuple[float, float], size: tuple[int, int], occupied: Sequence[Rectangle]
) -> Rectangle:
    """Find a place for a label of (width, height) in a picture of ``size``.

    In order of preference: above the box, inside it, below it, the same at its right end, then further down. If all
    of these are occupied, the first is returned that lies inside the picture.
    """
    width, height = label
    tops = [box[1] - height, box[1], box[3], box[3] - height]
    corners = [(box[0], top) for top in tops] + [(box[2] - width, top) for top in tops]
    corners += [(box[0], box[1] + step * height / 2) for step in range(1, 40)]
    first = None
    for left, top in corners:
        if top < 0 or top + height > size[1]:
            continue
        left = min(max(left, 0), max(0, size[0] - width))
        place = (left, top, left + width, top + height)
        first = first or place
        if not any(overlap(place, other) for other in occupied):
            return place
    return first or (0.0, 0.0, width, height)


def overlap(a: Rectangle, b: Rectangle) -> bool:
    """Whether two rectangles overlap."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
