"""The wheel: one package with the workloads inside, that reads results without torch and writes to no other place."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from places import ROOT
from programs import ran

from modelzoo import DISTRIBUTION, __version__
from modelzoo.workload.discovery import STANDARD_WORKLOADS

WORKLOADS = (*STANDARD_WORKLOADS, "llm")
SOURCES = ("modelzoo", *WORKLOADS, "pyproject.toml", "setup.py", "README.md", "LICENSE")
"""It is for readers of the repository; the suite itself does not need it."""
FOR_A_CHECKOUT = {"performance.py", "validate.py", "README.md"}
"""What a workload has besides. The scripts import the suite from the checkout that they are in."""
LIMIT = 1_000_000
WITHOUT_TORCH = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in (
            "torch", "torchvision", "transformers", "tokenizers", "huggingface_hub", "safetensors", "pycocotools"
        ):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
"""A ``sitecustomize.py``: the packages of the extra "torch" are not there."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, made of its source distribution with the setuptools of the environment, offline."""
    source, unpacked, made = (tmp_path_factory.mktemp(name) for name in ("source", "unpacked", "dist"))
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source)
    (source / "bert" / "output").mkdir(exist_ok=True)
    (source / "bert" / "output" / "private.txt").write_text("what a user's check of accuracy has left")
    shutil.unpack_archive(made / built("sdist", source, made), unpacked, filter="data")
    (top,) = unpacked.iterdir()
    return made / built("wheel", top, made)


def built(what: str, source: Path, into: Path) -> str:
    code = f"from setuptools import build_meta; import sys; print(build_meta.build_{what}(sys.argv[1]))"
    done = ran(sys.executable, "-c", code, into, cwd=source)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that it was unpacked into, beside which there is no torch."""
    directory = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    (directory / "sitecustomize.py").write_text(WITHOUT_TORCH)
    return directory


def call(installed: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MODELZOO_", "PYTHON"))}
    (home / "work").mkdir(parents=True, exist_ok=True)
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PYTHONPATH": str(installed)}
    environ = {**kept, **own, "PYTHONDONTWRITEBYTECODE": "1"}
    return ran(sys.executable, "-m", "modelzoo", *arguments, cwd=home / "work", environ=environ)


def test_its_only_package_is_the_suite_with_the_workloads_inside(wheel: Path) -> None:
    """Every tracked file that a workload needs is there, nothing of a user, and it stays small."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.partition("/")[0] for name in names}
    assert top == {"modelzoo", f"{DISTRIBUTION.replace('-', '_')}-{__version__}.dist-info"}
    command = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "modelzoo", *WORKLOADS)
    listed = {*ran(*command, cwd=ROOT).stdout.splitlines()}
    own = {path for path in listed if path.startswith("modelzoo/")}
    inside = {f"modelzoo/workloads/{path}" for path in listed - own if Path(path).name not in FOR_A_CHECKOUT}
    assert {name for name in names if name.startswith("modelzoo/")} == own | inside
    assert wheel.stat().st_size < LIMIT


def test_what_it_leaves_out_of_a_module_is_no_code(installed: Path) -> None:
    """Comments and docstrings of what is private. All other lines stay where they are, and workloads are the same."""
    shorter = 0
    for module in (ROOT / "modelzoo" / "stats").glob("[a-z]*.py"):
        own = module.read_text(encoding="utf-8")
        packed = (installed / module.relative_to(ROOT)).read_text(encoding="utf-8")
        assert code(packed) == code(own), module
        shorter += len(packed) < len(own)
    assert shorter
    for name in WORKLOADS:
        own = (ROOT / name / "workload.py").read_text(encoding="utf-8")
        assert (installed / "modelzoo" / "workloads" / name / "workload.py").read_text(encoding="utf-8") == own


def code(source: str) -> str:
    """A module without comments and docstrings of functions and classes, with the place of everything else."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree, include_attributes=True)


def test_an_installed_suite_finds_its_workloads_and_reads_results_without_torch(
    installed: Path, tmp_path: Path
) -> None:
    """``list``, ``report`` and ``compare`` need no package of the extra; what is not known is not claimed."""
    listed = call(installed, tmp_path, "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert set(WORKLOADS) <= {line.partition(" ")[0] for line in listed.stdout.splitlines()}
    assert "unknown: huggingface_hub is not installed" in listed.stdout
    stored = str(ROOT / "tests" / "data" / "results" / "mlp.json")
    for arguments in (("report", stored), ("compare", stored, stored)):
        done = call(installed, tmp_path, *arguments)
        assert (done.returncode, done.stderr) == (0, ""), arguments


def test_a_model_cannot_run_without_torch_and_nothing_is_written_beside_the_results(
    installed: Path, tmp_path: Path
) -> None:
    """One line with what to install, and exit code 2; results go to the current directory."""
    before = {path for path in installed.rglob("*") if path.is_file()}
    done = call(installed, tmp_path, "run", "bert", "--weights", "random")
    assert done.returncode == 2
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("modelzoo: error: "))
    assert error.endswith("PyTorch is not installed: run pip install torch torchvision")
    assert {path for path in installed.rglob("*") if path.is_file()} == before
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"results"}
