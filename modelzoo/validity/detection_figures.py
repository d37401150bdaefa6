"""The figures of a detector's judgement: matched objects, AP, how both changed, and losses by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from modelzoo.records.partial import DetectedPicture
from modelzoo.records.validity import MetricChange
from modelzoo.validity import average_precision as ap
from modelzoo.validity import matching
from modelzoo.validity.changes import ap_change, item_change
from modelzoo.validity.classes import ClassItem
from modelzoo.validity.coco import Annotations


@dataclass(frozen=True)
class AveragePrecisions:
    """COCO's evaluation of both models, for one kind of shape: ``box`` or ``mask``."""

    shape: str
    reference: ap.Evaluation
    tested: ap.Evaluation


@dataclass(frozen=True)
class CategoryAp:
    """AP of both models in one category of the annotation file, and the number of its objects."""

    category: int
    objects: int
    reference: float
    tested: float


def average_precisions(
    pictures: Sequence[DetectedPicture], annotations: Optional[Annotations], masks: bool
) -> list[AveragePrecisions]:
    """Evaluate boxes, and masks if the models compute them, against the annotations; empty without these."""
    if annotations is None:
        return []
    ids = [p.image_id for p in pictures if p.image_id is not None]
    sides = []
    for records in ([p.reference_coco for p in pictures], [p.tested_coco for p in pictures]):
        results = ap.coco_results([(image_id, each) for image_id, each in zip(ids, records) if each is not None])
        kinds = list(zip(("bbox", "segm"), results))[: 2 if masks else 1]
        sides.append([ap.evaluate(annotations, ids, found, kind) for kind, found in kinds])
    return [AveragePrecisions(*each) for each in zip(("box", "mask"), *sides)]


def figures(pictures: Sequence[DetectedPicture], evaluated: Sequence[AveragePrecisions]) -> dict[str, float]:
    """The figures over the matched objects of all pictures, and COCO's: ``box_ap_reference`` …"""
    import numpy as np

    pairs = [pair for p in pictures for pair in p.matches.pairs]
    found = {
        "detection_agreement": matching.agreement([p.matches for p in pictures]),
        "lost": float(sum(len(p.matches.lost) for p in pictures)),
        "new": float(sum(len(p.matches.new) for p in pictures)),
        "moved": float(sum(pair.moved for pair in pairs)),
        "matched": float(len(pairs)),
    }
    if pairs:
        drift = np.abs([pair.score_change for pair in pairs])
        found["box_iou_mean"] = float(np.mean([pair.iou for pair in pairs]))
        found["box_bias"] = matching.box_bias(pairs)
        found["score_drift_median"] = float(np.median(drift))
        found["score_drift_max"] = float(drift.max())
    for each in evaluated:
        for side, evaluation in (("reference", each.reference), ("tested", each.tested)):
            found.update({f"{each.shape}_{name}_{side}": value for name, value in evaluation.figures.items()})
    return found


def category_aps(evaluated: AveragePrecisions) -> list[CategoryAp]:
    """AP of both models by category, largest loss first."""
    import numpy as np

    every = np.ones((1, evaluated.reference.pictures))

    def value(side: ap.Evaluation, category: int) -> float:
        return float(ap.category_ap(side.categories[category], every)[0]) if category in side.categories else 0.0

    found = [
        CategoryAp(
            category, int(each.objects.sum()), value(evaluated.reference, category), value(evaluated.tested, category)
        )
        for category, each in evaluated.reference.categories.items()
    ]
    return sorted(found, key=lambda each: each.tested - each.reference)


def changes(pictures: Sequence[DetectedPicture], evaluated: Sequence[AveragePrecisions]) -> list[MetricChange]:
    """How AP changed, and the agreement: the objects in common of all that either model detected."""
    totals = [float(p.matches.total) for p in pictures]
    found = [ap_change(f"{each.shape}_ap", each.reference, each.tested) for each in evaluated]
    found.append(
        item_change("detection_agreement", totals, [float(len(p.matches.pairs)) for p in pictures], sizes=totals)
    )
    return [each for each in found if each is not None]


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
            yield ClassItem(names.get(label, f"class {label}"), 1.0, sum(shared) / len(shared))
