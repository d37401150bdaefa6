"""Parse the verbose output of oneDNN and MKL, which names the kernels that they run.

Formats: oneDNN 1.x and 2.x print ``onednn_verbose,exec,cpu,…`` (or ``dnnl_verbose``), 3.5 prints
``onednn_verbose,primitive,exec,cpu,…``, 3.7 prints ``onednn_verbose,v1,primitive,exec,cpu,…``. With
``ONEDNN_VERBOSE_TIMESTAMP=1`` a timestamp precedes the other fields. Source: oneDNN's developer guide, "Verbose mode",
and the recordings in tests/data.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

BF16_ALLOWED = "bf16-allowed"
"""fp32 tensors with bf16 fast math allowed; the log does not show whether the kernel used it."""
COMPUTE_KINDS = frozenset({"convolution", "deconvolution", "matmul", "inner_product", "rnn", "sdpa"})
"""Kinds of primitives that multiply matrices; the others move or transform data."""

_MARKER = re.compile(r"(?:onednn|dnnl|mkldnn)_verbose,")
_DTYPES = {
    "f64": "fp64",
    "f32": "fp32",
    "tf32": "tf32",
    "f16": "fp16",
    "bf16": "bf16",
    "s8": "int8",
    "u8": "int8",
    "s4": "int4",
    "u4": "int4",
    "s32": "int32",
    "f8_e5m2": "fp8",
    "f8_e4m3": "fp8",
    "f4_e2m1": "fp4",
    "undef": "undef",
}
# Longest first: "src_bf16" (oneDNN 2.x) ends in "f16" too.
_OLD_TENSOR = re.compile(r"^(\w+?)_(" + "|".join(sorted(_DTYPES, key=len, reverse=True)) + ")$")
_NARROW = ("int4", "int8", "fp4", "fp8", "fp16", "bf16", "tf32")
# The names of x86 kernels contain their instruction set. These sets have no bf16 instructions, so the attribute that
# allows bf16 has no effect.
_X86_FP32_ISA = re.compile(r":(?:sse41|avx|avx2|avx2_vnni|avx512_common|avx512_core|avx512_core_vnni)$")
_BF16_ISA = re.compile(r"bf16|amx|avx10_1|avx2_vnni_2")


@dataclass(frozen=True)
class Primitive:
    """One executed primitive.

    ``tensors`` maps ``src``, ``wei``, ``dst`` … to oneDNN's data type (``bf16``, ``f32``). ``attributes`` omits the
    prefix ``attr-``, and the value of ``fpmath`` is the same for every version (``bf16``, not ``fpmath_mode_bf16``).
    ``problem`` is oneDNN's description of the sizes; ``seconds`` is the execution time.
    """

    kind: str
    implementation: str
    prop: str
    tensors: dict[str, str]
    attributes: dict[str, str]
    problem: str
    seconds: float

    @property
    def is_compute(self) -> bool:
        """Whether it multiplies matrices."""
        return self.kind in COMPUTE_KINDS

    @property
    def adds(self) -> bool:
        """Whether it adds a bias or its own output, as ``addmm`` does and ``mm`` does not."""
        return self.tensors.get("bia", "undef") != "undef" or "sum" in self.attributes.get("post-ops", "")

    @property
    def is_reference(self) -> bool:
        """Whether it multiplies matrices with one of oneDNN's slow reference kernels.

        Reorders use ``simple:any`` normally, so they do not count.
        """
        return self.is_compute and self.implementation.startswith(("ref:", "simple:", "ref_", "simple_"))


@dataclass(frozen=True)
class OneDnnLog:
    """One process's output; ``unparsed`` counts the exec lines that could not be read."""

    version: str = ""
    isa: str = ""
    runtime: str = ""
    primitives: tuple[Primitive, ...] = ()
    unparsed: int = 0


@dataclass(frozen=True)
class BlasCall:
    """The calls of one BLAS function; ``seconds`` is the time that it reports, summed over all threads."""

    function: str
    count: int
    seconds: float


@dataclass
class _Parsed:
    version: str = ""
    isa: str = ""
    runtime: str = ""
    primitives: list[Primitive] = field(default_factory=list)
    unparsed: int = 0


def parse_onednn(text: str) -> OneDnnLog:
    """Parse oneDNN's verbose output; ignore all other lines."""
    parsed = _Parsed()
    for line in text.splitlines():
        start = _MARKER.search(line)
        if start is None:
            continue
        fields = _without_prefix(line[start.end() :].strip().split(","))
        if fields[:1] == ["info"]:
            _read_info(parsed, fields[1:])
        elif fields[:1] == ["exec"]:
            primitive = _primitive(fields[1:])
            if primitive is None:
                parsed.unparsed += 1
            else:
                parsed.primitives.append(primitive)
    return OneDnnLog(parsed.version, parsed.isa, parsed.runtime, tuple(parsed.primitives), parsed.unparsed)


def _without_prefix(fields: list[str]) -> list[str]:
    """Drop the fields that only some versions print: format version, timestamp, ``primitive``."""
    for pattern in (r"v\d+", r"\d+(\.\d+)?", r"primitive"):
        if fields and re.fullmatch(pattern, fields[0]):
            fields = fields[1:]
    return fields


def _read_info(parsed: _Parsed, fields: list[str]) -> None:
    text = ",".join(fields)
    if text.startswith(("oneDNN v", "DNNL v", "Intel MKL-DNN v")):
        parsed.version = text.split(" v", 1)[1].split(" ")[0]
    elif text.startswith("cpu,isa:"):
        parsed.isa = text[len("cpu,isa:") :]
    elif text.startswith("cpu,runtime:"):
        parsed.runtime = text[len("cpu,runtime:") :]


def _primitive(fields: list[str]) -> Primitive | None:
    """Parse ``engine,kind,implementation,prop,tensors,attributes,aux,problem,milliseconds``."""
    if len(fields) != 9:
        return None
    _engine, kind, implementation, prop, tensors, attributes, _aux, problem, milliseconds = fields
    try:
        seconds = float(milliseconds) / 1e3
    except ValueError:
        return None
    return Primitive(kind, implementation, prop, _tensors(tensors), _attributes(attributes), problem, seconds)


def _tensors(text: str) -> dict[str, str]:
    """Parse ``src_f32::blocked:ab:f0`` (up to 3.5) or ``src:f32::blocked:ab::f0`` (from 3.7)."""
    tensors = {}
    for part in text.split():
        head, _, rest = part.partition(":")
        old = _OLD_TENSOR.match(head)
        name, dtype = old.groups() if old else (head, rest.split(":")[0])
        tensors[name] = dtype
    return tensors


def _attributes(text: str) -> dict[str, str]:
    attributes = {}
    for part in text.split():
        name, _, value = part.partition(":")
        name = name[len("attr-") :] if name.startswith("attr-") else name
        if name in ("fpmath", "fpmath_mode"):
            # From 3.4 on, a suffix may say whether it applies to integers too: "bf16:true".
            name, value = "fpmath", value.replace("fpmath_mode_", "").split(":")[0]
        attributes[name] = value
    return attributes


def logged_precision(primitive: Primitive) -> str:
    """Return what the log alone proves about the precision of the products.

    Returns:
        The narrowest type of an operand (``bf16``, ``fp16``, ``int8`` …). For fp32 operands: ``fp32`` if no narrower
        type may be used, ``bf16`` if fast math is allowed and the kernel's name shows a bf16 kernel, ``bf16-allowed``
        if fast math is allowed and the name does not show it (ACL). Otherwise ``fp64`` or ``unknown``.
    """
    operands = [
        _DTYPES.get(dtype, "unknown")
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
        return "bf16" if _BF16_ISA.search(primitive.implementation) else BF16_ALLOWED
    return "unknown"


_NAMED_SIZE = re.compile(r"([a-z]+)(\d+)")


def problem_dimensions(primitive: Primitive) -> tuple[int | None, ...]:
    """Return the sizes in a form that can be computed from an operator's shapes too, so that the two can be matched.

    Returns:
        For convolutions ``(batch, in channels, out channels, *kernel, *input)`` with ``kernel`` and ``input`` over
        (depth,) height, width. For matrix products ``(batch, m, k, n)``. Empty for other kinds.
    """
    if primitive.kind in ("convolution", "deconvolution"):
        sizes = _named_sizes(primitive.problem)
        kernel = [sizes[name] for name in ("kd", "kh", "kw") if name in sizes]
        inputs = [sizes[name] for name in ("id", "ih", "iw") if name in sizes]
        return (sizes.get("mb"), sizes.get("ic"), sizes.get("oc"), *kernel, *inputs)
    if primitive.kind == "inner_product":
        sizes = _named_sizes(primitive.problem)
        k = math.prod(sizes.get(name, 1) for name in ("ic", "id", "ih", "iw"))
        return (1, sizes.get("mb"), k, sizes.get("oc"))
    if primitive.kind == "matmul":
        return _matmul_dimensions(primitive.problem)
    return ()


def _named_sizes(problem: str) -> dict[str, int]:
    """Parse ``mb4_ic32oc64_ih56…``."""
    return {name: int(value) for name, value in _NAMED_SIZE.findall(problem)}


def _matmul_dimensions(problem: str) -> tuple[int, ...]:
    """Parse ``12x384x64:12x64x384``."""
    shapes = [[int(size) for size in re.findall(r"\d+", part)] for part in problem.split(":")[:2]]
    if len(shapes) != 2 or min(map(len, shapes)) < 2:
        return ()
    left, right = shapes
    batch = math.prod(max(a, b) for a, b in zip(left[:-2], right[:-2]))
    return (batch, left[-2], left[-1], right[-1])


_MKL = re.compile(r"MKL_VERBOSE (\w+)\(.*?\) ([\d.]+)(ns|us|ms|s)\b")
_UNIT = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def parse_mkl(text: str) -> tuple[BlasCall, ...]:
    """Parse MKL's verbose output (``MKL_VERBOSE SGEMM(…) 1.2ms …``) into calls by function name."""
    calls: dict[str, tuple[int, float]] = {}
    for function, value, unit in _MKL.findall(text):
        count, seconds = calls.get(function, (0, 0.0))
        calls[function] = (count + 1, seconds + float(value) * _UNIT[unit])
    return tuple(BlasCall(name, *sums) for name, sums in sorted(calls.items()))
