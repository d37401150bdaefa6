"""Which libraries this torch was built with: its BLAS, and its version of oneDNN."""

from __future__ import annotations

import mmap
from pathlib import Path

from modelzoo.machine.libraries import parse_torch_config


def blas_name() -> str:
    """Return the name of torch's BLAS, such as ``mkl 2024.2`` or ``openblas 0.3.29 neoversen2``.

    ``torch.__config__`` names the kind of library; OpenBLAS itself reports its version and core. The copies that NumPy
    and SciPy install are ignored.
    """
    import torch

    build = parse_torch_config(torch.__config__.show())
    kind = (build.blas or ("mkl" if build.mkl else "unknown")).lower()
    if kind == "mkl":
        return f"mkl {build.mkl}" if build.mkl else "mkl"
    return _loaded_blas() or {"open": "openblas"}.get(kind, kind)


def _loaded_blas() -> str:
    """Name, version and core of the loaded BLAS; empty if none is recognised."""
    try:
        from threadpoolctl import threadpool_info

        libraries = threadpool_info()
    except Exception:  # a library that threadpoolctl cannot read must not end the run
        return ""
    for library in libraries:
        if library.get("user_api") != "blas":
            continue
        if Path(library.get("filepath", "")).parent.name in ("numpy.libs", "scipy.libs", "numpy", "scipy"):
            continue
        fields = (library.get("internal_api"), library.get("version"), library.get("architecture"))
        return " ".join(str(value).lower() for value in fields if value)
    return ""


def calls_sbgemm(library: Path | None = None) -> bool | None:
    """Return whether torch passes bf16 products to its BLAS.

    If the build found ``sbgemm_`` in the BLAS (``BLAS_HAS_SBGEMM``), ``at::native::cpublas::gemm`` calls it for every
    bf16 product, and the symbol is named in ``libtorch_cpu.so``, whether OpenBLAS is linked statically or loaded.
    Otherwise ATen's own loops compute them.

    Args:
        library: the file to search, by default torch's ``libtorch_cpu.so``.

    Returns:
        ``None`` if the library was not found, and with MKL, whose verbose output shows it.
    """
    if library is None:
        if blas_name().startswith("mkl"):
            return None
        import torch

        library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(b"\0sbgemm_\0") >= 0
    except OSError:  # a build with its libraries elsewhere
        return None


def onednn_version() -> str:
    """Return the version of oneDNN that torch was built with; empty without oneDNN."""
    import torch

    return parse_torch_config(torch.__config__.show()).onednn or ""
