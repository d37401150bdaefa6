"""Which numerical libraries are installed and loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planted import recorded

from modelzoo.frozen import replace
from modelzoo.machine import libraries
from modelzoo.machine.libraries import (
    describe_library,
    find_bundled_libraries,
    list_backends,
    parse_torch_config,
    read_acl_version,
    supported_threads,
)
from modelzoo.records.codec import encode
from modelzoo.records.equipment import Library


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
    own = Library("blas", "openblas", "0.3.30", "neoversev2", "openmp", 128, "torch", "libopenblas.so.0", limit=128)
    monkeypatch.setattr(libraries, "loaded_libraries", lambda: [own])
    assert (supported_threads(192), supported_threads(8)) == (128, 8)
    monkeypatch.setattr(libraries, "loaded_libraries", lambda: [replace(own, owner="numpy")])
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
