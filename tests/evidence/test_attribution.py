"""The time of a recorded pass is attributed to kernels and precisions, to operators and layers; none of it is lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evidence_samples import (
    ALL_FP32,
    SGEMM,
    adds_up,
    called,
    conv,
    conv_line,
    gemm,
    judge,
    onednn_line,
    recording,
    sentence,
)
from planted_kernels import replayed
from torch import nn

from modelzoo.evidence.attribution import (
    NO_LAYERS,
    SETUP_SECONDS,
    attribute_recording,
    recorded_profile,
    summarize_profile,
)
from modelzoo.evidence.canary import run_canary
from modelzoo.evidence.flops import Call
from modelzoo.evidence.kernel_names import PASS_EVENT, UNATTRIBUTED
from modelzoo.evidence.recording import RecordedCall
from modelzoo.evidence.verdict import judge_attributed
from modelzoo.frozen import replace
from modelzoo.records.evidence import Evidence

FLASH = "flash attention over openblas sgemm"


def seconds_of(found: Evidence) -> dict[str, float]:
    """Seconds by kernel."""
    return {row.name: pytest.approx(row.seconds) for row in found.by_implementation}


def test_a_call_is_divided_by_what_was_printed_during_it() -> None:
    """Kernel, reorders, set-up, and what nothing explains; the rest of the pass is between operators."""
    reorder = onednn_line("reorder", "jit:uni", "src:f32 dst:f32", "1x8x8x8", 200)
    lines = "\n".join([reorder, conv_line("jit:avx2", "f32", 500)])
    found = judge(recording(conv(1.0, lines=lines), seconds=1.5), ALL_FP32, "fp32")
    assert seconds_of(found) == {
        "oneDNN jit:avx2": 0.5,
        "between operators": 0.5,
        UNATTRIBUTED: 0.3 - SETUP_SECONDS,
        "oneDNN reorder": 0.2,
        "oneDNN set-up": SETUP_SECONDS,
    }
    assert adds_up(found)
    assert (found.verdict, found.coverage.known_arithmetic) == ("FP32", 1.0)


def test_kernels_that_overlap_take_the_whole_call() -> None:
    """Attention calls oneDNN from several threads at once, and one of its products may be in a reference kernel."""
    kernels = (("brgemm:avx2", 3000), ("ref:any", 1000))
    lines = "\n".join(onednn_line("matmul", name, "f32", milliseconds=taken) for name, taken in kernels)
    shapes = ((1, 1, 4, 16), (1, 1, 8, 16), (1, 1, 8, 16))
    call = called("aten::_scaled_dot_product_flash_attention_for_cpu", "float32", 1.0, *shapes, lines=lines)
    found = judge(recording(call), ALL_FP32, "fp32")
    assert seconds_of(found) == {
        "flash attention over oneDNN brgemm:avx2": 0.75,
        "flash attention over oneDNN ref:any": 0.25,
    }
    assert (found.reference_share, found.coverage.known_arithmetic) == (0.25, 1.0)


def test_what_is_printed_outside_operators_ran_in_generated_code() -> None:
    """Its products count, and take their time out of the rest of the pass, even if that is too short for them."""
    outside = "\n".join([conv_line("jit:avx2", "f32", 2000), SGEMM])
    table = recording(outside=outside, seconds=1.0)
    table = replace(table, eager=(("", conv(1.0).call), ("", gemm("aten::mm", "float32").call)))
    audit = attribute_recording(table, ALL_FP32, None, is_compiled=True)
    assert [part.operator for part in audit.parts] == ["onednn::convolution", "mkl::sgemm"]
    assert sum(part.seconds for part in audit.parts) == pytest.approx(1.0)
    assert (audit.parts[0].flop, audit.parts[1].flop) == (conv(1.0).call.flop, gemm("aten::mm", "float32").call.flop)
    assert judge(table, ALL_FP32, "fp32").verdict == "FP32"


def test_a_product_that_is_logged_in_another_operator_is_a_product() -> None:
    """Whatever the operator is called."""
    odd = called("aten::relu", "float32", 1.0, (4, 4), lines=conv_line("jit:avx2", "bf16", 500))
    found = judge(recording(conv(1.0), odd), ALL_FP32, "fp32")
    assert sentence(found) == "fp32: NOT FP32 (conv ran in bf16: oneDNN jit:avx2)"
    assert seconds_of(found)["native"] == 0.5


def test_operations_that_no_argument_shows_are_those_of_the_log() -> None:
    """Weights that are packed have no shape."""
    packed = called("mkldnn::_convolution_pointwise", "float32", 1.0, (1, 8, 8, 8), lines=conv_line("jit", "f32", 900))
    table = replace(recording(packed), eager=(("", conv(1.0).call),))
    assert judge(table, ALL_FP32, "fp32").coverage.known_arithmetic == 1.0


@pytest.mark.parametrize(
    ("name", "dtype", "lines", "logs_mkl", "kernel"),
    [
        ("aten::mm", "float32", SGEMM, True, "mkl sgemm"),
        ("aten::mm", "float64", "", True, "native fp64"),
        ("aten::mm", "bfloat16", "", False, "openblas sbgemm or native bf16"),
        ("aten::_slow_conv2d_forward", "float32", "", False, "im2col and openblas sgemm"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "float32", "", False, FLASH),
        ("aten::_nnpack_spatial_convolution", "float32", "", False, "nnpack"),
        ("quantized::linear", "float32", "", False, "quantized::linear (int8)"),
    ],
)
def test_products_outside_onednn_are_named_by_their_library(
    name: str, dtype: str, lines: str, logs_mkl: bool, kernel: str
) -> None:
    """By the log of MKL, or else by type and BLAS; convolution and attention wrap a matrix product."""
    table = recording(called(name, dtype, 1.0, (1, 1, 4, 4), (1, 1, 4, 4), flop=1, lines=lines), logs_mkl=logs_mkl)
    assert judge(table, ALL_FP32, "fp32").operators[0].implementation == kernel


def small() -> Any:
    return nn.Sequential(nn.Conv2d(8, 16, 3), nn.Sequential(nn.ReLU(), nn.Flatten()), nn.Linear(16 * 38 * 38, 8)).eval()


def test_operators_and_layers() -> None:
    """Times add up, operations, layers, kernels and precisions are those of the network."""
    model, x = small(), torch.randn(2, 8, 40, 40)
    recording, canary = replayed(lambda: model(x), model), run_canary()
    evidence = judge_attributed(attribute_recording(recording, canary, None), canary, "fp32")
    kinds = {path: type(module).__name__ for path, module in model.named_modules()}
    found = recorded_profile(recording, kinds, evidence)
    assert sum(row.share for row in found.operators) == pytest.approx(1.0)
    (conv,) = (row for row in found.operators if row.name == "aten::convolution")
    assert (conv.count, conv.flop) == (1, 2 * 2 * 16 * 38 * 38 * 8 * 9)
    assert conv.intensity is not None and conv.intensity > 1
    assert conv.kernel.startswith("oneDNN ")
    assert conv.precision == "fp32"
    assert {row.path for row in found.layers} == {"(whole model)", "0", "1", "1.0", "1.1", "2"}
    (whole,) = (row for row in found.layers if row.path == "(whole model)")
    assert found.flops is not None
    assert (whole.flop, whole.kind) == (found.flops.total, "Sequential")
    assert whole.seconds == pytest.approx(sum(row.own_seconds for row in found.layers))
    assert found.problems == ()
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_a_scripted_model_has_no_layers() -> None:
    """Its operators and operations can be observed."""
    x = torch.randn(2, 8, 40, 40)
    with torch.no_grad():
        scripted = torch.jit.trace(small(), x)
    found = recorded_profile(replayed(lambda: scripted(x)), {}, None)
    assert (found.layers, found.problems) == ((), (NO_LAYERS,))
    assert "aten::_convolution" in {row.name for row in found.operators}


def test_layers_hold_their_children_and_a_recursive_one_counts_once() -> None:
    """A module that calls itself holds its time once, not once per level."""
    calls = [
        RecordedCall(Call("aten::mm", ((4, 8), (8, 2)), 128, 224), 0.5, ("", "a", "a.b")),
        RecordedCall(Call("aten::relu_", ((4, 2),), 0, 64), 0.2, ("", "a", "a")),
        RecordedCall(Call(PASS_EVENT, (), None, 0), 0.3),
    ]
    modules = {"": ("Net", 1), "a": ("Block", 2), "a.b": ("Linear", 1)}
    found = summarize_profile(calls, 1, modules=modules)
    assert found.seconds == pytest.approx(1.0)
    product = found.operators[0]
    assert (product.name, product.flop, product.bytes, product.share) == ("aten::mm", 128, 224, 0.5)
    assert product.gflops_per_second == pytest.approx(256e-9)
    rows = {row.path: row for row in found.layers}
    assert (rows["a"].kind, rows["a"].count, rows["a"].flop, rows["a.b"].flop) == ("Block", 2, 128, 128)
    assert [rows[each].seconds for each in ("(whole model)", "a", "a.b")] == pytest.approx([0.7, 0.7, 0.5])
    assert [rows[each].own_seconds for each in ("(whole model)", "a", "a.b")] == pytest.approx([0.0, 0.2, 0.5])


def test_many_shapes_are_folded() -> None:
    """Rows beyond the limit become one row, and the shares still add up."""
    calls = [RecordedCall(Call("aten::add", ((size,),), 0, 0), 1.0) for size in range(1, 402)]
    found = summarize_profile(calls, 1)
    assert len(found.operators) == 301
    assert found.operators[-1].name == "(others)"
    assert sum(row.share for row in found.operators) == pytest.approx(1.0)
