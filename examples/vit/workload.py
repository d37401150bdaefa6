"""ViT-B/16 (torchvision): an image transformer with published weights, and a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modelzoo.validity import Classification, wnids
from modelzoo.workload import Checkpoint, InputRequest, Inputs, Workload, pictures

CHECKPOINT = Checkpoint(
    name="torchvision ViT_B_16_Weights.IMAGENET1K_V1",
    source="https://download.pytorch.org/models/vit_b_16-c867db91.pth",
    megabytes=330,
    quality={"top1": 81.072, "top5": 95.318},
)


def build(options: Mapping[str, Any]) -> Any:
    from torchvision.models import vit_b_16

    return vit_b_16(weights=None)


def published() -> Any:
    from torchvision.models import ViT_B_16_Weights

    return ViT_B_16_Weights.IMAGENET1K_V1


def preprocess(picture: Any) -> Any:
    return published().transforms()(picture)


def labels() -> Sequence[str]:
    names: Sequence[str] = published().meta["categories"]
    return names


def inputs(request: InputRequest) -> Inputs:
    import torch

    chosen = pictures(request.batch, request.seed, request.path, request.skip)
    tensors = torch.stack([preprocess(picture) for picture, _ in chosen])
    return Inputs(args=(tensors,), items=tuple(name for _, name in chosen))


WORKLOAD = Workload(
    name="vit",
    title="ViT-B/16 (torchvision), ImageNet classification",
    unit="images",
    build=build,
    inputs=inputs,
    checkpoint=lambda options: CHECKPOINT,
    judge=lambda options: Classification(preprocess, labels, wnids, published=CHECKPOINT.quality),
    libraries=("torchvision.models",),
    defaults="batch 1, 224 × 224 pixels",
)
