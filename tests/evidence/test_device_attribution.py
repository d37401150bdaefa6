"""The proof of a precision from the kernels of an accelerator."""

from __future__ import annotations

import pytest
from evidence_samples import sentence

from modelzoo.evidence.device_attribution import DeviceKernel, device_digest, device_evidence
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.evidence import Evidence, LogSource

TF32 = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4"
FP32 = "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nchw_tilesize128x128x8_stage3_ffma"
BF16 = "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_nn"
UNDOCUMENTED = "nvjet_tst_192x16_64x8_2x2_2cta_h_bz_TNT"
RELU = "void at::native::vectorized_elementwise_kernel<4, float>(int)"
FLOATS, BFLOATS = ("float", "float"), ("c10::BFloat16", "c10::BFloat16")


def conv(name: str, seconds: float = 1.0) -> DeviceKernel:
    """A kernel that a convolution of fp32 tensors launched."""
    return DeviceKernel(name, seconds, "aten::cudnn_convolution", ((1, 3, 8, 8), (4, 3, 3, 3)), FLOATS)


def canary(level: CanaryLevel) -> Canary:
    """A canary whose operators all showed ``level``."""
    error = {CanaryLevel.FP32: 4e-7, CanaryLevel.REDUCED: 2e-4, CanaryLevel.BF16: 2e-3}[level]
    return Canary(tuple(OperatorCheck(name, error, level) for name in ("matmul", "linear", "conv")))


def judged(
    *kernels: DeviceKernel,
    requested: str = "fp32",
    method: str | None = None,
    level: CanaryLevel = CanaryLevel.FP32,
    elsewhere: tuple[DeviceKernel, ...] = (),
) -> Evidence:
    """The evidence of one pass."""
    return device_evidence(kernels, elsewhere, iterations=1, canary=canary(level), requested=requested, method=method)


def test_fp32_is_proven_by_names_and_canary() -> None:
    """The line, the shares of device time and ``--strict`` are those of every other audit."""
    found = judged(conv(FP32, 3.0), DeviceKernel(RELU, 1.0, "aten::relu_", ((1, 4),), ("float",)))
    assert sentence(found).startswith("fp32: PROVEN (")
    assert found.proven and found.log_source is LogSource.PROFILER
    assert {each.name: each.share for each in found.by_precision} == {"fp32": 0.75, "no matrix arithmetic": 0.25}
    assert found.operators[0].implementation == FP32


def test_tf32_is_never_fp32() -> None:
    """A convolution on tensor cores has fp32 operands and fp32 outputs, and is not fp32."""
    found = judged(conv(TF32))
    assert sentence(found).startswith("fp32: NOT FP32 (conv ran in tf32: sm80_xmma_fprop")
    assert not found.proven


def test_tf32_is_a_precision_of_its_own() -> None:
    """Asked for, it is proven by the same kernels, with their share of the time."""
    found = judged(conv(TF32, 9.5), conv(FP32, 0.5), requested="tf32", level=CanaryLevel.REDUCED)
    assert sentence(found) == "tf32: ACTIVE (95 % of compute time in tf32 kernels)"
    assert (found.compute_bf16_share, found.proven) == (0.95, True)
    assert sentence(judged(conv(FP32), requested="tf32")).startswith("tf32: REQUESTED, NOT ACTIVE (")
    partly = judged(conv(TF32), conv(FP32), requested="tf32", level=CanaryLevel.REDUCED)
    assert sentence(partly) == "tf32: PARTLY (conv partly; 50 % of compute time in tf32 kernels)"


def test_an_undocumented_name_leaves_the_proof_to_the_operator() -> None:
    """bf16 operands prove bf16; fp32 operands may be rounded, so the canary decides."""
    bf16 = judged(DeviceKernel(UNDOCUMENTED, 1.0, "aten::mm", (), BFLOATS), requested="bf16", method="autocast")
    assert sentence(bf16).startswith("bf16: ACTIVE")
    kernel = DeviceKernel(UNDOCUMENTED, 1.0, "aten::mm", (), FLOATS)
    assert sentence(judged(kernel)).startswith("fp32: PROVEN")
    assert sentence(judged(kernel, level=CanaryLevel.REDUCED)).startswith("fp32: NOT FP32 (linear ran in tf32"[:16])
    assert sentence(judged(kernel, requested="tf32", level=CanaryLevel.REDUCED)).startswith("tf32: ACTIVE")


@pytest.mark.parametrize("name", [UNDOCUMENTED, "my_own_kernel"])
def test_an_unknown_kernel_without_an_operator_cannot_be_proven(name: str) -> None:
    """Neither its name nor the types of its operands are known: nothing is guessed, and ``--strict`` fails."""
    found = judged(DeviceKernel(name, 1.0), requested="bf16", method="autocast")
    assert sentence(found) == "bf16: UNKNOWN (what ran in 100 % of the time is not known (no operator 100 %))"
    assert not found.proven
    assert sentence(judged(DeviceKernel(name, 1.0))).startswith("fp32: UNKNOWN")


def test_a_replayed_kernel_has_the_types_of_the_operator_that_launched_it_elsewhere() -> None:
    """A graph launches without operators; the same kernel in the eager model shows what it multiplies."""
    replayed = DeviceKernel(UNDOCUMENTED, 1.0)
    eager = (DeviceKernel(UNDOCUMENTED, 1.0, "aten::mm", (), BFLOATS),)
    found = judged(replayed, requested="bf16", method="cast", elsewhere=eager)
    assert sentence(found).startswith("bf16: ACTIVE")
    assert found.operators[0].operator == "no operator"


def test_the_digest_counts_the_products() -> None:
    """Processes that ran the same kernels equally often have the same digest."""
    kernels = [conv(TF32), conv(TF32), DeviceKernel(BF16, 1.0), DeviceKernel(RELU, 1.0)]
    found = device_digest(kernels)
    assert found is not None
    assert {(each.precision, each.count) for each in found.kernels} == {("tf32", 2), ("bf16", 1)}
    assert device_digest(kernels[::-1]) == found
    assert device_digest(kernels[1:]) != found
    assert device_digest([DeviceKernel(RELU, 1.0)]) is None
