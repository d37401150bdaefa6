"""What an audit of ONNX Runtime proves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from evidence_samples import sentence
from onnxruntime_recordings import recorded

from modelzoo.engines.onnxruntime.evidence import build_evidence, kernel_digest
from modelzoo.engines.onnxruntime.profile_log import operator_class, parse_profile
from modelzoo.evidence.observation import Event
from modelzoo.evidence.precision import UNKNOWN
from modelzoo.evidence.profiler import nested_events
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.evidence import LogSource, OperatorClass, ProofSource, ProofVerdict
from modelzoo.records.profile import Flops

OPERATORS = ("matmul", "linear", "conv", "pointwise", "projection")
ERRORS = {CanaryLevel.FP32: 3e-7, CanaryLevel.BF16: 2e-3}


def canary(**levels: CanaryLevel) -> Canary:
    """All operators in fp32, but for those named."""
    found = {**dict.fromkeys(OPERATORS, CanaryLevel.FP32), **levels}
    return Canary(tuple(OperatorCheck(name, ERRORS[level], level) for name, level in found.items()))


ALL_BF16 = canary(**dict.fromkeys(OPERATORS, CanaryLevel.BF16))


def events(text: bytes | None = None) -> tuple[Event, ...]:
    return nested_events(parse_profile(recorded() if text is None else text, 1))


def test_fp32_is_proven_if_the_canary_confirms_every_class() -> None:
    """By the data types and the canary together; the engine reports its kernels itself."""
    evidence = build_evidence(events(), 1, canary(), "fp32", None)
    assert evidence.verdict is ProofVerdict.FP32
    assert set(evidence.decided_by) == {ProofSource.BOTH, ProofSource.DATA_TYPES}
    assert evidence.log_source is LogSource.ENGINE
    assert {each.operator_class for each in evidence.classes} == {
        OperatorClass.CONV,
        OperatorClass.LINEAR,
        OperatorClass.MATMUL,
    }
    assert {share.name for share in evidence.by_implementation} >= {
        "MLAS NCHWc Conv",
        "MLAS NCHWc Conv 1×1",
        "MLAS Gemm",
        "MLAS MatMul",
        "memory movement",
        "other operators",
        "control flow",
        "between operators",
    }
    assert sum(share.seconds for share in evidence.by_implementation) == pytest.approx(evidence.seconds)


def test_without_a_canary_fp32_is_not_proven() -> None:
    """The data types of the tensors do not show whether a kernel rounds inside."""
    assert build_evidence(events(), 1, None, "fp32", None).verdict is ProofVerdict.UNKNOWN


@pytest.mark.parametrize("operator", ["matmul", "conv", "pointwise", "projection"])
def test_one_operator_of_the_canary_in_bf16_disproves_fp32(operator: str) -> None:
    """Whichever it is."""
    evidence = build_evidence(events(), 1, canary(**{operator: CanaryLevel.BF16}), "fp32", None)
    assert evidence.verdict is ProofVerdict.NOT_FP32


def test_tensors_of_another_type_disprove_fp32() -> None:
    """As in a model that was exported in bf16."""
    other = events(recorded().replace(b'"float"', b'"bfloat16"'))
    assert build_evidence(other, 1, canary(), "fp32", None).verdict is ProofVerdict.NOT_FP32


def test_bf16_is_active_if_all_operators_of_the_canary_show_it() -> None:
    """Tensors stay fp32 with fast math, so the canary decides."""
    found = [event for event in events() if event.name != "FusedMatMul"]
    evidence = build_evidence(found, 1, ALL_BF16, "bf16", "fastmath")
    assert evidence.verdict is ProofVerdict.ACTIVE
    assert evidence.decided_by == (ProofSource.CANARY,)


@pytest.mark.parametrize("operator", ["FusedMatMul", "Attention", "ConvTranspose", "LSTM"])
def test_what_the_canary_does_not_run_is_not_concluded_from_it(operator: str) -> None:
    """With fast math these may stay in fp32 beside a ``MatMul`` in bf16; without it their tensors are fp32."""
    found = [replace(event, name=operator) for event in events() if event.name == "FusedMatMul"]
    bf16 = build_evidence(found, 1, ALL_BF16, "bf16", "fastmath")
    assert (bf16.verdict, bf16.operators[0].precision) == (ProofVerdict.UNKNOWN, UNKNOWN)
    fp32 = build_evidence(found, 1, canary(), "fp32", None)
    assert (fp32.verdict, fp32.operators[0].precision) == (ProofVerdict.FP32, "fp32")


def test_bf16_is_partly_active_if_only_some_kernels_have_it() -> None:
    """1×1 convolutions have a bf16 kernel in versions in which 3×3 ones have none."""
    evidence = build_evidence(events(), 1, canary(pointwise=CanaryLevel.BF16), "bf16", "fastmath")
    assert evidence.verdict is ProofVerdict.PARTLY
    precisions = {use.implementation: use.precision for use in evidence.operators}
    assert precisions["MLAS NCHWc Conv 1×1"] == "bf16"
    assert precisions["MLAS NCHWc Conv"] == "fp32"


def test_bf16_that_was_allowed_and_did_not_run_is_said() -> None:
    """The line names the library and the error of the canary."""
    evidence = build_evidence(events(), 1, canary(), "bf16", "fastmath")
    assert evidence.verdict is ProofVerdict.NOT_ACTIVE
    assert "ONNX Runtime was allowed bf16, yet MLAS" in sentence(evidence)
    assert "canary error 3e-07 is fp32's" in sentence(evidence)


def test_another_provider_is_a_problem_of_the_audit() -> None:
    """It is named."""
    other = events(recorded().replace(b'"CPUExecutionProvider"', b'"ACLExecutionProvider"'))
    assert build_evidence(other, 1, canary(), "fp32", None).problems == (
        "not all nodes ran on CPUExecutionProvider: ACLExecutionProvider",
    )


def test_a_digest_counts_the_products_of_a_pass() -> None:
    """By kernel; nodes that multiply nothing are left out."""
    digest = kernel_digest(events(), None)
    assert digest is not None
    assert {(each.kernel, each.precision): each.count for each in digest.kernels} == {
        ("MLAS NCHWc Conv", "fp32"): 1,
        ("MLAS NCHWc Conv 1×1", "fp32"): 1,
        ("MLAS Gemm", "fp32"): 1,
        ("MLAS MatMul", "fp32"): 3,
        ("MLAS FusedMatMul", "fp32"): 1,
    }


def changed(found: Sequence[Event], **changes: object) -> list[Event]:
    """``found`` with one convolution changed."""
    index = next(index for index, event in enumerate(found) if event.name == "Conv [NCHWc]")
    return [*found[:index], replace(found[index], **changes), *found[index + 1 :]]  # type: ignore[arg-type]


def test_digests_differ_if_kernels_or_shapes_do_and_not_by_time_or_number_of_items() -> None:
    """Equal digests prove that a process ran what another one was audited for."""
    first, found = kernel_digest(events(), None), events()
    other = events(recorded().replace(b"[2,16,8,8]", b"[3,16,8,8]").replace(b'"dur" :61', b'"dur" :99'))
    assert kernel_digest(other, None) == first
    assert kernel_digest(found, "fastmath") != first
    assert kernel_digest(changed(found, name="Conv"), None) != first
    assert kernel_digest(changed(found, shapes=((2, 16, 8, 8), (16, 16, 5, 5))), None) != first
    assert kernel_digest([event for event in found if event.name == "Flatten"], None) is None


def test_an_operator_that_nobody_knows_is_unknown() -> None:
    """One of an extension may multiply anything; so may a later version's."""
    renamed = [replace(each, name="Fancy") if operator_class(each.name) is None else each for each in events()]
    evidence = build_evidence(renamed, 1, canary(), "fp32", None)
    assert evidence.verdict is ProofVerdict.UNKNOWN
    assert "Fancy" in sentence(evidence)


@pytest.mark.parametrize(
    ("operator", "precision"),
    [("MatMulNBits", "int4"), ("DynamicQuantizeMatMul", "int8"), ("QLinearConv", "int8"), ("ConvInteger", "int8")],
)
def test_quantized_products_are_refused(operator: str, precision: str) -> None:
    """Their weights are packed, so that the name decides."""
    planted = [replace(each, name=operator) if each.name == "Gemm" else each for each in events()]
    evidence = build_evidence(planted, 1, canary(), "fp32", None)
    assert evidence.verdict is ProofVerdict.NOT_FP32
    assert f"ran in {precision}: MLAS {operator}" in sentence(evidence)


def test_a_count_of_torch_that_the_nodes_do_not_reach_is_unknown() -> None:
    """If the sizes of all products are known, they must be what torch counts in the same model."""
    products = [each for each in events() if operator_class(each.name) is not None]
    total = sum(each.flop or 0 for each in products)
    assert all(each.flop for each in products)
    conv = sum(each.flop or 0 for each in products if operator_class(each.name) is OperatorClass.CONV)
    counted = Flops(total, 0, {"aten::convolution": conv, "aten::mm": total - conv})
    assert build_evidence(events(), 1, canary(), "fp32", None, counted).verdict is ProofVerdict.FP32
    more = Flops(2 * total, 0, {"aten::convolution": conv, "aten::mm": 2 * total - conv})
    assert build_evidence(events(), 1, canary(), "fp32", None, more).verdict is ProofVerdict.UNKNOWN
