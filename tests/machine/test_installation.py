"""Installations that do not work, and how to fix them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine.installation import (
    explain_torch_failure,
    explain_torchvision_failure,
    import_torch,
    installed_version,
    mismatched_versions,
    suite_revision,
)


@pytest.mark.parametrize(
    ("torch", "vision", "advice"),
    [
        ("2.6.0+cpu", "0.21.0+cpu", None),
        ("2.10.0", "0.25.0", None),
        ("2.13.0", "0.28.0", None),
        ("2.15.0+cu132", "0.29.2+cu132", None),
        ("3.0.0", "1.0.0", None),
        ("unknown", "0.25.0", None),
        ("2.13.0+cpu", "0.25.0", 'run pip install "torchvision==0.28.*"'),
    ],
)
def test_matching_versions_pass(torch: str, vision: str, advice: str | None) -> None:
    """And versions that are not known yet; of others, the line says which torchvision to install."""
    problem = mismatched_versions(torch, vision)
    assert problem is None if advice is None else problem is not None and problem.endswith(advice)


def test_builds_from_two_indexes_say_how_to_fix_it() -> None:
    """Matching versions from two indexes lack operators, and the line says why."""
    error = RuntimeError("operator torchvision::nms does not exist")
    line = explain_torchvision_failure(error)
    assert "one index" in line
    assert f"torch==={str(installed_version('torch')).partition('+')[0]}" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (ModuleNotFoundError("No module named 'torch'", name="torch"), "pip install torch"),
        (
            RuntimeError("Failed to load the backend extension: torch_npu. You can disable …\nmore"),
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0",
        ),
        (OSError("libcudart.so.12: cannot open shared object file"), "--force-reinstall torch"),
    ],
)
def test_a_failed_import_of_torch_says_how_to_fix_it(error: Exception, fix: str) -> None:
    """Each known failure gives one line that says what to do."""
    line = explain_torch_failure(error)
    assert fix in line
    assert "\n" not in line


def git(folder: Path, *arguments: str) -> None:
    """Run git in ``folder`` with an identity of its own."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True)


def test_a_checkout_names_its_commit_and_whether_it_was_changed(tmp_path: Path) -> None:
    """A clean checkout gives the commit, a changed one the commit with a plus sign."""
    git(tmp_path, "init")
    file = tmp_path / "file"
    file.write_text("first")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "first")
    clean = suite_revision(tmp_path, {})
    assert clean is not None
    assert len(clean) == 40
    file.write_text("second")
    assert suite_revision(tmp_path, {}) == f"{clean}+"


def test_an_image_names_its_revision_in_a_variable(tmp_path: Path) -> None:
    """There is no repository inside an image."""
    assert suite_revision(tmp_path, {"MODELZOO_REVISION": "abc"}) == "abc"
    assert suite_revision(tmp_path, {}) is None


@pytest.mark.parametrize(
    ("also", "is_loaded"),
    [("", False), ("from torch._dynamo.utils import other", True), ("import torch._dynamo.exc", True)],
)
def test_torchvision_imports_the_compiler_when_it_needs_it(also: str, is_loaded: bool, tmp_path: Path) -> None:
    """The one function that it names imports it when it is called; whatever else it takes from it, at once."""
    compiler = tmp_path / "torch" / "_dynamo"
    compiler.mkdir(parents=True)
    (compiler.parent / "__init__.py").touch()
    (compiler / "__init__.py").write_text("from . import utils\nfrom .utils import other\nassert utils.other == 7\n")
    (compiler / "exc.py").touch()
    (compiler / "utils.py").write_text("is_compile_supported = 'cpu'.__eq__\nother = 7\n")
    (tmp_path / "vision.py").write_text(f"from torch._dynamo.utils import is_compile_supported\n{also}\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from modelzoo.machine.installation import without_compiler\n"
        "module = without_compiler('vision')\n"
        "print('torch._dynamo' in sys.modules, module.is_compile_supported('cpu'), 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == f"{is_loaded} True True\n", done.stderr


def test_a_script_under_a_python_without_the_suites_modules_is_one_line() -> None:
    """``-S`` leaves out what is installed."""
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(ROOT / "resnet50" / "performance.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    advice = "run ./scripts/run once, then use .venv/bin/python"
    assert done.stderr == f"modelzoo: error: {sys.executable} has no module 'msgspec': {advice}\n"


def test_a_failed_import_is_an_environment_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the import raises is converted to an error of the suite."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(EnvironmentProblem, match="cannot be imported|not installed"):
        import_torch()
