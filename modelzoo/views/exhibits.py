"""Write what a judgement shows: CSV files, pictures with detections, plots.

A judge describes each of them in an ``Exhibit``; the parent process passes it to an ``ExhibitWriter``, which reads the
picture again and draws on it:

    writer = ExhibitWriter(directory, "ssd")
    for exhibit in ...:
        writer.write(exhibit)
    writer.files, writer.thumbnails()  # for the stored result

``modelzoo.views.validity`` says in two lines what was written.
"""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from modelzoo.errors import UsageError, WorkerError
from modelzoo.records.exhibits import CsvRows, DetectionPicture, Exhibit, LayerErrorPlot
from modelzoo.records.run import THUMBNAIL_BYTES, THUMBNAILS, Thumbnail
from modelzoo.validity.picture_sets import read
from modelzoo.views import detections
from modelzoo.views.validity import PICTURES
from modelzoo.workload.inputs import large_pictures_allowed

if TYPE_CHECKING:
    from PIL.Image import Image


NAMED_LAYERS = 40
"""Layers with a name on the axis."""
INCHES_PER_CHARACTER = 0.05
"""Of a name on the axis; the names are vertical."""
JPEG_QUALITY = 90
THUMBNAIL_SIDES = (480, 400, 320, 240, 160)
"""Pixels of the longer side of a thumbnail; the first with which the file is small enough."""


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
                f"cannot write {place}: {error.strerror}; name another directory with --output DIR"
            ) from error
        except (ValueError, LookupError, ArithmeticError, MemoryError) as error:
            # The description comes from a worker, which may run in a stranger's image.
            raise WorkerError(f"{target.name} cannot be drawn as the worker describes it: {error}") from error

    def _write_csv(self, content: CsvRows, path: Path) -> None:
        is_new = path not in self.files
        with path.open("w" if is_new else "a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if is_new:
                writer.writerow(content.columns)
            writer.writerows(content.rows)
        if is_new:
            self.files.append(path)

    def _write_pictures(self, content: DetectionPicture, name: str) -> None:
        folder = self._directory / f"{self._workload}{PICTURES}"
        folder.mkdir(parents=True, exist_ok=True)
        stem = self._free_stem(folder, _file_name(name.rsplit(".", 1)[0]))
        with large_pictures_allowed():
            image = read(content.source).image
        drawings = {
            folder / f"{stem}.jpg": detections.draw_detections(image, content),
            folder / f"{stem}_compared.jpg": detections.draw_comparison(image, content),
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
