"""Files and pictures that explain a judgement, as data; ``modelzoo.views.exhibits`` writes them.

A judge hands over one ``Exhibit`` at a time while it works, so that they are never all in memory.
"""

from __future__ import annotations

from typing import Optional

import msgspec

from modelzoo.records.partial import LayerError, Matches


class CsvRows(msgspec.Struct, frozen=True):
    """Rows of a CSV file; exhibits of the same name append to the same file.

    ``columns`` is the header, the same in each of them.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class PictureSource(msgspec.Struct, frozen=True):
    """How to read a picture again, pixel for pixel.

    Attributes:
        path: the picture's file; ``None`` for the built-in photograph.
        upright: whether to turn it as its EXIF orientation says.
        crop: left, top, right, bottom in pixels; ``None`` for the whole picture.
        mirrored: whether to mirror it, after cropping.
        longest: maximum length of the longer side, in pixels; larger pictures are reduced.
    """

    path: Optional[str] = None
    upright: bool = False
    crop: Optional[tuple[int, int, int, int]] = None
    mirrored: bool = False
    longest: Optional[int] = None


class DrawnDetections(msgspec.Struct, frozen=True):
    """Detections of one model that are drawn, best first; K of them.

    Attributes:
        boxes: K times x0, y0, x1, y1 in pixels of the picture. scores: K scores.
        labels: K class labels, which choose the colours. names: their K names.
        masks: K run-length encodings (pycocotools' compressed "counts"), or empty. mask_size: height and width.
    """

    boxes: tuple[tuple[float, float, float, float], ...] = ()
    scores: tuple[float, ...] = ()
    labels: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    mask_size: tuple[int, int] = (0, 0)


class DetectionPicture(msgspec.Struct, frozen=True):
    """The detections of both models in one picture.

    Attributes:
        source: the picture. size: its width and height in pixels, as read.
        reference: the reference's detections. tested: those of the setting under test.
        matches: which of them are the same object; rows count from 0 within ``reference`` and ``tested``.
        threshold: score from which a detection is drawn.
        reference_name: what the picture calls the reference. tested_name: likewise.
    """

    source: PictureSource
    size: tuple[int, int]
    reference: DrawnDetections
    tested: DrawnDetections
    matches: Matches
    threshold: float
    reference_name: str
    tested_name: str


class LayerErrorPlot(msgspec.Struct, frozen=True):
    """The error of each layer with what rounding explains.

    Attributes:
        layers: in the order of execution.
        tested_name: what the plot calls the setting under test.
        limit: the largest acceptable error, as a multiple of what rounding explains.
        first_suspect: index of the first layer beyond a limit, if any is.
    """

    layers: tuple[LayerError, ...]
    tested_name: str
    limit: float
    first_suspect: Optional[int] = None


class Exhibit(msgspec.Struct, frozen=True):
    """One file or picture to write; exactly one of the optional parts is present.

    Attributes:
        name: file name without the workload's name (``top5.csv``, ``layers.png``), or, for a picture with
            detections, the name of the input.
    """

    name: str
    csv: Optional[CsvRows] = None
    detections: Optional[DetectionPicture] = None
    layer_errors: Optional[LayerErrorPlot] = None
