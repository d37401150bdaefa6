"""Attribute the kernels of an accelerator to operators and precisions. Pure.

The precision of a product is what it showed when it was called again. Where no call of an operator is known, as in a
graph, it follows from the kernel's name, from the operands that the eager model gives it, and from the canary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from modelzoo.evidence.coverage import Node
from modelzoo.evidence.kernel_names import moves_memory, multiplies_nothing, operator_class, precision_of
from modelzoo.evidence.observation import digest_of
from modelzoo.evidence.precision import NO_PROOF, PrecisionProof, PrecisionProver
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.coverage import MOVEMENT, NATIVE
from modelzoo.records.evidence import KernelDigest, OperatorClass, ProofSource

NO_OPERATOR = "no operator"
"""What launched a kernel if the profiler does not know it: a graph, or a compiler's own code."""


class DeviceKernel(msgspec.Struct, frozen=True):
    """One launch of one kernel.

    Attributes:
        name: as the driver reports it, with template arguments.
        seconds: how long it ran.
        call: the place of the recorded call of an operator that launched it; ``None`` if none did.
    """

    name: str
    seconds: float
    call: int | None = None


def device_digest(kernels: Sequence[DeviceKernel]) -> KernelDigest | None:
    """Say which kernels one pass ran; ``None`` if none of them multiplies matrices."""
    names = [kernel.name for kernel in kernels if kernel_class(kernel.name) is not None]
    return digest_of((short_name(name), kernel_precision(name) or "unknown", (), 1) for name in names)


def kernel_part(
    kernel: DeviceKernel, proof: PrecisionProof | None, given: str, prover: PrecisionProver, operator: str = NO_OPERATOR
) -> Node:
    """Attribute the time of a kernel.

    Args:
        kernel: what ran.
        proof: what the product of its operator showed when it was called again; ``None`` if that is not known.
        given: the precision of the operands of that operator, ``unknown`` if it is not known.
        prover: what decides if neither that nor its name does.
        operator: what launched it.
    """
    kind, category = operator_class(operator), kernel_category(kernel.name)
    if kind is None and category is None and multiplies_nothing(operator) and kernel_class(kernel.name) is None:
        category = MOVEMENT if moves_memory(operator) else NATIVE
    if category is not None:
        kind, found = None, PrecisionProof(category, ProofSource.KERNEL_NAME)
    elif proof is not None:
        found = proof
    else:
        kind = kind or kernel_class(kernel.name)
        found = _by_name(kernel.name, kind, given, prover) if kind is not None else NO_PROOF
        kind = kind or OperatorClass.MATMUL  # a name that nobody knows may be a product
    return Node(operator, kind, (), short_name(kernel.name), found.precision, found.decided_by, kernel.seconds)


def _by_name(name: str, kind: OperatorClass, given: str, prover: PrecisionProver) -> PrecisionProof:
    """What a product's kernel is called decides, or else the types of its operands and the canary."""
    named = kernel_precision(name)
    if named is not None:
        return PrecisionProof(named, ProofSource.KERNEL_NAME)
    like = OperatorClass.MATMUL if kind is OperatorClass.ATTENTION else kind
    proof = prover.prove_operands(given, like, ProofSource.DATA_TYPES)
    # Of fp32 operands, the libraries of CUDA devices make less than fp32 only by rounding to TF32.
    return replace(proof, precision="tf32") if proof.precision == CanaryLevel.REDUCED.value else proof


_ANY_TYPE = "tf32|bf16|f16|f32|f64|i8|i32|e4m3|e5m2"
# Two pairs: the first begins with the type in memory, the second with the one that is multiplied.
_XMMA = re.compile(rf"xmma_\w*?gemm\w*?_({_ANY_TYPE})(?:{_ANY_TYPE})_({_ANY_TYPE})(?:{_ANY_TYPE})?_")
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
    r"conv(?!ert)|fprop|dgrad|cudnn_(?!generated_fort_native_sdpa)|scudnn|hcudnn|s\d+cudnn|winograd", re.IGNORECASE
)
_PRODUCT = re.compile(r"gemm|gemv|nvjet|(^|_)mm(_|$)|matmul|dot_kernel|s\d{3,5}", re.IGNORECASE)
_MOVEMENT = re.compile(
    r"^Memcpy|^Memset|copy_kernel|flip_filter|AddPaddingKernel|CatArray|nchwTo|nhwcTo|To(Nchw|Nhwc)Kernel|transpose|fill|index_select|gather|"
    r"indexSelect|vectorized_gather|permute",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"^(void )?(at::|at_cuda_detail|cub::|thrust::|vision::|torchvision|triton_(poi|per|red|for)|"
    r"\(anonymous namespace\)::(softmax|layer_norm|vectorized|max_pool|avg_pool|upsample|roi|nms))"
    r"|softmax|layer_?norm|batch_?norm|bn_fw|elementwise|reduce_kernel|pool|splitKreduce|cublasLt::epilogue|scalePackedTensor|init_device_workspace|upsample|roi_align|nms_kernel|"
    r"topk|sort|scan|distribution",
    re.IGNORECASE,
)
_INNER = re.compile(r"\b(?:Kernel2?|device_kernel|gemm_kernel)<\s*(?:\w+::)*([A-Za-z_]\w*)")
_RETURNED = re.compile(r"^(?:void|std::enable_if<.*?>::type) ")


def kernel_class(name: str) -> OperatorClass | None:
    """What a kernel that multiplies matrices computes; ``None`` if its name does not say that it multiplies any."""
    if kernel_category(name) is not None:
        return None
    if _ATTENTION.search(name):
        return OperatorClass.ATTENTION
    if _CONVOLUTION.search(name):
        return OperatorClass.CONV
    return OperatorClass.MATMUL if _PRODUCT.search(name) else None


def kernel_category(name: str) -> str | None:
    """What a kernel does that multiplies no matrices: it copies or reorders, or is elementwise, a pooling, sorting …;
    ``None`` if its name does not say so."""
    base = name.partition("<")[0]
    if _MOVEMENT.search(name) and not _PRODUCT.search(base):
        return MOVEMENT
    return NATIVE if _OTHER.search(base) and not _SIMPLE_PRODUCT.search(base) else None


def kernel_precision(name: str) -> str | None:
    """The precision of a product's operands, ``tf32``, ``bf16``, ``fp16`` …; ``None`` if its name does not say it.

    >>> kernel_precision("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16")
    'tf32'
    >>> kernel_precision("nvjet_tst_128x256_64x6_2x1_2cta_v_bz_TNT") is None
    True
    """
    if "cudnn_generated" in name or "fmha_cutlassF_f32" in name:
        return None  # the types in these names are not those of all operands, or tensor cores may round them
    xmma = _XMMA.search(name)
    if xmma:
        kept, multiplied = xmma.groups()
        # fp32 operands, and bf16 and fp16 ones in some of cuDNN's kernels, are multiplied as TF32.
        if multiplied == "tf32":
            return "tf32"
        return precision_of(multiplied) if kept == multiplied else None
    tagged = _TAGGED.search(name)
    if tagged:
        return precision_of(tagged[1] or tagged[2])
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
    plain = _RETURNED.sub("", name.replace("(anonymous namespace)::", ""))
    return plain.partition("<")[0].partition("(")[0] or name
