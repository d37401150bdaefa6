"""The figures of a detector's judgement: matched objects, AP, how both changed, and losses by class.

Detections of two models are matched by class and IoU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from modelzoo.records.exhibits import CategoryAp, CategoryLosses
from modelzoo.records.partial import ChangedObject, CocoDetections, MatchedPair, Matches, Row, UnmatchedObject
from modelzoo.records.validity import MetricChange
from modelzoo.validity import average_precision as ap
from modelzoo.validity.bounds import Drawn, detectable_loss
from modelzoo.validity.checks import metric_change
from modelzoo.validity.coco import Annotations, ImageId
from modelzoo.validity.rows import EDGES, column

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
        not_finite: where the model's output is not (``modelzoo.validity.checks.places``).
    """

    boxes: NDArray[Any]
    scores: NDArray[Any]
    labels: NDArray[Any]
    masks: Sequence[NDArray[Any]] | None = None
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
    for row, other in zip(rows[order].tolist(), columns[order].tolist()):
        if row in used[0] or other in used[1]:
            continue
        used[0].add(row)
        used[1].add(other)
        before, after = reference.boxes[row], tested.boxes[other]
        size = np.maximum(before[2:] - before[:2], 1e-6)
        shifts = ((after - before) / np.tile(size, 2)).tolist()
        pairs.append(
            MatchedPair(
                reference_row=row,
                tested_row=other,
                label=int(reference.labels[row]),
                reference_score=float(scores[0][row]),
                tested_score=float(scores[1][other]),
                iou=float(overlap[row, other]),
                edge_shifts=(shifts[0], shifts[1], shifts[2], shifts[3]),
            )
        )
    return Matches(tuple(pairs), _unmatched(reference, used[0], threshold), _unmatched(tested, used[1], threshold))


def _unmatched(detections: Detections, used: set[int], threshold: float) -> tuple[UnmatchedObject, ...]:
    return tuple(
        UnmatchedObject(row, int(detections.labels[row]), float(score))
        for row, score in enumerate(detections.scores)
        if score >= threshold and row not in used
    )


class AveragePrecisions(msgspec.Struct, frozen=True):
    """COCO's evaluation of both models, for one kind of shape: ``box`` or ``mask``.

    Attributes:
        ratio: the tested model's AP ÷ the reference's; ``None`` if fp32 has no AP, or nothing is concluded.
        difference: the tested model's AP minus the reference's, likewise.
    """

    shape: str
    reference: ap.Evaluation
    tested: ap.Evaluation
    ratio: Drawn | None = None
    difference: Drawn | None = None

    @property
    def change(self) -> MetricChange | None:
        """How AP changed; ``None`` with fewer than two pictures."""
        drawn, pictures = self.difference, self.reference.pictures
        if drawn is None or pictures < 2:
            return None
        # The added picture does not count here; what a fault in few pictures may hide is in the rule of three.
        spread = float((drawn.numerators / drawn.denominators).std())
        loss = detectable_loss(spread, pictures / drawn.highest[0])
        sides = self.reference.figures["ap"], self.tested.figures["ap"]
        return metric_change(f"{self.shape}_ap", *sides, drawn, loss, pictures)


def average_precisions(
    rows: Sequence[Row], annotations: Annotations | None, *, resampled: bool = True
) -> list[AveragePrecisions]:
    """AP of boxes, and of masks if there are any, against the annotations; empty without these.

    Args:
        resampled: whether to draw pictures, which takes seconds.
    """
    if annotations is None:
        return []
    found = {row.image_id: row.coco for row in rows if row.image_id is not None and row.coco is not None}
    boxes, masks = zip(*(ap.coco_results({name: both[side] for name, both in found.items()}) for side in (0, 1)))
    evaluated = []
    for shape, kind, sides in (("box", "bbox", boxes), ("mask", "segm", masks))[: 1 + annotations.masks]:
        first, second = (ap.evaluate(annotations, list(found), results, kind) for results in sides)
        drawn = ap.resample(first, second) if resampled and first.figures["ap"] > 0 else ()
        evaluated.append(AveragePrecisions(shape, first, second, *drawn))
    return evaluated


def figures(rows: Sequence[Row], evaluated: Sequence[AveragePrecisions]) -> dict[str, float]:
    """The figures over the matched objects of all pictures, and COCO's"""
    import numpy as np

    sums = {name: sum(column(rows, name)) for name in ("common", "lost", "new", "moved", "objects")}
    found = {"detection_agreement": sums["common"] / sums["objects"] if sums["objects"] else 0.0}
    found.update({name: sums[name] for name in ("lost", "new", "moved")}, matched=sums["common"])
    if sums["common"]:
        drift, shifts = column(rows, "score_drift"), np.reshape(column(rows, "edge_shifts"), (-1, EDGES))
        found["box_iou_mean"] = float(np.mean(column(rows, "box_iou")))
        found["box_bias"] = float(np.abs(shifts.mean(axis=0)).max())
        found["score_drift_median"], found["score_drift_max"] = float(np.median(drift)), max(drift)
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


def row(
    index: int,
    name: str,
    matches: Matches,
    names: Mapping[int, str],
    *,
    boxes: tuple[int, int] = (0, 0),
    finite: tuple[bool, bool] = (True, True),
    image_id: ImageId | None = None,
    coco: tuple[CocoDetections, CocoDetections] | None = None,
    is_independent: bool = True,
) -> Row:
    """The row of a picture.

    Its quality in a class is how far the models agree on the objects of the class: 1 if on all of them, with equal
    boxes. An object that both models detected counts with the IoU of its boxes, one that only one model detected with
    0. The unit is the picture, because what happens to the objects of one picture is not independent.

    Args:
        names: of the classes, by label. boxes: number of detections of any score.
        is_independent: whether it is a picture of its own, and no crop of another; if not, it has no classes.
    """
    pairs, moved = matches.pairs, [pair for pair in matches.pairs if pair.moved]
    labels = [pair.label for pair in pairs], [each.label for each in (*matches.lost, *matches.new)]
    called = {label: names.get(label, f"class {label}") for each in labels for label in each}
    shared: dict[str, list[float]] = {}
    for label, iou in (*zip(labels[0], (pair.iou for pair in pairs)), *((label, 0.0) for label in labels[1])):
        shared.setdefault(called[label], []).append(iou)
    counts = {
        **{"common": len(pairs), "lost": len(matches.lost), "new": len(matches.new), "moved": len(moved)},
        **{"objects": matches.total, "reference_boxes": boxes[0], "tested_boxes": boxes[1]},
    }
    return Row(
        index,
        name,
        {
            **{count: float(value) for count, value in counts.items()},
            "box_iou": tuple(pair.iou for pair in pairs),
            "edge_shifts": tuple(edge for pair in pairs for edge in pair.edge_shifts),
            "score_drift": tuple(abs(pair.score_change) for pair in pairs),
        },
        *finite,
        in_common=bool(pairs),
        classes={label: (1.0, sum(each) / len(each)) for label, each in shared.items()} if is_independent else {},
        changed=(
            *(ChangedObject(name, called[each.label], reference_score=each.score) for each in matches.lost),
            *(ChangedObject(name, called[each.label], tested_score=each.score) for each in matches.new),
            *(ChangedObject(name, called[p.label], p.reference_score, p.tested_score, p.iou) for p in moved),
        ),
        image_id=image_id,
        coco=coco,
    )
