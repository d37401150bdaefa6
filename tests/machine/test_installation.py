"""Installations that do not work, and how to fix them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from example_machine import OPENBLAS
from places import ROOT
from planted import recorded

from modelzoo.errors import EnvironmentProblem
from modelzoo.frozen import replace
from modelzoo.machine import installation
from modelzoo.machine.installation import (
    describe_library,
    explain_torch_failure,
    explain_torchvision_failure,
    find_bundled_libraries,
    import_torch,
    installed_version,
    list_backends,
    mismatched_versions,
    parse_torch_config,
    read_acl_version,
    supported_threads,
)
from modelzoo.records.codec import encode
from modelzoo.records.equipment import Library


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


def test_bundled_libraries_of_an_arm_wheel(tmp_path: Path) -> None:
    """ACL and OpenBLAS are found in torch/lib and in torch.libs, where wheels put them."""
    for name in ("torch/lib/libarm_compute.so", "torch.libs/libopenblasp-r0-abc.3.25.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = find_bundled_libraries(tmp_path / "torch")
    names = {name: Path(path).name for name, path in found.items()}
    assert names == {"acl": "libarm_compute.so", "openblas": "libopenblasp-r0-abc.3.25.so"}
    assert list_backends(onednn=True, mkl=False, acl=True, bundled=found, blas="open") == ("onednn+acl", "openblas")


def library(api: str, kind: str, path: str) -> Library:
    return describe_library({"user_api": api, "internal_api": kind, "num_threads": 2, "filepath": path, "version": "1"})


def test_numpys_openblas_is_not_torchs_backend() -> None:
    """A BLAS that another package contains is not used by torch; one of the system is."""
    numpy = library("blas", "openblas", "/home/joe/site-packages/numpy.libs/libscipy_openblas64_-1.so")
    assert numpy.owner == "numpy"
    assert "joe" not in json.dumps(encode(numpy))
    assert list_backends(onednn=True, mkl=True, acl=False, bundled={}, loaded=(numpy,), blas="mkl") == ("onednn", "mkl")
    system = library("blas", "openblas", "/usr/lib/x86_64-linux-gnu/libopenblas.so.0")
    assert system.owner == "system"
    assert list_backends(onednn=True, mkl=False, acl=False, bundled={}, loaded=(system,), blas="generic") == (
        "onednn",
        "openblas",
    )
    # Linked statically, it is in the build line only.
    assert list_backends(onednn=False, mkl=False, acl=False, bundled={}, blas="open") == ("openblas",)


def test_the_default_number_of_threads_is_what_openblas_supports(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than it was built for may crash; a copy that belongs to numpy does not matter."""
    monkeypatch.setattr(installation, "loaded_libraries", lambda: [OPENBLAS])
    assert (supported_threads(192), supported_threads(8)) == (128, 8)
    monkeypatch.setattr(installation, "loaded_libraries", lambda: [replace(OPENBLAS, owner="numpy")])
    assert supported_threads(192) == 192


def test_the_version_of_compute_library_is_in_its_file(tmp_path: Path) -> None:
    """As in torch 2.10.0 for ARM; a development build without a number, and no file, are unknown."""
    file = tmp_path / "libarm_compute.so"
    file.write_bytes(b"\x7fELF\0arm_compute_version=v52.6.0 Build options: {'arch': 'armv8a'}\0")
    assert read_acl_version(file) == "52.6.0"
    file.write_bytes(b"\0arm_compute_version=v0.0-unreleased Build options\0")
    assert read_acl_version(file) is None
    assert read_acl_version(tmp_path / "missing.so") is None


def test_the_build_line_of_an_x86_wheel() -> None:
    """Versions, BLAS and the vector extension in use are parsed."""
    build = parse_torch_config(recorded("torch-2.10-x86.config"))
    assert (build.compiler, build.onednn, build.mkl) == ("GCC 13.3", "3.7.1", "2024.2")
    assert (build.openmp, build.capability, build.blas) == ("4.5", "AVX512", "mkl")
    assert build.flags == ("-O2",)
    assert build.settings["USE_MKLDNN"] == "ON"
    assert "oneDNN 3.7.1" in build.line
    assert parse_torch_config("").line == "no oneDNN"
