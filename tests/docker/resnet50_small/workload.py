"""ResNet50 on 64 × 64 pixels: for emulators, where a pass at 224 takes minutes. No time of `resnet50`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from modelzoo import workload
from modelzoo.workload import InputRequest, Inputs

PIXELS = 64
RESNET50 = workload.load(workload.find("resnet50"))


def inputs(request: InputRequest) -> Inputs:
    from torch.nn.functional import interpolate

    large = RESNET50.inputs(request)
    return Inputs((interpolate(large.args[0], size=(PIXELS, PIXELS), mode="area"),), large.items)


def checkpoint(options: Mapping[str, Any]) -> None:
    """None: trained weights are for larger pictures."""


WORKLOAD = replace(
    RESNET50,
    name="resnet50_small",
    title=f"ResNet50 (torchvision) on {PIXELS} × {PIXELS} pixels",
    inputs=inputs,
    batch=2,  # with one picture PyTorch keeps small convolutions away from oneDNN, the kernels in question
    checkpoint=checkpoint,
    judge=None,
    defaults=f"batch 2, {PIXELS} × {PIXELS} pixels",
)
