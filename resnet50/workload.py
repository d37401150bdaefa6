"""ResNet50 (torchvision), image classification on ImageNet's 1,000 classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modelzoo.validity import Classification
from modelzoo.validity.imagenet import wnids
from modelzoo.workload import Checkpoint, InputRequest, Inputs, Workload, pictures

CHECKPOINT = Checkpoint(
    "torchvision ResNet50_Weights.IMAGENET1K_V2",
    "https://download.pytorch.org/models/resnet50-11ad3fa6.pth",
    98,
    {"top1": 80.858, "top5": 95.434},
)


def build(options: Mapping[str, Any]) -> Any:
    from torchvision.models import resnet50

    return resnet50(weights=None)


def preprocess(picture: Any) -> Any:
    """The published preprocessing: shorter side 232, centre crop 224, ImageNet mean and deviation."""
    from torchvision.models import ResNet50_Weights

    return ResNet50_Weights.IMAGENET1K_V2.transforms()(picture)


def inputs(request: InputRequest) -> Inputs:
    import torch

    chosen = pictures(request.batch, request.seed, request.path)
    batch = torch.stack([preprocess(picture) for picture, _ in chosen])
    return Inputs((batch,), tuple(name for _, name in chosen))


def randomize(model: Any, batch: Inputs, seed: int) -> None:
    from modelzoo.workload.random_weights import fit_normalization

    fit_normalization(model, batch)


def labels() -> Sequence[str]:
    from torchvision.models import ResNet50_Weights

    return list(ResNet50_Weights.IMAGENET1K_V2.meta["categories"])


WORKLOAD = Workload(
    name="resnet50",
    title="ResNet50 (torchvision), ImageNet classification",
    unit="images",
    build=build,
    inputs=inputs,
    checkpoint=lambda options: CHECKPOINT,
    randomize=randomize,
    judge=Classification(preprocess, labels, wnids, published=CHECKPOINT.quality),
    defaults="batch 1, 224 × 224 pixels, 4.1 billion multiply-adds an image",
)
