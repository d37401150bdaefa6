"""The record of an audit's evidence."""

from __future__ import annotations

from evidence_samples import ALL_FP32, gemm, judge, recording

from modelzoo.frozen import replace

EVIDENCE = judge(recording(gemm("aten::mm", "float32")), ALL_FP32, "fp32")


def test_reference_kernels_are_a_warning() -> None:
    """The warning gives their names and their share of the time; without them there is none."""
    assert EVIDENCE.warnings == ()
    (warning,) = replace(EVIDENCE, reference_share=0.25, reference_kernels=("oneDNN ref:any",)).warnings
    assert warning.code == "REFERENCE_KERNELS"
    assert "25.0 %" in warning.message
    assert "oneDNN ref:any" in warning.message
