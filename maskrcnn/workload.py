"""Mask R-CNN with a ResNet50-FPN backbone (torchvision), instance segmentation on COCO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelzoo.validity import Detection
from modelzoo.workload import (
    Checkpoint,
    Count,
    Inputs,
    Option,
    Workload,
    calibrate_batch_norm,
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
    name="torchvision MaskRCNN_ResNet50_FPN_Weights.COCO_V1",
    source="https://download.pytorch.org/models/maskrcnn_resnet50_fpn_coco-bf2d0c1e.pth",
    megabytes=170,
    quality={"box_ap": 37.9, "mask_ap": 34.6},
)
PROPOSALS = "torchvision's rpn_post_nms_top_n_test of 1,000, which a dense trained RPN fills at this size"
PUBLISHED_MIN_SIZE = 800
"""Pixels of the shorter side at which the published quality was measured."""
CANDIDATES = 60
"""Target of the random weights: pairs of box and class over the score threshold of 0.05. The trained detector that
``modelzoo.workload.detectors`` names has 212 (median) and keeps 52 after NMS. The mask head's time follows the number
kept, and random boxes overlap less, so that fewer candidates leave as many."""
LOGIT_DEVIATION = 1.5
OBJECTNESS_DEVIATION = 2.0
PROPOSAL_DEVIATION = 0.2
BOX_DEVIATION = 0.5


def build(options: Mapping[str, Any]) -> Any:
    from torchvision.models.detection import MaskRCNN
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    # Frozen batch norm, as in maskrcnn_resnet50_fpn(weights=...). With weights=None that function uses trainable
    # batch norm, which runs other kernels.
    backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None, trainable_layers=0)
    return MaskRCNN(backbone, num_classes=91, min_size=options["min-size"])


def randomize(model: Any, inputs: Inputs, seed: int) -> None:
    calibrate_batch_norm(model, inputs)
    heads = model.roi_heads
    deviations = {
        # Without the layers up to fc7, deep random features of all boxes are nearly the same vector, and the
        # differences between boxes are lost in bf16 rounding.
        **dict.fromkeys((block[0] for block in model.backbone.fpn.layer_blocks), 1.0),
        heads.box_head.fc6: 1.0,
        heads.box_head.fc7: 1.0,
        model.rpn.head.cls_logits: OBJECTNESS_DEVIATION,
        model.rpn.head.bbox_pred: PROPOSAL_DEVIATION,
        heads.box_predictor.cls_score: LOGIT_DEVIATION,
        heads.box_predictor.bbox_pred: BOX_DEVIATION,
        heads.mask_predictor.mask_fcn_logits: 1.0,
    }
    standardize_outputs(model, inputs, deviations)
    _, outputs = capture_outputs(model, inputs, {"boxes": heads.box_predictor})
    shift = solve_background_bias(outputs["boxes"][0], heads.score_thresh, CANDIDATES)
    heads.box_predictor.cls_score.bias[0] += shift


def count(model: Any, inputs: Inputs) -> list[Count]:
    heads = model.roi_heads
    detections, outputs = capture_outputs(model, inputs, {"rpn": model.rpn, "boxes": heads.box_predictor})
    proposals = sum(len(boxes) for boxes in outputs["rpn"][0]) / len(detections)
    return [
        Count("proposals per image", proposals, low=500, high=1000, source=PROPOSALS),
        *detector_counts(
            detections,
            outputs["boxes"][0],
            heads.score_thresh,
            candidates_range=(33, 668),
            detections_range=(5, 100),
        ),
    ]


def judge(options: Mapping[str, Any]) -> Detection:
    """Box and mask AP; the published quality holds for pictures resized to ``PUBLISHED_MIN_SIZE`` only."""
    published = CHECKPOINT.quality if options["min-size"] == PUBLISHED_MIN_SIZE else {}
    return Detection(detector_tensor, coco_categories, masks=True, published=published)


WORKLOAD = Workload(
    name="maskrcnn",
    title="Mask R-CNN ResNet50-FPN (torchvision), COCO instance segmentation",
    unit="images",
    build=build,
    inputs=detector_inputs,
    checkpoint=lambda options: CHECKPOINT,
    randomize=randomize,
    count=count,
    heads=lambda model: {"rpn": model.rpn.head},
    options=(
        Option(
            name="min-size",
            default=800,
            help="shorter side that images are resized to, pixels",
            type=int,
            minimum=64,
            maximum=1333,
            is_input=True,
        ),
    ),
    script="script",
    judge=judge,
    stages=lambda request: detector_stages(request, lambda: build(request.options), "paste masks"),
    libraries=("torchvision.models.detection",),
    defaults="batch 1, shorter side resized to 800 pixels (longer at most 1,333) inside the model",
)
