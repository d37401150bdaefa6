"""The figures of a detector's judgement: matched objects, AP, how both changed, and losses by class.

Detections of two models are matched by class and IoU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

import msgspec

from modelzoo.frozen import replace
from modelzoo.records.exhibits import CategoryAp, CategoryLosses, ChangedObject, PictureObjects
from modelzoo.records.partial import DetectedPicture, MatchedPair, Matches, UnmatchedObject
from modelzoo.records.validity import Check, MetricChange
from modelzoo.validity import average_precision as ap
from modelzoo.validity import detection_figures
from modelzoo.validity.bounds import Drawn, Extreme, sums_by_cluster
from modelzoo.validity.changes import ClassItem, ap_change, item_change
from modelzoo.validity.checks import check_median, check_ratio, check_shares, check_shift, check_value
from modelzoo.validity.coco import Annotations

if TYPE_CHECKING:
    from numpy.typing import NDArray


SAME_OBJECT_IOU = 0.5
"""PASCAL VOC's threshold for "the same object", and the lowest of COCO's."""
SHOWN_CATEGORIES = 12


class Detections(msgspec.Struct, frozen=True):
    """Detections of one model in one picture, best first; K of them.

    Attributes:
        boxes: [K, 4] x0, y0, x1, y1 in pixels of the original picture.
        scores: [K] from 0 to 1. labels: [K] the model's labels.
        masks: K boolean arrays [H, W] in pixels of the picture as read, or ``None``.
        finite: whether boxes, scores and masks are free of NaN and Inf.
        not_finite: where the model's output is not (``modelzoo.validity.finite.places``).
    """

    boxes: NDArray[Any]
    scores: NDArray[Any]
    labels: NDArray[Any]
    masks: Optional[Sequence[NDArray[Any]]] = None
    finite: bool = True
    not_finite: str = ""


def iou(first: Any, second: Any) -> NDArray[Any]:
    """Intersection over union of every pair, [N, 4] and [M, 4] to [N, M]; 0 for empty boxes."""
    import numpy as np

    first, second = (np.asarray(x, dtype="float64").reshape(-1, 4) for x in (first, second))
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=2)
    areas = [np.clip(x[:, 2:] - x[:, :2], 0, None).prod(axis=1) for x in (first, second)]
    union = areas[0][:, None] + areas[1][None, :] - shared
    overlap: NDArray[Any] = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return overlap


def match(reference: Detections, tested: Detections, threshold: float) -> Matches:
    """Pair detections of the same class, largest IoU first.

    An object counts if one model gives it a score of ``threshold`` or more. Half of that is sufficient in the other
    model, so that an object is not lost because its score crosses the threshold.
    """
    import numpy as np

    overlap = iou(reference.boxes, tested.boxes)
    scores = [np.asarray(detections.scores, dtype="float64") for detections in (reference, tested)]
    same = np.asarray(reference.labels)[:, None] == np.asarray(tested.labels)[None, :]
    counts = np.maximum(scores[0][:, None], scores[1][None, :]) >= threshold
    counts &= np.minimum(scores[0][:, None], scores[1][None, :]) >= threshold / 2
    rows, columns = np.nonzero(same & counts & (overlap >= SAME_OBJECT_IOU))
    order = np.argsort(-overlap[rows, columns], kind="stable")
    pairs: list[MatchedPair] = []
    used: tuple[set[int], set[int]] = (set(), set())
    for row, column in zip(rows[order].tolist(), columns[order].tolist()):
        if row in used[0] or column in used[1]:
            continue
        used[0].add(row)
        used[1].add(column)
        pairs.append(
            MatchedPair(
                reference_row=row,
                tested_row=column,
                label=int(reference.labels[row]),
                reference_score=float(scores[0][row]),
                tested_score=float(scores[1][column]),
                iou=float(overlap[row, column]),
                edge_shifts=_edge_shifts(reference.boxes[row], tested.boxes[column]),
            )
        )
    return Matches(tuple(pairs), _unmatched(reference, used[0], threshold), _unmatched(tested, used[1], threshold))


def _unmatched(detections: Detections, used: set[int], threshold: float) -> tuple[UnmatchedObject, ...]:
    return tuple(
        UnmatchedObject(row, int(detections.labels[row]), float(score))
        for row, score in enumerate(detections.scores)
        if score >= threshold and row not in used
    )


def _edge_shifts(before: Any, after: Any) -> tuple[float, float, float, float]:
    width, height = max(float(before[2] - before[0]), 1e-6), max(float(before[3] - before[1]), 1e-6)
    moved = [float(a - b) for a, b in zip(after, before)]
    return moved[0] / width, moved[1] / height, moved[2] / width, moved[3] / height


def agreement(matches: Sequence[Matches]) -> float:
    """Objects in common ÷ objects that either model detected; 0 if there are none."""
    total = sum(each.total for each in matches)
    return sum(len(each.pairs) for each in matches) / total if total else 0.0


class AveragePrecisions(msgspec.Struct, frozen=True):
    """COCO's evaluation of both models, for one kind of shape: ``box`` or ``mask``.

    Attributes:
        resampled: both with random weights of the pictures; ``None`` if fp32 has no AP, or nothing is concluded.
    """

    shape: str
    reference: ap.Evaluation
    tested: ap.Evaluation
    resampled: Optional[ap.Resampled]

    @property
    def ratio(self) -> Optional[Drawn]:
        """The tested model's AP ÷ the reference's. An added picture is one whose objects only one model finds."""
        if self.resampled is None:
            return None
        found, size = self.resampled, self.resampled.size
        first, second = self.reference.figures["ap"], self.tested.figures["ap"]
        numerators, denominators = found.tested * found.observed, found.reference * found.observed
        extremes = Extreme(0.0, size), Extreme(size, 0.0)
        return Drawn(
            second, first, numerators, denominators, (1 - found.observed) / size, *extremes, self.reference.pictures
        )

    @property
    def difference(self) -> Optional[Drawn]:
        """The tested model's AP minus the reference's."""
        if self.resampled is None:
            return None
        found, size = self.resampled, self.resampled.size
        change = self.tested.figures["ap"] - self.reference.figures["ap"]
        numerators = (found.tested - found.reference) * found.observed
        extremes = Extreme(-size, size), Extreme(size, size)
        return Drawn(
            change, 1.0, numerators, found.observed, (1 - found.observed) / size, *extremes, self.reference.pictures
        )


def average_precisions(
    pictures: Sequence[DetectedPicture], annotations: Optional[Annotations], masks: bool, *, resampled: bool = True
) -> list[AveragePrecisions]:
    """Evaluate boxes, and masks if the models compute them, against the annotations; empty without these.

    Args:
        resampled: whether to draw pictures, which takes seconds.
    """
    if annotations is None:
        return []
    ids = [p.image_id for p in pictures if p.image_id is not None]
    sides = []
    for records in ([p.reference_coco for p in pictures], [p.tested_coco for p in pictures]):
        results = ap.coco_results([(image_id, each) for image_id, each in zip(ids, records) if each is not None])
        kinds = list(zip(("bbox", "segm"), results))[: 2 if masks else 1]
        sides.append([ap.evaluate(annotations, ids, found, kind) for kind, found in kinds])
    return [
        AveragePrecisions(shape, first, second, ap.resample(first, second) if resampled and has_ap(first) else None)
        for shape, first, second in zip(("box", "mask"), *sides)
    ]


def has_ap(evaluation: ap.Evaluation) -> bool:
    """Whether there is an AP that can be lost."""
    return evaluation.figures["ap"] > 0


def figures(pictures: Sequence[DetectedPicture], evaluated: Sequence[AveragePrecisions]) -> dict[str, float]:
    """The figures over the matched objects of all pictures, and COCO's: ``box_ap_reference`` …"""
    import numpy as np

    pairs = [pair for p in pictures for pair in p.matches.pairs]
    found = {
        "detection_agreement": detection_figures.agreement([p.matches for p in pictures]),
        "lost": float(sum(len(p.matches.lost) for p in pictures)),
        "new": float(sum(len(p.matches.new) for p in pictures)),
        "moved": float(sum(pair.moved for pair in pairs)),
        "matched": float(len(pairs)),
    }
    if pairs:
        drift = np.abs([pair.score_change for pair in pairs])
        found["box_iou_mean"] = float(np.mean([pair.iou for pair in pairs]))
        found["box_bias"] = float(np.abs(np.mean([pair.edge_shifts for pair in pairs], axis=0)).max())
        found["score_drift_median"] = float(np.median(drift))
        found["score_drift_max"] = float(drift.max())
    for each in evaluated:
        for side, evaluation in (("reference", each.reference), ("tested", each.tested)):
            found.update({f"{each.shape}_{name}_{side}": value for name, value in evaluation.figures.items()})
    return found


def category_losses(evaluated: AveragePrecisions, names: Mapping[int, str]) -> CategoryLosses:
    """The categories whose AP fell most; ``names`` are those of the annotation file."""
    import numpy as np

    every = np.ones((1, evaluated.reference.pictures))

    def value(side: ap.Evaluation, category: int) -> float:
        return float(ap.category_ap(side.categories[category], every)[0]) if category in side.categories else 0.0

    found = [
        CategoryAp(
            names.get(category, f"category {category}"),
            int(each.objects.sum()),
            value(evaluated.reference, category),
            value(evaluated.tested, category),
        )
        for category, each in evaluated.reference.categories.items()
    ]
    fell = sorted(
        (each for each in found if each.tested < each.reference), key=lambda each: each.tested - each.reference
    )
    rose = sum(each.tested > each.reference for each in found)
    return CategoryLosses(evaluated.shape, tuple(fell[:SHOWN_CATEGORIES]), len(found), len(fell), rose)


def objects(picture: DetectedPicture) -> PictureObjects:
    """How many objects both models found in a picture."""
    pairs, lost, new = picture.matches.pairs, picture.matches.lost, picture.matches.new
    return PictureObjects(
        name=picture.name,
        reference_boxes=picture.reference_boxes,
        tested_boxes=picture.tested_boxes,
        common=len(pairs),
        lost=len(lost),
        new=len(new),
        moved=sum(pair.moved for pair in pairs),
        worst_iou=min((pair.iou for pair in pairs), default=None),
        score_change=max((abs(pair.score_change) for pair in pairs), default=None),
    )


def changed(picture: DetectedPicture, names: Mapping[int, str]) -> Iterator[ChangedObject]:
    """The objects that were lost, those that are new, and those that moved; ``names`` are those of the labels."""
    for lost in picture.matches.lost:
        yield ChangedObject(picture.name, _class_name(lost.label, names), reference_score=lost.score)
    for new in picture.matches.new:
        yield ChangedObject(picture.name, _class_name(new.label, names), tested_score=new.score)
    for pair in picture.matches.pairs:
        if pair.moved:
            label = _class_name(pair.label, names)
            yield ChangedObject(picture.name, label, pair.reference_score, pair.tested_score, pair.iou)


def _class_name(label: int, names: Mapping[int, str]) -> str:
    return names.get(label, f"class {label}")


def changes(pictures: Sequence[DetectedPicture], evaluated: Sequence[AveragePrecisions]) -> list[MetricChange]:
    """How AP changed, and the agreement: the objects in common of all that either model detected."""
    totals = [float(p.matches.total) for p in pictures]
    found = [ap_change(f"{each.shape}_ap", each.reference, each.tested, each.difference) for each in evaluated]
    found.append(
        item_change(
            "detection_agreement", totals, [float(len(p.matches.pairs)) for p in pictures], sizes=totals, agreement=True
        )
    )
    return [each for each in found if each is not None]


def sampled_checks(
    pictures: Sequence[DetectedPicture], evaluated: Sequence[AveragePrecisions], tolerance: Mapping[str, float]
) -> list[Check]:
    """Check AP and the objects that both models detected, of which the pictures are a sample."""
    checks = []
    for name, each in zip(("accuracy", "mask_ap"), evaluated):
        drawn = each.ratio
        if drawn is None:  # fp32 has no AP, so there is none to lose
            checks.append(replace(check_value(name, None, tolerance), undecided=True))
        else:
            checks.append(check_ratio(name, drawn, len(pictures), tolerance))
    totals = [float(p.matches.total) for p in pictures]
    pairs = [(p.index, pair) for p in pictures for pair in p.matches.pairs]
    if not pairs:
        missing = ("detection_agreement", "box_iou", "box_bias", "score_drift")
        return [*checks, *(check_value(name, None, tolerance) for name in missing)]
    places, count = [index for index, _ in pairs], len(pictures)
    common = [float(len(p.matches.pairs)) for p in pictures]
    sizes, (overlaps,) = sums_by_cluster(places, [pair.iou for _, pair in pairs])
    return [
        *checks,
        check_shares("detection_agreement", common, totals, count, tolerance),
        check_shares("box_iou", overlaps, sizes, count, tolerance, lowest=detection_figures.SAME_OBJECT_IOU),
        check_shift("box_bias", [pair.edge_shifts for _, pair in pairs], places, count, tolerance),
        check_median("score_drift", [abs(pair.score_change) for _, pair in pairs], places, count, tolerance),
    ]


def class_items(pictures: Sequence[DetectedPicture], names: Mapping[int, str]) -> Iterator[ClassItem]:
    """How far the models agree on the objects of each class in each picture: 1 if on all of them, with equal boxes.

    An object that both models detected counts with the IoU of its boxes, one that only one model detected with 0. The
    unit is the picture, because what happens to the objects of one picture is not independent.
    """
    for p in pictures:
        objects: dict[int, list[float]] = {}
        for pair in p.matches.pairs:
            objects.setdefault(pair.label, []).append(pair.iou)
        for unmatched in (*p.matches.lost, *p.matches.new):
            objects.setdefault(unmatched.label, []).append(0.0)
        for label, shared in objects.items():
            yield ClassItem(_class_name(label, names), 1.0, sum(shared) / len(shared))
