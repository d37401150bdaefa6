"""Match the detections of two models by class and IoU. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from modelzoo.records.partial import MatchedPair, Matches, UnmatchedObject

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAME_OBJECT_IOU = 0.5
"""PASCAL VOC's threshold for "the same object", and the lowest of COCO's."""


@dataclass(frozen=True)
class Detections:
    """Detections of one model in one picture, best first; K of them.

    Attributes:
        boxes: [K, 4] x0, y0, x1, y1 in pixels of the original picture.
        scores: [K] from 0 to 1. labels: [K] the model's labels.
        masks: K boolean arrays [H, W] in pixels of the picture as read, or ``None``.
        finite: whether the model's output is free of NaN and Inf.
    """

    boxes: NDArray[Any]
    scores: NDArray[Any]
    labels: NDArray[Any]
    masks: Optional[Sequence[NDArray[Any]]] = None
    finite: bool = True


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
