"""What an audit of OpenVINO proves."""

from __future__ import annotations

import pytest
from evidence_samples import sentence
from fake_runs import make, result_of
from openvino_recordings import DEFAULT, F32, recorded

from modelzoo.engines.openvino.evidence import (
    UNKNOWN,
    Audited,
    Layer,
    build_evidence,
    kernel_digest,
    operations,
    operator_class,
    parse_nodes,
    time_of_passes,
)
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.evidence import LogSource, OperatorClass, ProofSource, ProofVerdict
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.views.run import objections

BETWEEN = 5e-3
ERRORS = {CanaryLevel.FP32: 3e-7, CanaryLevel.BF16: 2e-3}


def canary(level: CanaryLevel) -> Canary:
    """All operators at ``level``."""
    names = ("matmul", "linear", "conv", "pointwise")
    return Canary(tuple(OperatorCheck(name, ERRORS[level], level) for name in names))


def audited(precision: str, **changes: object) -> Audited:
    """The two passes that were recorded after the first, with 5 ms between the layers."""
    first, last = recorded(precision)
    seconds = time_of_passes(first, last, 2)
    return replace(Audited(last, seconds, sum(seconds.values()) + BETWEEN, 2, "Intel AVX-512"), **changes)


def test_fp32_is_proven_by_the_kernels_and_the_canary() -> None:
    """Neither is enough alone."""
    found = build_evidence(audited(F32), canary(CanaryLevel.FP32), "fp32", None)
    assert found.verdict is ProofVerdict.FP32
    assert found.decided_by == (ProofSource.BOTH,)
    assert found.log_source is LogSource.ENGINE
    assert found.onednn_isa == "Intel AVX-512"
    assert {each.operator_class for each in found.classes} == set(OperatorClass)
    assert build_evidence(audited(F32), None, "fp32", None).verdict is ProofVerdict.UNKNOWN


def test_a_model_without_a_precision_hint_is_not_fp32() -> None:
    """OpenVINO's default is bf16 where the CPU has it; the reason names the kernels."""
    found = build_evidence(audited(DEFAULT), canary(CanaryLevel.BF16), "fp32", None)
    assert found.verdict is ProofVerdict.NOT_FP32
    assert sentence(found).startswith("fp32: NOT FP32 (attention and conv and linear and matmul ran in bf16: OpenVINO ")


def test_kernels_that_round_inside_are_caught_by_the_canary() -> None:
    """Their names say f32."""
    found = build_evidence(audited(F32), canary(CanaryLevel.BF16), "fp32", None)
    assert found.verdict is ProofVerdict.NOT_FP32


def test_bf16_is_active_if_the_kernels_are() -> None:
    """Asked for with the hint."""
    found = build_evidence(audited(DEFAULT), canary(CanaryLevel.BF16), "bf16", "hint")
    assert found.verdict is ProofVerdict.ACTIVE
    assert found.compute_bf16_share == pytest.approx(1)


def test_layers_that_stay_in_fp32_are_no_bf16() -> None:
    """The canary's error is that of bf16 all the same, because it was compiled with the hint too."""
    found = build_evidence(audited(F32), canary(CanaryLevel.BF16), "bf16", "hint")
    assert found.verdict is ProofVerdict.NOT_ACTIVE
    assert "OpenVINO" in sentence(found)


def test_the_times_add_up_to_the_passes() -> None:
    """What no layer took is time between them."""
    found = build_evidence(audited(F32), canary(CanaryLevel.FP32), "fp32", None)
    assert found.seconds == pytest.approx(sum(audited(F32).seconds.values()) + BETWEEN)
    assert found.iterations == 2
    rows = {row.name: row for row in found.by_implementation}
    assert rows["between operators"].seconds == pytest.approx(BETWEEN)
    assert rows["OpenVINO Convolution brgconv_avx512_f32"].count == 2


@pytest.mark.parametrize(
    ("kind", "originals", "expected"),
    [
        ("Deconvolution", (), OperatorClass.CONV),
        ("FullyConnected", (), OperatorClass.LINEAR),
        ("MatMul", (), OperatorClass.MATMUL),
        ("Subgraph", ("Multiply_1", "aten::matmul/MatMul", "Softmax_2"), OperatorClass.ATTENTION),
        ("Subgraph", ("Multiply_1", "aten::gelu/Gelu"), None),
        ("Pooling", (), None),
    ],
)
def test_layers_that_multiply_matrices_have_a_class(
    kind: str, originals: tuple[str, ...], expected: OperatorClass | None
) -> None:
    """A generated kernel has one if something that it computes is a product."""
    assert operator_class(Layer("a", kind, "jit_avx512_f32", "fp32", originals)) is expected


def test_reference_kernels_are_told() -> None:
    """They are the slowest, and ``--strict`` does not accept them."""
    layers = tuple(
        replace(layer, kernel="ref_any_f32") if layer.kind == "Convolution" else layer for layer in recorded(F32)[1]
    )
    found = build_evidence(audited(F32, layers=layers), canary(CanaryLevel.FP32), "fp32", None)
    assert found.reference_kernels == ("OpenVINO Convolution ref_any_f32",)
    assert found.reference_share > 0


def test_problems_are_kept() -> None:
    """They are shown below the tables."""
    found = build_evidence(audited(F32, problems=("other kernels",)), None, "fp32", None)
    assert found.problems == ("other kernels",)


def test_a_digest_counts_kernels_and_ignores_times_and_the_number_of_items() -> None:
    """So that two processes, and two batches of detections, can be compared."""
    first, last = recorded(F32)
    found = kernel_digest(last)
    assert found is not None
    assert found == kernel_digest(first)
    assert sum(each.count for each in found.kernels) == 6
    assert {each.precision for each in found.kernels} == {"fp32"}
    grown = [replace(layer, shapes=tuple((7, *shape[1:]) for shape in layer.shapes)) for layer in last]
    assert kernel_digest(grown) == found
    assert kernel_digest(recorded(DEFAULT)[1]) != found
    assert kernel_digest([layer for layer in last if operator_class(layer) is None]) is None


def test_a_layer_that_nobody_knows_is_unknown() -> None:
    """A kind of a later version, or of an extension, may be a product."""
    found = audited(F32)
    layers = tuple(replace(layer, kind="Fancy") if layer.kind == "Reorder" else layer for layer in found.layers)
    # Most of the time, so that it cannot be overlooked.
    slow = {layer.name: 1.0 if layer.kind == "Fancy" else found.seconds.get(layer.name, 0.0) for layer in layers}
    evidence = build_evidence(
        replace(found, layers=layers, seconds=slow, total=sum(slow.values())), canary(CanaryLevel.FP32), "fp32", None
    )
    assert evidence.verdict is ProofVerdict.UNKNOWN
    assert "Fancy" in sentence(evidence)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (
            Layer("a", "Convolution", "x", "fp32", shapes=((1, 8, 9, 9), (4, 8, 3, 3)), written=(1, 4, 7, 7)),
            4 * 49 * 72,
        ),
        (
            Layer("a", "Convolution", "x", "fp32", shapes=((1, 8, 9, 9), (8, 1, 1, 3, 3)), written=(1, 8, 7, 7)),
            8 * 49 * 9,
        ),
        (
            Layer("a", "Deconvolution", "x", "fp32", shapes=((1, 8, 9, 9), (8, 4, 2, 2)), written=(1, 4, 18, 18)),
            8 * 81 * 16,
        ),
        (Layer("a", "FullyConnected", "x", "fp32", shapes=((2, 16), (4, 16)), written=(2, 4)), 2 * 16 * 4),
        (Layer("a", "MatMul", "x", "fp32", shapes=((3, 2, 16), (3, 16, 4)), written=(3, 2, 4)), 3 * 2 * 16 * 4),
        (Layer("a", "MatMul", "x", "fp32"), None),
        (Layer("a", "ScaledDotProductAttention", "x", "fp32", shapes=((1, 2, 3, 4),) * 3, written=(1, 2, 3, 4)), None),
    ],
)
def test_the_operations_of_a_layer(layer: Layer, expected: int | None) -> None:
    """Two for each multiplication; unknown if a shape is not static or there is no formula."""
    assert operations(layer) == (None if expected is None else 2 * expected)


def by_kind(layers: tuple[Layer, ...], kind: str) -> list[Layer]:
    return [layer for layer in layers if layer.kind == kind]


def test_layers_have_kernel_precision_and_shapes() -> None:
    """As OpenVINO names them; what was fused is in the list of originals."""
    wide, narrow = by_kind(recorded(F32)[1], "Convolution")
    assert (wide.kernel, wide.precision) == ("brgconv_avx512_f32", "fp32")
    assert (narrow.kernel, narrow.precision) == ("brgconv_avx512_1x1_f32", "fp32")
    assert wide.shapes[:2] == ((2, 3, 16, 16), (32, 3, 3, 3))
    assert len(wide.originals) == 3
    assert wide.originals[2].startswith("aten::relu")


def test_inputs_constants_and_outputs_are_no_layers() -> None:
    """They take no time, and their precision is that of what is stored."""
    assert {layer.kind for layer in recorded(F32)[0]}.isdisjoint({"Input", "Const", "Output"})


def test_without_a_hint_the_layers_are_in_bf16() -> None:
    """On the machine of the recording, whose CPU has bf16."""
    layers = recorded(DEFAULT)[1]
    products = [*by_kind(layers, "Convolution"), *by_kind(layers, "FullyConnected"), *by_kind(layers, "MatMul")]
    assert [layer.precision for layer in products] == ["bf16"] * 5


@pytest.mark.parametrize(
    ("kernel", "runtime_precision", "precision"),
    [
        ("jit_avx512_f32", "u8", "fp32"),  # a generated kernel whose first input is a mask
        ("gemm_acl_f16", "f16", "fp16"),
        ("brgemm_avx512_I8", "u8", "int8"),
        ("undef", "bf16", "bf16"),
        ("unknown_i32", "i32", UNKNOWN),
        ("", "", UNKNOWN),
    ],
)
def test_the_precision_is_that_of_the_kernel(kernel: str, runtime_precision: str, precision: str) -> None:
    """``runtimePrecision`` counts only if the kernel's name does not tell."""
    (layer,) = parse_nodes([("a", {"primitiveType": kernel, "runtimePrecision": runtime_precision}, ())])
    assert layer.precision == precision


@pytest.mark.parametrize(("types", "precision"), [("f32,f32", "fp32"), ("f32,u8", "int8"), ("f32,i4", "int4")])
def test_a_kernel_for_fp32_may_have_quantized_weights(types: str, precision: str) -> None:
    """The type of the second input shows them; its name does not."""
    (layer,) = parse_nodes([("a", {"primitiveType": "brgemm_avx512_f32", "inputTypes": types}, ())])
    assert layer.precision == precision


def test_layers_that_did_not_run_have_no_time() -> None:
    """A reshape is none, for example; the others have the average of all passes."""
    layers = recorded(F32)[1]
    assert {layer.average for layer in by_kind(layers, "Reshape")} == {None}
    assert all(layer.average is not None and layer.average > 0 for layer in by_kind(layers, "Convolution"))


def test_the_first_pass_is_taken_out_of_the_averages() -> None:
    """It prepares weights: 22 ms at first and 1 ms in each of 2 more passes are 8 ms on average."""
    first, last = (Layer("layer", "FullyConnected", "", "fp32", average=value) for value in (22e-3, 8e-3))
    assert time_of_passes([first], [last], 2) == {"layer": pytest.approx(2e-3)}
    never = Layer("other", "Reshape", "", "fp32")
    assert time_of_passes([never], [never], 2) == {"other": 0.0}


def test_every_layer_that_ran_has_a_time() -> None:
    """Those that did not have none."""
    first, last = recorded(F32)
    seconds = time_of_passes(first, last, 2)
    assert all((seconds[layer.name] > 0) == (layer.average is not None) for layer in last)


@pytest.mark.parametrize(("requested", "cause"), [("fp32", "NOT FP32"), ("bf16", "NOT ACTIVE")])
def test_strict_refuses_an_engine_that_ran_in_fp16(requested: str, cause: str) -> None:
    """As OpenVINO does by default on ARM; the reason names the kernels."""
    layers = tuple(
        replace(layer, kernel="gemm_acl_f16", precision="fp16") if layer.precision == "fp32" else layer
        for layer in recorded(F32)[1]
    )
    found = build_evidence(audited(F32, layers=layers), canary(CanaryLevel.BF16), requested, None)
    run = make([0.1] * 30, setting=Setting(requested, engine="openvino"), evidence=found)
    (objection,) = objections(summary.rows(result_of(run)))
    assert cause in objection
    assert "gemm_acl_f16" in objection
