"""Read what oneDNN and MKL print about the kernels they run (their "verbose" output).

Formats: oneDNN 1.x and 2.x ``onednn_verbose,exec,cpu,…`` (also ``dnnl_verbose``), 3.5
``onednn_verbose,primitive,exec,cpu,…``, 3.7 ``onednn_verbose,v1,primitive,exec,cpu,…``, each with a
timestamp before the rest where ``ONEDNN_VERBOSE_TIMESTAMP=1`` was set. Source: oneDNN's developer guide,
"Verbose mode", and the recordings under tests/data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

BF16_ALLOWED = "bf16-allowed"
"""fp32 tensors with bf16 fast math permitted: the log does not say whether the kernel used it."""
COMPUTE = frozenset({"convolution", "deconvolution", "matmul", "inner_product", "rnn", "sdpa"})
"""Primitives that multiply matrices; the others move or transform data."""

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
# Longest first: with 2.x names "src_bf16" ends in "f16" as well.
_OLD_TENSOR = re.compile(r"^(\w+?)_(" + "|".join(sorted(_DTYPES, key=len, reverse=True)) + ")$")
_NARROW = ("int4", "int8", "fp4", "fp8", "fp16", "bf16", "tf32")
# x86 kernels carry their instruction set in their name; these sets have no bf16 instruction, so the
# attribute that allows bf16 is without effect on them.
_X86_FP32_ISA = re.compile(r":(?:sse41|avx|avx2|avx2_vnni|avx512_common|avx512_core|avx512_core_vnni)$")
_BF16_ISA = re.compile(r"bf16|amx|avx10_1|avx2_vnni_2")


@dataclass(frozen=True)
class Primitive:
    """One executed primitive.

    ``tensors`` maps ``src``, ``wei``, ``dst`` … to oneDNN's data type (``bf16``, ``f32``),
    ``attributes`` holds the attributes without their ``attr-``; ``fpmath`` is spelled alike for every version
    (``bf16``, not ``fpmath_mode_bf16``). ``problem`` is oneDNN's own text; ``seconds`` is its execution time.
    """

    kind: str
    implementation: str
    prop: str
    tensors: dict[str, str]
    attributes: dict[str, str]
    problem: str
    seconds: float

    @property
    def compute(self) -> bool:
        return self.kind in COMPUTE

    @property
    def adds(self) -> bool:
        """Whether it adds a bias or its own output: as ``addmm`` does, and ``mm`` does not."""
        return self.tensors.get("bia", "undef") != "undef" or "sum" in self.attributes.get("post-ops", "")

    @property
    def reference(self) -> bool:
        """Whether it is one of oneDNN's plain reference kernels, which no one means to run.

        ``simple:any`` is the plain kernel of reorders, where it is normal: only compute counts.
        """
        return self.compute and self.implementation.startswith(("ref:", "simple:", "ref_", "simple_"))


@dataclass(frozen=True)
class OneDnnLog:
    """Everything found in one output: ``unparsed`` counts exec lines that could not be read."""

    version: str = ""
    isa: str = ""
    runtime: str = ""
    primitives: tuple[Primitive, ...] = ()
    unparsed: int = 0


@dataclass(frozen=True)
class BlasCall:
    """How often a BLAS function was called, and the seconds it reports, summed over all threads."""

    function: str
    count: int
    seconds: float


@dataclass
class _Info:
    version: str = ""
    isa: str = ""
    runtime: str = ""
    primitives: list[Primitive] = field(default_factory=list)
    unparsed: int = 0


def parse(text: str) -> OneDnnLog:
    """Read oneDNN's verbose output; lines that are not oneDNN's are passed over."""
    info = _Info()
    for line in text.splitlines():
        start = _MARKER.search(line)
        if start is None:
            continue
        fields = line[start.end() :].strip().split(",")
        if fields and re.fullmatch(r"v\d+", fields[0]):
            fields = fields[1:]
        if fields and re.fullmatch(r"\d+(\.\d+)?", fields[0]):
            fields = fields[1:]  # the timestamp
        if fields[:1] == ["primitive"]:
            fields = fields[1:]
        if fields[:1] == ["info"]:
            _read_info(info, fields[1:])
        elif fields[:1] == ["exec"]:
            primitive = _primitive(fields[1:])
            if primitive is None:
                info.unparsed += 1
            else:
                info.primitives.append(primitive)
    return OneDnnLog(info.version, info.isa, info.runtime, tuple(info.primitives), info.unparsed)


def _read_info(info: _Info, fields: list[str]) -> None:
    text = ",".join(fields)
    if text.startswith(("oneDNN v", "DNNL v", "Intel MKL-DNN v")):
        info.version = text.split(" v", 1)[1].split(" ")[0]
    elif text.startswith("cpu,isa:"):
        info.isa = text[len("cpu,isa:") :]
    elif text.startswith("cpu,runtime:"):
        info.runtime = text[len("cpu,runtime:") :]


def _primitive(fields: list[str]) -> Primitive | None:
    """Read ``engine,kind,implementation,prop,tensors,attributes,aux,problem,milliseconds``."""
    if len(fields) != 9:
        return None
    _engine, kind, implementation, prop, tensors, attributes, _aux, problem, milliseconds = fields
    try:
        seconds = float(milliseconds) / 1e3
    except ValueError:
        return None
    return Primitive(kind, implementation, prop, _tensors(tensors), _attributes(attributes), problem, seconds)


def _tensors(text: str) -> dict[str, str]:
    """Read ``src_f32::blocked:ab:f0`` (to 3.5) or ``src:f32::blocked:ab::f0`` (from 3.7)."""
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
            # 3.4 and later may append whether it holds for integers too: "bf16:true".
            name, value = "fpmath", value.replace("fpmath_mode_", "").split(":")[0]
        attributes[name] = value
    return attributes


def precision(primitive: Primitive) -> str:
    """What the log alone proves about the precision of the products.

    ``bf16``, ``fp16``, ``int8`` … where an operand is stored so; ``fp32``/``fp64`` where no narrower type is
    in reach; ``bf16`` too where fast math is allowed and the kernel's name says that it is a bf16 kernel;
    ``bf16-allowed`` where fast math is allowed and the name says nothing (ACL); else ``unknown``.
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


_CONVOLUTION = re.compile(r"([a-z]+)(\d+)")


def dimensions(primitive: Primitive) -> tuple[int | None, ...]:
    """The problem's size in a form that an operator's shapes give too, for joining the two.

    ``convolution`` gives ``(batch, in channels, out channels, *kernel, *input)`` with ``kernel`` and
    ``input`` over (depth,) height, width; matrix products give ``(batch, m, k, n)``. Other kinds: ``()``.
    """
    if primitive.kind in ("convolution", "deconvolution"):
        found = {name: int(value) for name, value in _CONVOLUTION.findall(primitive.problem)}
        kernel = [found[name] for name in ("kd", "kh", "kw") if name in found]
        inputs = [found[name] for name in ("id", "ih", "iw") if name in found]
        return (found.get("mb"), found.get("ic"), found.get("oc"), *kernel, *inputs)
    if primitive.kind == "inner_product":
        found = {name: int(value) for name, value in _CONVOLUTION.findall(primitive.problem)}
        k = found.get("ic", 1)
        for name in ("id", "ih", "iw"):
            k *= found.get(name, 1)
        return (1, found.get("mb"), k, found.get("oc"))
    if primitive.kind == "matmul":
        parts = [re.findall(r"\d+", part) for part in primitive.problem.split(":")[:2]]
        if len(parts) != 2 or min(map(len, parts)) < 2:
            return ()
        left, right = ([int(value) for value in part] for part in parts)
        batch = 1
        for a, b in zip(left[:-2], right[:-2]):
            batch *= max(a, b)
        return (batch, left[-2], left[-1], right[-1])
    return ()


_MKL = re.compile(r"MKL_VERBOSE (\w+)\(.*?\) ([\d.]+)(ns|us|ms|s)\b")
_UNIT = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def parse_mkl(text: str) -> tuple[BlasCall, ...]:
    """Read MKL's verbose output (``MKL_VERBOSE SGEMM(…) 1.2ms …``): the calls, by function name."""
    calls: dict[str, tuple[int, float]] = {}
    for function, value, unit in _MKL.findall(text):
        count, seconds = calls.get(function, (0, 0.0))
        calls[function] = (count + 1, seconds + float(value) * _UNIT[unit])
    return tuple(BlasCall(name, *totals) for name, totals in sorted(calls.items()))
