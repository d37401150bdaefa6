"""Parse the verbose output of oneDNN, which names the kernels that it runs, and of MKL, which names its functions.

Formats: oneDNN 1.x and 2.x print ``onednn_verbose,exec,cpu,…`` (or ``dnnl_verbose``), 3.5 prints
``onednn_verbose,primitive,exec,cpu,…``, 3.7 prints ``onednn_verbose,v1,primitive,exec,cpu,…``. With
``ONEDNN_VERBOSE_TIMESTAMP=1`` a timestamp precedes the other fields. Microkernels, which torch's attention and compiled
code call themselves, print ``ukernel`` in place of ``primitive``: ``brgemm`` multiplies ``bs`` pairs of matrices and
adds the products up, ``transform`` packs a matrix for it. Those that were generated before verbose mode was switched on
print neither types nor sizes (src/cpu/x64/ukernel). Source: oneDNN's developer guide, "Verbose mode", and the
recordings in tests/data.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from modelzoo.evidence.kernel_names import UNKNOWN, precision_of
from modelzoo.records.evidence import KernelCalls, KernelDigest

BF16_ALLOWED = "bf16-allowed"
"""fp32 tensors with bf16 fast math allowed; the log does not show whether the kernel used it."""
_OTHER_KINDS = frozenset(
    """
    batch_normalization binary concat eltwise group_normalization layer_normalization lrn pooling prelu reduction
    reorder resampling shuffle softmax sum transform
    """.split()  # noqa: SIM905 - a list of words
)
"""Kinds of primitives that move or transform data. All others count as products, also those of later versions."""

_MICROKERNELS = ("brgemm", "transform")

_TIMES = re.compile(r",\d+\.\d+(e[+-]\d+)?(?=,|$)|,\d+$")

_MARKER = re.compile(r"(?:onednn|dnnl|mkldnn)_verbose,")
_INFO = re.compile(r"(?:oneDNN|DNNL|Intel MKL-DNN) v([^ ]*)|cpu,isa:(.*)")
_OLD_TENSOR = re.compile(r"^(\w+?)_(undef|tf32|bf16|[fsu]\d+(?:_e\dm\d)?)$")
_NARROW = ("int4", "int8", "fp4", "fp8", "fp16", "bf16", "tf32")
# The names of x86 kernels contain their instruction set. These sets have no bf16 instructions, so the attribute that
# allows bf16 has no effect.
_X86_FP32_ISA = re.compile(r":(?:sse41|avx|avx2|avx2_vnni|avx512_common|avx512_core|avx512_core_vnni)$")
_BF16_ISA = re.compile(r"bf16|amx|avx10_1|avx2_vnni_2")
# oneDNN's reference kernels, also inside a deconvolution ("conv:any+ref:any"). Its own gemm is generated on x86 only:
# on ARM, what has its name and what its interface is called for ("gemm_api") runs ref_gemm (src/cpu/gemm/gemm.cpp and
# gemm.hpp of 3.7.1 to 3.12.4), even if the name says jit ("gemm:jit:f32", src/cpu/matmul/gemm_f32_matmul.hpp).
_REFERENCE = re.compile(r"(^|\+)(ref|simple)[:_]")
_REFERENCE_ON_ARM = re.compile(r"(^|\+)gemm:(ref|jit)|^gemm_s8[su]8s32:ref")


class Primitive(msgspec.Struct, frozen=True):
    """One executed primitive.

    ``tensors`` maps ``src``, ``wei``, ``dst`` … to oneDNN's data type (``bf16``, ``f32``). ``attributes`` omits the
    prefix ``attr-``, and the value of ``fpmath`` is the same for every version (``bf16``, not ``fpmath_mode_bf16``).
    ``problem`` is oneDNN's description of the sizes; ``seconds`` is the execution time. ``auxiliary`` is what the kind
    has of its own, such as the number of products that a microkernel adds up. ``architecture`` is that of the CPU,
    empty if unknown.
    """

    kind: str
    implementation: str
    prop: str
    tensors: dict[str, str]
    attributes: dict[str, str]
    problem: str
    seconds: float
    auxiliary: str = ""
    architecture: str = ""

    @property
    def is_compute(self) -> bool:
        """Whether it multiplies matrices."""
        return self.kind not in _OTHER_KINDS

    @property
    def kernel(self) -> str:
        """Its kind and its implementation: ``convolution gemm:acl``."""
        return f"{self.kind} {self.implementation}".strip()

    @property
    def is_reference(self) -> bool:
        """Whether it multiplies matrices with one of oneDNN's slow reference kernels.

        Reorders use ``simple:any`` normally, so they do not count.
        """
        if not self.is_compute:
            return False
        if self.architecture == "aarch64" and (
            self.kind == "gemm_api" or _REFERENCE_ON_ARM.search(self.implementation) is not None
        ):
            return True
        return _REFERENCE.search(self.implementation) is not None


class OneDnnLog(msgspec.Struct, frozen=True):
    """One process's output; ``unread`` are the exec lines that could not be read, from oneDNN's marker on."""

    version: str = ""
    isa: str = ""
    primitives: tuple[Primitive, ...] = ()
    unread: tuple[str, ...] = ()


def parse_onednn(text: str, architecture: str = "") -> OneDnnLog:
    """Parse oneDNN's verbose output; ignore all other lines.

    Args:
        text: the output.
        architecture: of the CPU, empty if unknown. On ARM some kernels have the names of others on x86.
    """
    version = isa = ""
    primitives: list[Primitive] = []
    unread: list[str] = []
    for line in text.splitlines():
        start = _MARKER.search(line)
        if start is None:
            continue
        fields = _without_prefix(line[start.end() :].strip().split(","))
        if fields[:1] == ["info"]:
            if found := _INFO.match(",".join(fields[1:])):
                version, isa = found[1] or version, found[2] or isa
        elif fields[:1] == ["exec"]:
            primitive = _primitive(fields[1:], architecture)
            if primitive is None:
                unread.append(line[start.start() :].strip())
            else:
                primitives.append(primitive)
        elif fields[1:2] == ["exec"]:
            # A graph or a kernel of another interface, in a format that is not known here.
            unread.append(line[start.start() :].strip())
    return OneDnnLog(version, isa, tuple(primitives), tuple(unread))


def untimed(line: str) -> str:
    """Return a line that could not be read without its timestamp and duration, which differ at every call."""
    return _TIMES.sub("", line)


def _without_prefix(fields: list[str]) -> list[str]:
    """Drop the fields that only some lines have: format version, timestamp, ``primitive`` or ``ukernel``."""
    for pattern in (r"v\d+", r"\d+(\.\d+)?", r"primitive|ukernel"):
        if fields and re.fullmatch(pattern, fields[0]):
            fields = fields[1:]
    return fields


def _primitive(fields: list[str], architecture: str) -> Primitive | None:
    """Parse ``engine,kind,implementation,prop,tensors,attributes,aux,problem,milliseconds``.

    The four before the last are one empty field in the line of a microkernel that does not know them.
    """
    if len(fields) == 6 and fields[1] in _MICROKERNELS and not fields[4]:
        fields[4:5] = [""] * 4
    if len(fields) != 9:
        return None
    _engine, kind, implementation, prop, tensors, attributes, auxiliary, problem, milliseconds = fields
    try:
        seconds = float(milliseconds) / 1e3
    except ValueError:
        return None
    types = {}
    for part in tensors.split():  # src_f32:a:blocked:ab:f0 (up to 3.5), or src:f32:a:blocked:ab::f0 (from 3.7)
        head, _, rest = part.partition(":")
        old = _OLD_TENSOR.match(head)
        name, dtype = old.groups() if old else (head, rest.partition(":")[0])
        types[name] = dtype
    set_to = {}
    for part in attributes.split():
        name, _, value = part.removeprefix("attr-").partition(":")
        if name in ("fpmath", "fpmath_mode"):
            # From 3.4 on, a suffix may say whether it applies to integers too: "bf16:true".
            name, value = "fpmath", value.replace("fpmath_mode_", "").split(":")[0]
        set_to[name] = value
    return Primitive(kind, implementation, prop, types, set_to, problem, seconds, auxiliary, architecture)


def logged_precision(primitive: Primitive) -> str:
    """Return what the log alone proves about the precision of the products.

    Returns:
        The narrowest type of an operand (``bf16``, ``fp16``, ``int8`` …). For fp32 operands: ``fp32`` if no narrower
        type may be used, or if the kernel's instruction set has none; ``bf16`` if fast math is allowed and the kernel's
        name shows a bf16 kernel; ``bf16-allowed`` if fast math is allowed and the name does not show whether the kernel
        used it (on Arm). Otherwise ``fp64`` or ``unknown``.
    """
    operands = [
        precision_of(dtype) or "unknown"
        for name, dtype in primitive.tensors.items()
        if name.startswith(("src", "wei")) and dtype != "undef"
    ]
    if not operands or "unknown" in operands:
        return "unknown"
    for narrow in _NARROW:
        if narrow in operands:
            return narrow
    if set(operands) == {"fp64"}:
        return "fp64"
    mode = primitive.attributes.get("fpmath", "strict")
    if mode == "strict" or _X86_FP32_ISA.search(primitive.implementation):
        return "fp32"
    if mode in ("bf16", "any"):
        return "bf16" if names_bf16(primitive.implementation) else BF16_ALLOWED
    return "unknown"


def names_bf16(implementation: str) -> bool:
    """Whether the name of a kernel of oneDNN ends with an instruction set that has bf16."""
    _, colon, isa = implementation.rpartition(":")
    return bool(colon and _BF16_ISA.search(isa))


def logged_types(primitives: Sequence[Primitive]) -> frozenset[str]:
    """Return the data types of what is no product, reorders above all: each is made for some product."""
    return frozenset(
        precision_of(dtype) or "unknown"
        for primitive in primitives
        if not primitive.is_compute
        for dtype in primitive.tensors.values()
    )


_NAMED_SIZE = re.compile(r"([a-z]+)(\d+)")
_PRODUCTS_OF_BRGEMM = re.compile(r"\bbs:(\d+)")


def fixed_sizes(primitive: Primitive) -> str:
    """Return the sizes that do not depend on the number of items: all but the batch, and but the rows of a product."""
    _, colon, right = primitive.problem.partition(":")
    return "x".join(right.partition(":")[0].split("x")[-2:]) if colon else re.sub(r"mb\d+", "", primitive.problem)


def problem_flop(primitive: Primitive) -> int | None:
    """Return the operations of a product, a multiplication and an addition being two; ``None`` if they are not known.

    Each output (or, of a deconvolution, each input) is multiplied by one filter: input channels of a group × kernel,
    which is the whole input of an ``inner_product``. A microkernel adds up several products.
    """
    kind = primitive.kind
    if kind in ("convolution", "deconvolution", "inner_product"):
        sizes = {name: int(value) for name, value in _NAMED_SIZE.findall(primitive.problem)}  # mb4_ic32oc64_ih56…
        if "ic" not in sizes or "oc" not in sizes:
            return None
        counted = {"deconvolution": "ik", "inner_product": "oi"}.get(kind, "ok")  # positions, and the kernel
        per_item = math.prod(sizes.get(name + axis, 1) for name in counted for axis in "dhw")
        return 2 * sizes.get("mb", 1) * per_item * sizes["ic"] * sizes["oc"] // sizes.get("g", 1)
    shapes = [[int(size) for size in re.findall(r"\d+", part)] for part in primitive.problem.split(":")[:2]]
    if kind not in ("matmul", "gemm_api", "brgemm") or len(shapes) != 2 or min(map(len, shapes)) < 2:
        return None
    left, right = shapes  # 12x384x64:12x64x384
    batch = math.prod(max(a, b) for a, b in zip(left[:-2], right[:-2]))
    if kind == "brgemm":
        products = _PRODUCTS_OF_BRGEMM.search(primitive.auxiliary)
        batch = int(products[1]) if products else 0
    return 2 * batch * left[-2] * left[-1] * right[-1] or None


class BlasCall(msgspec.Struct, frozen=True):
    """The calls of one BLAS function.

    ``seconds`` is the time that it reports for the main thread. ``flop`` counts the operations of the calls whose sizes
    can be read.
    """

    function: str
    count: int
    seconds: float = 0.0
    flop: int = 0

    @property
    def precision(self) -> str:
        """``fp32``, ``bf16`` …, or ``unknown``."""
        return next((name for prefix, name in _BLAS_PRECISION.items() if self.function.startswith(prefix)), "unknown")

    @property
    def is_product(self) -> bool:
        """Whether it multiplies matrices or vectors."""
        return _BLAS_PRODUCT.search(self.function) is not None


_BLAS_PRODUCT = re.compile(r"GEM[MV]|DOT|SYMM|SYRK|TRMM")
_BLAS_PRECISION = {
    "S": "fp32",
    "D": "fp64",
    "GEMM_BF16": "bf16",
    "GEMM_F16": "fp16",
    "HGEMM": "fp16",
    "GEMM_S": "int8",
    "GEMM_U": "int8",
}
"""The precision of MKL's functions, by the beginning of their name."""

_MKL = re.compile(r"MKL_VERBOSE (\w+)\((.*?)\) ([\d.]+)(ns|us|ms|s)\b(?:.*?\bTID:(\d+))?")
_UNIT = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_SIZES = {"GEMM": slice(2, 5), "GEMV": slice(1, 3), "DOT": slice(0, 1)}
"""Which arguments are the sizes, by what a function's name contains: ``SGEMM(T,N,m,n,k,…)``, ``SGEMV(T,m,n,…)``."""


def parse_mkl(text: str) -> tuple[BlasCall, ...]:
    """Parse MKL's verbose output (``MKL_VERBOSE SGEMM(…) 1.2ms … TID:0``) into calls by function name."""
    calls: dict[str, BlasCall] = {}
    for function, arguments, value, unit, thread in _MKL.findall(text):
        known = calls.get(function, BlasCall(function, 0))
        seconds = float(value) * _UNIT[unit] if thread in ("", "0") else 0.0
        where = next((place for part, place in _SIZES.items() if part in function), None)
        # A batch's sizes are behind pointers.
        sizes = arguments.split(",")[where] if where is not None and "BATCH" not in function else []
        flop = 2 * math.prod(map(int, sizes)) if sizes and all(size.isdigit() for size in sizes) else 0
        calls[function] = BlasCall(function, known.count + 1, known.seconds + seconds, known.flop + flop)
    return tuple(calls[name] for name in sorted(calls))


RANDOM_OUTPUTS = "the model's outputs differ from pass to pass, so observed passes cannot be compared with others"


def kernel_digest(output: str) -> KernelDigest | None:
    """Summarize what oneDNN and MKL printed in verbose mode during one pass.

    Returns:
        ``None`` if no kernel that multiplies matrices is named.
    """
    log = parse_onednn(output)
    calls: list[CountedCalls] = [
        (f"oneDNN {each.kind} {each.implementation}", logged_precision(each), (fixed_sizes(each),), 1)
        for each in log.primitives
        if each.is_compute
    ]
    calls += [
        (f"MKL {each.function.lower()}", each.precision, (), each.count)
        for each in parse_mkl(output)
        if each.is_product
    ]
    # A line that cannot be read may be a product.
    calls += [("oneDNN, unread line", UNKNOWN, (untimed(line),), 1) for line in log.unread]
    return digest_of(calls)


CountedCalls = tuple[str, str, tuple[object, ...], int]
"""Kernel, precision, what else tells these calls from others (their sizes), and their number."""


def digest_of(calls: Iterable[CountedCalls]) -> KernelDigest | None:
    """Summarize the calls of kernels that multiply matrices, in any order; ``None`` if there are none."""
    alike: Counter[tuple[str, str, tuple[object, ...]]] = Counter()
    by_kernel: Counter[tuple[str, str]] = Counter()
    for kernel, precision, sizes, count in calls:
        alike[kernel, precision, sizes] += count
        by_kernel[kernel, precision] += count
    if not alike:
        return None
    # Some sizes may be unknown, and None cannot be sorted among numbers.
    content = json.dumps(sorted(([*key, count] for key, count in alike.items()), key=str))
    return KernelDigest(
        sha256=hashlib.sha256(content.encode()).hexdigest(),
        kernels=tuple(KernelCalls(name, precision, count) for (name, precision), count in sorted(by_kernel.items())),
    )


class LoggedCall(msgspec.Struct, frozen=True):
    """What the libraries' logs say of one call of an operator.

    Attributes:
        lines: what ran, without times and in alphabetical order: equal for two calls that ran the same kernels, or
            printed the same lines of oneDNN's that could not be read.
        kernels: those that multiply matrices, each once.
        precision: that of all of them, as far as the log proves it; ``None`` if it does not, or if they differ.
    """

    lines: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    precision: str | None = None


def logged_call(log: OneDnnLog, blas_calls: Sequence[BlasCall]) -> LoggedCall:
    """Sum up what oneDNN and MKL printed during one call."""
    lines, kernels, precisions = [*map(untimed, log.unread)], set(), set()
    for each in log.primitives:
        lines.append(f"{each.kernel} {each.prop} {each.tensors} {each.attributes} {each.auxiliary} {each.problem}")
        if each.is_compute:
            kernels.add(f"oneDNN {each.kernel}")
            precisions.add(logged_precision(each))
    for call in blas_calls:
        if call.is_product:
            lines.append(f"MKL {call.function} {call.count} {call.flop}")
            kernels.add(f"MKL {call.function.lower()}")
            precisions.add(call.precision)
    precision = precisions.pop() if len(precisions) == 1 and not log.unread else None
    proven = None if precision in (BF16_ALLOWED, "unknown") else precision
    return LoggedCall(tuple(sorted(lines)), tuple(sorted(kernels)), proven)
