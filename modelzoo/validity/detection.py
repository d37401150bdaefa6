"""Judge a detector: from its output to detections, matched between both models, and pictures of what changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from modelzoo.files import file_sha256
from modelzoo.records.exhibits import DetectionPicture, DrawnDetections, Exhibit, PictureObjects, ShownObjects
from modelzoo.records.partial import LONGEST_WITH_MASKS, CocoDetections, Row
from modelzoo.records.validity import Reason, ReasonKind, ValidityRequest
from modelzoo.validity import coco, detection_figures, picture_sets
from modelzoo.validity.checks import check_ratio, check_value, places
from modelzoo.validity.detection_figures import AveragePrecisions, Detections
from modelzoo.validity.picture_sets import PictureItem
from modelzoo.validity.rows import Metric, Rule, column, middle, share, shift
from modelzoo.validity.task import Findings, PictureTask, PreparedItem
from modelzoo.workload.detectors import detector_output
from modelzoo.workload.inputs import Picture

if TYPE_CHECKING:
    from numpy.typing import NDArray


COMPARED_SCORES = 300
"""Scores per picture that represent the output when it is compared number by number."""
MASK_THRESHOLD = 0.5
SHOWN = 12
"""Pictures, and changed objects, that are shown."""
COUNTED = ("reference_boxes", "tested_boxes", "common", "lost", "new", "moved")
AP_DEVIATION = 1 / 3
"""Standard deviation of AP between pictures, for the margin around the published AP."""
PreparedRow = tuple[Any, Picture]
"""A preprocessed picture, and the picture as read."""
Extract = Callable[[Any, Sequence[tuple[int, int]]], Sequence[Mapping[str, Any]]]


def listed(prepared: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a model that takes a list of CHW tensors, as torchvision's detectors do."""
    return (list(prepared),)


@dataclass
class Detection(PictureTask):
    """Detects objects in pictures: boxes with labels and scores, and masks if the model computes them.

    Attributes:
        preprocess: converts an RGB ``PIL.Image`` to a float tensor [3, H, W].
        categories: returns ``(COCO category id, name)`` by the model's label.
        detections: converts ``(model output, sizes)`` to one mapping per picture: ``boxes`` [K, 4] as x0, y0, x1, y1
            in pixels of the picture that ``preprocess`` was given, ``scores`` [K], ``labels`` [K], and ``masks``
            [K, 1, H, W] or [K, H, W] as probabilities. ``sizes`` are the (height, width) of the pictures.
        arguments: builds the model's positional arguments from preprocessed pictures.
        masks: whether the model computes masks.
        shown: score from which a detection is drawn and matched.
        published: the published quality of the weights in per cent, ``{"box_ap": 25.1}``.
        layers: whether the module of that name computes the same rows in both models, so that it can be compared.
            Behind region proposals the rows are sorted by score, so that row k of one model is not row k of the other;
            those layers are judged by the detections.
    """

    preprocess: Callable[[Any], Any]
    categories: Callable[[], Mapping[int, tuple[int, str]]]
    detections: Extract = lambda output, sizes: detector_output(output)
    arguments: Callable[[Sequence[Any]], tuple[Any, ...]] = listed
    masks: bool = False
    shown: float = 0.5
    published: Mapping[str, float] = field(default_factory=dict)
    layers: Callable[[str], bool] = lambda name: "roi_heads" not in name

    name = "detection"
    compares_output = False  # which boxes survive NMS is judged by matching them
    crops, smallest_crop = 8, 0.6  # some detectors take seconds per picture
    metrics = (Metric("detection_agreement", of="common", per="objects"),)
    rules = (
        Rule("detection_agreement", share, "common", per="objects"),
        Rule("box_iou", share, "box_iou", lowest=detection_figures.SAME_OBJECT_IOU),
        Rule("box_bias", shift, "edge_shifts"),
        Rule("score_drift", middle, "score_drift"),
    )

    def read(self, request: ValidityRequest) -> Sequence[PictureItem]:
        categories, longest = self.categories(), LONGEST_WITH_MASKS if self.masks else None
        self.probe_items = 2 if self.masks else 4  # those with masks take seconds per picture
        self.names = {label: name for label, (_, name) in categories.items()}
        self.annotations: coco.Annotations | None = None
        if request.data is None:
            items = self.builtin(request, longest)
        else:
            found, self.annotations, self.data_notes = coco.read(request, categories, self.masks)
            items = picture_sets.reduced(found, longest)
        self.labelled = self.annotations is not None
        self.metric = "box_ap" if self.labelled else "detection_agreement"
        return items

    def data_digest(self) -> str:
        return "" if self.annotations is None else file_sha256(self.annotations.path)

    def prepare(self, item: PictureItem) -> PreparedItem:
        picture = picture_sets.read(item.source)
        return PreparedItem(((self.preprocess(picture.image), picture),), picture.notes)

    def batch_arguments(self, rows: Sequence[PreparedRow]) -> tuple[Any, ...]:
        return self.arguments([tensor for tensor, _ in rows])

    def output_tensor(self, output: Any, rows: Sequence[PreparedRow]) -> Any:
        """The scores of each picture, best first, padded with 0: [pictures, COMPARED_SCORES]."""
        import torch

        filled = torch.zeros(len(rows), COMPARED_SCORES)
        for row, found in zip(filled, self.detections(output, _sizes(rows))):
            best = found["scores"].detach().float().cpu().sort(descending=True).values[:COMPARED_SCORES]
            row[: len(best)] = best
        return filled

    def predictions(self, output: Any, rows: Sequence[PreparedRow]) -> Sequence[Detections]:
        """The detections of each picture, in pixels of the original pictures, best first."""
        not_finite, found = places(output), self.detections(output, _sizes(rows))
        return [_detections(each, picture, not_finite) for each, (_, picture) in zip(found, rows)]

    def compare(self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]) -> Row:
        item, picture, (first,), (second,) = self.items[index], prepared.rows[0][1], reference, tested
        both = None
        if self.annotations is not None:
            size, category_of = picture.size, self.annotations.category_of
            both = coco_detections(first, size, category_of), coco_detections(second, size, category_of)
        return detection_figures.row(
            index,
            item.name,
            detection_figures.match(first, second, self.shown),
            self.names,
            boxes=(len(first.scores), len(second.scores)),
            finite=(first.finite, second.finite and second.not_finite == first.not_finite),
            image_id=item.image_id,
            coco=both,
            is_independent=self.context.request.data is not None,
        )

    def drawn(
        self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]
    ) -> Exhibit | None:
        """The picture with both models' detections, for the report to draw."""
        import numpy as np

        if index >= self.context.request.pictures:
            return None
        item, picture, pair = self.items[index], prepared.rows[0][1], (reference[0], tested[0])
        # Matches name no row with a score below half of the threshold; rows are sorted by score, NaN first.
        counts = [int(np.max(np.flatnonzero(each.scores >= self.shown / 2), initial=-1)) + 1 for each in pair]
        sides = [drawn_detections(each, picture, self.names, count) for each, count in zip(pair, counts)]
        drawing = DetectionPicture(
            item.source,
            picture.image.size,
            sides[0],
            sides[1],
            detection_figures.match(*pair, self.shown),
            self.shown,
            "fp32",
            self.context.tested_name,
        )
        return Exhibit(item.name, detections=drawing)

    def counts(self, rows: Sequence[Row]) -> dict[str, int]:
        return {**super().counts(rows), "objects": round(sum(column(rows, "objects")))}

    def reference_problem(self, rows: Sequence[Row]) -> Reason | None:
        detected = sum(column(rows, "common")) + sum(column(rows, "lost"))
        if not detected and not self.context.request.weights_are_random:
            return super().reference_problem(rows) or Reason(ReasonKind.NOTHING_DETECTED, self.shown)
        return super().reference_problem(rows)

    def findings(self, rows: Sequence[Row]) -> Findings:
        """AP, and the objects that both models detected, of which the pictures are a sample.

        With random weights nothing is concluded from the changes, whose intervals take seconds.
        """
        random, tolerance = self.context.request.weights_are_random, self.context.request.tolerance
        evaluated = detection_figures.average_precisions(rows, self.annotations, resampled=not random)
        figures, shown = detection_figures.figures(rows, evaluated), self._shown(rows, evaluated)
        if random:
            return Findings(figures, shown=shown)
        named = zip(("accuracy", "mask_ap"), evaluated)
        checks = [*self.published_check(rows, figures)]
        checks += [check_ratio(name, each.ratio, len(rows), tolerance) for name, each in named]
        is_any = any(column(rows, "common"))
        checks += [
            rule.check(rows, tolerance) if is_any else check_value(rule.name, None, tolerance) for rule in self.rules
        ]
        changes = [*(each.change for each in evaluated), *(metric.change(rows) for metric in self.metrics)]
        return Findings(figures, checks, changes, shown)

    def deviation(self, rows: Sequence[Row], published: float) -> float:
        return AP_DEVIATION

    def _shown(self, rows: Sequence[Row], evaluated: Sequence[AveragePrecisions]) -> ShownObjects:
        labels = {} if self.annotations is None else self.annotations.category_of
        categories = {category: self.names[label] for label, category in labels.items()}
        worst = (detection_figures.category_losses(each, categories) for each in evaluated)
        changes = [each for row in rows for each in row.changed]
        pictures = tuple(
            PictureObjects(
                row.name,
                **{name: round(row.values(name)[0]) for name in COUNTED},
                worst_iou=min(row.values("box_iou"), default=None),
                score_change=max(row.values("score_drift"), default=None),
            )
            for row in rows[:SHOWN]
        )
        return ShownObjects(pictures, tuple(changes[:SHOWN]), len(changes), tuple(each for each in worst if each.fell))


def _sizes(rows: Sequence[PreparedRow]) -> list[tuple[int, int]]:
    return [(picture.image.size[1], picture.image.size[0]) for _, picture in rows]


def _detections(found: Mapping[str, Any], picture: Picture, not_finite: str) -> Detections:
    scores = found["scores"].detach().float().cpu()
    boxes = found["boxes"].detach().float().cpu().reshape(-1, 4)
    finite = not places([scores, boxes, found.get("masks")])
    order = scores.argsort(descending=True)
    masks = None
    if "masks" in found:
        probabilities = found["masks"].detach()
        probabilities = probabilities[:, 0] if probabilities.dim() == 4 else probabilities
        masks = [(probabilities[i] > MASK_THRESHOLD).cpu().numpy() for i in order.tolist()]
    boxes_in_original = boxes[order].double().numpy() * scale(picture.size, picture.image.size)
    labels = found["labels"].detach().cpu()[order].numpy()
    return Detections(boxes_in_original, scores[order].double().numpy(), labels, masks, finite, not_finite)


def scale(size: Sequence[int], other: Sequence[int]) -> NDArray[Any]:
    """``size`` ÷ ``other``, of width and height, for x0, y0, x1, y1."""
    import numpy as np

    return np.array([one / two for one, two in zip(size, other)] * 2)


def coco_detections(found: Detections, size: tuple[int, int], category_of: Mapping[int, int]) -> CocoDetections:
    """The record for COCO's metric; ``size`` is (width, height) of the original picture, which masks are scaled to.

    Detections of classes without a category are left out, and so are those with NaN or Inf.
    """
    import numpy as np

    sound = np.isfinite(found.scores) & np.isfinite(found.boxes).all(axis=1)
    rows = [row for row in range(len(found.scores)) if sound[row] and int(found.labels[row]) in category_of]
    boxes = [[float(value) for value in found.boxes[row]] for row in rows]
    return CocoDetections(
        categories=tuple(category_of[int(found.labels[row])] for row in rows),
        scores=tuple(float(found.scores[row]) for row in rows),
        boxes=tuple(value for x0, y0, x1, y1 in boxes for value in (x0, y0, x1 - x0, y1 - y0)),
        masks=() if found.masks is None else tuple(run_lengths(_resized(found.masks[row], size)) for row in rows),
        mask_size=(size[1], size[0]),
    )


def _resized(mask: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    import numpy as np
    from PIL import Image

    if mask.shape[::-1] == size:
        return mask
    return np.asarray(Image.fromarray(mask.astype("uint8")).resize(size, Image.Resampling.NEAREST))


def run_lengths(mask: NDArray[Any]) -> str:
    """A mask [H, W] as COCO's compressed run-length encoding."""
    import numpy as np
    from pycocotools import mask as rle

    return str(rle.encode(np.asfortranarray(mask, dtype="uint8"))["counts"], "ascii")


def drawn_detections(found: Detections, picture: Picture, names: Mapping[int, str], count: int) -> DrawnDetections:
    """The first ``count`` detections in pixels of the picture as read; a box with NaN or Inf becomes empty."""
    import numpy as np

    boxes = found.boxes[:count] * scale(picture.image.size, picture.size)
    boxes[~np.isfinite(boxes).all(axis=1)] = 0.0
    labels = tuple(int(label) for label in found.labels[:count])
    masks = found.masks[:count] if found.masks is not None else []
    return DrawnDetections(
        boxes=tuple((float(b[0]), float(b[1]), float(b[2]), float(b[3])) for b in boxes),
        scores=tuple(float(score) for score in np.nan_to_num(found.scores[:count])),
        labels=labels,
        names=tuple(names.get(label, f"class {label}") for label in labels),
        masks=tuple(run_lengths(mask) for mask in masks),
        mask_size=(int(masks[0].shape[0]), int(masks[0].shape[1])) if masks else (0, 0),
    )
