"""The kernel log, the data types and the canary together decide the precision of a product."""

from __future__ import annotations

from pathlib import Path

import onednn_recordings as recordings
import pytest
from evidence_samples import ALL_FP32, canary, conv_line, gemm_event
from onednn_recordings import LOGS, audit_of, canary_of, log_path, probes

from modelzoo.evidence.attribution import NO_PROOF, UNKNOWN, PrecisionProof, PrecisionProver, decide_precision
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.observation import Audit, Event
from modelzoo.evidence.onednn_log import parse_onednn
from modelzoo.evidence.verdict import build_evidence
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import LogSource, ProofSource

FAST_MATH_LINE = conv_line("gemm:acl", "f32", 1.0).replace("attr-scratchpad:user", "attr-fpmath:bf16")
(FAST_MATH,) = parse_onednn(FAST_MATH_LINE).primitives
"""fp32 operands, bf16 allowed: the log does not show what ACL did."""


@pytest.mark.parametrize(
    ("level", "bf16_method", "precision", "decided_by"),
    [
        ("bf16", "fastmath", "bf16", ProofSource.CANARY),
        ("fp32", "fastmath", "fp32", ProofSource.CANARY),
        ("reduced", "fastmath", "reduced", ProofSource.CANARY),
        ("broken", "fastmath", UNKNOWN, ProofSource.NOTHING),
        ("failed", "fastmath", UNKNOWN, ProofSource.NOTHING),
        ("fp32", "autocast", "fp32", ProofSource.CANARY),
        ("bf16", "autocast", UNKNOWN, ProofSource.NOTHING),
    ],
)
def test_the_canary_decides_if_fast_math_is_allowed(
    level: str, bf16_method: str, precision: str, decided_by: ProofSource
) -> None:
    """Under autocast the canary's operands are bf16, so its bf16 error shows nothing about fp32 operands."""
    ran = canary("fp32", "fp32", level, kernels={"conv": "convolution gemm:acl"})
    assert PrecisionProver(ran, bf16_method).prove_primitive(FAST_MATH) == PrecisionProof(precision, decided_by)


@pytest.mark.parametrize("ran", ["convolution indirect_gemm:acl", "convolution jit_dw:sve_256", "matmul gemm:acl"])
def test_the_canary_decides_for_the_kernel_that_it_ran_only(ran: str) -> None:
    """A dense convolution shows nothing about the kernel of a grouped one, nor about another primitive's."""
    found = PrecisionProver(canary("bf16", "bf16", "bf16", kernels={"conv": ran}), "fastmath")
    assert found.prove_primitive(FAST_MATH) == NO_PROOF
    assert PrecisionProver(None, "fastmath").prove_primitive(FAST_MATH) == NO_PROOF


def test_bf16_operands_prove_bf16() -> None:
    """No canary is needed, and none can disagree: the operands are stored with 8 significant bits."""
    (primitive,) = parse_onednn(conv_line("jit_bf16:avx512_core_bf16", "bf16", 1.0)).primitives
    kernels = {"conv": "convolution jit_bf16:avx512_core_bf16"}
    for ran, decided_by in (
        (None, ProofSource.KERNEL_LOG),
        (canary("fp32", "fp32", "fp32", kernels=kernels), ProofSource.KERNEL_LOG),
        (canary("bf16", "bf16", "bf16", kernels=kernels), ProofSource.BOTH),
    ):
        assert PrecisionProver(ran, "cast").prove_primitive(primitive) == PrecisionProof("bf16", decided_by)


def test_operands_of_unknown_type_stay_unknown() -> None:
    """What the canary's operands became says nothing about operands that nobody knows."""
    prover = PrecisionProver(ALL_FP32, None)
    assert prover.prove_library_call("unknown", "aten::mm", ProofSource.DATA_TYPES) == NO_PROOF
    assert decide_precision("unknown", CanaryLevel.FP32, ProofSource.DATA_TYPES) == NO_PROOF


def test_outside_onednn_the_canary_that_ran_there_decides() -> None:
    """torch unfolds convolutions and calls the same sgemm; only an operator of class linear is compared with Linear."""
    prover = PrecisionProver(canary("fp32", "bf16", "bf16"), "fastmath")

    def precision(operator: str) -> str:
        return prover.prove_library_call("fp32", operator, ProofSource.DATA_TYPES).precision

    assert precision("aten::_slow_conv2d_forward") == "fp32"
    assert precision("aten::mm") == "fp32"
    assert precision("aten::addmm") == "bf16"


def test_a_call_outside_onednn_does_not_inherit_its_bf16() -> None:
    """Nothing is known about it if no operator of the canary ran outside oneDNN, although fast math is allowed."""
    kernels = dict.fromkeys(("matmul", "linear", "conv"), "matmul gemm:acl")
    inside = canary("bf16", "bf16", "bf16", kernels=kernels)
    call = ("fp32", "aten::mm", ProofSource.DATA_TYPES)
    assert PrecisionProver(inside, "fastmath").prove_library_call(*call) == NO_PROOF
    assert PrecisionProver(None, "fastmath").prove_library_call(*call) == NO_PROOF
    one_outside = canary("fp32", "bf16", "bf16", kernels={"linear": "matmul gemm:acl", "conv": "convolution gemm:acl"})
    assert PrecisionProver(one_outside, "fastmath").prove_library_call(*call).precision == "fp32"


def test_canary_decides_for_a_recorded_log_that_allows_both(shared: Path) -> None:
    """oneDNN 2.7 logs fp32 tensors for a bf16 convolution; the canary decides."""
    found = recordings.fp32_probes(shared, "neoverse-n2_torch2.0.1_fpmath-bf16")
    (conv,) = (probe for probe in found if probe.operator == "conv")
    (verdict,) = build_evidence(audit_of(conv), canary_of(found, conv), "bf16", "fastmath").classes
    assert (verdict.precisions, verdict.decided_by) == (("bf16",), ("canary",))


@pytest.mark.parametrize("name", LOGS)
def test_the_log_alone_is_never_wrong(shared: Path, name: str) -> None:
    """Without a canary the precision is right or unknown, and unknown only if a library was allowed bf16."""
    for probe in probes(log_path(shared, name)):
        evidence = build_evidence(audit_of(probe), None, "bf16" if probe.bf16_method else "fp32", probe.bf16_method)
        (precision,) = evidence.classes[0].precisions
        if precision != probe.truth:
            assert precision == "unknown precision"
            outside = not any(each.is_compute for each in probe.log.primitives)
            allowed = any(each.attributes.get("fpmath") == "bf16" for each in probe.log.primitives)
            assert allowed or (outside and probe.bf16_method == "fastmath")


def test_product_that_left_onednn_is_not_judged_by_its_canary() -> None:
    """A small Linear through BLAS does not inherit the bf16 of the canary's Linear through oneDNN."""
    line = (
        "onednn_verbose,v1,primitive,exec,cpu,matmul,gemm:acl,undef,src:f32::blocked:ab::f0 "
        "wei:bf16::blocked:ab::f0 dst:f32::blocked:ab::f0,attr-fpmath:bf16,,128x256:256x128,900"
    )
    large = replace(gemm_event("aten::addmm", "float"), shapes=((128,), (128, 256), (256, 128)))
    events = (Event(PASS_EVENT, 0.0, -1), large, gemm_event("aten::addmm", "float", 0.5))
    audit = Audit(1, 1.5, events, parse_onednn(line), LogSource.RUNTIME_SWITCH, "openblas")
    ran = canary("fp32", "bf16", "bf16", kernels={"linear": "matmul gemm:acl", "conv": "convolution gemm:acl"})
    assert build_evidence(audit, ran, "bf16", "fastmath").classes[0].precisions == ("bf16", "fp32")
    inside = canary("bf16", "bf16", "bf16", kernels=dict.fromkeys(("matmul", "linear", "conv"), "matmul gemm:acl"))
    assert build_evidence(audit, inside, "bf16", "fastmath").classes[0].precisions == ("bf16", "unknown precision")
