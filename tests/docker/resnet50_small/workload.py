"""ResNet50 on 64 × 64 pixels: for emulators, where a pass at 224 takes minutes. No time of `resnet50`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from modelzoo.workload import InputRequest, Inputs, discovery

PIXELS = 64
FITTED = 128
"""Pixels a side that random weights are fitted to. At 64 the last layers have 4 places a channel, and a normalization
fitted to 4 numbers multiplies rounding: fp32 then differs from fp64 by 7e-3, at 128 by 1.5e-5."""
RESNET50 = discovery.load_workload(discovery.find_workload("resnet50"))


def inputs(request: InputRequest) -> Inputs:
    return shrunk(RESNET50.inputs(request), PIXELS)


def shrunk(large: Inputs, pixels: int) -> Inputs:
    from torch.nn.functional import interpolate

    return Inputs((interpolate(large.args[0], size=(pixels, pixels), mode="area"),), large.items)


def randomize(model: Any, given: Inputs, seed: int) -> None:
    assert RESNET50.randomize is not None
    RESNET50.randomize(model, shrunk(RESNET50.inputs(InputRequest(1, seed, None, {})), FITTED), seed)


def checkpoint(options: Mapping[str, Any]) -> None:
    """None: trained weights are for larger pictures."""


WORKLOAD = replace(
    RESNET50,
    name="resnet50_small",
    title=f"ResNet50 (torchvision) on {PIXELS} × {PIXELS} pixels",
    inputs=inputs,
    randomize=randomize,
    batch=2,  # with one picture PyTorch keeps small convolutions away from oneDNN, the kernels in question
    checkpoint=checkpoint,
    judge=None,
    defaults=f"batch 2, {PIXELS} × {PIXELS} pixels",
)
