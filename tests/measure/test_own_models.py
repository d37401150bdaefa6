"""Models as people write them: each runs, or is refused in one line that says what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from modelzoo.engines.torch.engine import TorchEngine
from modelzoo.errors import UsageError, WeightsError
from modelzoo.measure.preparation import build, prepare
from modelzoo.records.protocol import Assignment, PrepareJob
from modelzoo.setting import Setting
from modelzoo.workload.discovery import load_workload

WORKLOAD = """
import dataclasses, torch
from typing import NamedTuple
from transformers import BatchEncoding
from modelzoo.workload import Inputs, Workload

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
    def forward(self, x):
        return self.layer(x)

x = torch.ones(1, 3)
build = lambda options: Net()
args = lambda: (x,)
{changes}
WORKLOAD = Workload("mine", "mine", "rows", build, lambda request: Inputs(args(), ("ones",)))
"""
CONTAINERS = {
    "BatchEncoding": "args = lambda: (BatchEncoding({'x': x}),)\nNet.forward = lambda self, b: self.layer(b.x)",
    "dict": "args = lambda: ({'x': x},)\nNet.forward = lambda self, b: self.layer(b['x'])",
    "dataclass": """
@dataclasses.dataclass(frozen=True)
class Batch:
    x: torch.Tensor
    name: str = "a"
args = lambda: (Batch(x),)
Net.forward = lambda self, b: self.layer(b.x)
""",
    "NamedTuple": """
class Batch(NamedTuple):
    x: torch.Tensor
    length: int
args = lambda: (Batch(x, 3),)
Net.forward = lambda self, b: self.layer(b.x)
""",
}


def run(directory: Path, changes: str, **how: Any) -> Any:
    """Prepare and load a workload, and return what its model computes."""
    directory.mkdir(exist_ok=True)
    (directory / "workload.py").write_text(WORKLOAD.format(changes=changes))
    setting = Setting(weights="random", threads=1, **how)
    (found,) = prepare(PrepareJob(str(directory), (setting,), None), lambda message: None)
    if found.prepared is None:
        raise {"UsageError": UsageError, "WeightsError": WeightsError}[found.error_kind](found.error)
    engine, job = TorchEngine(), Assignment(str(directory), setting, found.prepared, None)
    session = engine.open(found.prepared.setting)
    with session.active():
        made = build(engine, session, load_workload(directory), job)
        with made.model.explained_errors():
            return made.model.call(*made.args)


# Many models override these without returning themselves.
METHOD = "Net.{} = lambda self, mode=False: setattr(self, 'training', mode)"
# The weights of 3-d convolutions have a format of their own, also beside 2-d ones.
VIDEO = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.video, self.picture = torch.nn.Conv3d(3, 4, 1), torch.nn.Conv2d(4, 2, 1)
    def forward(self, x):
        assert x.is_contiguous(memory_format=torch.channels_last_3d)
        assert self.video.weight.is_contiguous(memory_format=torch.channels_last_3d)
        return self.picture(self.video(x)[:, :, 0])
args = lambda: (torch.ones(1, 3, 2, 5, 5),)
"""
# Forces of an energy, as networks of physics compute them: the advice of REFUSED.
FORCES = """
def forward(self, x):
    with torch.inference_mode(False), torch.enable_grad():
        x = x.clone().requires_grad_()
        return torch.autograd.grad(self.layer(x).sum(), x)[0]
Net.forward = forward
"""
CAST = {"precision": "bf16", "bf16_method": "cast"}


@pytest.mark.parametrize(
    ("changes", "how", "shape"),
    [
        *((changes, how, (1, 2)) for changes in CONTAINERS.values() for how in ({}, CAST)),
        *((METHOD.format(name), {}, (1, 2)) for name in ("eval", "train")),
        (VIDEO, {"channels_last": True}, (1, 2, 5, 5)),
        (FORCES, {}, (1, 3)),
    ],
)
def test_a_model_runs(changes: str, how: dict[str, Any], shape: tuple[int, ...], tmp_path: Path) -> None:
    """An argument that is a container stays what it is, with its attributes, and the tensors in it are converted."""
    assert run(tmp_path, changes, **how).shape == shape


REFUSED = {
    "quantized": (
        "build = lambda options: torch.ao.quantization.quantize_dynamic(Net())",
        WeightsError,
        "holds 'layer._packed_params.dtype'.*build it in fp32 and quantize it by --int8, or --recipe dynamic",
    ),
    "gradients": (
        "def forward(self, x):\n    x = x.requires_grad_()\n    return torch.autograd.grad(self.layer(x).sum(), x)[0]\n"
        "Net.forward = forward",
        UsageError,
        "called in inference mode.*compute gradients in forward within torch.inference_mode.False. and torch.enable_g",
    ),
    "no module": ("build = lambda options: None", UsageError, "build of workload mine returned NoneType, and must"),
    "bare": ("args = lambda: BatchEncoding({'x': x})", UsageError, "args of Inputs is a BatchEncoding, and must be a"),
    "mistake": ("Net.forward = lambda self, x: self.layer(x.T)", UsageError, "correct .*workload.py, line"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("changes", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_run_is_one_line_with_advice(changes: str, kind: type, message: str, tmp_path: Path) -> None:
    """The line names the cause in the words of torch's documentation."""
    with pytest.raises(kind, match=message) as caught:
        run(tmp_path, changes)
    assert "\n" not in str(caught.value)


NET = "import torch\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(3, {width})\n"


@pytest.mark.parametrize("where", ["module", "build"])
def test_a_module_beside_the_workload_is_imported_from_any_directory(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the top of the module or in build; another workload's module of that name is another one."""
    monkeypatch.chdir("/")
    late = "def build(options):\n    from net import Net\n    return Net()"
    changes = "from net import Net\nbuild = lambda options: Net()" if where == "module" else late
    for width in (2, 5):
        (tmp_path / str(width)).mkdir()
        (tmp_path / str(width) / "net.py").write_text(NET.format(width=width))
        assert run(tmp_path / str(width), changes).shape == (1, width)


def test_an_edited_module_does_not_meet_old_random_weights(tmp_path: Path) -> None:
    """Its content is a part of their name, wherever below the directory it is."""
    (tmp_path / "nets").mkdir()
    changes = "from nets.net import Net\nbuild = lambda options: Net()"
    for width in (2, 5):
        (tmp_path / "nets" / "net.py").write_text(NET.format(width=width))
        sys.modules.pop("nets.net", None)
        assert run(tmp_path, changes).shape == (1, width)
