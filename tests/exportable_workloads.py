"""Small workloads whose models other engines can run: a classifier and a detector."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from modelzoo.engines.export.source import TorchSource
from modelzoo.machine.facts import read_machine
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import ResolvedSetting
from modelzoo.workload import Inputs, Workload


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
