"""Small workloads for the tests of what runs in worker processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from modelzoo.measure import schedule
from modelzoo.measure.jobs import Event, OnEvent, Request
from modelzoo.plan import Effort, Plan
from modelzoo.records.run import Run
from modelzoo.setting import Setting
from modelzoo.workload import Workload
from modelzoo.workload.discovery import CHECKOUT, load_workload

SHORT = Plan(1, 3)
RANDOM = Setting(weights="random", threads=1)
BF16 = RANDOM.replace(precision="bf16")
MLP = CHECKOUT / "examples" / "mlp"
NUMPY_ENGINE = "engines.fake_engine:FakeEngine"
"""An engine without torch, whose processes start at once; they find it if ``tests`` is on PYTHONPATH."""

DECLARATION = """
import os
from modelzoo.workload import Count, Inputs, Workload

def build(options):
    import torch
    {build}
    return torch.nn.Linear(4, 4)

def inputs(request):
    import torch
    {inputs}
    return Inputs((torch.ones(request.batch, 4),), (os.environ.get("DNNL_DEFAULT_FPMATH_MODE", "unset"),))

WORKLOAD = Workload(name="odd", title="an odd one", unit="rows", build=build, inputs=inputs, {more})
"""


def odd(folder: Path, build: str = "", inputs: str = "", more: str = "") -> Workload:
    """A workload in a directory of its own, with lines that misbehave, and ``more`` arguments of ``Workload``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workload.py").write_text(DECLARATION.format(build=build, inputs=inputs, more=more))
    return load_workload(folder)


def silent(event: Event) -> None:
    """Show no progress."""


def runs_of(request: Request, processes: int = 1, on_event: OnEvent = silent) -> list[Run]:
    """Measure ``request`` with this many processes per setting."""
    outcomes = schedule.measure([request], Effort(processes=processes), on_event)
    return [each for each in outcomes if isinstance(each, Run)]


def mlp() -> Workload:
    return load_workload(MLP)


NUMPY_DECLARATION = """
import sys
import numpy as np
from modelzoo.validity import Classification
from modelzoo.workload import Inputs, Workload

def build(options):
    def model(pixels, weight):
        assert "torch" not in sys.modules or JUDGING, "an engine's process need not import torch"
        return pixels.reshape(len(pixels), -1) @ weight
    return model

JUDGING = False

def inputs(request):
    rows = np.linspace(-1, 1, request.batch * 48, dtype="float32").reshape(request.batch, 3, 4, 4)
    return Inputs((rows,), tuple(f"row {i}" for i in range(request.batch)))

def preprocess(picture):
    global JUDGING
    JUDGING = True
    import torch
    small = np.asarray(picture.resize((4, 4)), dtype="float32").transpose(2, 0, 1) / 255
    return torch.from_numpy(np.ascontiguousarray(small))

WORKLOAD = Workload(
    name="linear",
    title="a linear classifier of 4 × 4 pixels",
    unit="rows",
    build=build,
    inputs=inputs,
    batch=2,
    judge=lambda options: Classification(preprocess=preprocess, labels=lambda: [f"class {i}" for i in range(8)]),
)
"""


ODD_NUMPY_DECLARATION = """
import os
import numpy as np
from modelzoo.workload import Inputs, Workload

def build(options):
    {build}
    return lambda rows, weight: rows @ weight

def inputs(request):
    {inputs}
    return Inputs((np.ones((request.batch, 48), dtype="float32"),), ("rows",))

WORKLOAD = Workload(name="odd", title="an odd one", unit="rows", build=build, inputs=inputs)
"""


def numpy_classifier(folder: Path) -> Workload:
    """A linear classifier for the numpy engine of tests/engines, in a directory that holds its weights too."""
    return _for_numpy(folder, NUMPY_DECLARATION)


def odd_numpy(folder: Path, build: str = "", inputs: str = "") -> Workload:
    """As ``odd``, for the numpy engine."""
    return _for_numpy(folder, ODD_NUMPY_DECLARATION.format(build=build, inputs=inputs))


def _for_numpy(folder: Path, declaration: str) -> Workload:
    folder.mkdir(parents=True, exist_ok=True)
    weights = np.random.default_rng(0).normal(size=(48, 8)).astype("float32")
    np.savez(folder / "weights.npz", weight=weights)
    (folder / "workload.py").write_text(declaration)
    return load_workload(folder)


def numpy_setting(work: Workload) -> Setting:
    """fp32 by the numpy engine, with the weights in the workload's directory."""
    return Setting(weights=str(work.directory / "weights.npz"), threads=1, engine=NUMPY_ENGINE)


def judging_words(folder: Path, pictures: int) -> list[str]:
    """What judges a linear classifier, whose directory is the first word, on so many pictures below ``folder``."""
    linear, random = folder / "linear", np.random.default_rng(0)
    numpy_classifier(linear)
    for number in range(pictures):
        place = folder / "pictures" / f"class {number % 8}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype="uint8")).save(place / f"{number}.png")
    named = ["--weights", str(linear / "weights.npz"), "--data", str(folder / "pictures")]
    return [str(linear), "--engine", NUMPY_ENGINE, "--threads", "1", "--bf16=cast", *named]
