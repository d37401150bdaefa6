"""ResNet50 on 64 × 64 pixels, for emulators, where a forward pass at 224 pixels takes minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelzoo.frozen import replace
from modelzoo.workload import InputRequest, Inputs, discovery

PIXELS = 64
CALIBRATION_PIXELS = 128
"""Side of the picture that random weights are calibrated on. At 64 pixels the last layers have 4 positions per channel,
and a batch norm calibrated on 4 numbers amplifies rounding: fp32 then differs from fp64 by 7e-3, at 128 by 1.5e-5."""
RESNET50 = discovery.load_workload(discovery.find_workload("resnet50"))


def inputs(request: InputRequest) -> Inputs:
    return shrunk(RESNET50.inputs(request), PIXELS)


def shrunk(large: Inputs, pixels: int) -> Inputs:
    from torch.nn.functional import interpolate

    return Inputs(args=(interpolate(large.args[0], size=(pixels, pixels), mode="area"),), items=large.items)


def randomize(model: Any, given: Inputs, seed: int) -> None:
    assert RESNET50.randomize is not None
    large = RESNET50.inputs(InputRequest(batch=1, seed=seed, path=None, options={}))
    RESNET50.randomize(model, shrunk(large, CALIBRATION_PIXELS), seed)


def checkpoint(options: Mapping[str, Any]) -> None:
    """Return no checkpoint: the published weights are for larger pictures."""


WORKLOAD = replace(
    RESNET50,
    name="resnet50_small",
    title=f"ResNet50 (torchvision) on {PIXELS} × {PIXELS} pixels",
    inputs=inputs,
    randomize=randomize,
    batch=2,  # with one picture, PyTorch does not run small convolutions by oneDNN, whose kernels are tested
    checkpoint=checkpoint,
    judge=None,
    defaults=f"batch 2, {PIXELS} × {PIXELS} pixels",
)
