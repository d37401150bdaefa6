"""Networks whose layers are of many kinds, at any size: depthwise, grouped, transposed and 1×1 convolutions, Linear.

The code of EfficientNet-Lite0 and SSDLite lies outside the project, under ``MODELZOO_TEST_DATA`` (default: ``shared``
beside the project); ResNeXt-50 is torchvision's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from modelzoo.workload import InputRequest, Inputs, Option, Workload, calibrate_batch_norm
from modelzoo.workload.discovery import CHECKOUT

MODELS = Path(os.environ.get("MODELZOO_TEST_DATA") or CHECKOUT.parent / "shared") / "models"
NETWORKS = ("efficientnet_lite0", "ssdlite", "resnext50", "transposed")
CHANNELS = 32


def build(options: Mapping[str, Any]) -> Any:
    name = options["network"]
    if name == "resnext50":
        from torchvision.models import resnext50_32x4d

        return resnext50_32x4d(weights=None)
    if name == "transposed":
        return _transposed()
    sys.path.insert(0, str(MODELS))
    try:
        if name == "ssdlite":
            return import_module("ssdlite_mobilenet_v2").SSDLite(classes=90).eval()
        return import_module("efficientnet_lite0").EfficientNetLite0().eval()
    finally:
        sys.path.remove(str(MODELS))


def _transposed() -> Any:
    """A small decoder: transposed convolutions of several strides, one of them in groups."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, CHANNELS, 3, stride=4, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(CHANNELS, CHANNELS, 2, stride=2),
        nn.ReLU(),
        nn.ConvTranspose2d(CHANNELS, CHANNELS, 3, stride=2, padding=1, output_padding=1, groups=4),
        nn.ReLU(),
        nn.ConvTranspose2d(CHANNELS, 8, 3, padding=1),
    )


def inputs(request: InputRequest) -> Inputs:
    import torch

    size = request.options["size"]
    generator = torch.Generator().manual_seed(request.seed)
    pictures = torch.randn(request.batch, 3, size, size, generator=generator)
    return Inputs((pictures,), tuple(f"picture {i}" for i in range(request.batch)))


def randomize(model: Any, inputs: Inputs, seed: int) -> None:
    calibrate_batch_norm(model, inputs)


WORKLOAD = Workload(
    name="layers",
    title="networks with layers of many kinds",
    unit="pictures",
    build=build,
    inputs=inputs,
    randomize=randomize,
    options=(
        Option("network", NETWORKS[0], "which network", choices=NETWORKS),
        Option("size", 64, "pixels of each side of a picture", type=int, minimum=32, is_input=True),
    ),
)
