"""Small workloads for the tests of what runs in worker processes."""

from __future__ import annotations

from pathlib import Path

from modelzoo.setting import Plan, Setting
from modelzoo.workload import Workload
from modelzoo.workload.discovery import CHECKOUT, load_workload

SHORT = Plan(1, 3)
RANDOM = Setting(weights="random", threads=1)
BF16 = RANDOM.replace(precision="bf16")
MLP = CHECKOUT / "examples" / "mlp"

DECLARATION = """
import os
from modelzoo.workload import Inputs, Workload

def build(options):
    import torch
    {build}
    return torch.nn.Linear(4, 4)

def inputs(request):
    import torch
    {inputs}
    return Inputs((torch.ones(request.batch, 4),), (os.environ.get("DNNL_DEFAULT_FPMATH_MODE", "unset"),))

WORKLOAD = Workload(name="odd", title="an odd one", unit="rows", build=build, inputs=inputs)
"""


def odd(folder: Path, build: str = "", inputs: str = "") -> Workload:
    """A workload in a directory of its own, with lines that misbehave."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workload.py").write_text(DECLARATION.format(build=build, inputs=inputs))
    return load_workload(folder)


def mlp() -> Workload:
    """The example workload."""
    return load_workload(MLP)
