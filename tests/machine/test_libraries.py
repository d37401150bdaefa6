"""Which numerical libraries are installed and loaded."""

from __future__ import annotations

import json
from pathlib import Path

from modelzoo.machine.libraries import (
    describe_library,
    find_bundled_libraries,
    list_backends,
    package_versions,
    read_libraries,
)
from modelzoo.records.codec import encode
from modelzoo.records.libraries import Library


def test_bundled_libraries_of_an_arm_wheel(tmp_path: Path) -> None:
    """ACL and OpenBLAS are found in torch/lib and in torch.libs, where wheels put them."""
    for name in ("torch/lib/libarm_compute.so", "torch.libs/libopenblasp-r0-abc.3.25.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = find_bundled_libraries(tmp_path / "torch")
    assert found == {"acl": "libarm_compute.so", "openblas": "libopenblasp-r0-abc.3.25.so"}
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


def test_a_static_blas_shows_by_the_build_line_only() -> None:
    """A statically linked OpenBLAS appears in the build line only."""
    assert list_backends(onednn=False, mkl=False, acl=False, bundled={}, blas="open") == ("openblas",)


def test_facts_of_this_installation_are_plain_data() -> None:
    """The real installation can be read and stored."""
    found = read_libraries()
    assert found.versions["torch"]
    assert found.threads >= 1
    assert found.backends
    json.dumps(encode(found))


def test_every_library_that_affects_results_is_recorded() -> None:
    """Tokenizer, image decoder and judge change predictions and scores as torch does."""
    wanted = {"python", "torch", "torchvision", "transformers", "tokenizers", "numpy", "pillow", "pycocotools"}
    assert wanted <= set(package_versions())
