"""A workload of one linear layer, and checkpoints of it as the hubs publish them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from modelzoo.frozen import replace
from modelzoo.workload import Checkpoint, InputRequest, Inputs, Option, Workload


def build(options: Mapping[str, Any]) -> Any:
    """One linear layer."""
    return torch.nn.Linear(options["width"], 2)


def make_inputs(request: InputRequest) -> Inputs:
    """A row of ``width`` values equal to ``level``."""
    return Inputs((torch.ones(1, request.options["width"]) * request.options["level"],), ("ones",))


def randomize(model: Any, inputs: Inputs, seed: int) -> None:
    """Fit the bias to the inputs, so that it shows which inputs were used."""
    model.bias.fill_(float(inputs.args[0].sum()))


TOY = Workload(
    name="toy",
    title="a toy",
    unit="rows",
    build=build,
    inputs=make_inputs,
    randomize=randomize,
    options=(
        Option(name="width", default=3, help="inputs", type=int),
        Option(name="level", default=1, help="value of inputs", type=int, is_input=True),
    ),
)
OPTIONS = TOY.option_values({})
STATE = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}


def publish(folder: Path, state: Any = None) -> tuple[Path, Checkpoint]:
    """Save a checkpoint under a name with its checksum, as torchvision's hub does, and declare it."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(STATE if state is None else state, folder / "toy.pth")
    digest = hashlib.sha256((folder / "toy.pth").read_bytes()).hexdigest()
    path = (folder / "toy.pth").replace(folder / f"toy-{digest[:8]}.pth")
    return path, Checkpoint("toy weights", f"http://127.0.0.1:1/{path.name}", 1)


def hub() -> Path:
    return Path(os.environ["TORCH_HOME"]) / "hub" / "checkpoints"


def toy_with(checkpoint: Checkpoint) -> Workload:
    return replace(TOY, checkpoint=lambda options: checkpoint)
