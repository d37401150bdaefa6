"""A fifth workload in one directory: a stack of equal linear layers, for trying the harness out."""

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
    return Inputs((rows,), tuple(f"row {i}" for i in range(request.batch)))


WORKLOAD = Workload(
    name="mlp",
    title="a multilayer perceptron",
    unit="rows",
    build=build,
    inputs=inputs,
    batch=16,
    options=(
        Option("width", 256, "inputs and outputs of each layer", int, minimum=1),
        Option("depth", 8, "number of layers", int, minimum=1),
    ),
    defaults="8 layers of 256 × 256, batch 16",
)
