"""Single products, recorded with several releases on several CPUs: which kernel ran, and in which precision."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelzoo.evidence.attribution import attribute_time
from modelzoo.evidence.canary import level_of
from modelzoo.evidence.kernel_names import UNKNOWN_KERNEL
from modelzoo.evidence.observation import Observation, parse_observation
from modelzoo.evidence.onednn_log import logged_precision, parse_onednn
from modelzoo.evidence.precision import PrecisionProver, precision_of
from modelzoo.evidence.verdict import build_evidence
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.codec import decode
from modelzoo.records.profile import Flops

DATA = Path(__file__).parents[1] / "data"
RECORDED = {
    path.stem.partition("_")[2]: json.loads(path.read_text()) for path in sorted(DATA.glob("products_x86_64*.json"))
}
"""Recorded by tests/data/record_products.py: x86 with AVX-512 bf16 unless the name says AVX2 or AMX."""

EXPECTED = {
    "int_mm": [("aten::_int_mm", "oneDNN gemm_api", "int8")],
    "bf16_mv": [("aten::addmv_", "oneDNN brg_matmul:avx512_core_bf16", "bf16")],
    "bf16_linear_of_one_row": [("aten::mm", "oneDNN brg_matmul:avx512_core_bf16", "bf16")],
    "dynamic_4bit": [("aten::_dyn_quant_matmul_4bit", "aten::_dyn_quant_matmul_4bit (int4)", "int4")],
    "int8_weights": [("aten::_weight_int8pack_mm", "aten::_weight_int8pack_mm (int8 weight-only)", "int8 weight-only")],
    "int4_weights": [
        (
            "aten::_weight_int4pack_mm_for_cpu",
            "aten::_weight_int4pack_mm_for_cpu (int4 weight-only)",
            "int4 weight-only",
        )
    ],
    "quantized_linear": [("onednn::qlinear_pointwise", "oneDNN brg_matmul:avx512_core_vnni", "int8")],
    "lstm": [("aten::mkldnn_rnn_layer", "oneDNN brgemm:avx512_core", "fp32")],
    "bf16_lstm": [("aten::mkldnn_rnn_layer", "oneDNN brgemm:avx512_core_bf16", "bf16")],
    "deconvolution": [("aten::_convolution", "oneDNN conv:any+jit:avx512_core", "fp32")],
    "fp8_mm": [("aten::_scaled_mm", "aten::_scaled_mm (fp8)", "fp8"), ("aten::mm", "mkl sgemm", "fp32")],
    "cpp_template": [],
    "bf16_cpp_template": [],
}
AMX = {
    "quantized_linear": [("onednn::qlinear_pointwise", "oneDNN brg_matmul:avx10_1_512_amx", "int8")],
    "bf16_lstm": [("aten::mkldnn_rnn_layer", "oneDNN brgemm:avx10_1_512_amx", "bf16")],
    "fp8_mm": [("aten::_scaled_mm", "oneDNN ref:any", "fp8")],
}
ELSEWHERE = {
    "x86_64-amx_torch2.10.0": {
        **AMX,
        "bf16_mv": [("aten::addmv_", "oneDNN brg_matmul:avx10_1_512_amx", "bf16")],
        "bf16_linear_of_one_row": [("aten::mm", "oneDNN brg_matmul:avx10_1_512_amx", "bf16")],
    },
    "x86_64-amx_torch2.15.0": AMX,
    "x86_64-avx2_torch2.10.0": {
        "int_mm": [("aten::_int_mm", "aten::_int_mm (int8)", "int8")],
        "bf16_mv": [("aten::addmv_", "native bf16", "bf16")],
        "bf16_linear_of_one_row": [("aten::mm", "mkl sbgemm or native bf16", "bf16")],
        "quantized_linear": [("onednn::qlinear_pointwise", "oneDNN gemm:jit", "int8")],
        "lstm": [("aten::mkldnn_rnn_layer", "oneDNN brgemm:avx2", "fp32")],
        "bf16_lstm": [("aten::addmm", "mkl sbgemm or native bf16", "bf16")] * 6,
        "deconvolution": [("aten::_convolution", "oneDNN conv:any+jit:avx2", "fp32")],
    },
}
"""What differs from ``EXPECTED``, by recording."""


@pytest.mark.parametrize("recording", RECORDED)
@pytest.mark.parametrize("name", EXPECTED)
def test_the_kernel_of_each_product(name: str, recording: str) -> None:
    """Every line of the log is read, and no time is left to an unknown kernel."""
    audit = parse_observation(decode(Observation, RECORDED[recording][name]))
    assert audit.log.unread == ()
    parts = attribute_time(audit, PrecisionProver(None, None))
    expected = {**EXPECTED, **ELSEWHERE.get(recording, {})}[name]
    assert [(p.operator, p.implementation, p.precision) for p in parts if p.is_compute] == expected
    assert UNKNOWN_KERNEL not in {part.precision for part in parts}


@pytest.mark.parametrize("recording", RECORDED)
@pytest.mark.parametrize("name", ["cpp_template", "bf16_cpp_template"])
def test_a_product_in_a_template_of_inductor_proves_nothing(name: str, recording: str) -> None:
    """No log and no operator shows it: the counted operations are missing, so the verdict stays UNKNOWN."""
    audit = parse_observation(decode(Observation, RECORDED[recording][name]))
    counted = Flops(total=2 * 32 * 128 * 64, bytes=1, by_operator={"aten::addmm": 2 * 32 * 128 * 64})
    requested = ("bf16", "cast") if name.startswith("bf16") else ("fp32", None)
    assert build_evidence(audit, None, *requested, counted=counted).verdict == "UNKNOWN"


CALLS = sorted(DATA.glob("calls_x86_64-amx_*.json"))
"""16 products by release and limit of oneDNN's instruction set, on an Intel CPU with AMX: the lines of the log, and the
relative root-mean-square error against fp64. A probe with subnormal products gives 0 where bf16 instructions ran, which
flush them, and 1 where bf16 was emulated."""

LEVELS = {"bfloat16": CanaryLevel.BF16, "float16": CanaryLevel.REDUCED, "float32": CanaryLevel.FP32}


@pytest.mark.parametrize("path", CALLS, ids=lambda path: path.stem)
def test_the_log_and_the_error_of_a_product_show_the_same_precision(path: Path) -> None:
    """Under every limit; but for the convolution whose results are wrong on AMX, whatever its line says."""
    recorded = json.loads(path.read_text())
    for call in recorded["calls"]:
        log = parse_onednn("\n".join(call["lines"]))
        assert log.unread == (), call["product"]
        products = [each for each in log.primitives if each.is_compute]
        assert {logged_precision(each) for each in products} <= {precision_of(call["dtype"])}, call["product"]
        is_wrong = call["product"] == "conv1d_grouped_wrong" and recorded["isa"] == "ALL"
        expected = CanaryLevel.BROKEN if is_wrong else LEVELS[call["dtype"]]
        assert level_of(call["error"]) == expected, call["product"]
