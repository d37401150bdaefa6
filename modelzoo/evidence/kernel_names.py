"""Name the kernel of an operator that ran no oneDNN primitive, from its name, its data types and torch's BLAS. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modelzoo.evidence.observation import Audit, Event
from modelzoo.evidence.onednn_log import Primitive, logged_precision
from modelzoo.evidence.operators import PASS_EVENT, operator_class
from modelzoo.records.evidence import LogSource, OperatorClass

MOVEMENT = "memory movement"
NATIVE = "no matrix arithmetic"
DISPATCH = "dispatch and set-up"

BETWEEN_OPERATORS = "between operators"
"""Time in Python, in TorchScript's interpreter and in anything else that the profiler does not record."""
INDUCTOR = "inductor C++ kernels"

_MOVEMENT_NAME = re.compile(
    r"::(copy_?|_to_copy|to|clone|contiguous|cat|_cat|stack|hstack|vstack|fill_|zero_|zeros|ones|full|arange|"
    r"empty\w*|resize_|index|index_select|index_put_|_index_put_impl_|embedding|gather|scatter\w*|"
    r"masked_fill_?|select|slice|narrow|split\w*|chunk|unbind|expand\w*|view\w*|_unsafe_view|reshape\w*|"
    r"_reshape_alias|flatten|permute|transpose_?|t|squeeze_?|unsqueeze_?|as_strided_?|alias|detach_?|"
    r"lift_fresh|constant_pad_nd|pad|repeat|item|_local_scalar_dense|unfold|to_mkldnn|to_dense|"
    r"_to_dense|_reorder\w*|mkldnn_reorder\w*|set_|resolve_conj|resolve_neg)$"
)
_GRAPH_NAME = re.compile(r"^.*CompiledFxGraph.*$")
_INDUCTOR_NAME = re.compile(r"CompiledFxGraph|Torch-Compiled Region|cpp_fused|cpp_|inductor", re.IGNORECASE)
_DTYPES = {
    "float": "fp32",
    "double": "fp64",
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "signed char": "int8",
    "unsigned char": "int8",
    "c10::qint8": "int8",
    "c10::quint8": "int8",
}
_BF16_PRODUCT = {True: "{blas} sbgemm", False: "native bf16", None: "{blas} sbgemm or native bf16"}
"""What computes a bf16 product outside oneDNN, by ``Audit.sbgemm``."""
_MKL_FUNCTIONS = {"fp32": ("SGEMM", "SGEMV", "SDOT"), "fp64": ("DGEMM", "DGEMV"), "bf16": ("GEMM_BF16",)}


def display_name(event: Event) -> str:
    """Return the operator's name; compiled graphs, whose names contain a hash, all get the same name."""
    return _GRAPH_NAME.sub("CompiledFxGraph", event.name)


def operand_type(event: Event) -> str:
    """Return the data type of a product's operands (``fp32``, ``bf16`` …), ``unknown`` if they differ."""
    dtypes = [_DTYPES[dtype] for dtype in event.dtypes if dtype in _DTYPES]
    operands = [dtype for dtype in dtypes if dtype != "int8"] or dtypes
    return operands[0] if len(set(operands[:2])) == 1 else "unknown"


def library_kernel(event: Event, kind: OperatorClass, audit: Audit) -> str:
    """Name the kernel of a product outside oneDNN, such as ``im2col and mkl sgemm``."""
    if audit.log_source is LogSource.NONE:
        return "no kernel log"
    library = _gemm(operand_type(event), audit)
    if kind is OperatorClass.ATTENTION:
        return f"{'flash attention' if 'flash' in event.name else 'attention'} over {library}"
    if "nnpack" in event.name:
        return "nnpack"
    return f"im2col and {library}" if kind is OperatorClass.CONV else library


def _gemm(dtype: str, audit: Audit) -> str:
    """Name what multiplies matrices of ``dtype`` outside oneDNN."""
    blas = audit.blas.split(" ")[0]
    if blas == "mkl" and audit.blas_calls:
        prefixes = _MKL_FUNCTIONS.get(dtype, ())
        functions = sorted({call.function for call in audit.blas_calls if call.function.startswith(prefixes)})
        return f"mkl {', '.join(functions).lower()}" if functions else f"native {dtype}"
    names = {"fp32": f"{blas} sgemm", "fp64": f"{blas} dgemm", "bf16": _BF16_PRODUCT[audit.sbgemm].format(blas=blas)}
    return names.get(dtype, f"native {dtype}")


def attention_kernel(primitives: Sequence[Primitive]) -> tuple[str, str]:
    """Return the kernel and the operand type of attention that computes its products with oneDNN."""
    kernels = ", ".join(sorted({primitive.implementation for primitive in primitives}))
    types = {logged_precision(primitive) for primitive in primitives}
    return f"flash attention over oneDNN {kernels}", types.pop() if len(types) == 1 else "unknown"


def other_kernel(event: Event) -> tuple[str, str]:
    """Return kernel and category (``MOVEMENT``, ``NATIVE``, ``DISPATCH``) of an operator that is not a product."""
    if _INDUCTOR_NAME.search(event.name):
        return INDUCTOR, NATIVE
    if event.name == PASS_EVENT or "::" not in event.name:
        return BETWEEN_OPERATORS, DISPATCH
    if operator_class(event.name):
        return "dispatch", DISPATCH  # it calls an operator that computes
    if _MOVEMENT_NAME.search(event.name):
        return "native memory movement", MOVEMENT
    return "native", NATIVE
