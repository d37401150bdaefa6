"""The record of an audit's evidence."""

from __future__ import annotations

import json

import pytest
from evidence_samples import ALL_FP32, blas_audit, gemm_event, judge

from modelzoo.frozen import replace
from modelzoo.records.codec import decode, encode
from modelzoo.records.evidence import REFERENCE_SHARE, Evidence, ProofVerdict

EVIDENCE = judge(blas_audit(gemm_event("aten::mm", "float")), ALL_FP32, "fp32")


def test_evidence_survives_json() -> None:
    """Verdicts, sources and classes are stored as words."""
    stored = json.loads(json.dumps(encode(EVIDENCE)))
    assert stored["verdict"] == "FP32"
    assert (stored["operators"][0]["operator_class"], stored["operators"][0]["decided_by"]) == ("matmul", "both")
    assert decode(Evidence, stored) == EVIDENCE


@pytest.mark.parametrize(
    ("verdict", "reference_share", "proven"),
    [
        (ProofVerdict.ACTIVE, 0.0, True),
        (ProofVerdict.FP32, REFERENCE_SHARE, True),
        (ProofVerdict.ACTIVE, 2 * REFERENCE_SHARE, False),
        (ProofVerdict.PARTLY, 0.0, False),
        (ProofVerdict.NOT_ACTIVE, 0.0, False),
        (ProofVerdict.UNKNOWN, 0.0, False),
        (ProofVerdict.NOT_FP32, 0.0, False),
    ],
)
def test_what_counts_as_proven(verdict: ProofVerdict, reference_share: float, proven: bool) -> None:
    """The requested precision must have run, without reference kernels beyond the limit."""
    assert replace(EVIDENCE, verdict=verdict, reference_share=reference_share).proven is proven


def test_reference_kernels_are_a_warning() -> None:
    """The warning gives their names and their share of the time; without them there is none."""
    assert EVIDENCE.warnings == ()
    (warning,) = replace(EVIDENCE, reference_share=0.25, reference_kernels=("oneDNN ref:any",)).warnings
    assert warning.code == "REFERENCE_KERNELS"
    assert "25.0 %" in warning.message
    assert "oneDNN ref:any" in warning.message
