"""SSD300 with a VGG16 backbone (torchvision), object detection on COCO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelzoo.validity import Detection
from modelzoo.workload import (
    Checkpoint,
    Count,
    Inputs,
    Workload,
    capture_outputs,
    coco_categories,
    detector_counts,
    detector_inputs,
    detector_stages,
    detector_tensor,
    solve_background_bias,
    standardize_outputs,
)

CHECKPOINT = Checkpoint(
    name="torchvision SSD300_VGG16_Weights.COCO_V1",
    source="https://download.pytorch.org/models/ssd300_vgg16_coco-b556d3b4.pth",
    megabytes=136,
    quality={"box_ap": 25.1},
)
CANDIDATES = 1430
"""Target of the random weights: pairs of box and class over the score threshold of 0.01, the median of the trained
detector that ``modelzoo.workload.detectors`` names."""
LOGIT_DEVIATION = 2.5
"""Standard deviation of the class logits that also matches that detector's 212 pairs over 0.05."""
BOX_DEVIATION = 1.0
"""Box regressions are encoded so that trained ones have about unit variance (Liu et al., SSD, 2016)."""


def build(options: Mapping[str, Any]) -> Any:
    from torchvision.models.detection import ssd300_vgg16

    return ssd300_vgg16(weights=None, weights_backbone=None)


def randomize(model: Any, inputs: Inputs, seed: int) -> None:
    classification = list(model.head.classification_head.module_list)
    regression = list(model.head.regression_head.module_list)
    deviations = {**dict.fromkeys(classification, LOGIT_DEVIATION), **dict.fromkeys(regression, BOX_DEVIATION)}
    standardize_outputs(model, inputs, deviations)
    _, outputs = capture_outputs(model, inputs, {"head": model.head})
    shift = solve_background_bias(outputs["head"]["cls_logits"], model.score_thresh, CANDIDATES)
    for layer in classification:
        layer.bias[:: model.head.classification_head.num_columns] += shift


def count(model: Any, inputs: Inputs) -> list[Count]:
    detections, outputs = capture_outputs(model, inputs, {"head": model.head})
    return detector_counts(
        detections,
        outputs["head"]["cls_logits"],
        model.score_thresh,
        candidates_range=(573, 2745),
        detections_range=(200, 200),
    )


WORKLOAD = Workload(
    name="ssd",
    title="SSD300 VGG16 (torchvision), COCO object detection",
    unit="images",
    build=build,
    inputs=detector_inputs,
    checkpoint=lambda options: CHECKPOINT,
    randomize=randomize,
    count=count,
    heads=lambda model: {"head": model.head},
    script="script",
    judge=lambda options: Detection(detector_tensor, coco_categories, published=CHECKPOINT.quality),
    stages=lambda request: detector_stages(request, lambda: build(request.options), "scale boxes"),
    libraries=("torchvision.models.detection",),
    defaults="batch 1, any image resized to 300 × 300 pixels inside the model",
)
