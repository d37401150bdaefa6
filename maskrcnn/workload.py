"""Mask R-CNN with a ResNet50-FPN backbone (torchvision), instance segmentation on COCO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelzoo.validity import Detection
from modelzoo.workload import Checkpoint, Count, InputRequest, Inputs, Option, Workload, pictures

CHECKPOINT = Checkpoint(
    "torchvision MaskRCNN_ResNet50_FPN_Weights.COCO_V1",
    "https://download.pytorch.org/models/maskrcnn_resnet50_fpn_coco-bf2d0c1e.pth",
    170,
    {"box_ap": 37.9, "mask_ap": 34.6},
)
TRAINED = (
    "a trained SSDLite-MobileNetV2 over 159 COCO val2017 pictures, same thresholds, 5th to 95th percentile "
    "(benchmarks/detector_counts.py)"
)
PROPOSALS = "torchvision's rpn_post_nms_top_n_test of 1,000, which a dense trained RPN fills at this size"
CANDIDATES = 60
"""Pairs of box and class over the score threshold 0.05. That trained detector has 212 (median) and
keeps 52 after NMS; random boxes overlap less, and the mask head's time follows the number kept, so
that is what was aimed at."""
LOGIT_DEVIATION = 1.5
OBJECTNESS_DEVIATION = 2.0
PROPOSAL_DEVIATION = 0.2
BOX_DEVIATION = 0.5


def build(options: Mapping[str, Any]) -> Any:
    from torchvision.models.detection import MaskRCNN
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    # As maskrcnn_resnet50_fpn(weights=...) builds it: frozen batch norm. Its weights=None form takes
    # trainable batch norm instead, which is other kernels.
    backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None, trainable_layers=0)
    return MaskRCNN(backbone, num_classes=91, min_size=options["min-size"])


def preprocess(picture: Any) -> Any:
    """A float tensor (3, height, width) in [0, 1]; the model itself resizes and normalizes."""
    from torchvision.models.detection import MaskRCNN_ResNet50_FPN_Weights

    return MaskRCNN_ResNet50_FPN_Weights.COCO_V1.transforms()(picture)


def inputs(request: InputRequest) -> Inputs:
    chosen = pictures(request.batch, request.seed, request.path)
    return Inputs(([preprocess(picture) for picture, _ in chosen],), tuple(name for _, name in chosen))


def randomize(model: Any, batch: Inputs, seed: int) -> None:
    from modelzoo.workload.random_weights import background_bias, capture, fit_normalization, scale_outputs

    fit_normalization(model, batch)
    heads = model.roi_heads
    scale_outputs(
        model,
        batch,
        {
            # Without these, deep random features of all boxes are nearly the same vector, and what tells
            # boxes apart is lost in the rounding of bf16.
            **dict.fromkeys((block[0] for block in model.backbone.fpn.layer_blocks), 1.0),
            heads.box_head.fc6: 1.0,
            heads.box_head.fc7: 1.0,
            model.rpn.head.cls_logits: OBJECTNESS_DEVIATION,
            model.rpn.head.bbox_pred: PROPOSAL_DEVIATION,
            heads.box_predictor.cls_score: LOGIT_DEVIATION,
            heads.box_predictor.bbox_pred: BOX_DEVIATION,
            heads.mask_predictor.mask_fcn_logits: 1.0,
        },
    )
    _, seen = capture(model, batch, {"boxes": heads.box_predictor})
    shift = background_bias(seen["boxes"][0], heads.score_thresh, CANDIDATES)
    heads.box_predictor.cls_score.bias[0] += shift


def count(model: Any, batch: Inputs) -> list[Count]:
    from modelzoo.workload.random_weights import candidates, capture

    heads = model.roi_heads
    detections, seen = capture(model, batch, {"rpn": model.rpn, "boxes": heads.box_predictor})
    pictures_in = len(detections)
    proposals = sum(len(boxes) for boxes in seen["rpn"][0]) / pictures_in
    into_nms = candidates(seen["boxes"][0], heads.score_thresh) / pictures_in
    found = sum(len(d["boxes"]) for d in detections) / pictures_in
    return [
        Count("proposals per image", proposals, 500, 1000, PROPOSALS),
        Count("candidates into NMS per image", into_nms, 33, 668, TRAINED),
        Count("detections per image", found, 5, 100, TRAINED),
    ]


def categories() -> dict[int, tuple[int, str]]:
    """The model's labels are COCO's category ids; ids that COCO never used are "N/A"."""
    from torchvision.models.detection import MaskRCNN_ResNet50_FPN_Weights

    names = MaskRCNN_ResNet50_FPN_Weights.COCO_V1.meta["categories"]
    return {label: (label, name) for label, name in enumerate(names) if name not in ("__background__", "N/A")}


WORKLOAD = Workload(
    name="maskrcnn",
    title="Mask R-CNN ResNet50-FPN (torchvision), COCO instance segmentation",
    unit="images",
    build=build,
    inputs=inputs,
    checkpoint=lambda options: CHECKPOINT,
    randomize=randomize,
    count=count,
    options=(Option("min-size", 800, "shorter side that pictures are resized to, pixels", int, None, 64, 1333, True),),
    script="script",
    judge=Detection(preprocess, categories, masks=True, published=CHECKPOINT.quality),
    defaults="batch 1, shorter side resized to 800 pixels (longer at most 1,333) inside the model",
)
