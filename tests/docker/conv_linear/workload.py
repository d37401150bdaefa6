"""Convolutions and Linear layers with about the same amount of work: shows if only one kind runs in bf16."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelzoo.workload import InputRequest, Inputs, Workload

CHANNELS, PIXELS, WIDTH = 64, 28, 512


def build(options: Mapping[str, Any]) -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
        nn.Flatten(2),
        nn.Linear(PIXELS * PIXELS, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
    )


def inputs(request: InputRequest) -> Inputs:
    import torch

    generator = torch.Generator().manual_seed(request.seed)
    pictures = torch.randn(request.batch, CHANNELS, PIXELS, PIXELS, generator=generator)
    return Inputs((pictures,), tuple(f"picture {i}" for i in range(request.batch)))


WORKLOAD = Workload(
    name="conv_linear",
    title="two convolutions and two Linear layers",
    unit="pictures",
    build=build,
    inputs=inputs,
    batch=4,
    defaults="batch 4, 64 channels of 28 × 28 pixels",
)
