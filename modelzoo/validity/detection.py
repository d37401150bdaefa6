"""Judge a detector: from its output to detections, matched between both models, and pictures of what changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from modelzoo.files import file_sha256
from modelzoo.records.exhibits import DetectionPicture, DrawnDetections, Exhibit, ShownObjects
from modelzoo.records.partial import (
    LONGEST_WITH_MASKS,
    CocoDetections,
    DetectedPicture,
    Matches,
    PartialResult,
    PictureNote,
)
from modelzoo.records.validity import Check, ClassChange, Reason, ReasonKind
from modelzoo.validity import coco, detection_figures, picture_sets
from modelzoo.validity import detection as outputs
from modelzoo.validity.changes import class_changes, class_checks, class_limit
from modelzoo.validity.detection_figures import Detections
from modelzoo.validity.finite import places
from modelzoo.validity.picture_sets import PictureItem
from modelzoo.validity.prefetch import model_threads
from modelzoo.validity.protocol import Findings, ItemComparison, ItemResult, PreparedItem, TaskContext
from modelzoo.validity.verdict import published_check
from modelzoo.workload.inputs import Picture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from modelzoo.validity.task import Detection


COMPARED_SCORES = 300
"""Scores per picture that represent the output when it is compared number by number."""
MASK_THRESHOLD = 0.5
CROPS = 8
"""Crops in the built-in data set: some detectors take seconds per picture."""
SMALLEST_CROP = 0.6
PROBE_ITEMS, PROBE_ITEMS_WITH_MASKS = 4, 2
"""Pictures whose layers are compared; fewer with masks, because those models take seconds per picture."""
SHOWN = 12
"""Pictures, and changed objects, that are shown."""
AP_DEVIATION = 1 / 3
"""Standard deviation of AP between pictures, for the margin around the published AP."""
Row = tuple[Any, Picture]
"""A preprocessed picture, and the picture as read."""


def score_tensor(declaration: Detection, output: Any, pictures: Sequence[Picture]) -> Any:
    """The scores of each picture, best first, padded with 0: [pictures, COMPARED_SCORES]."""
    import torch

    filled = torch.zeros(len(pictures), COMPARED_SCORES)
    for row, found in zip(filled, declaration.detections(output, _sizes(pictures))):
        best = found["scores"].detach().float().cpu().sort(descending=True).values[:COMPARED_SCORES]
        row[: len(best)] = best
    return filled


def detections_of(declaration: Detection, output: Any, pictures: Sequence[Picture]) -> list[Detections]:
    """The detections of each picture, in pixels of the original pictures, best first."""
    not_finite = places(output)
    found = declaration.detections(output, _sizes(pictures))
    return [_detections(each, picture, not_finite) for each, picture in zip(found, pictures)]


def _sizes(pictures: Sequence[Picture]) -> list[tuple[int, int]]:
    return [(picture.image.size[1], picture.image.size[0]) for picture in pictures]


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
    boxes_in_original = boxes[order].double().numpy() * original_scale(picture)
    labels = found["labels"].detach().cpu()[order].numpy()
    return Detections(boxes_in_original, scores[order].double().numpy(), labels, masks, finite, not_finite)


def original_scale(picture: Picture) -> NDArray[Any]:
    """Size of the original picture ÷ size of the picture as read, for x0, y0, x1, y1."""
    import numpy as np

    return np.array([original / read for original, read in zip(picture.size, picture.image.size)] * 2)


def read_scale(picture: Picture) -> NDArray[Any]:
    """Size of the picture as read ÷ size of the original, for x0, y0, x1, y1."""
    import numpy as np

    return np.array([read / original for original, read in zip(picture.size, picture.image.size)] * 2)


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

    boxes = found.boxes[:count] * read_scale(picture)
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


class DetectionTask:
    """A bound ``Detection``; a prediction is a ``Detections``."""

    name = "detection"
    item_name = "picture"
    one_row = True
    compares_output = False  # which boxes survive NMS is judged by matching them

    def __init__(self, declaration: Detection, context: TaskContext) -> None:
        request = context.request
        categories = declaration.categories()
        self.context = context
        self.probe_items = PROBE_ITEMS_WITH_MASKS if declaration.masks else PROBE_ITEMS
        self.class_names = {label: name for label, (_, name) in categories.items()}
        self._declaration = declaration
        self._annotations: Optional[coco.Annotations] = None
        self.items: Sequence[PictureItem]
        longest = LONGEST_WITH_MASKS if declaration.masks else None
        if request.data is None:
            crops = picture_sets.builtin_crops(min(CROPS, request.limit or CROPS), request.seed, SMALLEST_CROP)
            self.items = picture_sets.reduced(crops, longest)
        else:
            found, self._annotations = coco.read(Path(request.data), categories)
            self.items = picture_sets.reduced(picture_sets.sampled(found, request.limit, request.seed), longest)

    def comparable_layer(self, name: str) -> bool:
        return self._declaration.layers(name)

    def identify(self, item: PictureItem) -> str:
        return item.identity()

    def file_of(self, item: PictureItem) -> Optional[Path]:
        return item.file

    def data_digest(self) -> str:
        return "" if self._annotations is None else file_sha256(self._annotations.path)

    def preparing_threads(self) -> int:
        return model_threads()

    def prepare(self, item: PictureItem) -> PreparedItem:
        picture = item.read()
        return PreparedItem(((self._declaration.preprocess(picture.image), picture),), picture.notes)

    def arguments(self, rows: Sequence[Row]) -> tuple[Any, ...]:
        return self._declaration.arguments([tensor for tensor, _ in rows])

    def output_tensor(self, output: Any, rows: Sequence[Row]) -> Any:
        return outputs.score_tensor(self._declaration, output, [picture for _, picture in rows])

    def predictions(self, output: Any, rows: Sequence[Row]) -> Sequence[Detections]:
        return outputs.detections_of(self._declaration, output, [picture for _, picture in rows])

    def compare(
        self, index: int, prepared: PreparedItem, reference: Sequence[Detections], tested: Sequence[Detections]
    ) -> ItemComparison:
        item, picture = self.items[index], prepared.rows[0][1]
        pair = (reference[0], tested[0])
        matches = detection_figures.match(*pair, self._declaration.shown)
        coco_pair: list[Optional[CocoDetections]] = [None, None]
        if self._annotations is not None and item.image_id is not None:
            category_of = self._annotations.category_of
            coco_pair = [outputs.coco_detections(each, picture.size, category_of) for each in pair]
        result = DetectedPicture(
            index=index,
            name=item.name,
            image_id=item.image_id,
            matches=matches,
            reference_boxes=len(pair[0].scores),
            tested_boxes=len(pair[1].scores),
            reference_finite=pair[0].finite,
            tested_finite=pair[1].finite and pair[1].not_finite == pair[0].not_finite,
            reference_coco=coco_pair[0],
            tested_coco=coco_pair[1],
        )
        drawn = index < self.context.request.pictures
        exhibits = (self._exhibit(item, picture, pair, matches),) if drawn else ()
        return ItemComparison(result, (float(len(matches.pairs)), float(matches.total)), exhibits)

    def _exhibit(
        self, item: PictureItem, picture: Picture, pair: tuple[Detections, Detections], matches: Matches
    ) -> Exhibit:
        """The picture with both models' detections, for the report to draw."""
        import numpy as np

        threshold = self._declaration.shown
        # Matches name no row with a score below half of the threshold; rows are sorted by score, NaN first.
        counts = [int(np.max(np.flatnonzero(each.scores >= threshold / 2), initial=-1)) + 1 for each in pair]
        reference, tested = (
            outputs.drawn_detections(detections, picture, self.class_names, count)
            for detections, count in zip(pair, counts)
        )
        drawing = DetectionPicture(
            source=item.source,
            size=picture.image.size,
            reference=reference,
            tested=tested,
            matches=matches,
            threshold=threshold,
            reference_name=self.context.reference_name,
            tested_name=self.context.tested_name,
        )
        return Exhibit(item.name, detections=drawing)

    def running_metric(self, sums: Sequence[float], count: int) -> tuple[str, tuple[float, ...]]:
        common, total = sums
        return "detection_agreement", (common / max(total, 1),)

    def partial_result(self, results: Sequence[ItemResult], notes: Sequence[PictureNote]) -> PartialResult:
        detected = tuple(each for each in results if isinstance(each, DetectedPicture))
        return PartialResult(self.name, detected=detected, notes=tuple(notes))

    def exhibits(self, result: PartialResult) -> Iterator[Exhibit]:
        return iter(())

    def findings(self, result: PartialResult) -> Findings:
        pictures, context = result.detected, self.context
        # With random weights nothing is concluded from the changes, whose intervals take seconds.
        random = context.request.weights_are_random
        average_precisions = detection_figures.average_precisions(
            pictures, self._annotations, self._declaration.masks, resampled=not random
        )
        values = detection_figures.figures(pictures, average_precisions)
        metric, reference, tested = "detection_agreement", 1.0, values["detection_agreement"]
        if self._annotations is not None:
            metric, reference, tested = "box_ap", values["box_ap_reference"], values["box_ap_tested"]
        builtin = {"crops": len(pictures), "photographs": 1}
        counts = builtin if context.request.data is None else {"pictures": len(pictures)}
        classes, tolerance = self._classes(pictures), context.request.tolerance
        return Findings(
            metric=metric,
            reference=reference,
            tested=tested,
            checks=()
            if random
            else [*self._checks(values, pictures, average_precisions), *class_checks(classes, tolerance)],
            in_common=values["matched"] > 0,
            nonfinite=sum(not p.tested_finite for p in pictures),
            reference_problem=self._reference_problem(pictures),
            counts={**counts, "objects": sum(p.matches.total for p in pictures)},
            figures=values,
            shown=self._shown(pictures, average_precisions),
            changes=() if random else detection_figures.changes(pictures, average_precisions),
            classes=classes,
            clusters=len(pictures),
            labelled=self._annotations is not None,
        )

    def _shown(
        self, pictures: Sequence[DetectedPicture], evaluated: Sequence[detection_figures.AveragePrecisions]
    ) -> ShownObjects:
        names = {} if self._annotations is None else self._annotations.category_of
        categories = {category: self.class_names[label] for label, category in names.items()}
        worst = (detection_figures.category_losses(each, categories) for each in evaluated)
        changes = [each for picture in pictures for each in detection_figures.changed(picture, self.class_names)]
        return ShownObjects(
            tuple(map(detection_figures.objects, pictures[:SHOWN])),
            tuple(changes[:SHOWN]),
            len(changes),
            tuple(each for each in worst if each.fell),
        )

    def _classes(self, pictures: Sequence[DetectedPicture]) -> list[ClassChange]:
        """The changes by class; none for crops of one photograph, which are no independent items."""
        if self.context.request.data is None:
            return []
        items = detection_figures.class_items(pictures, self.class_names)
        return class_changes(items, class_limit(self.context.request.tolerance))

    def _reference_problem(self, pictures: Sequence[DetectedPicture]) -> Optional[Reason]:
        if not all(p.reference_finite for p in pictures):
            return Reason(ReasonKind.REFERENCE_NOT_FINITE)
        detected = sum(len(p.matches.pairs) + len(p.matches.lost) for p in pictures)
        if not detected and not self.context.request.weights_are_random:
            return Reason(ReasonKind.NOTHING_DETECTED, self._declaration.shown)
        return None

    def _checks(
        self,
        values: Mapping[str, float],
        pictures: Sequence[DetectedPicture],
        evaluated: Sequence[detection_figures.AveragePrecisions],
    ) -> list[Check]:
        request, checks = self.context.request, []
        if self._annotations is not None:
            published = self._declaration.published.get("box_ap", 0.0) / 100
            checks = published_check(published, values["box_ap_reference"], AP_DEVIATION, len(pictures), request)
        return [*checks, *detection_figures.sampled_checks(pictures, evaluated, request.tolerance)]
