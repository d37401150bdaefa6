"""Partial results of a judgement: a row for each item, which shards of a data set store and merge.

A data set may be judged in shards: each gives one ``PartialResult``, and merging them gives exactly the result of
judging all items at once (``modelzoo.validity.judging.merge``).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from modelzoo.frozen import OwnData, Public, Word

OUTPUT = "(output)"
"""The name of the model's output among the layers."""
MOVED_IOU = 0.9
"""Below this IoU a matched box counts as moved."""
LONGEST_WITH_MASKS = 1333
"""Pixels of the longer side to which images are reduced for models with masks. torchvision's detectors reduce
them to that as well, and 100 masks of a camera's image would take gigabytes."""


class PictureNote(Word):
    """How an unusual image was read."""

    FIRST_FRAME = "first frame"
    TO_8_BITS = "scaled to 8 bits"
    FROM_CMYK = "from CMYK"
    LARGE = "large"
    REDUCED = "reduced to LONGEST_WITH_MASKS"


class LayerError(msgspec.Struct, frozen=True):
    """The output of one layer under test, compared with the reference's.

    Attributes:
        name: the module's name; ``(output)`` for the model's output.
        kind: the module's class.
        error: norm of the difference ÷ norm of the reference; ``None`` if either is not finite.
        scale: least-squares factor of tested on reference, minus 1 (0: no systematic change); ``None`` if not finite.
        scale_error: standard error of ``scale`` and ``baseline_scale`` together.
        baseline: the expected rounding error, at least 2⁻⁸ (bf16), 2⁻¹¹ (fp16, TF32) or 10⁻⁵ (fp32); ``None`` if
            that is not known.
        baseline_scale: the change of scale that rounding causes.
        finite: whether the output under test has NaN and Inf where the reference has the same, and nowhere else.
    """

    name: Public
    kind: Public
    error: float | None
    scale: float | None
    scale_error: float | None
    baseline: float | None
    baseline_scale: float
    finite: bool

    @property
    def ratio(self) -> float | None:
        """Error ÷ the expected rounding error."""
        return None if self.error is None or not self.baseline else self.error / self.baseline

    @property
    def excess_scale(self) -> float:
        """How far ``scale`` is from the rounding baseline's, beyond three standard errors; 0 if not finite.

        The baseline includes the systematic effect of rounding the weights.
        """
        if self.scale is None or self.scale_error is None:
            return 0.0
        return max(0.0, abs(self.scale - self.baseline_scale) - 3 * self.scale_error)


class Unrepeatable(msgspec.Struct, frozen=True):
    """The reference gave other outputs for the same inputs.

    Attributes:
        layer: the first layer whose output changed; ``(output)`` for the model's.
        change: norm of the difference ÷ norm of the first output, of the last layer or output that changed; ``None`` if
            they have different shapes or are not finite.
    """

    layer: Public
    change: float | None = None


class TopClasses(msgspec.Struct, frozen=True):
    """The five most likely classes of one image, most likely first; empty if the logits cannot be judged.

    ``finite``: whether they can (``modelzoo.validity.checks.usable``).
    """

    classes: tuple[int, ...]
    probabilities: tuple[float, ...]
    finite: bool


class ClassifiedPicture(msgspec.Struct, frozen=True):
    """One image classified by both models.

    Attributes:
        index: position of the image in the data set.
        label: the true class, if known.
        kl: KL divergence of tested from reference in nats, Σ p·log(p/q).
        probability_change: largest change of a class's probability.
        logit_error: norm of the difference of the centred logits ÷ norm of the reference's.
        margin: the reference's logit of its first class minus that of the tested model's first class (0 if both
            agree).
        near_tie: whether ``margin`` is within one rounding step of the first class's logit, at a precision
            narrower than fp32.
    """

    index: int
    name: OwnData
    label: int | None
    reference: TopClasses
    tested: TopClasses
    kl: float | None
    probability_change: float | None
    logit_error: float | None
    margin: float
    near_tie: bool

    @property
    def finite(self) -> bool:
        """Whether the logits of both models are finite."""
        return self.reference.finite and self.tested.finite

    @property
    def agrees(self) -> bool:
        """Whether both models give the same first class; never if the logits of one are not finite."""
        return self.finite and self.reference.classes[0] == self.tested.classes[0]


class MatchedPair(msgspec.Struct, frozen=True):
    """One object that both models detected.

    Attributes:
        reference_row: rank of the detection in the reference, from 0. tested_row: likewise.
        label: the model's class label.
        iou: intersection over union of the two boxes.
        edge_shifts: shifts of x0, y0, x1, y1, as fractions of the reference box's width and height.
    """

    reference_row: int
    tested_row: int
    label: int
    reference_score: float
    tested_score: float
    iou: float
    edge_shifts: tuple[float, float, float, float]

    @property
    def score_change(self) -> float:
        """Tested score minus reference score."""
        return self.tested_score - self.reference_score

    @property
    def moved(self) -> bool:
        """Whether the box moved noticeably."""
        return self.iou < MOVED_IOU


class UnmatchedObject(msgspec.Struct, frozen=True):
    """A detection of one model without a counterpart in the other: its rank, class label and score."""

    row: int
    label: int
    score: float


class Matches(msgspec.Struct, frozen=True):
    """The objects of one picture: detected by both models, by the reference only (lost), by the tested only (new)."""

    pairs: tuple[MatchedPair, ...] = ()
    lost: tuple[UnmatchedObject, ...] = ()
    new: tuple[UnmatchedObject, ...] = ()

    @property
    def total(self) -> int:
        """Objects that either model detected."""
        return len(self.pairs) + len(self.lost) + len(self.new)


class CocoDetections(msgspec.Struct, frozen=True):
    """All detections of one model in one image, in COCO's terms, column by column; K of them.

    Attributes:
        categories: K category ids of the annotation file. scores: K scores.
        boxes: 4·K numbers: x, y, width, height of each box, in pixels of the original image.
        masks: K run-length encodings ("counts" as text), or empty. mask_size: their height and width.
    """

    categories: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    boxes: tuple[float, ...] = ()
    masks: tuple[str, ...] = ()
    mask_size: tuple[int, int] = (0, 0)


class ScoredAnswer(msgspec.Struct, frozen=True):
    """One model's answer to a question: text (empty: no answer), softmax probability, exact match and F1 (0 to 1)."""

    text: OwnData
    probability: float
    exact: float
    f1: float
    finite: bool


class AnsweredQuestion(msgspec.Struct, frozen=True):
    """One question answered by both models.

    Attributes:
        index: position of the question in the data set.
        id: the question's id in the data set.
        expected: the first gold answer; ``None`` if the question has none.
        agreement_f1: F1 of the tested answer with the reference's as gold.
        margin: the reference's score of its own answer minus that of the tested answer, in logits.
        near_tie: whether ``margin`` is within one rounding step of both logits, at a precision narrower than fp32.
        logit_change: largest change of a start or end logit.
        logit_error: norm of the difference of the logits ÷ norm of the reference's.
    """

    index: int
    id: OwnData
    question: OwnData
    expected: OwnData | None
    reference: ScoredAnswer
    tested: ScoredAnswer
    agreement_f1: float
    margin: float | None
    near_tie: bool
    logit_change: float | None
    logit_error: float | None

    @property
    def finite(self) -> bool:
        """Whether the logits of both models are finite."""
        return self.reference.finite and self.tested.finite

    @property
    def same(self) -> bool:
        """Whether both models give the same text; never if the logits of one are not finite."""
        return self.finite and self.reference.text == self.tested.text


class ChangedObject(msgspec.Struct, frozen=True):
    """An object that one model lost or that moved.

    Attributes:
        picture: name of the image. label: name of the class.
        reference_score: ``None`` if only the tested model detected it. tested_score: likewise.
        iou: of the two boxes, if both models detected it.
    """

    picture: OwnData
    label: Public
    reference_score: float | None = None
    tested_score: float | None = None
    iou: float | None = None


class Row(msgspec.Struct, frozen=True):
    """What judging one item gave: named numbers, whatever the task, and what is shown of it.

    Attributes:
        index: position of the item in the data set. name: what it is called.
        numbers: by name; several if the item has several objects or tokens. A task may leave out those without a value.
        reference_finite: whether fp32's prediction can be judged. tested_finite: likewise, and whether its NaN and Inf
            are where fp32 has them.
        in_common: whether the two predictions have anything in common.
        cluster: what the item belongs to with others, so that they are not independent; empty: it stands alone.
        classes: quality of the item in fp32 and under test, from 0 to 1, for each class that it is part of.
        cells: its rows of the CSV file.
        classified: both models' classes. answered: both models' answers. changed: objects that changed.
        image_id: the image's id in the annotation file, if there is one. coco: both models' detections in COCO's terms,
            likewise.
    """

    index: int
    name: str
    numbers: Mapping[str, float | tuple[float, ...]]
    reference_finite: bool = True
    tested_finite: bool = True
    in_common: bool = True
    cluster: str = ""
    classes: dict[str, tuple[float, float]] = {}
    cells: tuple[tuple[str, ...], ...] = ()
    classified: ClassifiedPicture | None = None
    answered: AnsweredQuestion | None = None
    changed: tuple[ChangedObject, ...] = ()
    image_id: int | str | None = None
    coco: tuple[CocoDetections, CocoDetections] | None = None

    def values(self, name: str) -> tuple[float, ...]:
        """The numbers ``name``; empty if the row has none."""
        found = self.numbers.get(name, ())
        return found if isinstance(found, tuple) else (found,)


class PartialResult(msgspec.Struct, frozen=True):
    """What judging some items of a data set gave.

    Attributes:
        task: the kind of task.
        rows: of the items, in the order of their ``index``.
        layers: errors by layer, from the shard that holds the data set's first item.
        unrepeatable: how the reference differs from itself, likewise; ``None`` if it does not.
        notes: how unusual inputs were read, sorted.
    """

    task: str
    rows: tuple[Row, ...] = ()
    layers: tuple[LayerError, ...] = ()
    unrepeatable: Unrepeatable | None = None
    notes: tuple[PictureNote, ...] = ()


class JudgedSoFar(msgspec.Struct, frozen=True):
    """How far a judgement is.

    Attributes:
        items: number of items that are done. total: of all items.
        metric: name of the metric so far. values: in fp32 and under test, from 0 to 1; one value if it is an agreement.
    """

    items: int
    total: int
    metric: str
    values: tuple[float, ...]
