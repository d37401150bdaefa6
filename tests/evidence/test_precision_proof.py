"""The kernel log, the data types and the canary together decide the precision of a product."""

from __future__ import annotations

from pathlib import Path

import onednn_recordings as recordings
import pytest
from evidence_samples import canary, conv_line, gemm_event
from onednn_recordings import LOGS, audit_of, canary_of, log_path, probes

from modelzoo.evidence.observation import Audit, Event
from modelzoo.evidence.onednn_log import parse_onednn
from modelzoo.evidence.operators import PASS_EVENT
from modelzoo.evidence.precision_proof import NO_PROOF, UNKNOWN, PrecisionProof, PrecisionProver
from modelzoo.evidence.verdict import build_evidence
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import LogSource, OperatorClass, ProofSource

FAST_MATH_LINE = conv_line("gemm:acl", "f32", 1.0).replace("attr-scratchpad:user", "attr-fpmath:bf16")
(FAST_MATH,) = parse_onednn(FAST_MATH_LINE).primitives
"""fp32 operands, bf16 allowed: the log does not show what ACL did."""
CONV, LINEAR, MATMUL = OperatorClass.CONV, OperatorClass.LINEAR, OperatorClass.MATMUL


@pytest.mark.parametrize(
    ("level", "bf16_method", "precision", "decided_by"),
    [
        (CanaryLevel.BF16, "fastmath", "bf16", ProofSource.CANARY),
        (CanaryLevel.FP32, "fastmath", "fp32", ProofSource.CANARY),
        (CanaryLevel.REDUCED, "fastmath", "reduced", ProofSource.CANARY),
        (CanaryLevel.BROKEN, "fastmath", UNKNOWN, ProofSource.NOTHING),
        (CanaryLevel.FAILED, "fastmath", UNKNOWN, ProofSource.NOTHING),
        (CanaryLevel.FP32, "autocast", "fp32", ProofSource.CANARY),
        (CanaryLevel.BF16, "autocast", UNKNOWN, ProofSource.NOTHING),
        (None, "fastmath", UNKNOWN, ProofSource.NOTHING),
    ],
)
def test_the_canary_decides_if_fast_math_is_allowed(
    level: CanaryLevel | None, bf16_method: str, precision: str, decided_by: ProofSource
) -> None:
    """Under autocast the canary's operands are bf16, so its bf16 error shows nothing about fp32 operands."""
    prover = PrecisionProver({"conv": level} if level else {}, bf16_method, ())
    assert prover.prove_primitive(FAST_MATH, CONV) == PrecisionProof(precision, decided_by)


def test_bf16_operands_prove_bf16() -> None:
    """No canary is needed, and none can disagree: the operands are stored with 8 significant bits."""
    (primitive,) = parse_onednn(conv_line("jit_bf16:avx512_core_bf16", "bf16", 1.0)).primitives
    for levels, decided_by in (
        ({}, ProofSource.KERNEL_LOG),
        ({"conv": CanaryLevel.FP32}, ProofSource.KERNEL_LOG),
        ({"conv": CanaryLevel.BF16}, ProofSource.BOTH),
    ):
        assert PrecisionProver(levels, "cast", ()).prove_primitive(primitive, CONV) == PrecisionProof(
            "bf16", decided_by
        )


def test_attention_is_judged_by_the_matmul_canary() -> None:
    """The canary has no attention; its products are plain matrix products."""
    prover = PrecisionProver({"matmul": CanaryLevel.BF16}, "fastmath", ())
    assert prover.prove_primitive(FAST_MATH, OperatorClass.ATTENTION).precision == "bf16"


def test_convolutions_outside_onednn_are_judged_by_the_matmul_canary() -> None:
    """torch unfolds them and calls the same sgemm; only an operator named linear or addmm is compared with Linear."""
    prover = PrecisionProver({"matmul": CanaryLevel.FP32, "linear": CanaryLevel.BF16}, "fastmath", ())
    assert prover.prove_library_call("fp32", "aten::_slow_conv2d_forward", CONV).precision == "fp32"
    assert prover.prove_library_call("fp32", "aten::mm", LINEAR).precision == "fp32"
    assert prover.prove_library_call("fp32", "aten::addmm", LINEAR).precision == "bf16"


def test_a_call_outside_onednn_does_not_inherit_its_bf16() -> None:
    """If other calls of the class went through oneDNN, so did the canary's; nothing is known about this one."""
    levels = {"matmul": CanaryLevel.BF16}
    assert PrecisionProver(levels, "fastmath", {MATMUL}).prove_library_call("fp32", "aten::mm", MATMUL) == NO_PROOF
    assert PrecisionProver(levels, "fastmath", {CONV}).prove_library_call("fp32", "aten::mm", MATMUL) != NO_PROOF


def test_canary_decides_for_a_recorded_log_that_allows_both(shared: Path) -> None:
    """oneDNN 2.7 logs fp32 tensors for a bf16 convolution; the canary decides."""
    found = recordings.fp32_probes(shared, "neoverse-n2_torch2.0.1_fpmath-bf16")
    (conv,) = (probe for probe in found if probe.operator == "conv")
    (verdict,) = build_evidence(audit_of(conv), canary_of(found, conv), "bf16", "fastmath").classes
    assert (verdict.precisions, verdict.decided_by) == (("bf16",), ("canary",))


@pytest.mark.parametrize("name", LOGS)
def test_the_log_alone_is_never_wrong(shared: Path, name: str) -> None:
    """Without a canary the precision is right or unknown, and unknown only if ACL was allowed bf16."""
    for probe in probes(log_path(shared, name)):
        evidence = build_evidence(audit_of(probe), None, "bf16" if probe.bf16_method else "fp32", probe.bf16_method)
        (precision,) = evidence.classes[0].precisions
        if precision != probe.truth:
            assert precision == "unknown precision"
            assert any(each.attributes.get("fpmath") == "bf16" for each in probe.log.primitives)


def test_product_that_left_onednn_is_not_judged_by_its_canary() -> None:
    """A small Linear through BLAS does not inherit the bf16 of the canary's Linear through oneDNN."""
    line = (
        "onednn_verbose,v1,primitive,exec,cpu,matmul,gemm:acl,undef,src:f32::blocked:ab::f0 "
        "wei:bf16::blocked:ab::f0 dst:f32::blocked:ab::f0,attr-fpmath:bf16,,128x256:256x128,900"
    )
    large = replace(gemm_event("aten::addmm", "float"), shapes=((128,), (128, 256), (256, 128)))
    events = (Event(PASS_EVENT, 0.0, -1), large, gemm_event("aten::addmm", "float", 0.5))
    audit = Audit(1, 1.5, events, parse_onednn(line), LogSource.RUNTIME_SWITCH, "openblas")
    evidence = build_evidence(audit, canary("fp32", "bf16", "bf16"), "bf16", "fastmath")
    assert evidence.classes[0].precisions == ("bf16", "unknown precision")
