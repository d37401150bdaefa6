"""COCO's average precision by pycocotools, and how it varies with the pictures that are drawn."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from modelzoo.records.partial import CocoDetections
from modelzoo.validity.bounds import Drawn, typical_size
from modelzoo.validity.coco import Annotations, ImageId

if TYPE_CHECKING:
    from numpy.typing import NDArray

AP_NAMES = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")
"""COCOeval's first six statistics, in its order. Small is below 32², large above 96² pixels."""
DRAWS = 1000
FEWEST_DRAWS = 200
WORK = 10**8
"""Detections and hits in all draws together, a few seconds of work: large data sets get fewer draws."""
SMALLEST, ROUNDING = 1e-300, 1e-12
"""In place of a weight of 0; and how far the sum of the weights of all objects may be rounded below itself."""
CHUNK = 25
"""Draws that are computed together, which bounds the memory."""


class CategoryMatches(msgspec.Struct, frozen=True):
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


class Evaluation(msgspec.Struct, frozen=True):
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


def coco_results(detections: Mapping[ImageId, CocoDetections]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return boxes and masks in COCO's result format, of detections by image id."""
    boxes, masks = [], []
    for image_id, found in detections.items():
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
    """Extract what ``COCOeval.accumulate`` reads, for objects of every size, in its own order: stable by score."""
    import numpy as np

    parameters = evaluation.params
    pictures, sizes = len(parameters.imgIds), len(parameters.areaRng)
    found = {}
    for number, category in enumerate(parameters.catIds):
        start = number * sizes * pictures  # the first range of sizes is "all"
        by_picture = enumerate(evaluation.evalImgs[start : start + pictures])
        seen, objects = {index: each for index, each in by_picture if each is not None}, np.zeros(pictures)
        objects[list(seen)] = [np.count_nonzero(each["gtIgnore"] == 0) for each in seen.values()]
        if objects.any():
            scores, ignored, matched = (
                np.concatenate([each[name] for each in seen.values()], axis=-1)
                for name in ("dtScores", "dtIgnore", "dtMatches")
            )
            picture = np.repeat(list(seen), [len(each["dtScores"]) for each in seen.values()])
            order, ignored = np.argsort(-scores, kind="stable"), ignored.astype(bool)
            hit = ((matched != 0) & ~ignored)[:, order]
            found[int(category)] = CategoryMatches(picture[order], hit, ignored[:, order], objects)
    return found


def category_ap(matches: CategoryMatches, weights: Any) -> NDArray[Any]:
    """AP of one category, for each row of ``weights`` [draws, I], in which picture i counts weights[·, i] times.

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
    recalls[-1] -= ROUNDING
    total = np.zeros(len(weights))
    for hit, ignored in zip(matches.hit, matches.ignored):
        (places,) = np.nonzero(hit)
        if not len(places):
            continue
        hits = np.cumsum(drawn[:, places], axis=1)
        (uncounted,) = np.nonzero(ignored)
        before = np.cumsum(np.pad(drawn[:, uncounted], ((0, 0), (1, 0))), axis=1)
        detections = every[:, places] - before[:, np.searchsorted(uncounted, places)]
        precision = hits / np.maximum(detections, SMALLEST)
        precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        recall = hits / np.maximum(objects, SMALLEST)[:, None]
        reached = np.searchsorted(recalls, recall, side="right")
        total += (precision * np.diff(reached, axis=1, prepend=0)).sum(axis=1) / len(recalls)
    total[objects == 0] = np.nan
    return total / len(matches.hit)


def resample(reference: Evaluation, tested: Evaluation) -> tuple[Drawn, Drawn]:
    """Compute both models' AP with random weights of the pictures, exponentially distributed.

    Returned are the tested model's AP ÷ the reference's, and the difference of both. An added picture is one whose
    objects only one model finds; see ``picture_sizes``.

    AP is no mean over pictures, so it is computed again from COCOeval's matches, which do not change. That takes one
    pass over the detections per draw. No picture has the weight 0, so no category vanishes. Seeded: the same data give
    the same values.

    Args:
        reference: with at least one category. tested: of the same pictures and annotations.
    """
    import numpy as np

    categories = [each for side in (reference, tested) for each in side.categories.values()]
    work = sum(len(each.picture) + int(each.hit.sum()) for each in categories)
    draws = int(np.clip(WORK // max(work, 1), FEWEST_DRAWS, DRAWS))
    random, sizes = np.random.default_rng(0), picture_sizes(reference)
    size = typical_size(sizes)
    found = []
    for start in range(0, draws, CHUNK):
        weights = random.standard_exponential((min(CHUNK, draws - start), reference.pictures))
        added = random.standard_exponential(len(weights)) * size
        observed = weights @ sizes / (weights @ sizes + added)
        found.append(np.array([_mean_ap(reference, weights), _mean_ap(tested, weights), observed]))
    first, second, shares = np.concatenate(found, axis=1)
    first, second, added = first * shares, second * shares, (1 - shares) / size
    before, after, pictures = reference.figures["ap"], tested.figures["ap"], reference.pictures
    ratio = Drawn(after, before, second, first, added, (0.0, size), (size, 0.0), pictures)
    ends = (-size, size), (size, size)
    return ratio, Drawn(after - before, 1.0, second - first, shares, added, *ends, pictures)


def picture_sizes(evaluation: Evaluation) -> NDArray[Any]:
    """[I] what share of AP each picture's objects are, 1 on average.

    An object is 1 ÷ (categories × objects of its category) of AP: one of few in its category weighs more.
    """
    import numpy as np

    categories = evaluation.categories.values()
    shares = sum((each.objects / each.objects.sum() for each in categories), np.zeros(evaluation.pictures))
    return np.asarray(shares * evaluation.pictures / len(categories))


def _mean_ap(side: Evaluation, weights: NDArray[Any]) -> NDArray[Any]:
    """[draws] mean AP over the categories; 0 without detections."""
    import numpy as np

    if not side.categories:
        return np.zeros(len(weights))
    means: NDArray[Any] = np.mean([category_ap(matches, weights) for matches in side.categories.values()], axis=0)
    return means
