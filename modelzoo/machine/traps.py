"""Known defects of libraries that make results slow without an error: condition and remedy of each, with its source.

- OpenBLAS is built for a number of threads (``NUM_THREADS``, 128 in torch 2.10.0 for ARM). With more it allocates
  "auxiliary arrays", prints "Bad memory unallocation", and may crash: https://github.com/pytorch/pytorch/issues/174373,
  https://github.com/OpenMathLib/OpenBLAS/issues/5639.
- On ARM, inductor freezes the weights of Linear for oneDNN's inner product, which Compute Library supports in bf16 only
  from 53.1 on; before, it runs in a reference kernel, 100 times slower than eager mode:
  https://github.com/pytorch/pytorch/issues/180447, mended by https://github.com/pytorch/pytorch/pull/191316. The wheels
  of torch 2.10.0 to 2.13.0 for ARM have Compute Library 52.6.0, those of 2.14.1 and 2.15.0 have 53.2.0 (looked up).
- A bf16 product may be slower than the same product in fp32 although the CPU has bf16 instructions, if its library has
  no kernel for them: OpenBLAS 0.3.29 computes ``sbgemm`` on Neoverse V1 in generic C
  (https://github.com/OpenMathLib/OpenBLAS/pull/5108).
- On x86 CPUs without VNNI, int8 kernels add two products of 8 bits in 16 bits, which saturates:
  https://uxlfoundation.github.io/oneDNN/dev_guide_int8_computations.html and, for ONNX Runtime,
  https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html ("When to use reduce-range").
- On x86, fp32 Linear layers call MKL, whose kernels for CPUs other than Intel's may be far slower than oneDNN's. This
  is found by measurement, not by a list of CPUs.

Reference kernels, whatever their cause, are found in what ran (``modelzoo.evidence``).
"""

from __future__ import annotations

from modelzoo.records.equipment import Libraries
from modelzoo.records.machine import Machine
from modelzoo.records.profile import Ceilings
from modelzoo.setting import Setting
from modelzoo.warning import WarningCode, WarningMessage, warning_for

BF16_INNER_PRODUCT = (53, 1)
"""The first Compute Library with an inner product in bf16."""
FREEZING_MODES = ("compile", "max-autotune", "cpp-wrapper", "aot")
SLOW_BF16 = 0.9
"""bf16 ÷ fp32 below which a product counts as slower; both are the fastest of several blocks, equal within 10 %."""

VNNI = ("avx_vnni", "avx512_vnni")
FULL_RANGE = ("torchao", "static", "dynamic-per-tensor", "dynamic-per-channel")
"""Recipes with activations of 8 bits in kernels that may saturate. torch's ``dynamic-x86`` and ``dynamic-onednn`` have
7 bits, and QNNPACK's kernels multiply in 16 bits and add in 32."""

SLOW_LINEAR = 0.8
"""``torch.mm`` ÷ oneDNN in fp32 below which Linear layers are worth packing for oneDNN."""


def thread_warnings(libraries: Libraries, machine: Machine, threads: int | None = None) -> list[WarningMessage]:
    """Return the warning that OpenBLAS was built for fewer threads than are used, or than there are cores.

    Args:
        libraries: what is loaded.
        machine: whose cores are the default, unless OpenBLAS supports fewer.
        threads: those that are used, by default the default.
    """
    limit, cores = libraries.openblas_limit, machine.threads.count
    if limit is None:
        return []
    if threads is not None and threads > limit:
        return [warning_for(WarningCode.OPENBLAS_EXCEEDED, threads=threads, limit=limit)]
    is_limited = cores > limit and threads in (None, limit)
    return [warning_for(WarningCode.OPENBLAS_LIMIT, limit=limit, cores=cores)] if is_limited else []


def frozen_bf16_warnings(libraries: Libraries, machine: Machine, setting: Setting) -> list[WarningMessage]:
    """Return the warning that this Compute Library cannot compute what inductor makes of Linear layers in bf16."""
    version = libraries.acl.version if libraries.acl is not None else None
    is_frozen = setting.engine == "torch" and setting.mode in FREEZING_MODES
    has_bf16_weights = setting.precision == "bf16" and setting.bf16_method in ("autocast", "cast")
    is_affected = machine.architecture == "aarch64" and setting.device == "cpu" and setting.backend != "blas"
    if version is None or not (is_frozen and has_bf16_weights and is_affected):
        return []
    major, minor = (int(number) for number in version.split(".")[:2])
    return [warning_for(WarningCode.OLD_ACL, version=version)] if (major, minor) < BF16_INNER_PRODUCT else []


def saturation_warnings(machine: Machine, setting: Setting) -> list[WarningMessage]:
    """Return the warning that sums of int8 products may saturate on this CPU."""
    is_affected = machine.architecture == "x86_64" and not set(VNNI) & set(machine.features)
    if setting.precision != "int8" or setting.recipe not in FULL_RANGE or setting.device != "cpu" or not is_affected:
        return []
    return [warning_for(WarningCode.INT8_SATURATION, recipe=setting.recipe)]


def slow_bf16_warnings(machine: Machine, ceilings: Ceilings) -> list[WarningMessage]:
    """Return the warning that products are slower in bf16 than in fp32, by the measured ceilings."""
    if not (machine.has_bf16 and ceilings.quiet):
        return []
    slow: list[str] = []
    for operator in dict.fromkeys(product.operator for product in ceilings.gemm):
        ratio = _bf16_ratio(ceilings, operator)
        if ratio is not None and ratio < SLOW_BF16:
            slow.append(f"{operator} {ratio:.2f}")
    return [warning_for(WarningCode.SLOW_BF16, operators=", ".join(slow))] if slow else []


def slow_linear_warnings(ceilings: Ceilings) -> list[WarningMessage]:
    """Return the warning that oneDNN is faster than what fp32 Linear layers call, by the measured ceilings.

    Where ``linear`` was measured by itself (ARM), Linear layers do not call what ``torch.mm`` does.
    """
    linear = ceilings.gflops("fp32", operator="linear")
    blas, onednn = (ceilings.gflops("fp32", operator=operator) for operator in ("mm", "conv"))
    if not ceilings.quiet or linear is not None or not blas or not onednn or blas / onednn >= SLOW_LINEAR:
        return []
    return [warning_for(WarningCode.SLOW_LINEAR, ratio=blas / onednn)]


def _bf16_ratio(ceilings: Ceilings, operator: str) -> float | None:
    """bf16 ÷ fp32 with all threads, for the largest size that was measured in both."""
    speeds = {
        (product.precision, product.size): product.gflops
        for product in ceilings.gemm
        if product.operator == operator and product.threads == ceilings.threads
    }
    sizes = [size for precision, size in speeds if precision == "bf16" and ("fp32", size) in speeds]
    return speeds["bf16", max(sizes)] / speeds["fp32", max(sizes)] if sizes else None
