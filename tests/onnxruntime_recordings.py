"""What ONNX Runtime's profiler wrote."""

from __future__ import annotations

from places import ROOT

RECORDING = ROOT / "tests/data/onnxruntime_1.32.0_x86_64_profile.json"
"""Two calls of a model with a 3×3 and a 1×1 convolution, Gemm, products with and without constant weights, and a Loop
whose body multiplies matrices twice."""


def recorded() -> bytes:
    """The contents of the profiler's file."""
    return RECORDING.read_bytes()
