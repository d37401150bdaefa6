"""The record of an audit's evidence."""

from __future__ import annotations

import json

from evidence_samples import ALL_FP32, gemm, judge, recording

from modelzoo.frozen import replace
from modelzoo.records.codec import decode, encode
from modelzoo.records.evidence import Evidence

EVIDENCE = judge(recording(gemm("aten::mm", "float32")), ALL_FP32, "fp32")


def test_evidence_survives_json() -> None:
    """Verdicts, sources and classes are stored as words."""
    stored = json.loads(json.dumps(encode(EVIDENCE)))
    assert stored["verdict"] == "FP32"
    assert (stored["operators"][0]["operator_class"], stored["operators"][0]["decided_by"]) == ("matmul", "both")
    assert decode(Evidence, stored) == EVIDENCE


def test_reference_kernels_are_a_warning() -> None:
    """The warning gives their names and their share of the time; without them there is none."""
    assert EVIDENCE.warnings == ()
    (warning,) = replace(EVIDENCE, reference_share=0.25, reference_kernels=("oneDNN ref:any",)).warnings
    assert warning.code == "REFERENCE_KERNELS"
    assert "25.0 %" in warning.message
    assert "oneDNN ref:any" in warning.message
