"""Decide the precision of a product, and of a kernel of an accelerator, from what is known of it. Pure.

What a kernel was given is shown by the kernel log and by the data types of the tensors. What came out of it is shown by
an error: that of the product itself, called again (``Product``), or that of an operator of the canary that ran the same
kernel, which proves nothing about any other kernel. Operands stored as bf16 prove bf16; an error cannot, because
products of bf16 numbers are exact in fp32. For fp32 operands the log may prove nothing if fast math is allowed, and a
BLAS may round inside its fp32 product; then the error decides.

Where no call of an operator is known, as in a graph of an accelerator, the precision follows from the kernel's name,
from the operands that the eager model gives it, and from the canary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from modelzoo.evidence.coverage import Node
from modelzoo.evidence.kernel_names import (
    UNKNOWN,
    is_narrower,
    moves_memory,
    multiplies_nothing,
    named_precision,
    operator_class,
    precision_of,
    shows_its_operands,
)
from modelzoo.evidence.logs import BF16_ALLOWED, BlasCall, OneDnnLog, Primitive, digest_of, logged_precision
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.coverage import MOVEMENT, NATIVE
from modelzoo.records.evidence import BF16_IN_FP32, KernelDigest, OperatorClass, Product, ProofSource, Subnormals

_CONCLUSIVE_LEVELS = (CanaryLevel.FP32, CanaryLevel.REDUCED, CanaryLevel.BF16)


class PrecisionProof(NamedTuple):
    """A precision (``fp32``, ``bf16``, ``int8`` … or ``UNKNOWN``) and what decided it."""

    precision: str
    decided_by: ProofSource


NO_PROOF = PrecisionProof(UNKNOWN, ProofSource.NOTHING)


def operand_precision(dtypes: Sequence[str]) -> str:
    """Return the precision of a product's operands by torch's names of their types; ``unknown`` if they differ.

    If one argument is quantized, the product is too: its weights have no more bits than that, whatever it computes in.
    """
    found = [each for each in map(precision_of, dtypes) if each is not None]
    quantized = [each for each in ("int4", "fp8", "int8") if each in found]
    if quantized:
        return quantized[0]
    return found[0] if len(set(found[:2])) == 1 else "unknown"


class PrecisionProver:
    """The rules, for one audit.

    Args:
        canary: what the canary showed; may be missing.
        bf16_method: how bf16 was requested, ``None`` for fp32.
    """

    def __init__(self, canary: Canary | None, bf16_method: str | None) -> None:
        self._checks = canary.operators if canary is not None else ()
        self._bf16_method = bf16_method

    def prove_primitive(self, primitive: Primitive) -> PrecisionProof:
        """Decide the precision of a oneDNN primitive."""
        alike = [check for check in self._checks if check.kernels == (primitive.kernel,)]
        logged = logged_precision(primitive)
        found = self._decide(logged, _level(alike), ProofSource.KERNEL_LOG)
        # On ARM, kernels of one name use fast math or not, by the layout of their weights.
        return found if logged != BF16_ALLOWED or found.precision == "fp32" else NO_PROOF

    def prove_library_call(self, operand_type: str, operator: str, source: ProofSource) -> PrecisionProof:
        """Decide the precision of a product outside oneDNN, computed by a BLAS library or a native kernel.

        Args:
            operand_type: the operands' data type, or ``unknown``.
            operator: the operator's name.
            source: how the type is known.
        """
        outside = [check for check in self._checks if check.kernels == ()]
        # There, convolution, attention and Linear without bias (mm) use the same sgemm as a plain matmul.
        own = OperatorClass.LINEAR if operator_class(operator) is OperatorClass.LINEAR else OperatorClass.MATMUL
        level = _level([check for check in outside if check.operator == own] or outside)
        if level is None and operand_type == "fp32" and self._bf16_method == "fastmath":
            # The library was asked for less than fp32, and no operator of the canary shows what it made of that.
            return NO_PROOF
        return self._decide(operand_type, level, source)

    def prove_product(
        self, product: Product, log: OneDnnLog, blas_calls: Sequence[BlasCall], shows_onednn: bool
    ) -> PrecisionProof:
        """Decide the precision of an operator's product: by its own error, its log, or the types of its operands.

        Args:
            product: what was called, and what it showed if it was called again.
            log: what oneDNN printed during the call.
            blas_calls: what MKL printed.
            shows_onednn: whether it is known what oneDNN ran.
        """
        own, name = own_proof(product), product.operator
        if own is not None:
            return own
        named = named_precision(name)
        given = product.operands if shows_its_operands(name) or product.shown is not None else "unknown"
        by_types = self.prove_library_call(named or given, name, ProofSource.DATA_TYPES)
        if log.unread and product.shown is None and named is None:
            return NO_PROOF  # what could not be read may be another product
        proofs = [self.prove_primitive(each) for each in log.primitives if each.is_compute]
        calls = (each for each in blas_calls if each.is_product)
        proofs += [self.prove_library_call(each.precision, name, ProofSource.KERNEL_LOG) for each in calls]
        found = {each.precision for each in proofs}
        if named is not None:
            return proofs[0] if found == {named} else by_types
        is_converted = given not in ("fp32", "unknown")
        if not proofs:
            always_onednn = "mkldnn" in name or name == "aten::_convolution"
            # oneDNN may have run a product in fp32, but no log shows how.
            return NO_PROOF if given == "fp32" and (always_onednn or not shows_onednn) else by_types
        if is_converted and found <= {UNKNOWN, given} and UNKNOWN in found:
            return by_types  # a log without types: what was multiplied is what was given
        return proofs[0] if len(found) == 1 else NO_PROOF

    def prove_operands(self, given: str, like: str | None, source: ProofSource) -> PrecisionProof:
        """Decide the precision of a product by its operands, and by an operator of the canary that runs its kernel.

        Args:
            given: the data type of its operands, ``BF16_ALLOWED`` or ``unknown``.
            like: the operator of the canary; ``None`` if there is none.
            source: how ``given`` is known.
        """
        return self._decide(given, _level([check for check in self._checks if check.operator == like]), source)

    def _decide(self, given: str, level: CanaryLevel | None, source: ProofSource) -> PrecisionProof:
        """Combine what a kernel was given with what the canary showed that ran the same kernel."""
        if given == "unknown":
            return NO_PROOF  # the canary's operands are known, and these are not
        if level not in _CONCLUSIVE_LEVELS:
            level = None
        if given not in ("fp32", BF16_ALLOWED):
            return PrecisionProof(given, ProofSource.BOTH if given == level else source)
        # Whatever converts to bf16, as autocast does, converts the canary's operands too: its error then shows nothing
        # about operands that were left in fp32.
        is_converted = self._bf16_method not in (None, "fastmath")
        if level is None or (is_converted and level is not CanaryLevel.FP32):
            return PrecisionProof(given, source) if given == "fp32" else NO_PROOF
        return PrecisionProof(level.value, ProofSource.BOTH if given == level else ProofSource.CANARY)


def _level(checks: list[OperatorCheck]) -> CanaryLevel | None:
    """What ``checks`` show, ``None`` if they disagree or there is none."""
    levels = {check.level for check in checks}
    return levels.pop() if len(levels) == 1 else None


def own_proof(product: Product) -> PrecisionProof | None:
    """Return the precision that a product shows itself; ``None`` if it was not replayed, or if its error shows less
    than its operands' types do.

    The log and the error of fp32 operands must agree. If they do not, the narrower one counts if the error shows it,
    because an error is what came out; a log that names something narrower than came out leaves the precision unknown.
    """
    if product.shown is None:
        return None
    if product.operands == "fp64" and product.shown == "fp32":
        return None  # no error of fp64 is small enough to tell it from fp32
    if product.operands != "fp32":
        # They are exact in fp32: the error tells only that nothing narrower was multiplied.
        if is_narrower(product.shown, product.operands):
            return PrecisionProof(product.shown, ProofSource.REPLAY)
        found = product.subnormals if product.operands == "bf16" else None
        arithmetic = _ARITHMETIC.get(found) if found is not None else None
        return PrecisionProof(arithmetic, ProofSource.PROBE) if arithmetic is not None else None
    if not product.disagrees:
        return PrecisionProof(product.shown, ProofSource.REPLAY if product.logged is None else ProofSource.BOTH)
    if is_narrower(product.shown, product.logged or ""):
        return PrecisionProof(product.shown, ProofSource.REPLAY)
    return NO_PROOF


PARTLY_IN_FP32 = "bf16 tensors, partly fp32 arithmetic"
_ARITHMETIC = {
    Subnormals.FLUSHED: "bf16",
    Subnormals.IN_FP32: BF16_IN_FP32,
    Subnormals.MIXED: PARTLY_IN_FP32,
}


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
    return Node(operator, kind, (), short_name(kernel.name), *found, kernel.seconds)


def _by_name(name: str, kind: OperatorClass, given: str, prover: PrecisionProver) -> PrecisionProof:
    """What a product's kernel is called decides, or else the types of its operands and the canary."""
    named = kernel_precision(name)
    if named is not None:
        return PrecisionProof(named, ProofSource.KERNEL_NAME)
    like = OperatorClass.MATMUL if kind is OperatorClass.ATTENTION else kind
    proof = prover.prove_operands(given, like, ProofSource.DATA_TYPES)
    # Of fp32 operands, the libraries of CUDA devices make less than fp32 only by rounding to TF32.
    return proof._replace(precision="tf32") if proof.precision == CanaryLevel.REDUCED.value else proof


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
