"""What this torch was built with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelzoo.evidence.audit import blas_name, calls_sbgemm, onednn_version


def test_blas_name() -> None:
    """The name begins with the kind of library."""
    assert blas_name().split()[0] in ("mkl", "openblas", "blis", "generic", "accelerate", "nvpl")


@pytest.mark.parametrize(
    ("content", "said"), [(b"x\0sbgemm_\0sgemm_\0", True), (b"x\0sgemm_\0cblas_sbgemm_\0", False), (None, None)]
)
def test_whether_torch_calls_the_blas_for_bf16(tmp_path: Path, content: bytes | None, said: bool | None) -> None:
    """Only the whole symbol name counts; without the file the answer is unknown."""
    library = tmp_path / "libtorch_cpu.so"
    if content is not None:
        library.write_bytes(content)
    assert calls_sbgemm(library) is said


OPENBLAS_CONFIG = "  - Intel(R) MKL-DNN v3.7.1 (Git Hash 1)\n  - Build settings: BLAS_INFO=open, USE_MKL=OFF\n"


def test_openblas_reports_its_version_and_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy that NumPy installs is ignored; torch's own names its core."""
    import threadpoolctl
    import torch

    def loaded() -> list[dict[str, Any]]:
        numpy = {"user_api": "blas", "filepath": "/x/numpy.libs/libopenblas.so", "internal_api": "openblas"}
        own = {"filepath": "/x/torch.libs/libopenblas.so", "version": "0.3.29", "architecture": "NEOVERSEN2"}
        return [{"user_api": "openmp"}, {**numpy, "version": "1"}, {**numpy, **own}]

    monkeypatch.setattr(torch.__config__, "show", lambda: OPENBLAS_CONFIG)
    monkeypatch.setattr(threadpoolctl, "threadpool_info", loaded)
    assert blas_name() == "openblas 0.3.29 neoversen2"
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: [])
    assert blas_name() == "openblas"
    assert onednn_version() == "3.7.1"
