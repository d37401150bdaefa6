"""Every second of an audit is attributed, and time that nothing explains is shown as such."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onednn_recordings as recordings
import places
import pytest
from evidence_samples import (
    ALL_BF16,
    ALL_FP32,
    CONV_FLOP,
    adds_up,
    canary,
    conv_event,
    conv_line,
    gemm_event,
    judge,
    sentence,
)
from onednn_recordings import AMX_ATTENTION, AMX_RECORDINGS, LOGS, audit_of, canary_of, log_path, probes

from modelzoo.evidence.attribution import attribute_time
from modelzoo.evidence.kernel_names import BETWEEN_OPERATORS, MOVEMENT, PASS_EVENT
from modelzoo.evidence.mkl_log import parse_mkl
from modelzoo.evidence.observation import Audit, Event
from modelzoo.evidence.onednn_log import OneDnnLog, parse_onednn, problem_flop
from modelzoo.evidence.precision import NO_PROOF, UNKNOWN, PrecisionProof, PrecisionProver, decide_precision
from modelzoo.evidence.verdict import build_evidence
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import LogSource, ProofSource
from modelzoo.records.profile import Flops


def test_time_that_nothing_explains_stays_unattributed() -> None:
    """Time beyond the primitive and plausible set-up is shown, not spread over other rows."""
    log = parse_onednn(conv_line("jit:avx512_core", "f32", 500.0))
    audit = Audit(1, 1.0, (Event(PASS_EVENT, 0.0, -1), conv_event(1.0)), log, LogSource.RUNTIME_SWITCH, "mkl 2024.2")
    evidence = build_evidence(audit, ALL_FP32, "fp32")
    shares = {row.name: row.share for row in evidence.by_implementation}
    assert shares["oneDNN jit:avx512_core"] == pytest.approx(0.5)
    assert shares["oneDNN set-up"] == pytest.approx(0.001)
    assert shares["unattributed"] == evidence.unattributed_share == pytest.approx(0.499)


def test_operators_get_their_own_primitive() -> None:
    """Two convolutions of different sizes each get their kernel, whatever else is in the log."""
    wide = conv_line("jit_1x1:avx512_core", "f32", 200.0).replace("ic8oc8", "ic8oc16")
    other = conv_line("brg:x", "f32", 1.0).replace("ic8oc8", "ic4oc4")
    log = parse_onednn("\n".join((other, wide, conv_line("jit:avx512_core", "f32", 100.0))))
    small = conv_event(0.1)
    large = replace(conv_event(0.2), shapes=((1, 8, 8, 8), (16, 8, 3, 3)))
    audit = Audit(1, 0.4, (Event(PASS_EVENT, 0.1, -1), large, small), log, LogSource.RUNTIME_SWITCH, "mkl")
    evidence = build_evidence(audit, ALL_FP32, "fp32")
    found = {use.implementation: use.kernel_seconds for use in evidence.operators if use.shapes}
    assert found == {
        "oneDNN jit_1x1:avx512_core": pytest.approx(0.2),
        "oneDNN jit:avx512_core": pytest.approx(0.1),
    }
    # The third convolution belongs to no operator and is taken out of the time between operators.
    shares = {row.name: row.share for row in evidence.by_implementation}
    assert shares["oneDNN brg:x"] == pytest.approx(0.001 / 0.4)
    assert adds_up(evidence)


MATMUL = (
    "onednn_verbose,v1,primitive,exec,cpu,matmul,{kernel},undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 "
    "dst:f32::blocked:ab::f0,,,196x64:64x196,{milliseconds}"
)


@pytest.mark.parametrize(
    ("kernels", "share"),
    [
        ({"gemm:acl": 300, "gemm:jit:f32": 100}, 0.25),
        ({"gemm:acl": 300}, 0.0),
        ({"gemm:jit:f32": 100}, 1.0),
    ],
)
def test_reference_kernels_inside_attention_are_found(kernels: dict[str, int], share: float) -> None:
    """Recorded on an emulated Neoverse N2 with fast math: one of attention's products is a loop in C++ on ARM."""
    lines = (MATMUL.format(kernel=kernel, milliseconds=taken) for kernel, taken in kernels.items())
    log = parse_onednn("\n".join(lines), "aarch64")
    shapes = ((1, 1, 196, 64),) * 3
    attention = Event("aten::_scaled_dot_product_flash_attention_for_cpu", 0.8, 0, shapes, ("float",) * 3)
    events = (Event(PASS_EVENT, 0.2, -1), attention)
    evidence = build_evidence(Audit(1, 1.0, events, log, LogSource.RUNTIME_SWITCH, "openblas"), ALL_FP32, "fp32")
    assert evidence.reference_share == pytest.approx(0.8 * share)
    assert [warning.code for warning in evidence.warnings] == ["REFERENCE_KERNELS"] * bool(share)
    assert evidence.reference_kernels == (("flash attention over oneDNN gemm:jit:f32",) if share else ())
    assert adds_up(evidence)
    assert sum(use.count for use in evidence.operators if use.operator_class == "attention") == 1


@pytest.mark.parametrize("path", AMX_ATTENTION, ids=lambda path: path.stem)
def test_attention_in_microkernels_runs_in_onednn(path: Path) -> None:
    """Recorded on a CPU with AMX; the packing of matrices is a part of attention, too."""
    packing = (
        "onednn_verbose,v1,ukernel,exec,cpu,transform,pack_B,undef,src:bf16::blocked:ab::f0 "
        "dst:bf16::blocked:ab::f0,,,384x64,0.01"
    )
    log = parse_onednn(path.read_text() + packing)
    shapes = ((1, 4, 384, 64),) * 3
    attention = Event("aten::_scaled_dot_product_flash_attention_for_cpu", 0.8, 0, shapes, ("c10::BFloat16",) * 3)
    events = (Event(PASS_EVENT, 0.2, -1), attention)
    evidence = judge(Audit(1, 1.0, events, log, LogSource.RUNTIME_SWITCH, "mkl 2024.2"), None, "bf16", "cast")
    assert [(each.name, each.seconds) for each in evidence.by_implementation] == [
        ("flash attention over oneDNN brgemm", 0.8),
        (BETWEEN_OPERATORS, 0.2),
    ]
    assert [(each.precision, str(each.decided_by)) for each in evidence.operators] == [("bf16", "kernel log")]


@pytest.mark.parametrize("path", AMX_RECORDINGS, ids=lambda path: path.stem)
def test_microkernels_whose_lines_show_no_types_multiply_what_attention_was_given(path: Path) -> None:
    """Recorded on a CPU with AMX: they were generated in the first pass, before the log was switched on."""
    found = recordings.load_recording(path)
    calls = recordings.calls_of(found.mode)
    evidence = build_evidence(found.audit, found.canary, found.requested, found.bf16_method, calls=calls)
    assert (found.requested, evidence.verdict) == ("bf16", "ACTIVE")
    (attention,) = (each for each in evidence.operators if each.operator_class == "attention")
    assert (attention.implementation, attention.precision) == ("flash attention over oneDNN brgemm", "bf16")
    in_fp32 = tuple(
        replace(each, dtypes=("float",) * 3) if "flash" in each.name else each for each in found.audit.events
    )
    parts = attribute_time(replace(found.audit, events=in_fp32), PrecisionProver(found.canary, found.bf16_method))
    assert {each.precision for each in parts if each.operator_class == "attention"} == {UNKNOWN}


def test_microkernels_of_generated_code_count() -> None:
    """They match no operator, even one of the same size: their time is taken from the time between operators."""
    kinds = {
        "brgemm,": "src:bf16::blocked:ab::f0 wei:bf16::blocked:ab::f0 dst:f32::blocked:ab::f0,,bs:2 beta:0,4x16:16x8",
        "transform,pack_B": "src:bf16::blocked:ab::f0 dst:bf16::blocked:ab::f0,,,16x8",
    }
    lines = (f"onednn_verbose,v1,ukernel,exec,cpu,{kind},undef,{rest},100" for kind, rest in kinds.items())
    events = (Event(PASS_EVENT, 0.5, -1), gemm_event("aten::mm", "c10::BFloat16", 0.5))
    audit = Audit(1, 1.0, events, parse_onednn("\n".join(lines)), LogSource.RUNTIME_SWITCH, "mkl 2024.2")
    parts = attribute_time(audit, PrecisionProver(None, "cast"))
    assert [(each.implementation, each.precision, each.flop) for each in parts[-2:]] == [
        ("oneDNN brgemm", "bf16", 2 * 2 * 4 * 16 * 8),
        ("oneDNN transform pack_B", MOVEMENT, None),
    ]
    assert [each.seconds for each in parts] == [pytest.approx(0.3), 0.5, pytest.approx(0.1), pytest.approx(0.1)]


@pytest.mark.parametrize(("dtype", "precision"), [("s8", "int8"), ("bf16", "bf16")])
def test_a_primitive_that_fits_no_operator_counts_although_there_is_no_time_for_it(dtype: str, precision: str) -> None:
    """It ran: a narrow line of the log must not vanish from a proof of fp32 because every second has an owner."""
    log = parse_onednn("\n".join((conv_line("jit:x", "f32", 100.0), conv_line("jit:narrow", dtype, 100.0))))
    audit = Audit(1, 0.1, (Event(PASS_EVENT, 0.0, -1), conv_event(0.1)), log, LogSource.RUNTIME_SWITCH, "mkl")
    evidence = judge(audit, ALL_FP32, "fp32")
    assert sentence(evidence) == f"fp32: NOT FP32 (conv ran in {precision}: oneDNN jit:narrow)"
    assert adds_up(evidence)


def test_what_mkl_ran_beyond_the_operators_counts() -> None:
    """Generated code calls MKL directly: its log shows how much, in which precision, and about how long it took."""
    line = "MKL_VERBOSE {}(T,N,8,4,16,0x1,0x2,16,0x3,16,0x4,0x5,8) 100.00ms CNR:OFF Dyn:0 FastMM:1 TID:0  NThr:2"

    def audited(function: str) -> Audit:
        events = (Event(PASS_EVENT, 0.5, -1), gemm_event("aten::mm", "float", 0.5))
        calls = parse_mkl("\n".join((line.format("SGEMM"), line.format(function))))
        return Audit(1, 1.0, events, OneDnnLog("3"), LogSource.RUNTIME_SWITCH, "mkl 2024.2", blas_calls=calls)

    found = {use.operator: (use.precision, use.seconds) for use in judge(audited("SGEMM"), None, "fp32").operators}
    assert found == {"aten::mm": ("fp32", pytest.approx(0.5)), "mkl::sgemm": ("fp32", pytest.approx(0.1))}
    narrow = judge(audited("GEMM_BF16BF16F32"), ALL_FP32, "fp32")
    assert sentence(narrow) == "fp32: NOT FP32 (matmul ran in bf16: mkl gemm_bf16bf16f32)"
    assert adds_up(narrow)


def test_without_a_profiler() -> None:
    """The log accounts for the pass, so that it proves the precision; the rest of the time is unattributed."""
    log = parse_onednn(conv_line("jit_bf16:avx512_core_bf16", "bf16", 600.0))
    audit = Audit(1, 1.0, (), log, LogSource.RUNTIME_SWITCH, "mkl", problems=("no working profiler",))
    counted = Flops(CONV_FLOP, 0, {"aten::convolution": CONV_FLOP})
    evidence = build_evidence(audit, ALL_BF16, "bf16", "cast", counted=counted)
    assert evidence.verdict == "ACTIVE"
    assert evidence.unattributed_share == pytest.approx(0.4)
    assert evidence.problems == ("no working profiler",)
    twice = Flops(2 * CONV_FLOP, 0, {"aten::convolution": 2 * CONV_FLOP})
    assert build_evidence(audit, ALL_BF16, "bf16", "cast", counted=twice).verdict == "UNKNOWN"


SMALL = places.DATA / "aarch64_neoverse-n2_torch2.10.0_small-conv_fpmath-bf16.log"
"""Convolutions too small for oneDNN's own kernels, recorded on an emulated Neoverse N2: torch unfolds the image
and passes the product to oneDNN. ``ERR`` is the error against fp64, ``EV`` an operator, its shapes and microseconds."""


def small_audit() -> Audit:
    """One audit of all recorded convolutions."""
    text = SMALL.read_text(encoding="utf-8")
    operators = [
        Event(name, int(micros) * 1e-6, 0, tuple(tuple(shape) for shape in json.loads(shapes)), ("float", "float"))
        for name, shapes, micros in re.findall(r"^EV (\S+) (\[.*\]) (\d+)$", text, re.MULTILINE)
    ]
    seconds = sum(event.seconds for event in operators)
    return Audit(
        1, seconds, (Event(PASS_EVENT, 0.0, -1), *operators), parse_onednn(text), LogSource.RUNTIME_SWITCH, "openblas"
    )


def test_unfolded_convolutions_find_their_product() -> None:
    """Their error shows bf16 (2e-3); the product in oneDNN's log proves it, and no primitive is left over."""
    audit = small_audit()
    flop = sum(problem_flop(each) or 0 for each in audit.log.primitives if each.is_compute)
    counted = Flops(flop, 0, {"aten::convolution": flop})
    evidence = build_evidence(audit, canary("fp32", "bf16", "bf16"), "bf16", "fastmath", counted=counted)
    assert evidence.verdict == "ACTIVE"
    assert [use.implementation for use in evidence.operators] == ["im2col and oneDNN gemm:acl"] * 5
    assert {use.precision for use in evidence.operators} == {"bf16"}
    assert evidence.problems == ()
    assert adds_up(evidence)


def test_reorders_are_divided_among_the_remainders() -> None:
    """The log does not name a reorder's operator, so every oneDNN operator gets the same fraction."""
    reorder = (
        "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,"
        "src:f32::blocked:abcd::f0 dst:f32::blocked:acdb::f0,,,1x8x8x8,100"
    )
    log = parse_onednn("\n".join((reorder, *[conv_line("jit:avx512_core", "f32", 400.0)] * 2)))
    audit = Audit(
        1, 1.0, (Event(PASS_EVENT, 0.0, -1), conv_event(0.5), conv_event(0.5)), log, LogSource.ENVIRONMENT, "mkl"
    )
    parts = attribute_time(audit, PrecisionProver(None, None))
    moved = [part.seconds for part in parts if part.implementation == "oneDNN reorder"]
    assert moved == [pytest.approx(0.05)] * 2
    assert sum(part.seconds for part in parts) == pytest.approx(1.0)


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
