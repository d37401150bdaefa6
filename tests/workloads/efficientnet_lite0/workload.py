"""EfficientNet-Lite0: a trained ImageNet classifier whose code and weights lie outside the project.

They are found under ``MODELZOO_TEST_DATA`` (default: ``shared`` beside the project):
``--weights $MODELZOO_TEST_DATA/weights/classification/efficientnet-lite0-57934424.pth``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelzoo.validity import Classification, wnids
from modelzoo.workload import InputRequest, Inputs, Workload, pictures
from modelzoo.workload.discovery import CHECKOUT

DATA = Path(os.environ.get("MODELZOO_TEST_DATA") or CHECKOUT.parent / "shared")
WEIGHTS = DATA / "weights" / "classification" / "efficientnet-lite0-57934424.pth"
SIZE = 224


def build(options: Mapping[str, Any]) -> Any:
    sys.path.insert(0, str(DATA / "models"))
    try:
        from efficientnet_lite0 import EfficientNetLite0
    finally:
        sys.path.remove(str(DATA / "models"))
    return EfficientNetLite0().eval()


def preprocess(picture: Any) -> Any:
    """Centre crop of 87.5 %, bicubic, 224×224, (x − 127) ÷ 128."""
    import numpy as np
    import torch
    from PIL import Image

    width, height = picture.size
    side = round(min(width, height) * 0.875)
    left, top = (width - side) // 2, (height - side) // 2
    crop = picture.resize((SIZE, SIZE), Image.Resampling.BICUBIC, (left, top, left + side, top + side))
    return (torch.from_numpy(np.array(crop)).permute(2, 0, 1).float() - 127) / 128


def inputs(request: InputRequest) -> Inputs:
    import torch

    chosen = pictures(request.batch, request.seed, request.path, request.skip)
    return Inputs((torch.stack([preprocess(p) for p, _ in chosen]),), tuple(name for _, name in chosen))


def labels() -> Sequence[str]:
    return [entry["name"] for entry in json.loads((DATA / "data" / "imagenet1k.json").read_text(encoding="utf-8"))]


WORKLOAD = Workload(
    name="efficientnet_lite0",
    title="EfficientNet-Lite0, ImageNet",
    unit="images",
    build=build,
    inputs=inputs,
    batch=1,
    judge=lambda options: Classification(preprocess=preprocess, labels=labels, wnids=wnids, published={"top1": 75.1}),
)
