"""Parse the verbose output of MKL, which names the functions that are called."""

from __future__ import annotations

import math
import re

import msgspec


class BlasCall(msgspec.Struct, frozen=True):
    """The calls of one BLAS function.

    ``seconds`` is the time that it reports for the main thread. ``flop`` counts the operations of the calls whose sizes
    can be read.
    """

    function: str
    count: int
    seconds: float = 0.0
    flop: int = 0

    @property
    def precision(self) -> str:
        """``fp32``, ``bf16`` …, or ``unknown``."""
        return next((name for prefix, name in _BLAS_PRECISION.items() if self.function.startswith(prefix)), "unknown")

    @property
    def is_product(self) -> bool:
        """Whether it multiplies matrices or vectors."""
        return _BLAS_PRODUCT.search(self.function) is not None


_BLAS_PRODUCT = re.compile(r"GEM[MV]|DOT|SYMM|SYRK|TRMM")
_BLAS_PRECISION = {
    "S": "fp32",
    "D": "fp64",
    "GEMM_BF16": "bf16",
    "GEMM_F16": "fp16",
    "HGEMM": "fp16",
    "GEMM_S": "int8",
    "GEMM_U": "int8",
}
"""The precision of MKL's functions, by the beginning of their name."""

_MKL = re.compile(r"MKL_VERBOSE (\w+)\((.*?)\) ([\d.]+)(ns|us|ms|s)\b(?:.*?\bTID:(\d+))?")
_UNIT = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_SIZES = {"GEMM": slice(2, 5), "GEMV": slice(1, 3), "DOT": slice(0, 1)}
"""Which arguments are the sizes, by what a function's name contains: ``SGEMM(T,N,m,n,k,…)``, ``SGEMV(T,m,n,…)``."""


def parse_mkl(text: str) -> tuple[BlasCall, ...]:
    """Parse MKL's verbose output (``MKL_VERBOSE SGEMM(…) 1.2ms … TID:0``) into calls by function name."""
    calls: dict[str, BlasCall] = {}
    for function, arguments, value, unit, thread in _MKL.findall(text):
        known = calls.get(function, BlasCall(function, 0))
        seconds = float(value) * _UNIT[unit] if thread in ("", "0") else 0.0
        where = next((place for part, place in _SIZES.items() if part in function), None)
        # A batch's sizes are behind pointers.
        sizes = arguments.split(",")[where] if where is not None and "BATCH" not in function else []
        flop = 2 * math.prod(map(int, sizes)) if sizes and all(size.isdigit() for size in sizes) else 0
        calls[function] = BlasCall(function, known.count + 1, known.seconds + seconds, known.flop + flop)
    return tuple(calls[name] for name in sorted(calls))
