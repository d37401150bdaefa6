"""Which detections of two models are the same object: by class and IoU. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SAME_OBJECT_IOU = 0.5
"""PASCAL VOC's threshold, and COCO's most lenient, for "the same object"."""
MOVED_IOU = 0.9
"""Under this IoU a matched box counts as moved."""


@dataclass(frozen=True)
class Found:
    """Detections of one picture by one side, best first.

    Attributes:
        boxes: [K, 4] x0, y0, x1, y1 in pixels of the original picture.
        scores: [K] from 0 to 1. labels: [K] the model's labels.
        masks: K boolean arrays [H, W] of the decoded picture, or ``None``.
        finite: no NaN and no Inf in the model's output.
    """

    boxes: Any
    scores: Any
    labels: Any
    masks: Sequence[Any] | None = None
    finite: bool = True


@dataclass(frozen=True)
class Pair:
    """One object that both sides found: the rows, the IoU, tested score minus reference's, edges moved.

    ``edges`` are the shifts of x0, y0, x1, y1 as shares of the reference box's width and height.
    """

    reference: int
    tested: int
    iou: float
    score_change: float
    edges: tuple[float, float, float, float]

    @property
    def moved(self) -> bool:
        return self.iou < MOVED_IOU


@dataclass(frozen=True)
class Matched:
    """The objects in common, and the rows that only the reference (lost) or only the tested side (new) has."""

    pairs: tuple[Pair, ...]
    lost: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def total(self) -> int:
        """Objects that either side found."""
        return len(self.pairs) + len(self.lost) + len(self.new)


def iou(first: Any, second: Any) -> Any:
    """Intersection over union of every pair: [N, 4] and [M, 4] to [N, M]; 0 for empty boxes."""
    import numpy as np

    first, second = (np.asarray(x, dtype="float64").reshape(-1, 4) for x in (first, second))
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=2)
    areas = [np.clip(x[:, 2:] - x[:, :2], 0, None).prod(axis=1) for x in (first, second)]
    union = areas[0][:, None] + areas[1][None, :] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def match(reference: Found, tested: Found, shown: float) -> Matched:
    """Pair detections of the same class, the largest IoU first.

    An object counts where one side gives it ``shown`` or more. The other may give it half of that, so that
    a score which only crosses the threshold loses nothing.
    """
    import numpy as np

    overlap = iou(reference.boxes, tested.boxes)
    r_scores, t_scores = (np.asarray(f.scores, dtype="float64") for f in (reference, tested))
    same = np.asarray(reference.labels)[:, None] == np.asarray(tested.labels)[None, :]
    strong = np.maximum(r_scores[:, None], t_scores[None, :]) >= shown
    strong &= np.minimum(r_scores[:, None], t_scores[None, :]) >= shown / 2
    rows, columns = np.nonzero(same & strong & (overlap >= SAME_OBJECT_IOU))
    order = np.argsort(-overlap[rows, columns], kind="stable")
    pairs: list[Pair] = []
    taken: tuple[set[int], set[int]] = (set(), set())
    for row, column in zip(rows[order].tolist(), columns[order].tolist()):
        if row not in taken[0] and column not in taken[1]:
            taken[0].add(row)
            taken[1].add(column)
            change = float(t_scores[column] - r_scores[row])
            edges = _edges(reference.boxes[row], tested.boxes[column])
            pairs.append(Pair(row, column, float(overlap[row, column]), change, edges))
    lost = tuple(i for i in range(len(r_scores)) if r_scores[i] >= shown and i not in taken[0])
    new = tuple(i for i in range(len(t_scores)) if t_scores[i] >= shown and i not in taken[1])
    return Matched(tuple(pairs), lost, new)


def _edges(before: Any, after: Any) -> tuple[float, float, float, float]:
    width, height = max(float(before[2] - before[0]), 1e-6), max(float(before[3] - before[1]), 1e-6)
    moved = [float(a - b) for a, b in zip(after, before)]
    return moved[0] / width, moved[1] / height, moved[2] / width, moved[3] / height


def agreement(matched: Sequence[Matched]) -> float:
    """Objects in common ÷ objects that either side found; 0 where there are none."""
    total = sum(m.total for m in matched)
    return sum(len(m.pairs) for m in matched) / total if total else 0.0


def bias(matched: Sequence[Matched]) -> float:
    """The largest mean shift of an edge, as a share of the box, beyond two standard errors.

    Rounding moves edges both ways; a shifted decoder moves all of them one way.
    """
    import numpy as np

    edges = np.array([pair.edges for m in matched for pair in m.pairs], dtype="float64").reshape(-1, 4)
    if len(edges) < 2:
        return float(np.abs(edges).max(initial=0.0))
    error = edges.std(axis=0, ddof=1) / np.sqrt(len(edges))
    return float(np.clip(np.abs(edges.mean(axis=0)) - 2 * error, 0, None).max())
