"""The verdict on an audit: did bf16 run, is fp32 really fp32?"""

from __future__ import annotations

import json
from pathlib import Path

import onednn_recordings as recordings
import pytest
from evidence_samples import (
    ALL_BF16,
    ALL_FP32,
    adds_up,
    blas_audit,
    canary,
    conv_event,
    conv_line,
    gemm_event,
    judge,
    sentence,
)
from onednn_recordings import LOGS, audit_of, canary_of, event_of, log_path, probes

from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.observation import Audit, Event
from modelzoo.evidence.onednn_log import OneDnnLog, parse_onednn
from modelzoo.evidence.verdict import build_evidence
from modelzoo.frozen import replace
from modelzoo.records.codec import decode, encode
from modelzoo.records.evidence import Evidence, LogSource
from modelzoo.records.profile import Flops


def whole(all_probes: list[recordings.Probe]) -> Audit:
    """One audit of all operators, each of which took the time of its primitives (at least a second)."""
    events = []
    for probe in all_probes:
        inside = sum(primitive.seconds for primitive in probe.log.primitives)
        events.append(event_of(probe, max(inside, 1.0)))
    primitives = tuple(primitive for probe in all_probes for primitive in probe.log.primitives)
    seconds = sum(event.seconds for event in events)
    return Audit(1, seconds, tuple(events), OneDnnLog("3", primitives=primitives), LogSource.ENVIRONMENT, "openblas")


@pytest.mark.parametrize("name", LOGS)
def test_recorded_logs_operator_by_operator(shared: Path, name: str) -> None:
    """Log and canary together find the precision that each operator's error proves."""
    all_probes = probes(log_path(shared, name))
    assert all_probes
    for probe in all_probes:
        requested = "fp32" if probe.bf16_method is None else "bf16"
        evidence = build_evidence(
            audit_of(probe),
            canary_of(all_probes, probe),
            requested,
            probe.bf16_method,
            calls=recordings.counted_calls(probe),
        )
        (found,) = evidence.classes
        assert found.operator_class == probe.operator
        assert found.precisions == (probe.truth,), (probe.section, probe.operator)
        expected = {("bf16", "bf16"): "ACTIVE", ("bf16", "fp32"): "NOT_ACTIVE", ("fp32", "fp32"): "FP32"}
        assert evidence.verdict == expected[requested, probe.truth]
        assert adds_up(evidence)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("neoverse-n2_torch2.0.1_fpmath-bf16", "matmul no"),
        ("neoverse-n2_torch2.5.1_fpmath-bf16", "conv no, linear yes, matmul no"),
        ("neoverse-n2_torch2.10.0_fpmath-bf16", "conv yes, linear yes, matmul no"),
    ],
)
def test_partly_names_the_operators(shared: Path, name: str, line: str) -> None:
    """With fast math each version of torch leaves different operators in fp32, and the line says which."""
    found = recordings.fp32_probes(shared, name)
    audit = whole(found)
    # The same time for each: emulated times differ too much.
    audit = replace(audit, events=tuple(replace(event, seconds=10.0) for event in audit.events))
    primitives = tuple(replace(each, seconds=9.0 if each.is_compute else 0.0) for each in audit.log.primitives)
    audit = replace(audit, log=replace(audit.log, primitives=primitives))
    evidence = build_evidence(
        audit, canary_of(found, found[0]), "bf16", "fastmath", calls=recordings.counted_calls(*found)
    )
    assert evidence.verdict == "PARTLY"
    assert line in sentence(evidence)


def test_fast_math_that_the_library_ignores(shared: Path) -> None:
    """The log of 2.5.1 says fpmath:bf16 for a convolution that ran in fp32."""
    found = recordings.fp32_probes(shared, "neoverse-n2_torch2.5.1_fpmath-bf16")
    (conv,) = (probe for probe in found if probe.operator == "conv")
    assert conv.log.primitives[-2].attributes["fpmath"] == "bf16"
    evidence = build_evidence(
        audit_of(conv), canary_of(found, conv), "bf16", "fastmath", calls=recordings.counted_calls(conv)
    )
    assert evidence.verdict == "NOT_ACTIVE"
    assert "oneDNN was allowed bf16" in sentence(evidence)
    assert "indirect_gemm:acl" in sentence(evidence)


def test_variable_overridden(shared: Path) -> None:
    """If oneDNN was never allowed bf16, the reason says so."""
    found = recordings.fp32_probes(shared, "neoverse-n2_torch2.10.0_fpmath-strict")
    evidence = build_evidence(
        whole(found), canary_of(found, found[0]), "bf16", "fastmath", calls=recordings.counted_calls(*found)
    )
    assert sentence(evidence).startswith("bf16: REQUESTED, NOT ACTIVE (oneDNN was never allowed bf16")


def test_reference_kernel(shared: Path) -> None:
    """A model cast to bf16 on 2.5.1 is ACTIVE and still not accepted: its convolution ran in ref:any."""
    found = [p for p in probes(log_path(shared, LOGS[-2])) if p.section == "bf16"]
    evidence = build_evidence(
        whole(found), canary_of(found, found[0]), "bf16", "cast", calls=recordings.counted_calls(*found)
    )
    assert evidence.verdict == "ACTIVE"
    assert evidence.reference_kernels == ("oneDNN ref:any",)
    assert evidence.reference_share > 0.5
    assert [warning.code for warning in evidence.warnings] == ["REFERENCE_KERNELS"]
    assert "ref:any" in evidence.warnings[0].message


def test_a_reference_kernel_with_another_name_on_arm(shared: Path) -> None:
    """The audit knows the CPU: "gemm:jit:f32" is a loop in C++ on ARM, and generated code on x86."""
    found = recordings.fp32_probes(shared, "neoverse-n2_torch2.10.0_fpmath-strict")
    log = parse_onednn(
        "onednn_verbose,v1,primitive,exec,cpu,matmul,gemm:jit:f32,undef,src:f32::blocked:ab::f0 "
        "wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,attr-scratchpad:user,,128x256:256x128,50",
        "aarch64",
    )
    evidence = build_evidence(replace(whole(found), log=log), canary_of(found, found[0]), "fp32")
    assert evidence.reference_kernels == ("oneDNN gemm:jit:f32",)
    assert [warning.code for warning in evidence.warnings] == ["REFERENCE_KERNELS"]


X86_VERDICTS = {"autocast": "ACTIVE", "cast": "ACTIVE"}
"""Of bf16 on x86 without AMX: whatever fast math allows, oneDNN does not use it."""

AMX_VERDICTS = {**X86_VERDICTS, "fastmath": "ACTIVE", "variable": "PARTLY", "overridden": "PARTLY"}
"""With AMX it does; the variable reaches convolutions only, also where torch's switch says the opposite."""

TWO_KERNELS = "onednn_x86_64-amx_torch2.10.0_fastmath"
"""The recording in which attention runs one of its products on AMX, and others in a kernel for AVX-512."""


@pytest.mark.parametrize("path", recordings.OWN_RECORDINGS, ids=lambda path: path.stem)
def test_own_recordings(path: Path) -> None:
    """bf16 is seen where it runs, and only there; shares add up and little is unattributed."""
    found = recordings.load_recording(path)
    calls = recordings.calls_of(found.mode, "1.13" not in path.name)
    evidence = build_evidence(found.audit, found.canary, found.requested, found.bf16_method, calls=calls)
    if found.requested == "fp32":
        expected = "FP32"
    elif path.stem == TWO_KERNELS:
        expected = "UNKNOWN"
    else:
        expected = (AMX_VERDICTS if "-amx" in path.stem else X86_VERDICTS).get(found.mode, "NOT_ACTIVE")
    assert evidence.verdict == expected
    assert adds_up(evidence)
    assert evidence.unattributed_share < 0.1
    assert evidence.problems == ()
    assert evidence.onednn_version.startswith(("3.13", "3.12", "3.7", "2.6"))
    assert {each.operator_class for each in evidence.classes} >= {"conv", "matmul"}
    assert evidence.reference_share == 0.0
    assert evidence.warnings == ()
    assert decode(Evidence, json.loads(json.dumps(encode(evidence)))) == evidence


ARM_VERDICTS = {"fp32": {"FP32"}, "autocast": {"ACTIVE"}, "cast": {"ACTIVE"}, "variable": {"ACTIVE", "UNKNOWN"}}
"""With fast math, products outside oneDNN leave no trace of what they computed in."""

SVE_CONVOLUTIONS = "onednn_aarch64-neoverse-n2_torch2.15.0_variable"
"""The recording in which most of what is known with fast math are convolutions in oneDNN's kernels for SVE, in fp32."""


@pytest.mark.parametrize("path", recordings.ARM_RECORDINGS, ids=lambda path: path.stem)
def test_recordings_of_emulated_arm(path: Path) -> None:
    """fp32 is never taken for bf16, nor the other way round; what ran is found in Compute Library and a BLAS."""
    found = recordings.load_recording(path)
    calls = recordings.calls_of(found.mode, has_attention=True)
    evidence = build_evidence(found.audit, found.canary, found.requested, found.bf16_method, calls=calls)
    assert evidence.verdict in ({"PARTLY"} if path.stem == SVE_CONVOLUTIONS else ARM_VERDICTS[found.mode])
    assert adds_up(evidence)
    assert evidence.unattributed_share < 0.1
    assert evidence.problems == ()
    kernels = {use.implementation for use in evidence.operators}
    own = "native bf16" if "torch2.15.0" in path.stem else "openblas"  # NVPL has no bf16 product
    assert any("acl" in kernel or own in kernel for kernel in kernels)
    assert {each.operator_class for each in evidence.classes} == {"conv", "linear", "matmul", "attention"}


def test_sgemm_that_rounds_inside() -> None:
    """If a patched BLAS computes fp32 tensors in bf16, only the canary shows it."""
    evidence = judge(blas_audit(gemm_event("aten::mm", "float")), canary("bf16", "fp32", "fp32"), "fp32")
    assert evidence.verdict == "NOT_FP32"
    assert evidence.decided_by == ("canary",)
    assert "matmul ran in bf16: openblas sgemm" in sentence(evidence)


def test_fp32_needs_a_clean_canary() -> None:
    """Every canary operator must be fp32, even one that the model does not use."""
    audit = blas_audit(gemm_event("aten::addmm", "float"))
    assert judge(audit, ALL_FP32, "fp32").verdict == "FP32"
    assert judge(audit, canary("fp32", "fp32", "reduced"), "fp32").verdict == "NOT_FP32"
    assert judge(audit, canary("fp32", "fp32", "broken"), "fp32").verdict == "NOT_FP32"
    assert judge(audit, None, "fp32").verdict == "UNKNOWN"


def test_bf16_in_an_fp32_run() -> None:
    """One product with bf16 operands is enough for NOT_FP32."""
    audit = blas_audit(gemm_event("aten::mm", "float", 99.0), gemm_event("aten::addmm", "c10::BFloat16", 1.0))
    evidence = judge(audit, ALL_FP32, "fp32")
    assert evidence.verdict == "NOT_FP32"
    assert "linear ran in bf16" in sentence(evidence)


def test_autocast_that_leaves_operators_in_fp32() -> None:
    """Under autocast the canary's bf16 error proves nothing about operands that stayed fp32."""
    audit = blas_audit(gemm_event("aten::mm", "float", 1.0), gemm_event("aten::addmm", "c10::BFloat16", 1.0))
    evidence = judge(audit, ALL_BF16, "bf16", "autocast")
    assert evidence.verdict == "PARTLY"
    assert "linear yes, matmul no; bf16 kernels took 50 % of the time in matrix products" in sentence(evidence)


def mixed(fp32: float, bf16: float, *, flop: tuple[int, int] | None = None) -> Audit:
    """A matrix product in fp32 and a layer in bf16, with these seconds and as much arithmetic, or with ``flop``."""
    rows = flop or (round(10 * fp32), round(10 * bf16))
    product = replace(gemm_event("aten::mm", "float", fp32), shapes=((rows[0], 16), (16, 8)))
    layer = replace(gemm_event("aten::addmm", "c10::BFloat16", bf16), shapes=((8,), (rows[1], 16), (16, 8)))
    return blas_audit(product, layer)


def test_thresholds() -> None:
    """bf16 is active from 90 % on and not active below 1 %."""

    def verdict(bf16: float) -> str:
        return judge(mixed(100.0 - bf16, bf16), ALL_BF16, "bf16", "autocast").verdict

    assert [verdict(share) for share in (90.0, 89.9, 1.0, 0.9)] == ["ACTIVE", "PARTLY", "PARTLY", "NOT_ACTIVE"]


def test_a_product_narrower_than_bf16_is_not_active() -> None:
    """However little of the time it takes."""
    audit = blas_audit(gemm_event("aten::_int_mm", "int8", 1.0), gemm_event("aten::addmm", "c10::BFloat16", 99.0))
    evidence = judge(audit, ALL_BF16, "bf16", "autocast")
    assert evidence.verdict == "PARTLY"
    assert "matmul ran in int8: aten::_int_mm (int8)" in sentence(evidence)


def test_active_names_what_stayed_in_fp32() -> None:
    """A class that takes little time does not change the verdict, but is named."""
    line = sentence(judge(mixed(0.1, 99.9), ALL_BF16, "bf16", "autocast"))
    assert (
        line == "bf16: ACTIVE (linear yes, matmul no; bf16 kernels took 100 % of the time in matrix products, "
        "100 % of the pass)"
    )


def test_slow_bf16_is_not_active_if_fast_fp32_does_much_of_the_work() -> None:
    """Time alone would hide half of the model."""
    line = sentence(judge(mixed(1.0, 99.0, flop=(500, 500)), ALL_BF16, "bf16", "autocast"))
    assert line == (
        "bf16: PARTLY (linear yes, matmul no; bf16 kernels took 99 % of the time in matrix products, "
        "99 % of the pass, and did 50 % of the arithmetic)"
    )


def test_generated_code_that_hides_the_products_is_unknown() -> None:
    """Templates of max-autotune call no library: what they multiply is counted, and no product accounts for it."""
    graph = Event("## Call CompiledFxGraph fabc ##", 9.0, 0)
    attention = gemm_event("aten::bmm", "c10::BFloat16", 1.0)
    audit = blas_audit(graph, attention)
    counted = Flops(10 * 1024, 0, {"aten::addmm": 9 * 1024, "aten::bmm": 1024})
    evidence = build_evidence(audit, ALL_BF16, "bf16", "autocast", counted=counted)
    assert sentence(evidence) == (
        "bf16: UNKNOWN (bf16 kernels took 100 % of the time in matrix products, 10 % of the pass; "
        "the precision of 90 % of the arithmetic is not known; "
        "what ran in 90 % of the time is not known (inductor C++ kernels 90 %))"
    )
    plain = build_evidence(blas_audit(graph), ALL_FP32, "fp32", counted=counted)
    assert sentence(plain).startswith(
        "fp32: UNKNOWN (the precision of 100 % of the arithmetic is not known; what ran in"
    )


@pytest.mark.parametrize(
    ("bf16", "fp32", "verdict"), [(1.0, 10.0, "PARTLY"), (0.9, 10.1, "UNKNOWN"), (1.1, 9.9, "UNKNOWN")]
)
def test_both_precisions_are_partly_whatever_the_rest_is(bf16: float, fp32: float, verdict: str) -> None:
    """With 1 % of the pass in bf16 and 10 % in fp32, whatever generated code hides cannot make bf16 active."""
    hidden = Event("## Call CompiledFxGraph fabc ##", 100.0 - bf16 - fp32, 0)
    audit = blas_audit(hidden, gemm_event("aten::mm", "float", fp32), gemm_event("aten::addmm", "c10::BFloat16", bf16))
    counted = Flops(10 * 1024, 0, {"aten::addmm": 10 * 1024})
    evidence = build_evidence(audit, ALL_BF16, "bf16", "autocast", counted=counted)
    assert not evidence.coverage.is_enough
    assert evidence.verdict == verdict


def test_what_was_not_counted_is_not_proven() -> None:
    """The products may not be all of them."""
    audit = blas_audit(gemm_event("aten::mm", "float"))
    assert (
        sentence(build_evidence(audit, ALL_FP32, "fp32"))
        == "fp32: UNKNOWN (the operations of the pass were not counted)"
    )


def test_without_a_kernel_log_onednn_may_have_run_anything() -> None:
    """fp32 operands show nothing then, unless this torch has no oneDNN."""
    audit = replace(blas_audit(gemm_event("aten::addmm", "float")), log_source=LogSource.NONE)
    assert judge(audit, ALL_FP32, "fp32").verdict == "UNKNOWN"
    assert judge(replace(audit, log=OneDnnLog("")), ALL_FP32, "fp32").verdict == "FP32"


def test_a_narrow_reorder_without_a_product_is_not_proven() -> None:
    """Something was converted to int8, and nothing that was seen multiplied it."""
    reorder = (
        "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,"
        "src:f32::blocked:ab::f0 dst:s8::blocked:ab::f0,,,16x8,1"
    )
    audit = replace(blas_audit(gemm_event("aten::mm", "float")), log=parse_onednn(reorder))
    line = sentence(judge(audit, ALL_FP32, "fp32"))
    assert line == "fp32: UNKNOWN (the kernel log has int8, which no product explains)"


def test_undecided_is_unknown() -> None:
    """If bf16 was allowed and no canary ran, the verdict is UNKNOWN."""
    line = conv_line("gemm:acl", "f32", 900.0).replace("attr-scratchpad:user", "attr-fpmath:bf16")
    audit = Audit(
        1, 1.0, (Event(PASS_EVENT, 0.0, -1), conv_event(1.0)), parse_onednn(line), LogSource.ENVIRONMENT, "openblas"
    )
    assert judge(audit, None, "bf16", "fastmath").verdict == "UNKNOWN"


def test_nothing_to_judge() -> None:
    """A model without products cannot be judged."""
    audit = blas_audit(Event("aten::relu_", 1.0, 0, ((4, 4),), ("float",)))
    assert judge(audit, ALL_FP32, "fp32").verdict == "UNKNOWN"
    assert judge(audit, ALL_FP32, "bf16", "cast").verdict == "UNKNOWN"
