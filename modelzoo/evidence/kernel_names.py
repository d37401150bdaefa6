"""Name the kernel of an operator that ran no oneDNN primitive, from its name, its data types and torch's BLAS. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modelzoo.evidence.known_operators import (
    leaves_it_to_others,
    moves_memory,
    multiplies_nothing,
    named_precision,
    shows_its_operands,
)
from modelzoo.evidence.observation import Audit, Event
from modelzoo.evidence.onednn_log import Primitive
from modelzoo.evidence.operators import PASS_EVENT, base_name
from modelzoo.records.evidence import LogSource, OperatorClass

MOVEMENT = "memory movement"
NATIVE = "no matrix arithmetic"
DISPATCH = "dispatch and set-up"
UNKNOWN_KERNEL = "unknown kernel"
"""Category of an operator that may or may not multiply matrices."""

BETWEEN_OPERATORS = "between operators"
"""Time in Python, in TorchScript's interpreter and in anything else that the profiler does not record."""
INDUCTOR = "inductor C++ kernels"

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
    "c10::quint4x2": "int4",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
}
_QUANTIZED = ("int4", "fp8", "int8")
_BF16_PRODUCT = {True: "{blas} sbgemm", False: "native bf16", None: "{blas} sbgemm or native bf16"}
"""What computes a bf16 product outside oneDNN, by ``Audit.sbgemm``."""
_VECTOR_PRODUCTS = ("mv", "addmv", "addmv_", "dot", "vdot")
"""torch computes these itself in bf16: it calls a BLAS for a matrix by a matrix only (``BLAS_HAS_SBGEMM``)."""
_MKL_FUNCTIONS = {"fp32": ("SGEMM", "SGEMV", "SDOT"), "fp64": ("DGEMM", "DGEMV"), "bf16": ("GEMM_BF16",)}


def display_name(event: Event) -> str:
    """Return the operator's name; compiled graphs, whose names contain a hash, all get the same name."""
    return _GRAPH_NAME.sub("CompiledFxGraph", event.name)


def operand_type(event: Event) -> str:
    """Return the precision of a product's operands (``fp32``, ``bf16``, ``int8`` …), ``unknown`` if they differ.

    If one argument is quantized, the product is too: its weights have no more bits than that, whatever it computes in.
    """
    dtypes = [_DTYPES[dtype] for dtype in event.dtypes if dtype in _DTYPES]
    quantized = [dtype for dtype in _QUANTIZED if dtype in dtypes]
    if quantized:
        return quantized[0]
    return dtypes[0] if len(set(dtypes[:2])) == 1 else "unknown"


def product_type(event: Event) -> str:
    """Return the precision that a product outside oneDNN was given: by its name, or by its operands' types."""
    named = named_precision(event.name)
    if named is not None:
        return named
    return operand_type(event) if shows_its_operands(event.name) else "unknown"


def library_kernel(event: Event, kind: OperatorClass, audit: Audit) -> str:
    """Name the kernel of a product outside oneDNN, such as ``im2col and mkl sgemm``."""
    if audit.log_source is LogSource.NONE:
        return "no kernel log"
    library = _gemm(event, audit)
    if kind is OperatorClass.ATTENTION:
        return f"{'flash attention' if 'flash' in event.name else 'attention'} over {library}"
    if "nnpack" in event.name:
        return "nnpack"
    return f"im2col and {library}" if kind is OperatorClass.CONV else library


def _gemm(event: Event, audit: Audit) -> str:
    """Name what multiplies the matrices of an operator outside oneDNN."""
    dtype = product_type(event)
    if not shows_its_operands(event.name):
        return f"{event.name} ({dtype})" if dtype != "unknown" else event.name
    blas = audit.blas.split(" ")[0]
    if blas == "mkl" and audit.blas_calls:
        prefixes = _MKL_FUNCTIONS.get(dtype, ())
        functions = sorted({call.function for call in audit.blas_calls if call.function.startswith(prefixes)})
        return f"mkl {', '.join(functions).lower()}" if functions else f"native {dtype}"
    if dtype == "bf16" and base_name(event.name) in _VECTOR_PRODUCTS:
        return "native bf16"
    names = {"fp32": f"{blas} sgemm", "fp64": f"{blas} dgemm", "bf16": _BF16_PRODUCT[audit.sbgemm].format(blas=blas)}
    return names.get(dtype, f"native {dtype}")


def attention_kernel(primitives: Sequence[Primitive]) -> str:
    """Name the kernel of attention that computes its products with oneDNN."""
    kernels = ", ".join(sorted({primitive.implementation for primitive in primitives}))
    return f"flash attention over oneDNN {kernels}"


def other_kernel(event: Event) -> tuple[str, str]:
    """Return kernel and category (``MOVEMENT``, ``NATIVE``, ``DISPATCH``, ``UNKNOWN_KERNEL``) of what is no product."""
    if _INDUCTOR_NAME.search(event.name):
        return INDUCTOR, NATIVE
    if event.name == PASS_EVENT or "::" not in event.name:
        return BETWEEN_OPERATORS, DISPATCH
    if leaves_it_to_others(event.name):
        return "dispatch", DISPATCH
    if moves_memory(event.name):
        return "native memory movement", MOVEMENT
    return ("native", NATIVE) if multiplies_nothing(event.name) else (event.name, UNKNOWN_KERNEL)
