"""What torchvision's COCO detectors share: preprocessing, inputs, categories, and counts of their work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelzoo.records.workload import Count
from modelzoo.workload.declaration import InputRequest, Inputs
from modelzoo.workload.inputs import pictures
from modelzoo.workload.random_weights import count_candidates

TRAINED_DETECTOR = (
    "a trained SSDLite-MobileNetV2 over 159 COCO val2017 pictures, same thresholds, 5th to 95th percentile "
    "(benchmarks/detector_counts.py)"
)
"""Source of the ranges of candidates and detections."""


def detector_tensor(picture: Any) -> Any:
    """Convert a picture to a float tensor (3, height, width) in [0, 1]; the model itself resizes and normalizes it."""
    from torchvision.models.detection import SSD300_VGG16_Weights

    # The same transform for all of torchvision's detectors.
    return SSD300_VGG16_Weights.COCO_V1.transforms()(picture)


def detector_inputs(request: InputRequest) -> Inputs:
    """Return one batch of pictures, as the list of tensors that torchvision's detectors take."""
    chosen = pictures(request.batch, request.seed, request.path)
    return Inputs(args=([detector_tensor(picture) for picture, _ in chosen],), items=tuple(name for _, name in chosen))


def coco_categories() -> dict[int, tuple[int, str]]:
    """Map each label to its COCO category id, which is the same number, and its name.

    Ids that COCO never used are left out.
    """
    from torchvision.models.detection import SSD300_VGG16_Weights

    names = SSD300_VGG16_Weights.COCO_V1.meta["categories"]
    return {label: (label, name) for label, name in enumerate(names) if name not in ("__background__", "N/A")}


def detector_counts(
    detections: Sequence[Any],
    logits: Any,
    threshold: float,
    *,
    candidates_range: tuple[float, float],
    detections_range: tuple[float, float],
) -> list[Count]:
    """Count what the time of a detector depends on, per image: candidates that enter NMS, and final detections.

    Args:
        detections: the model's output, one mapping with ``boxes`` per image.
        logits: class logits of all images, see ``count_candidates``.
        threshold: the detector's score threshold.
        candidates_range: lowest and highest number of candidates with trained weights.
        detections_range: lowest and highest number of detections with trained weights.
    """
    images = len(detections)
    candidates = count_candidates(logits, threshold) / images
    found = sum(len(detection["boxes"]) for detection in detections) / images
    return [
        Count("candidates into NMS per image", candidates, *candidates_range, TRAINED_DETECTOR),
        Count("detections per image", found, *detections_range, TRAINED_DETECTOR),
    ]
