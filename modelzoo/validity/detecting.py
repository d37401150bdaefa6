"""From a detector's output to boxes in the original picture, and to COCO's result format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from modelzoo.validity.matching import Found
from modelzoo.validity.outcome import Side
from modelzoo.validity.rounding import all_finite
from modelzoo.validity.task import Detection
from modelzoo.workload.images import Picture

SCORES = 300
"""Scores a picture that stand for the output when it is compared number by number."""


def best_scores(task: Detection, seen: Sequence[Picture]) -> Callable[[Any], Any]:
    """The scores of each picture, best first, filled up with 0: [pictures, SCORES]."""

    def scores(output: Any) -> Any:
        import torch

        sizes = [picture.image.size[::-1] for picture in seen]
        filled = torch.zeros(len(sizes), SCORES)
        for row, found in zip(filled, task.detections(output, sizes)):
            best = found["scores"].detach().float().cpu().sort(descending=True).values[:SCORES]
            row[: len(best)] = best
        return filled

    return scores


def run(side: Side, task: Detection, args: tuple[Any, ...], seen: Sequence[Picture]) -> list[Found]:
    """Detections in pixels of the original pictures, best first."""
    import torch

    sizes = [picture.image.size[::-1] for picture in seen]
    with torch.no_grad(), side.active():
        output = side.call(*args)
        finite = all_finite(output)
        detections = task.detections(output, sizes)
    return [_found(d, picture, finite) for d, picture in zip(detections, seen)]


def _found(detections: Mapping[str, Any], picture: Picture, finite: bool) -> Found:
    import numpy as np
    import torch

    scores = detections["scores"].detach().float().cpu()
    boxes = detections["boxes"].detach().float().cpu().reshape(-1, 4)
    finite = finite and bool(torch.isfinite(scores).all()) and bool(torch.isfinite(boxes).all())
    order = scores.argsort(descending=True)
    factors = np.array([o / s for o, s in zip(picture.size, picture.image.size)] * 2)
    masks = None
    if "masks" in detections:
        heat = detections["masks"].detach()
        heat = heat[:, 0] if heat.dim() == 4 else heat
        masks = [(heat[i] > 0.5).cpu().numpy() for i in order.tolist()]
    labels = detections["labels"].detach().cpu()[order].numpy()
    return Found(boxes[order].double().numpy() * factors, scores[order].double().numpy(), labels, masks, finite)


def coco_results(
    found: Found, image_id: int, size: tuple[int, int], category_of: Mapping[int, int]
) -> dict[str, list[dict[str, Any]]]:
    """COCO results of one picture, boxes as x, y, width, height; masks as RLE at the original size."""
    boxes, masks = [], []
    for row in range(len(found.scores)):
        label = int(found.labels[row])
        if label not in category_of:
            continue
        shared = {"image_id": image_id, "category_id": category_of[label], "score": float(found.scores[row])}
        x0, y0, x1, y1 = (float(v) for v in found.boxes[row])
        boxes.append({**shared, "bbox": [x0, y0, x1 - x0, y1 - y0]})
        if found.masks is not None:
            masks.append({**shared, "segmentation": _encoded(found.masks[row], size)})
    return {"bbox": boxes, "segm": masks}


def _encoded(mask: Any, size: tuple[int, int]) -> Any:
    import numpy as np
    from PIL import Image
    from pycocotools import mask as rle

    mask = np.asarray(mask, dtype="uint8")
    if mask.shape[::-1] != size:
        mask = np.asarray(Image.fromarray(mask).resize(size, Image.Resampling.NEAREST))
    return rle.encode(np.asfortranarray(mask))
