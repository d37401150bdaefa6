"""``modelzoo.workload`` offers what the author of a workload needs."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

import modelzoo.workload
from modelzoo.workload.discovery import STANDARD_WORKLOADS, load_workload

MINIMAL = """
from modelzoo.workload import Inputs, Workload


def build(options):
    import torch

    return torch.nn.Linear(4, 2)


def inputs(request):
    import torch

    return Inputs((torch.ones(request.batch, 4),), ("ones",) * request.batch)


WORKLOAD = Workload("minimal", "a linear layer", "rows", build, inputs)
"""


def test_the_public_names_are_those_of_the_page() -> None:
    """Removing or renaming one breaks workloads of other people; each is documented."""
    page = (ROOT / "docs" / "workload.md").read_text()
    listed = page.partition("## Names in `modelzoo.workload`")[2].partition("Judges (")[0]
    names = set(re.findall(r"`([A-Za-z_0-9]+)`", listed)) - {"inputs"}  # a field
    assert all(getattr(modelzoo.workload, name).__doc__ for name in names)
    given = {name for name, each in vars(modelzoo.workload).items() if name[0] != "_" and not inspect.ismodule(each)}
    assert given - {"annotations"} == names


def test_importing_it_does_not_import_torch() -> None:
    """Commands that only load a declaration, such as --help, stay fast."""
    code = "import sys, modelzoo.workload; sys.exit(bool({'torch', 'torchvision', 'PIL', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("name", [*STANDARD_WORKLOADS, "llm", "examples/mlp", "examples/vit"])
def test_the_standard_workloads_use_only_public_modules(name: str) -> None:
    """What they need, another author needs too."""
    tree = ast.parse((ROOT / name / "workload.py").read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {module for module in modules if module and module.startswith("modelzoo")}
    assert ours <= {"modelzoo.workload", "modelzoo.validity", "modelzoo.zoo.causal"}


def test_a_workload_of_workload_and_inputs_alone_loads(tmp_path: Path) -> None:
    """The smallest workload.py: two names, positional arguments."""
    from modelzoo.workload import InputRequest

    (tmp_path / "workload.py").write_text(MINIMAL)
    workload = load_workload(tmp_path)
    made = workload.inputs(InputRequest(batch=3, seed=0, path=None, options={}))
    assert workload.build({})(*made.args).shape == (3, 2)
