"""Layers of runtime models that OpenVINO returned for a small network."""

from __future__ import annotations

import pytest
from openvino_recordings import DEFAULT, F32, recorded

from modelzoo.engines.openvino.evidence import UNKNOWN, Layer, parse_nodes, time_of_passes


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
