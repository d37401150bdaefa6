"""COCO's average precision by pycocotools, and how it varies if other pictures had been drawn."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modelzoo.records.partial import CocoDetections
from modelzoo.validity.coco import Annotations, ImageId

if TYPE_CHECKING:
    from numpy.typing import NDArray

AP_NAMES = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")
"""COCOeval's first six statistics, in its order. Small is below 32², large above 96² pixels."""
DRAWS = 200
"""Bootstrap draws for a standard error; more are seldom needed (Efron & Tibshirani, "An Introduction to the
Bootstrap", 1993, section 6.4)."""
FEWEST_DRAWS = 50
WORK = 10**8
"""Detections and hits in all draws together, a few seconds of work: large data sets get fewer draws."""
CHUNK = 25
"""Draws that are computed together, which bounds the memory."""


@dataclass(frozen=True)
class CategoryMatches:
    """What COCOeval matched in one category: D detections by falling score, T thresholds of IoU, I pictures.

    Attributes:
        picture: [D] index of the picture that each detection is in.
        hit: [T, D] whether the detection found an object.
        ignored: [T, D] whether it does not count, because it found a crowd.
        objects: [I] number of annotated objects in each picture.
    """

    picture: NDArray[Any]
    hit: NDArray[Any]
    ignored: NDArray[Any]
    objects: NDArray[Any]


@dataclass(frozen=True)
class Evaluation:
    """COCO's figures of one model, and what they are computed from.

    Attributes:
        figures: ``ap`` (mean over IoU .50:.05:.95), ``ap50``, ``ap75``, ``ap_small``, ``ap_medium``, ``ap_large``,
            from 0 to 1; −1 if the data set holds nothing of that size, as in COCOeval.
        pictures: number of pictures.
        categories: by category id, those of which the pictures show an object; empty if nothing was detected.
    """

    figures: Mapping[str, float]
    pictures: int
    categories: Mapping[int, CategoryMatches]


def coco_results(
    detections: Sequence[tuple[ImageId, CocoDetections]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return boxes and masks in COCO's result format, from pairs of image id and detections."""
    boxes, masks = [], []
    for image_id, found in detections:
        for row, (category, score) in enumerate(zip(found.categories, found.scores)):
            shared = {"image_id": image_id, "category_id": category, "score": score}
            boxes.append({**shared, "bbox": list(found.boxes[4 * row : 4 * row + 4])})
            if found.masks:
                masks.append({**shared, "segmentation": {"size": list(found.mask_size), "counts": found.masks[row]}})
    return boxes, masks


def evaluate(
    annotations: Annotations, image_ids: Sequence[ImageId], results: Sequence[Mapping[str, Any]], kind: str
) -> Evaluation:
    """Evaluate detections in the pictures ``image_ids`` by pycocotools' COCOeval.

    Args:
        results: COCO's result format: image_id, category_id, score, and bbox (x, y, w, h) or RLE segmentation.
        kind: ``bbox`` or ``segm``.
    """
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    if not results:
        return Evaluation(dict.fromkeys(AP_NAMES, 0.0), len(image_ids), {})
    chosen = set(image_ids)
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints its progress
        truth = COCO()
        truth.dataset = {
            **annotations.dataset,
            "images": [image for image in annotations.dataset["images"] if image["id"] in chosen],
            "annotations": [a for a in annotations.dataset["annotations"] if a["image_id"] in chosen],
        }
        truth.dataset.setdefault("info", {})
        truth.createIndex()
        found = truth.loadRes([dict(result) for result in results])
        evaluation = COCOeval(truth, found, kind)
        evaluation.params.imgIds = sorted(chosen)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    figures = {name: float(value) for name, value in zip(AP_NAMES, evaluation.stats)}
    return Evaluation(figures, len(chosen), _categories(evaluation))


def _categories(evaluation: Any) -> dict[int, CategoryMatches]:
    """Extract what ``COCOeval.accumulate`` reads, for objects of every size."""
    parameters = evaluation.params
    pictures, sizes = len(parameters.imgIds), len(parameters.areaRng)
    found = {}
    for number, category in enumerate(parameters.catIds):
        start = number * sizes * pictures  # the first range of sizes is "all"
        matches = _category(evaluation.evalImgs[start : start + pictures], len(parameters.iouThrs))
        if matches.objects.any():
            found[int(category)] = matches
    return found


def _category(by_picture: Sequence[Any], thresholds: int) -> CategoryMatches:
    """Join what COCOeval found in each picture (``None`` if there is nothing), in its own order: stable by score."""
    import numpy as np

    seen = [(index, each) for index, each in enumerate(by_picture) if each is not None]
    objects = np.zeros(len(by_picture))
    for index, each in seen:
        objects[index] = np.count_nonzero(each["gtIgnore"] == 0)
    empty = np.zeros((thresholds, 0), dtype=bool)
    scores = np.concatenate([np.zeros(0), *(each["dtScores"] for _, each in seen)])
    picture = np.concatenate([np.zeros(0, int), *(np.full(len(each["dtScores"]), index) for index, each in seen)])
    ignored = np.concatenate([empty, *(each["dtIgnore"].astype(bool) for _, each in seen)], axis=1)
    matched = np.concatenate([empty, *(each["dtMatches"] != 0 for _, each in seen)], axis=1)
    order = np.argsort(-scores, kind="stable")
    return CategoryMatches(picture[order], (matched & ~ignored)[:, order], ignored[:, order], objects)


def category_ap(matches: CategoryMatches, weights: Any) -> NDArray[Any]:
    """AP of one category, for each row of ``weights`` [draws, I], in which picture i occurs weights[·, i] times.

    This is ``COCOeval.accumulate`` on the multiset of pictures: repeated detections are neighbours in the order of
    scores, and between them the interpolated precision cannot change. Precision only rises at hits, so it is
    evaluated at these.

    Returns:
        [draws] AP over IoU .50:.05:.95 from 0 to 1; NaN if the pictures drawn hold no object of the category.
    """
    import numpy as np

    weights = np.asarray(weights, dtype="float64")
    objects = weights @ matches.objects
    drawn = weights[:, matches.picture]
    every = np.cumsum(drawn, axis=1)
    recalls = np.linspace(0.0, 1.0, 101)  # COCOeval's recThrs
    total = np.zeros(len(weights))
    for hit, ignored in zip(matches.hit, matches.ignored):
        (places,) = np.nonzero(hit)
        if not len(places):
            continue
        hits = np.cumsum(drawn[:, places], axis=1)
        detections = every[:, places]
        detections -= _counted_before(drawn, ignored, places)
        precision = hits / np.maximum(detections, 1)
        precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        recall = hits / np.maximum(objects, 1)[:, None]
        reached = np.searchsorted(recalls, recall, side="right")
        total += (precision * np.diff(reached, axis=1, prepend=0)).sum(axis=1) / len(recalls)
    total[objects == 0] = np.nan
    return total / len(matches.hit)


def _counted_before(drawn: NDArray[Any], chosen: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """[draws, places] how many of the ``chosen`` detections [D] are drawn before each place in the order of scores."""
    import numpy as np

    (rows,) = np.nonzero(chosen)
    counted = np.zeros((len(drawn), len(rows) + 1))
    np.cumsum(drawn[:, rows], axis=1, out=counted[:, 1:])
    before: NDArray[Any] = counted[:, np.searchsorted(rows, places)]
    return before


def standard_error(reference: Evaluation, tested: Evaluation) -> float:
    """Standard error of the difference of AP between two models on the same pictures, by the paired bootstrap.

    AP is no mean over pictures, so pictures are drawn with replacement, and both models' AP is computed again from
    COCOeval's matches, which do not change. That takes one pass over the detections per draw. A jackknife over groups
    of pictures would take as many passes for as good an estimate. Seeded: the same data give the same value.

    Args:
        reference: with at least one category. tested: of the same pictures and annotations.
    """
    import numpy as np

    categories = [each for side in (reference, tested) for each in side.categories.values()]
    work = sum(len(each.picture) + int(each.hit.sum()) for each in categories)
    draws = int(np.clip(WORK // max(work, 1), FEWEST_DRAWS, DRAWS))
    random = np.random.default_rng(0)
    differences: list[float] = []
    for start in range(0, draws, CHUNK):
        count = min(CHUNK, draws - start)
        weights = random.multinomial(reference.pictures, np.full(reference.pictures, 1 / reference.pictures), count)
        first, second = (_mean_ap(side, weights) for side in (reference, tested))
        differences += [float(b - a) for a, b in zip(first, second) if np.isfinite(a)]
    return float(np.std(differences, ddof=1)) if len(differences) > 1 else 0.0


def _mean_ap(side: Evaluation, weights: NDArray[Any]) -> NDArray[Any]:
    """[draws] mean AP over the categories that the pictures drawn show; NaN if there is none, 0 without detections."""
    import numpy as np

    if not side.categories:
        return np.zeros(len(weights))
    by_category = np.array([category_ap(matches, weights) for matches in side.categories.values()])
    known = ~np.isnan(by_category)
    counts = known.sum(axis=0)
    means: NDArray[Any] = np.where(known, by_category, 0).sum(axis=0) / np.where(counts, counts, np.nan)
    return means
