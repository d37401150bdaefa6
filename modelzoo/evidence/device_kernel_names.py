"""Read what the name of a GPU kernel says: what it computes, and the type of the operands that it multiplies. Pure.

NVIDIA documents no list of names; the conventions are those of CUTLASS (``media/docs/cpp/functionality.md`` and
``python/cutlass_library/gemm_operation.py`` of https://github.com/NVIDIA/cutlass) and of names that profiles show:

- cuDNN and cuBLAS, xmma: ``sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_…``: operands, accumulator, output
  (https://github.com/NVIDIA/TransformerEngine/issues/1391, https://github.com/pytorch/kineto/issues/1041)
- cuBLAS: ``ampere_bf16_s16816gemm_…``, ``volta_fp16_s884cudnn_…`` (https://github.com/pytorch/pytorch/issues/54324)
- CUTLASS: ``cutlass_80_tensorop_s1688gemm_…``: without a type the operands are fp32, and a tensor core rounds those to
  TF32 (https://github.com/NVIDIA/cutlass/issues/466); ``simt`` kernels use no tensor core

The names of cuBLAS's newest kernels (``nvjet_…``) are documented nowhere, so they prove nothing: the operator's data
types and the canary do.
"""

from __future__ import annotations

import re

from modelzoo.records.evidence import OperatorClass

_TYPES = {"tf32": "tf32", "bf16": "bf16", "f16": "fp16", "fp16": "fp16", "f32": "fp32", "f64": "fp64", "i8": "int8"}
_XMMA = re.compile(r"xmma_\w*?gemm\w*?_(tf32|bf16|f16|f32|f64|i8|e4m3|e5m2)(?:tf32|bf16|f16|f32|f64|i8|i32)_")
_TAGGED = re.compile(r"(?:^|[_<:\W])(tf32|bf16|fp16|f16)(?=_|\W|$)|s1688(tf32|bf16|f16)(?:gemm|fprop)")
_UNTAGGED_TENSOR_OP = re.compile(r"cutlass(?:_80)?_tensorop_s1688(?:gemm|fprop|dgrad)")
_SCALAR = re.compile(r"(?:^|_|\W)(s|d|h)(?:gemm|gemv|cudnn)(?:_|\W|$)|simt_(s|d|h)(?:gemm|fprop|dgrad)")
_SCALAR_TYPES = {"s": "fp32", "d": "fp64", "h": "fp16"}
_ELEMENT = re.compile(
    r"\b(float|double|__half|half_t|c10::Half|__nv_bfloat16|nv_bfloat16|bfloat16_t|c10::BFloat16)\b(?! *\()"
)
_ELEMENT_TYPES = {"float": "fp32", "double": "fp64"}
_SIMPLE_PRODUCT = re.compile(
    r"gemv|gemmk1|dot_kernel|gemmSN|convolve_sgemm|conv2d_grouped_direct|conv_depthwise|winograd"
)

_ATTENTION = re.compile(r"flash_fwd|fmha|flash::|sdpa|attention", re.IGNORECASE)
_CONVOLUTION = re.compile(
    r"conv(?!ert)|fprop|cudnn_(?!generated_fort_native_sdpa)|scudnn|hcudnn|s\d+cudnn|winograd", re.IGNORECASE
)
_PRODUCT = re.compile(r"gemm|gemv|nvjet|(^|_)mm(_|$)|matmul|dot_kernel|s\d{3,5}", re.IGNORECASE)
_MOVEMENT = re.compile(
    r"^Memcpy|^Memset|copy_kernel|CatArray|nchwTo|nhwcTo|To(Nchw|Nhwc)Kernel|transpose|fill|index_select|gather|"
    r"indexSelect|vectorized_gather|permute",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"^(void )?(at::|at_cuda_detail|cub::|thrust::|vision::|torchvision|triton_(poi|per|red|for)|"
    r"\(anonymous namespace\)::(softmax|layer_norm|vectorized|max_pool|avg_pool|upsample|roi|nms))"
    r"|softmax|layer_?norm|batch_?norm|bn_fw|elementwise|reduce_kernel|pool|splitKreduce|upsample|roi_align|nms_kernel|"
    r"topk|sort|scan|distribution",
    re.IGNORECASE,
)
_INNER = re.compile(r"(?:Kernel2?|device_kernel|gemm_kernel)<\s*(?:\w+::)*([A-Za-z_]\w*)")


def kernel_class(name: str) -> OperatorClass | None:
    """What a kernel that multiplies matrices computes; ``None`` if its name does not say that it multiplies any."""
    if is_movement(name) or is_other(name):
        return None
    if _ATTENTION.search(name):
        return OperatorClass.ATTENTION
    if _CONVOLUTION.search(name):
        return OperatorClass.CONV
    return OperatorClass.MATMUL if _PRODUCT.search(name) else None


def is_movement(name: str) -> bool:
    """Whether a kernel copies or reorders."""
    return _MOVEMENT.search(name) is not None and not _PRODUCT.search(name.partition("<")[0])


def is_other(name: str) -> bool:
    """Whether a kernel is known to multiply no matrices: elementwise, normalization, pooling, sorting …."""
    return _OTHER.search(name.partition("<")[0]) is not None and not _SIMPLE_PRODUCT.search(name.partition("<")[0])


def operand_precision(name: str) -> str | None:
    """The precision of a product's operands, ``tf32``, ``bf16``, ``fp16`` …; ``None`` if its name does not say it.

    >>> operand_precision("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16")
    'tf32'
    >>> operand_precision("nvjet_tst_128x256_64x6_2x1_2cta_v_bz_TNT") is None
    True
    """
    if "cudnn_generated" in name or "fmha_cutlassF_f32" in name:
        return None  # the types in these names are not those of all operands, or tensor cores may round them
    xmma = _XMMA.search(name)
    if xmma:
        return _TYPES.get(xmma[1], "fp8")
    tagged = _TAGGED.search(name)
    if tagged:
        return _TYPES[tagged[1] or tagged[2]]
    if _UNTAGGED_TENSOR_OP.search(name):
        return "tf32"
    element = _ELEMENT.search(name) if _SIMPLE_PRODUCT.search(name) or _ATTENTION.search(name) else None
    if element:
        # Attention on tensor cores may round fp32 operands; a gemv and a direct convolution use none.
        if element[1] == "float" and _ATTENTION.search(name):
            return None
        return _ELEMENT_TYPES.get(element[1], "bf16" if "bfloat" in element[1].lower() else "fp16")
    scalar = _SCALAR.search(name)
    return _SCALAR_TYPES[scalar[1] or scalar[2]] if scalar else None


def short_name(name: str) -> str:
    """A kernel's name without its arguments and, for CUTLASS, without the template around it.

    >>> short_name("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(cutlass_80_simt_…::Params)")
    'cutlass_80_simt_sgemm_128x256_8x4_nt_align1'
    """
    inner = _INNER.search(name)
    if inner:
        return inner[1]
    return name.removeprefix("void ").partition("<")[0].partition("(")[0] or name
