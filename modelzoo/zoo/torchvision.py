"""Models of torchvision: ``torchvision:vit_b_16``.

Classification and detection are judged against labels. Segmentation, video and optical flow have no judge here: they
are timed, and their outputs in reduced precision are compared with fp32 by the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from modelzoo.errors import UsageError, suggestion
from modelzoo.machine.installation import import_torchvision
from modelzoo.validity import Classification, Detection, wnids
from modelzoo.workload import (
    Checkpoint,
    InputRequest,
    Inputs,
    Workload,
    calibrate_batch_norm,
    coco_categories,
    detector_inputs,
    detector_tensor,
    pictures,
)

TASKS = {
    "detection": ("object detection", "images"),
    "segmentation": ("semantic segmentation", "images"),
    "video": ("video classification", "clips"),
    "optical_flow": ("optical flow", "pairs"),
    "": ("image classification", "images"),
}
"""By the subpackage of ``torchvision.models`` that holds a model: what it does, and what throughput counts."""
QUALITY = {"acc@1": "top1", "acc@5": "top5", "box_map": "box_ap", "mask_map": "mask_ap"}
"""Our names of torchvision's published metrics."""
JUDGED_ON = {"": "ImageNet-1K", "detection": "COCO-val2017"}
AS_TRAINED: dict[str, dict[str, object]] = {
    "googlenet": {"transform_input": True, "aux_logits": True, "init_weights": False},
    "inception_v3": {"transform_input": True, "aux_logits": True, "init_weights": False},
}
"""Arguments that torchvision's builders add when they load published weights."""
FRAMES = 16
"""Frames of a clip, as many as the video transformers were trained with."""
FLOW_SIZE = (520, 960)
"""Height and width with which torchvision's references evaluate RAFT; multiples of 8."""


def names() -> list[str]:
    """The models that can be named; those of ``models.quantization`` are int8 and have no fp32 beside them."""
    import_torchvision()
    from torchvision.models import list_models

    return [name for name in list_models() if not name.startswith("quantized_")]


def workload(name: str) -> Workload:
    """Return the workload of one of torchvision's models.

    Raises:
        UsageError: there is no such model.
    """
    from torchvision.models import get_model_builder, get_model_weights

    if name not in (known := names()):
        raise UsageError(
            f"torchvision has no model {name!r}{suggestion(name, known)}; modelzoo list torchvision: prints them"
        )
    builder = get_model_builder(name)
    kind = next((kind for kind in TASKS if kind and f".models.{kind}." in builder.__module__), "")
    weights = get_model_weights(name).DEFAULT
    transforms: Callable[[Any], Any] = weights.transforms()
    metrics = weights.meta["_metrics"].get(JUDGED_ON.get(kind, ""), {})
    quality = {QUALITY[metric]: value for metric, value in metrics.items() if metric in QUALITY}
    checkpoint = Checkpoint(
        f"torchvision {type(weights).__name__}.{weights.name}", weights.url, round(weights.meta["_file_size"]), quality
    )
    arguments: dict[str, Any] = dict(AS_TRAINED.get(name, {}))
    if kind in ("detection", "segmentation"):
        arguments["weights_backbone"] = None
        arguments["num_classes"] = len(weights.meta["categories"])
    if kind == "segmentation" and not name.startswith("lraspp"):
        arguments["aux_loss"] = True

    def build(options: Mapping[str, Any]) -> Any:
        return builder(weights=None, **arguments)

    def inputs(request: InputRequest) -> Inputs:
        import torch

        if kind == "detection":
            return detector_inputs(request)
        if kind == "optical_flow":
            return flow_inputs(request)
        each_item = FRAMES if kind == "video" else 1
        chosen = pictures(request.batch * each_item, request.seed, request.path, request.skip * each_item)
        if kind == "video":  # the frames are crops of the pictures
            height, width = chosen[0][0].height, chosen[0][0].width
            frames = [to_tensor(picture.resize((width, height))) for picture, _ in chosen]
            items = [transforms(torch.stack(frames[i : i + FRAMES])) for i in range(0, len(frames), FRAMES)]
            return Inputs((torch.stack(items),), tuple(label for _, label in chosen[::FRAMES]))
        tensors = [transforms(picture) for picture, _ in chosen]
        if kind == "segmentation":  # pictures keep their proportions
            size = tensors[0].shape[-2:]
            tensors = [torch.nn.functional.interpolate(each[None], size)[0] for each in tensors]
        return Inputs((torch.stack(tensors),), tuple(label for _, label in chosen))

    judges = {
        "": lambda options: Classification(
            transforms, lambda: list(weights.meta["categories"]), wnids, published=quality
        ),
        "detection": lambda options: Detection(detector_tensor, coco_categories, published=quality),
    }
    does, unit = TASKS[kind]
    return Workload(
        name=f"torchvision:{name}",
        title=f"{name} (torchvision), {does}",
        unit=unit,
        build=build,
        inputs=inputs,
        checkpoint=lambda options: checkpoint,
        randomize=None if kind == "detection" else lambda model, batch, seed: calibrate_batch_norm(model, batch),
        judge=judges.get(kind) if name != "keypointrcnn_resnet50_fpn" else None,
        script="script" if kind == "detection" else "trace",
        libraries=("torchvision.models",),
        defaults="batch 1, the preprocessing of the published weights",
    )


def to_tensor(picture: Any) -> Any:
    """A picture as a uint8 tensor [3, H, W]."""
    from torchvision.transforms.functional import pil_to_tensor

    return pil_to_tensor(picture)


def flow_inputs(request: InputRequest) -> Inputs:
    """Pairs of neighbouring crops of the pictures, [N, 3, H, W] each, in [-1, 1]."""
    import torch

    height, width = FLOW_SIZE
    chosen = pictures(2 * request.batch, request.seed, request.path, 2 * request.skip)
    frames = [to_tensor(picture.resize((width, height))).float() / 127.5 - 1 for picture, _ in chosen]
    return Inputs((torch.stack(frames[::2]), torch.stack(frames[1::2])), tuple(label for _, label in chosen[::2]))
