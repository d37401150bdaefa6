"""Small models in torch: a linear layer with published checkpoints, a classifier and a detector to be exported."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from modelzoo.engines.export.source import TorchSource
from modelzoo.frozen import replace
from modelzoo.machine.facts import read_machine
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import ResolvedSetting
from modelzoo.workload import Checkpoint, InputRequest, Inputs, Option, Workload


class Classifier(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A 3×3 and a 1×1 convolution, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = torch.nn.Conv2d(16, 16, 3, padding=1)
        self.narrow = torch.nn.Conv2d(16, 16, 1)
        self.layer = torch.nn.Linear(16, 5)

    def forward(self, pictures: Any) -> Any:
        found = torch.relu(self.narrow(torch.relu(self.wide(pictures))))
        return self.layer(found.mean((2, 3)))


class Detector(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """Takes a list of pictures (3, height, width); returns the pixels of each that score over 0, as its boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.head = torch.nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, pictures: Any) -> Any:
        found = []
        for picture in pictures:
            scores = self.head(torch.relu(self.body(picture[None])))[0, 0]
            rows, columns = torch.nonzero(scores > 0, as_tuple=True)
            boxes = torch.stack([columns, rows, columns + 1, rows + 1], dim=1).to(scores.dtype)
            found.append({"boxes": boxes, "labels": torch.ones_like(rows), "scores": scores[scores > 0]})
        return found


def _drawn(seed: int, *shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


CLASSIFIER = Workload(
    name="classifier",
    title="a small classifier",
    unit="pictures",
    build=lambda options: Classifier(),
    inputs=lambda request: Inputs((_drawn(request.seed, request.batch, 16, 8, 8),), ("noise",) * request.batch),
)
DETECTOR = Workload(
    name="detector",
    title="a small detector",
    unit="pictures",
    build=lambda options: Detector(),
    inputs=lambda request: Inputs(([_drawn(request.seed, 3, 6, 8)] * request.batch,), ("noise",) * request.batch),
    heads=lambda model: {"head": model.head},
)


def resolved(engine: str, batch: int = 2) -> ResolvedSetting:
    """A setting in which nothing is open."""
    return ResolvedSetting(engine=engine, batch=batch, threads=1, weights="random")


def source_of(workload: Workload, folder: Path, setting: ResolvedSetting) -> TorchSource:
    """What an engine exports, with random weights in a file in ``folder``."""
    torch.manual_seed(0)
    path = folder / f"{workload.name}.safetensors"
    if not path.exists():
        save_file(workload.build({}).state_dict(), str(path))
    return TorchSource(workload, setting, Weights(WeightsKind.PATH, path.name, str(path), "0" * 64))


def may_saturate() -> bool:
    """Whether int8 kernels on this CPU may saturate sums of two products of 8 bits."""
    return not {"avx512_vnni", "avx_vnni", "asimddp"} & set(read_machine().features)


def hides_vnni() -> bool:
    """Whether oneDNN may not use the VNNI that torch quantizes for: its int8 sums then saturate."""
    return os.environ.get("ONEDNN_MAX_CPU_ISA") in ("SSE41", "AVX", "AVX2", "AVX512_CORE") and not may_saturate()


def int8_error_limit() -> float:
    """How far outputs of a quantized network may be from fp32's."""
    return 0.05 if may_saturate() or hides_vnni() else 0.01


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
