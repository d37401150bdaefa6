"""The example workload runs, however it is called, and so does a copy of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modelzoo.workload import discovery
from modelzoo.workload.declaration import InputRequest

ROOT = discovery.CHECKOUT
EXAMPLE = ROOT / "examples" / "mlp"
SHORT = ["--processes", "1", "--warmup", "0", "--iterations", "3", "--no-audit", "--threads", "1"]


def run(command: list[str], folder: Path, **variables: str) -> str:
    """Run a command that must succeed, and return its standard output."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_declares_a_model_and_fitting_inputs() -> None:
    """Options change the shapes, and the rows of a batch differ."""
    import torch

    work = discovery.load_workload(EXAMPLE)
    options = work.option_values({"depth": "2", "width": "8"})
    made = work.inputs(InputRequest(3, 0, None, options))
    with torch.inference_mode():
        output = work.build(options)(*made.args)
    assert output.shape == (3, 8)
    assert len({tuple(row) for row in made.args[0].tolist()}) == 3
    assert len(made.items) == 3


def test_the_readmes_commands_run() -> None:
    """The commands of its README run, shortened by options only."""
    lines = [line.strip() for line in (EXAMPLE / "README.md").read_text().splitlines() if line.startswith("    ")]
    assert lines[0] == "modelzoo run examples/mlp"
    assert all(line.startswith("modelzoo run examples/mlp") for line in lines)
    words = max(lines, key=len).split()[1:]
    out = run([sys.executable, "-m", "modelzoo", *words, *SHORT], ROOT)
    assert out.startswith("[TARGET] mlp Time ")


def test_performance_runs_from_its_directory_and_through_a_link(tmp_path: Path) -> None:
    """The short call works, also through a symbolic link from another directory."""
    out = run([sys.executable, "performance.py", *SHORT, "--depth", "2"], EXAMPLE)
    assert out.startswith("[TARGET] mlp Time ")
    (tmp_path / "go.py").symlink_to(EXAMPLE / "performance.py")
    assert "a multilayer perceptron" in run([sys.executable, "go.py", "--help"], tmp_path)


def test_a_new_workload_runs_from_anywhere(tmp_path: Path) -> None:
    """A renamed copy in a directory with a space runs."""
    folder = tmp_path / "my zoo" / "sixth"
    shutil.copytree(EXAMPLE, folder)
    declaration = folder / "workload.py"
    declaration.write_text(declaration.read_text().replace('name="mlp"', 'name="sixth"'))
    command = [sys.executable, "-m", "modelzoo", "run", "sixth", "--precision", "fp32", *SHORT]
    paths = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    assert run(command, folder.parent, PYTHONPATH=paths).startswith("[TARGET] sixth Time ")


@pytest.mark.parametrize("name", [*discovery.STANDARD_WORKLOADS, "llm", "examples/mlp", "examples/vit"])
def test_every_performance_script_is_the_same_few_lines(name: str) -> None:
    """They differ only in the number of parent directories to the package."""

    def lines(path: Path) -> list[str]:
        return path.read_text().replace("parents[2]", "parents[1]").splitlines()

    own = lines(ROOT / name / "performance.py")
    assert own == lines(ROOT / "resnet50" / "performance.py")
    assert len(own) < 15
