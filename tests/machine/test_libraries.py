"""What is installed and loaded, and installations that do not go together."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from pathlib import Path

import places
import pytest

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import libraries

DATA = places.DATA / "machine"


def test_the_build_line_of_an_x86_wheel() -> None:
    """Versions, BLAS and the dispatched vector width come out of torch.__config__.show()."""
    build = libraries.parse_config((DATA / "torch-2.10-x86.config").read_text())
    assert (build.compiler, build.onednn, build.mkl) == ("GCC 13.3", "3.7.1", "2024.2")
    assert (build.openmp, build.capability, build.blas) == ("4.5", "AVX512", "mkl")
    assert build.flags == ("-O2",)
    assert build.settings["USE_MKLDNN"] == "ON"
    assert "oneDNN 3.7.1" in build.line


# The form of an aarch64 wheel's line, written by hand; only BLAS_INFO=open without ACL is a known fact.
ARM_CONFIG = """\
PyTorch built with:
  - GCC 10.2
  - C++ Version: 201703
  - Intel(R) MKL-DNN v3.5.3 (Git Hash 66f0cb9eb66affd2da3bf5f8d897376f04aae6af)
  - OpenMP 201511 (a.k.a. OpenMP 4.5)
  - LAPACK is enabled (usually provided by MKL)
  - CPU capability usage: NO AVX
  - Build settings: BLAS_INFO=open, BUILD_TYPE=Release, CXX_FLAGS= -O2 -march=armv8-a -DNDEBUG, \
LAPACK_INFO=open, TORCH_VERSION=2.5.1, USE_MKL=OFF, USE_MKLDNN=ON, USE_OPENMP=ON,
"""


def test_the_build_line_of_an_arm_wheel_names_no_acl() -> None:
    """The line says OpenBLAS and never ACL: the backends come from the bundled files."""
    build = libraries.parse_config(ARM_CONFIG)
    assert (build.blas, build.mkl, build.onednn) == ("open", None, "3.5.3")
    assert build.flags == ("-O2", "-march=armv8-a")
    assert "acl" not in build.line.lower()


def test_an_empty_build_line_is_no_error() -> None:
    """A build that prints nothing gives unknowns."""
    assert libraries.parse_config("").line == "no oneDNN"


def test_bundled_libraries_of_an_arm_wheel(tmp_path: Path) -> None:
    """ACL and OpenBLAS are found in torch/lib and in torch.libs, where wheels put them."""
    for name in ("torch/lib/libarm_compute.so", "torch.libs/libopenblasp-r0-abc.3.25.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = libraries.bundled(tmp_path / "torch")
    assert found == {"acl": "libarm_compute.so", "openblas": "libopenblasp-r0-abc.3.25.so"}
    assert libraries.backends(True, False, True, found, blas="open") == ("onednn+acl", "openblas")


def entry(api: str, kind: str, path: str) -> libraries.Library:
    return libraries.library(
        {"user_api": api, "internal_api": kind, "num_threads": 2, "filepath": path, "version": "1"}
    )


def test_numpys_openblas_is_not_torchs_backend() -> None:
    """A BLAS that another package brought for itself does not serve torch."""
    numpy = entry("blas", "openblas", "/home/joe/site-packages/numpy.libs/libscipy_openblas64_-1.so")
    assert numpy.owner == "numpy"
    assert "joe" not in json.dumps(dataclasses.asdict(numpy))
    assert libraries.backends(True, True, False, {}, (numpy,), "mkl") == ("onednn", "mkl")
    system = entry("blas", "openblas", "/usr/lib/x86_64-linux-gnu/libopenblas.so.0")
    assert system.owner == "system"
    assert libraries.backends(True, False, False, {}, (system,), "generic") == ("onednn", "openblas")


def test_a_static_blas_shows_by_the_build_line_only() -> None:
    """Nothing loaded and nothing bundled: the build line is the last witness."""
    assert libraries.backends(False, False, False, {}, (), "open") == ("openblas",)


@pytest.mark.parametrize(
    ("torch", "vision"),
    [
        ("1.13.0", "0.14.0"),
        ("1.13.1", "0.14.1"),
        ("2.0.1", "0.15.2"),
        ("2.5.1+cpu", "0.20.1+cpu"),
        ("2.10.0", "0.25.0"),
        ("2.13.0", "0.28.0"),
        ("3.0.0", "1.0.0"),
        ("unknown", "0.25.0"),
    ],
)
def test_official_pairs_pass(torch: str, vision: str) -> None:
    """Releases that belong together, and versions nobody knows yet, are not complained about."""
    assert libraries.check_pair(torch, vision) is None


def test_a_wrong_pair_names_the_cure() -> None:
    """The line says which torchvision to install."""
    problem = libraries.check_pair("2.13.0+cpu", "0.25.0")
    assert problem is not None
    assert '"torchvision==0.28.*"' in problem
    assert "\n" not in problem


def test_builds_for_different_devices_name_the_cure() -> None:
    """The right versions from two indexes: the operators are missing, and the line says why."""
    error = RuntimeError("operator torchvision::nms does not exist")
    line = libraries.torchvision_problem(error, "2.13.0+cpu", "0.28.0")
    assert "one index" in line
    assert "torch===2.13.0" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        (ModuleNotFoundError("No module named 'torch'", name="torch"), "pip install torch"),
        (
            RuntimeError("Failed to load the backend extension: torch_npu. You can disable …\nmore"),
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0",
        ),
        (ImportError("numpy.core.multiarray failed to import"), '"numpy<2"'),
        (OSError("libcudart.so.12: cannot open shared object file"), "--force-reinstall torch"),
    ],
)
def test_a_failed_import_of_torch_names_the_cure(error: Exception, cure: str) -> None:
    """Each known failure ends in one line with what to do."""
    line = libraries.torch_problem(error)
    assert cure in line
    assert "\n" not in line


def test_import_torch_raises_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the import raises becomes an EnvironmentProblem."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(EnvironmentProblem, match="cannot be imported|not installed"):
        libraries.import_torch()


def test_torchvision_without_operators_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old torchvision imports without its compiled part; that is found before the first NMS."""
    extension = types.ModuleType("torchvision.extension")
    extension._has_ops = lambda: False  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.extension", extension)
    with pytest.raises(EnvironmentProblem, match="another build of torch|does not go with"):
        libraries.import_torchvision()


def test_facts_of_this_installation_are_plain_data() -> None:
    """The real installation is read, and its facts go into JSON."""
    found = libraries.facts()
    assert found.versions["torch"]
    assert found.threads >= 1
    assert found.backends
    json.dumps(dataclasses.asdict(found))
