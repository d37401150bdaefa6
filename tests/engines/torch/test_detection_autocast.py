"""Detection operators under autocast, for which torchvision 0.14 has no rule."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.library import Library

from modelzoo.engines.torch import execution


@pytest.fixture
def old() -> Any:
    """Operators in a namespace of their own that accept only fp32, like those of torchvision 0.14."""

    def only_fp32(first: Any, second: Any) -> None:
        if first.dtype != torch.float32 or second.dtype != torch.float32:
            raise RuntimeError("not implemented for 'BFloat16'")

    def nms(boxes: Any, scores: Any, threshold: float) -> Any:
        only_fp32(boxes, scores)
        return torch.where(scores > threshold)[0]

    def roi_align(features: Any, boxes: Any, size: int) -> Any:
        only_fp32(features, boxes)
        return features * size

    library = Library("modelzoo_old_vision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("roi_align(Tensor features, Tensor boxes, int size) -> Tensor")
    library.impl("nms", nms, "CPU")
    library.impl("roi_align", roi_align, "CPU")
    yield torch.ops.modelzoo_old_vision
    del library


def test_they_compute_in_fp32_under_autocast(old: Any) -> None:
    """bf16 inputs are computed in fp32, and RoI align returns its input's type, as in newer torchvision."""
    values, weights = torch.ones(2, 4).bfloat16(), torch.tensor([0.25, 0.75]).bfloat16()
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(RuntimeError, match="BFloat16"):
        old.nms(values, weights, 0.5)
    execution.register("modelzoo_old_vision")
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert old.nms(values, weights, 0.5).tolist() == [1]
        assert old.roi_align(values, values, 3).dtype == torch.bfloat16
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16, "autocast is active again afterwards"
    with pytest.raises(RuntimeError, match="BFloat16"):
        old.nms(values, weights, 0.5)
    execution._libraries.pop()


def test_nms_takes_bf16_under_autocast() -> None:
    """With any version of torchvision the same boxes are kept as in fp32."""
    vision = pytest.importorskip("torchvision")
    execution.register_missing()
    boxes = torch.tensor([[0.0, 0, 8, 8], [0, 0, 8, 9], [16, 16, 32, 32]])
    scores = torch.tensor([0.5, 0.75, 0.25])
    with torch.autocast("cpu", torch.bfloat16):
        kept = vision.ops.nms(boxes.bfloat16(), scores.bfloat16(), 0.5)
    assert kept.tolist() == vision.ops.nms(boxes, scores, 0.5).tolist() == [1, 2]
