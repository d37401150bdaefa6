"""One operator of each class that multiplies matrices: convolution, Linear, matrix product, attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelzoo.workload import InputRequest, Inputs, Workload

CHANNELS, PIXELS, HEADS, TOKENS, SIZE = 64, 28, 4, 196, 64


def build(options: Mapping[str, Any]) -> Any:
    import torch
    from torch import nn

    class EveryClass(nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
            self.linear = nn.Linear(4 * CHANNELS, HEADS * SIZE)

        def forward(self, pictures: Any) -> Any:
            tokens = self.conv(pictures).reshape(len(pictures), 4 * CHANNELS, TOKENS).transpose(1, 2)
            tokens = tokens.contiguous()  # otherwise PyTorch runs Linear as a matrix product and an addition
            # Each picture's tokens by heads, as a transformer divides them.
            heads = self.linear(tokens).reshape(-1, TOKENS, HEADS, SIZE).transpose(1, 2)
            attended = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
            return attended.reshape(-1, SIZE) @ attended.reshape(-1, SIZE).T

    return EveryClass()


def inputs(request: InputRequest) -> Inputs:
    import torch

    generator = torch.Generator().manual_seed(request.seed)
    pictures = torch.randn(request.batch, CHANNELS, PIXELS, PIXELS, generator=generator)
    return Inputs((pictures,), tuple(f"picture {i}" for i in range(request.batch)))


WORKLOAD = Workload(
    name="every_class",
    title="one convolution, Linear layer, attention and matrix product",
    unit="pictures",
    build=build,
    inputs=inputs,
    batch=2,
    defaults="batch 2, 64 channels of 28 × 28 pixels",
)
