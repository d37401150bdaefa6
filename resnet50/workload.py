"""ResNet50 (torchvision), image classification on ImageNet's 1,000 classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modelzoo.validity import Classification, wnids
from modelzoo.workload import (
    Checkpoint,
    InputRequest,
    Inputs,
    ModelInput,
    ModelOutput,
    Stage,
    Stages,
    Workload,
    calibrate_batch_norm,
    picture_files,
    pictures,
)

CHECKPOINT = Checkpoint(
    name="torchvision ResNet50_Weights.IMAGENET1K_V2",
    source="https://download.pytorch.org/models/resnet50-11ad3fa6.pth",
    megabytes=98,
    quality={"top1": 80.858, "top5": 95.434},
)


def build(options: Mapping[str, Any]) -> Any:
    from torchvision.models import resnet50

    return resnet50(weights=None)


def preprocess(picture: Any) -> Any:
    """Resize the shorter side to 232, crop the centre to 224 × 224, and normalize, as published with the weights."""
    from torchvision.models import ResNet50_Weights

    return ResNet50_Weights.IMAGENET1K_V2.transforms()(picture)


def batch(images: Sequence[Any]) -> Any:
    """Preprocess pictures and stack them, [N, 3, 224, 224]."""
    import torch

    return torch.stack([preprocess(image) for image in images])


def inputs(request: InputRequest) -> Inputs:
    chosen = pictures(request.batch, request.seed, request.path, request.skip)
    return Inputs(args=(batch([picture for picture, _ in chosen]),), items=tuple(name for _, name in chosen))


def stages(request: InputRequest) -> Stages:
    files, names = picture_files(request.batch, request.seed, request.path), labels()

    def top5(made: ModelOutput) -> list[list[tuple[str, float]]]:
        """The five most probable classes of each picture, with their probabilities."""
        best = made.output.float().softmax(1).topk(5)
        rows = zip(best.indices.tolist(), best.values.tolist())
        return [[(names[index], value) for index, value in zip(*row)] for row in rows]

    return Stages(
        source=files,
        items=tuple(file.name for file in files),
        before=(
            Stage("decode images", lambda files: [file.decode() for file in files]),
            Stage("resize and normalize", lambda images: ModelInput((batch(images),))),
        ),
        after=(Stage("top-5 classes", top5),),
    )


def randomize(model: Any, inputs: Inputs, seed: int) -> None:
    calibrate_batch_norm(model, inputs)


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
    judge=lambda options: Classification(preprocess, labels, wnids, published=CHECKPOINT.quality),
    stages=stages,
    libraries=("torchvision.models",),
    defaults="batch 1, 224 × 224 pixels, 4.1 billion multiply-adds per image",
)
