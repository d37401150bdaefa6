"""A small workload to try the suite with: a stack of equal linear layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelzoo.workload import InputRequest, Inputs, Option, Workload


def build(options: Mapping[str, Any]) -> Any:
    import torch

    width, layers = options["width"], []
    for _ in range(options["depth"]):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def inputs(request: InputRequest) -> Inputs:
    import torch

    generator = torch.Generator().manual_seed(request.seed)
    rows = torch.randn(request.batch, request.options["width"], generator=generator)
    return Inputs(args=(rows,), items=tuple(f"row {i}" for i in range(request.batch)))


WORKLOAD = Workload(
    name="mlp",
    title="a multilayer perceptron",
    unit="rows",
    build=build,
    inputs=inputs,
    batch=16,
    options=(
        Option(name="width", default=256, help="inputs and outputs of each layer", type=int, minimum=1),
        Option(name="depth", default=8, help="number of layers", type=int, minimum=1),
    ),
    defaults="8 layers of 256 × 256, batch 16",
)
