"""SSD300 with a VGG16 backbone (torchvision), object detection on COCO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelzoo.validity import Detection
from modelzoo.workload import Checkpoint, Count, InputRequest, Inputs, Workload, pictures

CHECKPOINT = Checkpoint(
    "torchvision SSD300_VGG16_Weights.COCO_V1",
    "https://download.pytorch.org/models/ssd300_vgg16_coco-b556d3b4.pth",
    136,
    {"box_ap": 25.1},
)
TRAINED = (
    "a trained SSDLite-MobileNetV2 over 159 COCO val2017 pictures, same thresholds, 5th to 95th percentile "
    "(benchmarks/detector_counts.py)"
)
CANDIDATES = 1430
"""Pairs of box and class over the score threshold 0.01: the median of that trained detector."""
LOGIT_DEVIATION = 2.5
"""Spread of the class logits that also gives its share of high scores (212 pairs over 0.05)."""
BOX_DEVIATION = 1.0
"""Box regressions are coded so that trained ones have about unit variance (Liu et al., SSD, 2016)."""


def build(options: Mapping[str, Any]) -> Any:
    from torchvision.models.detection import ssd300_vgg16

    return ssd300_vgg16(weights=None, weights_backbone=None)


def preprocess(picture: Any) -> Any:
    """A float tensor (3, height, width) in [0, 1]; the model itself resizes and normalizes."""
    from torchvision.models.detection import SSD300_VGG16_Weights

    return SSD300_VGG16_Weights.COCO_V1.transforms()(picture)


def inputs(request: InputRequest) -> Inputs:
    chosen = pictures(request.batch, request.seed, request.path)
    return Inputs(([preprocess(picture) for picture, _ in chosen],), tuple(name for _, name in chosen))


def randomize(model: Any, batch: Inputs, seed: int) -> None:
    from modelzoo.workload.random_weights import background_bias, capture, scale_outputs

    classification = list(model.head.classification_head.module_list)
    regression = list(model.head.regression_head.module_list)
    scale_outputs(
        model,
        batch,
        {**dict.fromkeys(classification, LOGIT_DEVIATION), **dict.fromkeys(regression, BOX_DEVIATION)},
    )
    _, seen = capture(model, batch, {"head": model.head})
    shift = background_bias(seen["head"]["cls_logits"], model.score_thresh, CANDIDATES)
    for layer in classification:
        layer.bias[:: model.head.classification_head.num_columns] += shift


def count(model: Any, batch: Inputs) -> list[Count]:
    from modelzoo.workload.random_weights import candidates, capture

    detections, seen = capture(model, batch, {"head": model.head})
    pictures_in = len(detections)
    into_nms = candidates(seen["head"]["cls_logits"], model.score_thresh) / pictures_in
    found = sum(len(d["boxes"]) for d in detections) / pictures_in
    return [
        Count("candidates into NMS per image", into_nms, 573, 2745, TRAINED),
        Count("detections per image", found, 200, 200, TRAINED),
    ]


def categories() -> dict[int, tuple[int, str]]:
    """The model's labels are COCO's category ids; ids that COCO never used are "N/A"."""
    from torchvision.models.detection import SSD300_VGG16_Weights

    names = SSD300_VGG16_Weights.COCO_V1.meta["categories"]
    return {label: (label, name) for label, name in enumerate(names) if name not in ("__background__", "N/A")}


WORKLOAD = Workload(
    name="ssd",
    title="SSD300 VGG16 (torchvision), COCO object detection",
    unit="images",
    build=build,
    inputs=inputs,
    checkpoint=lambda options: CHECKPOINT,
    randomize=randomize,
    count=count,
    script="script",
    judge=Detection(preprocess, categories, published=CHECKPOINT.quality),
    defaults="batch 1, any picture resized to 300 × 300 pixels inside the model",
)
