"""From a detector's output to ``Detections`` in the original picture, and on to records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelzoo.records.exhibits import DrawnDetections
from modelzoo.records.partial import CocoDetections
from modelzoo.validity.layer_outputs import all_finite
from modelzoo.validity.matching import Detections
from modelzoo.workload.images import Picture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from modelzoo.validity.task import Detection

COMPARED_SCORES = 300
"""Scores per picture that represent the output when it is compared number by number."""
MASK_THRESHOLD = 0.5


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
    finite = all_finite(output)
    found = declaration.detections(output, _sizes(pictures))
    return [_detections(each, picture, finite) for each, picture in zip(found, pictures)]


def _sizes(pictures: Sequence[Picture]) -> list[tuple[int, int]]:
    return [(picture.image.size[1], picture.image.size[0]) for picture in pictures]


def _detections(found: Mapping[str, Any], picture: Picture, finite: bool) -> Detections:
    import torch

    scores = found["scores"].detach().float().cpu()
    boxes = found["boxes"].detach().float().cpu().reshape(-1, 4)
    finite = finite and bool(torch.isfinite(scores).all()) and bool(torch.isfinite(boxes).all())
    order = scores.argsort(descending=True)
    masks = None
    if "masks" in found:
        probabilities = found["masks"].detach()
        probabilities = probabilities[:, 0] if probabilities.dim() == 4 else probabilities
        masks = [(probabilities[i] > MASK_THRESHOLD).cpu().numpy() for i in order.tolist()]
    boxes_in_original = boxes[order].double().numpy() * original_scale(picture)
    labels = found["labels"].detach().cpu()[order].numpy()
    return Detections(boxes_in_original, scores[order].double().numpy(), labels, masks, finite)


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
