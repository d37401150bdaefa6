"""Write what a judgement shows: CSV files, pictures with detections, plots.

A judge describes each of them in an ``Exhibit``; the parent process passes it to an ``ExhibitWriter``, which reads the
picture again and draws on it:

    writer = ExhibitWriter(directory, "ssd")
    for exhibit in ...:
        writer.write(exhibit)
    writer.files, writer.thumbnails  # for the stored result

``modelzoo.views.validity`` says in two lines what was written.

All drawing functions take a picture as read (see ``DetectionPicture.source``) and the record that describes what to
draw on it.
"""

from __future__ import annotations

import io
import itertools
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from modelzoo.document.written import csv_lines
from modelzoo.errors import WorkerError
from modelzoo.files import name_in_file
from modelzoo.formatting import counted
from modelzoo.records.exhibits import DetectionPicture, DrawnDetections, Exhibit, LayerErrorPlot
from modelzoo.records.run import THUMBNAIL_BYTES, THUMBNAILS, Thumbnail
from modelzoo.validity.picture_sets import read
from modelzoo.views.validity import PICTURES
from modelzoo.workload.inputs import large_pictures_allowed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from PIL.Image import Image


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
DPI = 100
BARS, LINE = 100, 22
"""Pixels for the titles and the legend, and the height of a label."""


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
        thumbnails: small copies of the first comparisons written, for the stored result.
        problem: why one could not be written, the first time; empty if all could. The judgement does without it.
    """

    def __init__(self, directory: Path, workload: str) -> None:
        self.files: list[Path] = []
        self.thumbnails: tuple[Thumbnail, ...] = ()
        self.problem = ""
        self._directory = directory
        self._workload = workload

    def write(self, exhibit: Exhibit) -> None:
        """Write one exhibit, and add its paths to ``files``.

        Raises:
            InputError: the picture to draw on cannot be read any more.
            WorkerError: what the worker described cannot be drawn.
        """
        target = self._directory / f"{name_in_file(self._workload)}_{name_in_file(exhibit.name)}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if exhibit.csv is not None:
                path = target.with_suffix(".csv")
                is_new, content = path not in self.files, exhibit.csv
                with path.open("w" if is_new else "a", newline="", encoding="utf-8") as file:
                    file.write(csv_lines((content.columns, *content.rows) if is_new else content.rows))
                self.files += [path] if is_new else []
            elif exhibit.layer_errors is not None:
                path = target.with_suffix(".png")
                write_plot(exhibit.layer_errors, self._workload, path)
                self.files.append(path)
            elif exhibit.detections is not None:
                self._write_pictures(exhibit.detections, exhibit.name)
        except OSError as error:
            place = error.filename or self._directory
            advice = "name another directory with --artifacts DIR"
            self.problem = self.problem or f"cannot write {place}: {error.strerror}; {advice}"
        except (ValueError, LookupError, ArithmeticError, MemoryError) as error:
            # The description comes from a worker, which may run in a stranger's image.
            raise WorkerError(f"{target.name} cannot be drawn as the worker describes it: {error}") from error

    def _write_pictures(self, content: DetectionPicture, name: str) -> None:
        folder = self._directory / f"{name_in_file(self._workload)}{PICTURES}"
        folder.mkdir(parents=True, exist_ok=True)
        first = name_in_file(name.rsplit(".", 1)[0])
        stems = (f"{first}_{number}" if number > 1 else first for number in itertools.count(1))
        # There may be another input of that name, a.png beside a.jpg.
        stem = next(stem for stem in stems if folder / f"{stem}.jpg" not in self.files)
        with large_pictures_allowed():
            image = read(content.source).image
        drawings = {
            folder / f"{stem}.jpg": draw_detections(image, content),
            folder / f"{stem}_compared.jpg": draw_comparison(image, content),
        }
        for path, drawing in drawings.items():
            drawing.save(path, quality=JPEG_QUALITY)
            self.files.append(path)
        if len(self.thumbnails) < THUMBNAILS:
            for side in THUMBNAIL_SIDES:  # of the comparison, which was drawn last
                small, buffer = drawing.copy(), io.BytesIO()
                small.thumbnail((side, side))
                small.save(buffer, "JPEG", quality=80, optimize=True)
                if buffer.tell() <= THUMBNAIL_BYTES:
                    self.thumbnails += (Thumbnail(path.name, buffer.getvalue()),)
                    break


class Mark(msgspec.Struct, frozen=True):
    """A detection to draw: its row, the colour of its box, its label, and whether the box is thick."""

    row: int
    colour: str
    text: str
    thick: bool = False


Panel = tuple[str, DrawnDetections, Sequence[Mark]]
"""The title above a picture, and marks on it, later ones on top."""


def draw_detections(image: Image, picture: DetectionPicture) -> Image:
    """Return a copy of ``image`` with the boxes, labels, scores and masks detected under test."""
    detections = picture.tested
    rows = [row for row, score in enumerate(detections.scores) if score >= picture.threshold]
    colours = [PALETTE[label % len(PALETTE)] for label in detections.labels]
    marks = [Mark(row, colours[row], _label(detections, row)) for row in reversed(rows)]
    return _drawn(image, [(f"{picture.tested_name}: {counted(len(rows), 'object')}", detections, marks)])


def draw_comparison(image: Image, picture: DetectionPicture) -> Image:
    """Return both models' detections side by side.

    Boxes in common are thin and green; lost, new and moved ones are thick, with a word in their label.
    """
    return _drawn(image, [_compared(picture, side) for side in (0, 1)], LEGEND)


def _compared(picture: DetectionPicture, side: int) -> Panel:
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
    name, count = (picture.reference_name, picture.tested_name)[side], len(matches.pairs) + len(only)
    title = f"{name}: {counted(count, 'object')}"
    if side == 1:
        moved = sum(pair.moved for pair in matches.pairs)
        title += f"\n{len(matches.lost)} lost, {len(matches.new)} new, {moved} moved"
    return title, detections, marks


def _label(detections: DrawnDetections, row: int) -> str:
    return f"{detections.names[row]} {detections.scores[row]:.2f}"


def _drawn(image: Image, panels: Sequence[Panel], legend: Sequence[tuple[str, str]] = ()) -> Image:
    """Return ``image`` with the marks of each panel, side by side."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from PIL import Image as Images

    longest = max(image.size)
    factor = min(max(longest, SHORTEST), LONGEST) / longest
    width, height = (max(1, round(side * factor)) for side in image.size)
    # Names come from a worker: they are no mathematics, and may have letters that the font lacks.
    with rc_context({"text.parse_math": False, "font.size": 10, "font.weight": "bold"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = Figure(
            (len(panels) * width / DPI, (height + (BARS if legend else BARS // 2)) / DPI), dpi=DPI, layout="constrained"
        )
        canvas = FigureCanvasAgg(figure)
        for axes, (title, detections, marks) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels):
            axes.set_axis_off()
            axes.set_anchor("S")  # what is left is above, where the title is
            axes.set_title(title)
            pixels = _with_masks(image.resize((width, height)), detections, marks)
            axes.imshow(pixels, extent=(0, image.size[0], image.size[1], 0))
            for number, mark in enumerate(marks):
                # Above and below in turn: the boxes of one object often lie on each other.
                box = detections.boxes[mark.row]
                _mark(axes, box, mark, image.size, LINE / factor, below=number % 2 == 1)
        if legend:
            patches = [Patch(color=colour, label=text) for colour, text in legend]
            figure.legend(handles=patches, loc="outside lower center", ncols=len(legend))
        canvas.draw()
        return Images.frombytes("RGBA", canvas.get_width_height(), bytes(canvas.buffer_rgba())).convert("RGB")


def _mark(axes: Axes, box: Sequence[float], mark: Mark, size: tuple[int, int], line: float, *, below: bool) -> None:
    """Draw a box with its label above it, or ``below`` it; inside where the picture ends.

    Args:
        size: of the picture. line: height of a label, in the picture's own pixels.
    """
    from matplotlib.patches import Rectangle

    left, top, right, bottom = box
    if right > left and bottom > top:
        width = 3.5 if mark.thick else 2
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, ec=mark.colour, lw=width))
    is_right = left > size[0] / 2
    y = min(bottom, size[1]) if below else max(top, 0)
    axes.text(
        min(right, size[0]) if is_right else max(left, 0),
        y,
        mark.text,
        color="white",
        ha="right" if is_right else "left",
        va="top" if (y + line <= size[1] if below else y < line) else "bottom",
        clip_on=True,
        bbox={"facecolor": mark.colour, "edgecolor": "none", "pad": 1.5},
    )


def _with_masks(picture: Image, detections: DrawnDetections, marks: Sequence[Mark]) -> NDArray[Any]:
    """The pixels of ``picture``, with half-transparent masks."""
    import numpy as np
    from PIL import Image as Images
    from PIL import ImageColor
    from pycocotools import mask as rle

    pixels = np.asarray(picture.convert("RGB"), dtype="float32")
    for mark in marks if detections.masks else ():
        decoded = rle.decode({"size": list(detections.mask_size), "counts": detections.masks[mark.row]})
        inside = np.asarray(Images.fromarray(decoded * 255).resize(picture.size)) > 127
        pixels = np.where(inside[..., None], 0.5 * pixels + 0.5 * np.array(ImageColor.getrgb(mark.colour)), pixels)
    return pixels.astype("uint8")
