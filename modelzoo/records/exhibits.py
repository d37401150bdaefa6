"""What explains a judgement: some of its items, which it holds, and files and images, which are written beside it.

A judge hands over one ``Exhibit`` at a time while it works, so that they are never all in memory;
``modelzoo.views.exhibits`` writes them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from modelzoo.frozen import OwnData, Public
from modelzoo.records.partial import AnsweredQuestion, ChangedObject, ClassifiedPicture, LayerError, Matches


class ExplainedLayers(msgspec.Struct, frozen=True):
    """The layers around the first one whose error is beyond the expected rounding error, or those closest to that.

    Attributes:
        layers: those that are shown; empty if none could be observed.
        suspect: index of the first suspect among them, if there is one.
    """

    layers: tuple[LayerError, ...]
    suspect: int | None = None


class ShownClasses(msgspec.Struct, frozen=True, tag="classes"):
    """Some of the images of a classifier.

    Attributes:
        first: the first ones. changed: those whose first class changed, largest margin first.
        indices: of the classes that these have. names: their names.
    """

    first: tuple[ClassifiedPicture, ...]
    changed: tuple[ClassifiedPicture, ...]
    indices: tuple[int, ...]
    names: tuple[Public, ...]


class PictureObjects(msgspec.Struct, frozen=True):
    """The objects that both detectors found in one image.

    Attributes:
        reference_boxes: number of detections of any score. tested_boxes: likewise.
        common: objects that both detected. lost: that only the reference did. new: that only the tested one did.
        moved: of those in common, how many boxes moved noticeably.
        worst_iou: smallest IoU of two matched boxes. score_change: largest change of a score. ``None`` without any.
    """

    name: OwnData
    reference_boxes: int
    tested_boxes: int
    common: int
    lost: int
    new: int
    moved: int
    worst_iou: float | None = None
    score_change: float | None = None


class CategoryAp(msgspec.Struct, frozen=True):
    """AP of both models in one category of the annotation file, and the number of its objects."""

    name: Public
    objects: int
    reference: float
    tested: float


class CategoryLosses(msgspec.Struct, frozen=True):
    """The categories whose AP fell most.

    Attributes:
        shape: ``box`` or ``mask``.
        worst: some of those that fell, largest loss first.
        categories: number of all. fell: of those that fell. rose: of those that rose.
    """

    shape: Public
    worst: tuple[CategoryAp, ...]
    categories: int
    fell: int
    rose: int


class ShownObjects(msgspec.Struct, frozen=True, tag="objects"):
    """Some of what two detectors found: the first images, the first changes, and the worst categories.

    ``changed`` is the number of all objects that were lost, new or moved.
    """

    pictures: tuple[PictureObjects, ...]
    changes: tuple[ChangedObject, ...]
    changed: int
    categories: tuple[CategoryLosses, ...] = ()


class ShownAnswers(msgspec.Struct, frozen=True, tag="answers"):
    """Some of the questions, those whose answer changed first."""

    questions: tuple[AnsweredQuestion, ...]


class PassageScores(msgspec.Struct, frozen=True):
    """One passage whose tokens both models predicted.

    Attributes:
        name: what it is called. tokens: number of predictions.
        reference_perplexity: by fp32. tested_perplexity: by the setting under test.
        mean_kl: mean Kullback-Leibler divergence in nats. max_kl: the largest.
        same_top: fraction of the tokens of which both models find the same one most likely.
    """

    name: Public
    tokens: int
    reference_perplexity: float
    tested_perplexity: float
    mean_kl: float
    max_kl: float
    same_top: float


class ShownPassages(msgspec.Struct, frozen=True, tag="passages"):
    """Some of the passages, those with the largest mean divergence first."""

    passages: tuple[PassageScores, ...]


Shown = ShownClasses | ShownObjects | ShownAnswers | ShownPassages


class CsvRows(msgspec.Struct, frozen=True):
    """Rows of a CSV file; exhibits of the same name append to the same file.

    ``columns`` is the header, the same in each of them.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Pixels = Annotated[int, msgspec.Meta(ge=0, le=10_000)]
"""Of a side. Crops are of the built-in photograph; for masks, pictures are reduced to ``LONGEST_WITH_MASKS``."""


class PictureSource(msgspec.Struct, frozen=True):
    """How to read an image again, pixel for pixel.

    Attributes:
        path: the image's file; ``None`` for the built-in photograph.
        upright: whether to turn it as its EXIF orientation says.
        crop: left, top, right, bottom in pixels; ``None`` for the whole image.
        mirrored: whether to mirror it, after cropping.
        longest: maximum length of the longer side, in pixels; larger images are reduced.
    """

    path: str | None = None
    upright: bool = False
    crop: tuple[Pixels, Pixels, Pixels, Pixels] | None = None
    mirrored: bool = False
    longest: int | None = None


class DrawnDetections(msgspec.Struct, frozen=True):
    """Detections of one model that are drawn, best first; K of them.

    Attributes:
        boxes: K times x0, y0, x1, y1 in pixels of the image. scores: K scores.
        labels: K class labels, which choose the colours. names: their K names.
        masks: K run-length encodings (pycocotools' compressed "counts"), or empty. mask_size: height and width.
    """

    boxes: tuple[tuple[float, float, float, float], ...] = ()
    scores: tuple[float, ...] = ()
    labels: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    mask_size: tuple[Pixels, Pixels] = (0, 0)


class DetectionPicture(msgspec.Struct, frozen=True):
    """The detections of both models in one image.

    Attributes:
        source: the image. size: its width and height in pixels, as read.
        reference: the reference's detections. tested: those of the setting under test.
        matches: which of them are the same object; rows count from 0 within ``reference`` and ``tested``.
        threshold: score from which a detection is drawn.
        reference_name: what the image calls the reference. tested_name: likewise.
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
    """The error of each layer with the expected rounding error.

    Attributes:
        layers: in the order of execution.
        tested_name: what the plot calls the setting under test.
        limit: the largest acceptable error, as a multiple of the expected rounding error.
        first_suspect: index of the first layer beyond a limit, if any is.
    """

    layers: tuple[LayerError, ...]
    tested_name: str
    limit: float
    first_suspect: int | None = None


class Exhibit(msgspec.Struct, frozen=True, tag="exhibit"):
    """One file or image to write; exactly one of the optional parts is present.

    Attributes:
        name: file name without the workload's name (``top5.csv``, ``layers.png``), or, for an image with
            detections, the name of the input.
    """

    name: str
    csv: CsvRows | None = None
    detections: DetectionPicture | None = None
    layer_errors: LayerErrorPlot | None = None
