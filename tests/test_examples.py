"""The example workload runs, however it is called, and so does a copy of it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from programs import ran

from modelzoo.workload import discovery

ROOT = discovery.CHECKOUT
EXAMPLE = ROOT / "examples" / "mlp"
SHORT = ["--processes", "1", "--warmup", "0", "--iterations", "3", "--no-audit", "--threads", "1"]


def run(command: list[str], folder: Path, **variables: str) -> str:
    """Run a command that must succeed, and return its standard output."""
    done = ran(*command, cwd=folder, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_performance_runs_through_a_link(tmp_path: Path) -> None:
    """From another directory."""
    (tmp_path / "go.py").symlink_to(EXAMPLE / "performance.py")
    assert "a multilayer perceptron" in run([sys.executable, "go.py", "--help"], tmp_path)


def test_a_new_workload_runs_from_anywhere(tmp_path: Path) -> None:
    """A renamed copy in a directory with a space runs, by the longest command of the example's page."""
    folder = tmp_path / "my zoo" / "sixth"
    shutil.copytree(EXAMPLE, folder)
    declaration = folder / "workload.py"
    declaration.write_text(declaration.read_text().replace('name="mlp"', 'name="sixth"'))
    lines = [line.strip() for line in (EXAMPLE / "README.md").read_text().splitlines() if line.startswith("    ")]
    words = max(lines, key=len).replace("examples/mlp", "sixth").split()[1:]
    paths = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    out = run([sys.executable, "-m", "modelzoo", *words, *SHORT], folder.parent, PYTHONPATH=paths)
    assert out.startswith("[TARGET] sixth Time ")


@pytest.mark.parametrize("name", [*discovery.STANDARD_WORKLOADS, "llm", "examples/mlp", "examples/vit"])
def test_every_performance_script_is_the_same_few_lines(name: str) -> None:
    """They differ only in the number of parent directories to the package."""

    def lines(path: Path) -> list[str]:
        return path.read_text().replace("parents[2]", "parents[1]").splitlines()

    own = lines(ROOT / name / "performance.py")
    assert own == lines(ROOT / "resnet50" / "performance.py")
    assert len(own) < 15
