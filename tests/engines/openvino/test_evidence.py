"""What OpenVINO's runtime model says: which layers ran, and which precision that proves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from evidence_samples import checked, sentence
from places import ROOT

from modelzoo.engines.openvino.evidence import LIBRARY, Layer, layer_nodes, timed_nodes
from modelzoo.evidence.coverage import AttributedAudit, Node
from modelzoo.evidence.verdict import judge_nodes, node_digest
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence, LogSource, OperatorClass, ProofSource, ProofVerdict
from modelzoo.records.profile import Shape

BETWEEN = 5e-3
F32, DEFAULT = "f32", "default"


def recorded(precision: str) -> list[list[Layer]]:
    """The layers after one pass, and after two more; of ``F32`` or ``DEFAULT``, which has no precision hint."""
    path = ROOT / f"tests/data/openvino_2026.4.1_x86_64_{precision}.json"
    found: list[list[Layer]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def canary(level: str) -> Canary:
    """All operators at ``level``."""
    return checked(**dict.fromkeys(("matmul", "linear", "conv", "pointwise"), level))


def changed(precision: str, kind: str, **attributes: str) -> list[list[Layer]]:
    """A recording, with other attributes of one kind of layers, or of all if ``kind`` is empty."""

    def other(layer: Layer) -> Layer:
        name, found, shapes = layer
        return (name, {**found, **attributes}, shapes) if kind in ("", found["layerType"]) else layer

    return [[other(layer) for layer in layers] for layers in recorded(precision)]


def judged(
    passes: Sequence[Sequence[Layer]],
    level: str | None,
    requested: str = "fp32",
    bf16_method: str | None = None,
    **facts: Any,
) -> Evidence:
    """The evidence of the two passes that were recorded after the first, with 5 ms between the layers."""
    first, last = passes
    total = sum(each.seconds for each in timed_nodes(first, last, 2, 0.0)) + BETWEEN
    nodes = timed_nodes(first, last, 2, total)
    listed = AttributedAudit(nodes, 2, LogSource.ENGINE, LIBRARY, lists_all=True, **facts)
    return judge_nodes(listed, None if level is None else canary(level), requested, bf16_method)


def test_fp32_is_proven_by_the_kernels_and_the_canary() -> None:
    """Neither is enough alone."""
    found = judged(recorded(F32), "fp32", onednn_isa="Intel AVX-512", problems=("a problem",))
    assert found.verdict is ProofVerdict.FP32
    assert {each.decided_by for each in found.classes} == {(ProofSource.BOTH,)}
    assert found.log_source is LogSource.ENGINE
    assert (found.onednn_isa, found.problems) == ("Intel AVX-512", ("a problem",))
    rows = {row.name: row for row in found.by_implementation}
    assert rows["between operators"].seconds == pytest.approx(BETWEEN)
    assert rows["OpenVINO Convolution brgconv_avx512_f32"].count == 2
    assert {each.operator_class for each in found.classes} == set(OperatorClass)


@pytest.mark.parametrize(
    ("recording", "level", "requested", "verdict", "said"),
    [
        # OpenVINO's default is bf16 where the CPU has it.
        (DEFAULT, "bf16", "fp32", ProofVerdict.NOT_FP32, "fp32: NOT FP32 (attention and conv and linear and matmul"),
        (DEFAULT, "bf16", "bf16", ProofVerdict.ACTIVE, ""),
        # Kernels that round inside are caught by the canary, although their names say f32.
        (F32, "bf16", "fp32", ProofVerdict.NOT_FP32, ""),
        # The canary was compiled with the hint too, but the layers stay in fp32.
        (F32, "bf16", "bf16", ProofVerdict.NOT_ACTIVE, "OpenVINO"),
        (F32, None, "fp32", ProofVerdict.UNKNOWN, ""),
    ],
)
def test_kernels_and_canary_decide(
    recording: str, level: str | None, requested: str, verdict: ProofVerdict, said: str
) -> None:
    """The reason names the kernels."""
    found = judged(recorded(recording), level, requested, "hint" if requested == "bf16" else None)
    assert found.verdict is verdict
    assert said in sentence(found)


def test_reference_kernels_are_told() -> None:
    """They are the slowest, and ``--strict`` does not accept them."""
    found = judged(changed(F32, "Convolution", primitiveType="ref_any_f32"), "fp32")
    assert found.reference_kernels == ("OpenVINO Convolution ref_any_f32",)
    assert found.reference_share > 0


def test_a_layer_that_nobody_knows_is_unknown() -> None:
    """A kind of a later version, or of an extension, may be a product; a second makes it the slowest."""
    found = judged(changed(F32, "Reorder", layerType="Fancy", execTimeMcs="1000000"), "fp32")
    assert found.verdict is ProofVerdict.UNKNOWN
    assert "Fancy" in sentence(found)


def test_a_digest_counts_kernels_and_ignores_times_and_the_number_of_items() -> None:
    """So that two processes, and two batches of detections, can be compared."""
    first, last = recorded(F32)
    found = node_digest(layer_nodes(last))
    assert found == node_digest(layer_nodes(first))
    assert sum(each.count for each in found.kernels) == 6
    assert {each.precision for each in found.kernels} == {"fp32"}
    grown = [(name, attributes, [(7, *shape[1:]) for shape in shapes]) for name, attributes, shapes in last]
    assert node_digest(layer_nodes(grown)) == found
    assert node_digest(layer_nodes(recorded(DEFAULT)[1])) != found
    assert node_digest([each for each in layer_nodes(last) if each.operator_class is None]) is None


def node(kind: str = "FullyConnected", shapes: Sequence[Shape] = (), written: Shape = (), **attributes: str) -> Node:
    """A layer that has not run."""
    output = ",".join(map(str, written))
    (found,) = layer_nodes([("a", {"layerType": kind, "outputShape": output, **attributes}, shapes)])
    return found


@pytest.mark.parametrize(
    ("kind", "shapes", "written", "expected"),
    [
        ("Convolution", ((1, 8, 9, 9), (4, 8, 3, 3)), (1, 4, 7, 7), 4 * 49 * 72),
        ("GroupConvolution", ((1, 8, 9, 9), (8, 1, 1, 3, 3)), (1, 8, 7, 7), 8 * 49 * 9),
        ("Deconvolution", ((1, 8, 9, 9), (8, 4, 2, 2)), (1, 4, 18, 18), 8 * 81 * 16),
        ("FullyConnected", ((2, 16), (4, 16)), (2, 4), 2 * 16 * 4),
        ("MatMul", ((3, 2, 16), (3, 16, 4)), (3, 2, 4), 3 * 2 * 16 * 4),
        ("MatMul", (), (), None),
        ("ScaledDotProductAttention", ((1, 2, 3, 4),) * 3, (1, 2, 3, 4), None),
    ],
)
def test_the_operations_of_a_layer(kind: str, shapes: Sequence[Shape], written: Shape, expected: int | None) -> None:
    """Two for each multiplication; unknown if a shape is not static or there is no formula."""
    assert node(kind, shapes, written).flop == (None if expected is None else 2 * expected)


@pytest.mark.parametrize(
    ("kernel", "runtime_precision", "precision"),
    [
        ("jit_avx512_f32", "u8", "fp32"),  # a generated kernel whose first input is a mask
        ("gemm_acl_f16", "f16", "fp16"),
        ("brgemm_avx512_I8", "u8", "int8"),
        ("undef", "bf16", "bf16"),
        ("unknown_i32", "i32", "unknown"),
        ("", "", "unknown"),
    ],
)
def test_the_precision_is_that_of_the_kernel(kernel: str, runtime_precision: str, precision: str) -> None:
    """``runtimePrecision`` counts only if the kernel's name does not tell."""
    assert node(primitiveType=kernel, runtimePrecision=runtime_precision).precision == precision


@pytest.mark.parametrize(("types", "precision"), [("f32,f32", "fp32"), ("f32,u8", "int8"), ("f32,i4", "int4")])
def test_a_kernel_for_fp32_may_have_quantized_weights(types: str, precision: str) -> None:
    """The type of the second input shows them; its name does not."""
    assert node(primitiveType="brgemm_avx512_f32", inputTypes=types).precision == precision


def test_what_is_no_layer_or_did_not_run_is_left_out() -> None:
    """Inputs, constants and outputs; 1×1 convolutions are proven by an operator of the canary of their own."""
    last = recorded(F32)[1]
    kinds, ran = ({each.operator for each in some} for some in (layer_nodes(last), timed_nodes(last, last, 2, 1.0)))
    assert kinds.isdisjoint({"Input", "Const", "Output"})
    assert kinds - ran == {"Reshape"}
    assert [each.canary for each in layer_nodes(last) if each.operator == "Convolution"][1] == "pointwise"


def test_the_first_pass_is_taken_out_of_the_averages() -> None:
    """It prepares weights: 22 ms at first and 1 ms in each of 2 more passes are 8 ms on average."""
    first, last = ([("a", {"layerType": "FullyConnected", "execTimeMcs": time}, ())] for time in ("22000", "8000"))
    layer, _ = timed_nodes(first, last, 2, 1.0)
    assert (layer.seconds, layer.count) == (pytest.approx(2e-3), 2)
