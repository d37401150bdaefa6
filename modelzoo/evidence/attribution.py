"""Give every second of an audit to what it was spent on, and decide the precision of each product. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from modelzoo.evidence.audit import ROOT, Audit, Event
from modelzoo.evidence.matching import classify, is_gemm, join, operator_class
from modelzoo.evidence.onednn_log import BF16_ALLOWED, Primitive, precision

MOVEMENT = "memory movement"
NATIVE = "no matrix arithmetic"
DISPATCH = "dispatch and set-up"
UNATTRIBUTED = "unattributed"
UNKNOWN = "unknown precision"
NOT_COMPUTE = (MOVEMENT, NATIVE, DISPATCH, UNATTRIBUTED)
"""Names in the precision table that are no precision."""

BETWEEN = "between operators"
"""Time of Python, of TorchScript's interpreter and of anything that the profiler does not know."""
INDUCTOR = "inductor C++ kernels"

SETUP_SECONDS = 1e-3
"""How much of one call of a oneDNN operator may pass as set-up.

Every kernel that oneDNN runs is in its log, so what such an operator takes beside them is set-up: the
primitive's descriptor, the look-up in its cache, scratch memory. Measured: 0.07 to 0.3 ms a call on a quiet
x86 server, 0.8 ms on a contended one. What exceeds 1 ms has another reason and stays unattributed.
"""


@dataclass
class Piece:
    """A part of one event's self time, with what it was spent on."""

    operator: str
    operator_class: str
    shapes: tuple[tuple[int, ...], ...]
    implementation: str
    precision: str
    decided_by: str
    seconds: float
    count: int = 1
    reference: bool = False

    @property
    def compute(self) -> bool:
        return self.precision not in NOT_COMPUTE


_MOVEMENT_NAME = re.compile(
    r"::(copy_?|_to_copy|to|clone|contiguous|cat|_cat|stack|hstack|vstack|fill_|zero_|zeros|ones|full|arange|"
    r"empty\w*|resize_|index|index_select|index_put_|_index_put_impl_|embedding|gather|scatter\w*|"
    r"masked_fill_?|select|slice|narrow|split\w*|chunk|unbind|expand\w*|view\w*|_unsafe_view|reshape\w*|"
    r"_reshape_alias|flatten|permute|transpose_?|t|squeeze_?|unsqueeze_?|as_strided_?|alias|detach_?|"
    r"lift_fresh|constant_pad_nd|pad|repeat|item|_local_scalar_dense|unfold|to_mkldnn|to_dense|"
    r"_to_dense|_reorder\w*|mkldnn_reorder\w*|set_|resolve_conj|resolve_neg)$"
)
_GRAPH_NAME = re.compile(r"^.*CompiledFxGraph.*$")  # the name holds a hash
_INDUCTOR_NAME = re.compile(r"CompiledFxGraph|Torch-Compiled Region|cpp_fused|cpp_|inductor", re.IGNORECASE)
_DTYPE = {
    "float": "fp32",
    "double": "fp64",
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "signed char": "int8",
    "unsigned char": "int8",
    "c10::qint8": "int8",
    "c10::quint8": "int8",
}


def attribute(audit: Audit, levels: dict[str, str], bf16_method: str | None) -> tuple[list[Piece], list[str]]:
    """Cut the audit's time into pieces; their seconds add up to the audited passes' time.

    Args:
        audit: what ran.
        levels: the canary's level by operator (``matmul``, ``linear``, ``conv``); may be empty.
        way: how bf16 was asked for, ``None`` for fp32.

    Returns:
        The pieces, and what could not be attributed for a reason worth telling, in words.
    """
    events = audit.events
    classes = classify(events)
    matches, left = join(events, classes, audit.log.primitives)
    judge = _Judge(levels, bf16_method, {classes[index] for index in matches if classes[index]})
    if not events:
        return _without_profiler(audit, judge), []
    # Products without an operator of their own run inside attention, where there is any: its kernel calls
    # them from several threads at once, so their times do not add up to its own.
    inner = [primitive for primitive in left if "attention" in classes and is_gemm(primitive)]
    pieces: list[Piece] = []
    spare: list[Piece] = []
    for index, event in enumerate(events):
        name, word = _GRAPH_NAME.sub("CompiledFxGraph", event.name), classes[index]
        if index in matches:
            main, rest = _primitive_pieces(name, word, event, matches[index], judge)
            pieces.append(main)
            spare.append(rest)
        elif word:
            kernel, claim = _library(event, word, audit)
            if word == "attention" and inner:
                kernel, claim = _attention_kernel(inner)
            found, by = judge.library(claim, event.name, word)
            pieces.append(Piece(name, word, event.shapes, kernel, found, by, event.seconds))
        else:
            label, kind = _other(event)
            pieces.append(Piece(name, "", event.shapes, label, kind, "data types", event.seconds))
    pieces += _split_remainder(spare, [each for each in audit.log.primitives if each.kind == "reorder"])
    claimed = {id(primitive) for primitive in inner}
    loose = [primitive for primitive in left if id(primitive) not in claimed]
    return pieces, _carve(pieces, loose, judge)


def _primitive_pieces(name: str, word: str, event: Event, primitive: Primitive, judge: _Judge) -> tuple[Piece, Piece]:
    """The part of a call inside its primitive, and the rest."""
    inside = min(primitive.seconds, event.seconds)
    label = f"oneDNN {primitive.kind} {primitive.implementation}"
    found, by = NATIVE, "kernel log"
    if primitive.compute:
        unfolded = word == "conv" and is_gemm(primitive)
        label = f"{'im2col and ' if unfolded else ''}oneDNN {primitive.implementation}"
        found, by = judge.primitive(primitive, "linear" if unfolded else word)
    main = Piece(name, word, event.shapes, label, found, by, inside, reference=primitive.reference)
    rest = Piece(name, word, event.shapes, label, UNATTRIBUTED, "nothing", event.seconds - inside, 0)
    return main, rest


def _attention_kernel(inner: Sequence[Primitive]) -> tuple[str, str]:
    kernels = ", ".join(sorted({primitive.implementation for primitive in inner}))
    claims = {precision(primitive) for primitive in inner}
    return f"flash attention over oneDNN {kernels}", claims.pop() if len(claims) == 1 else "unknown"


def _carve(pieces: list[Piece], loose: Sequence[Primitive], judge: _Judge) -> list[str]:
    """Take primitives that no operator claimed out of the time between operators.

    There they run where a compiler or TorchScript calls oneDNN by itself. Changes ``pieces``; returns what
    could not be placed, in words: more than there is time for is not forced in.
    """
    hosts = sorted((piece for piece in pieces if piece.implementation in (BETWEEN, INDUCTOR)), key=lambda p: -p.seconds)
    seconds = sum(primitive.seconds for primitive in loose)
    if not loose:
        return []
    if seconds > sum(piece.seconds for piece in hosts):
        kernels = ", ".join(sorted({primitive.implementation for primitive in loose}))
        return [f"{len(loose)} oneDNN primitives ({kernels}) could not be joined with an operator"]
    for host in hosts:
        taken = min(host.seconds, seconds)
        host.seconds -= taken
        seconds -= taken
    pieces += [_own_piece(primitive, judge) for primitive in loose]
    return []


def _own_piece(primitive: Primitive, judge: _Judge) -> Piece:
    """A piece for a primitive that stands for itself, without an operator."""
    word = ""
    label = f"oneDNN {primitive.kind} {primitive.implementation}"
    found, by = (MOVEMENT if primitive.kind == "reorder" else NATIVE), "kernel log"
    if primitive.compute:
        word = "linear" if is_gemm(primitive) else "conv"
        label = f"oneDNN {primitive.implementation}"
        found, by = judge.primitive(primitive, word)
    operator = f"onednn::{primitive.kind}"
    return Piece(operator, word, (), label, found, by, primitive.seconds, reference=primitive.reference)


_BF16_PRODUCT = {True: "{blas} sbgemm", False: "native bf16", None: "{blas} sbgemm or native bf16"}
"""What computes a bf16 product outside oneDNN, by ``Audit.sbgemm``."""


def _library(event: Event, word: str, audit: Audit) -> tuple[str, str]:
    """Name the kernel of a compute operator that left no primitive, and the precision of its operands."""
    tensors = [_DTYPE[dtype] for dtype in event.dtypes if dtype in _DTYPE]
    floating = [dtype for dtype in tensors if dtype != "int8"] or tensors
    claim = floating[0] if floating and len(set(floating[:2])) == 1 else "unknown"
    if audit.log_source == "none":
        return "no kernel log", claim
    blas = audit.blas.split(" ")[0]
    functions = {call.function for call in audit.blas_calls}
    if blas == "mkl" and audit.blas_calls:
        wanted = {"fp32": ("SGEMM", "SGEMV", "SDOT"), "fp64": ("DGEMM", "DGEMV"), "bf16": ("GEMM_BF16",)}
        calls = sorted(f for f in functions if f.startswith(wanted.get(claim, ("?",))))
        library = f"mkl {', '.join(calls).lower()}" if calls else f"native {claim}"
    else:
        library = {
            "fp32": f"{blas} sgemm",
            "fp64": f"{blas} dgemm",
            "bf16": _BF16_PRODUCT[audit.sbgemm].format(blas=blas),
        }.get(claim, f"native {claim}")
    if word == "attention":
        kind = "flash attention" if "flash" in event.name else "attention"
        return f"{kind} over {library}", claim
    if "nnpack" in event.name:
        return "nnpack", claim
    if word == "conv":
        return f"im2col and {library}", claim
    return library, claim


def _other(event: Event) -> tuple[str, str]:
    """Implementation and precision-table name of an operator that multiplies no matrices."""
    if _INDUCTOR_NAME.search(event.name):
        return INDUCTOR, NATIVE
    if event.name == ROOT or "::" not in event.name:
        return BETWEEN, DISPATCH
    if operator_class(event.name):
        return "dispatch", DISPATCH  # a compute operator's caller
    if _MOVEMENT_NAME.search(event.name):
        return "native memory movement", MOVEMENT
    return "native", NATIVE


def _split_remainder(spare: Sequence[Piece], reorders: Sequence[Primitive]) -> list[Piece]:
    """What oneDNN's operators took beside their main primitive: reorders as logged, set-up, unattributed.

    The log does not say which operator a reorder served, so each gets the same part of its remainder.
    """
    room = sum(piece.seconds for piece in spare)
    logged = sum(primitive.seconds for primitive in reorders)
    part = min(1.0, logged / room) if room > 0 else 0.0
    pieces = []
    for piece in spare:
        moved = piece.seconds * part
        setup = min(piece.seconds - moved, SETUP_SECONDS)
        rest = piece.seconds - moved - setup
        base = (piece.operator, piece.operator_class, piece.shapes)
        pieces.append(Piece(*base, "oneDNN reorder", MOVEMENT, "kernel log", moved, 0))
        pieces.append(Piece(*base, "oneDNN set-up", DISPATCH, "kernel log", setup, 0))
        pieces.append(Piece(*base, UNATTRIBUTED, UNATTRIBUTED, "nothing", rest, 0))
    return pieces


def _without_profiler(audit: Audit, judge: _Judge) -> list[Piece]:
    """No operators: oneDNN's primitives over the wall time, all else unattributed."""
    pieces = [_own_piece(primitive, judge) for primitive in audit.log.primitives]
    rest = max(audit.seconds - sum(piece.seconds for piece in pieces), 0.0)
    pieces.append(Piece(UNATTRIBUTED, "", (), UNATTRIBUTED, UNATTRIBUTED, "nothing", rest, 0))
    return pieces


class _Judge:
    """Weighs the log against the canary; one rule for primitives, one for library calls."""

    def __init__(self, levels: dict[str, str], bf16_method: str | None, joined: set[str]) -> None:
        self.levels = levels
        # Autocast and cast give the canary bf16 tensors: its error then says nothing of fp32 tensors.
        self.by_type = bf16_method in ("autocast", "cast")
        self.joined = joined

    def primitive(self, primitive: Primitive, word: str) -> tuple[str, str]:
        return self._weigh(precision(primitive), self._level(word), "kernel log")

    def library(self, claim: str, name: str, word: str) -> tuple[str, str]:
        """A product without a primitive: BLAS or a native kernel."""
        # A convolution or attention outside oneDNN multiplies with the same sgemm as a plain matmul.
        # So does a Linear without bias, which calls mm.
        level = self._level("linear" if operator_class(name) == "linear" else "matmul")
        if level == "bf16" and word in self.joined and claim == "fp32":
            # The canary's bf16 came from oneDNN, which this call did not use: nothing is known of it.
            return UNKNOWN, "nothing"
        return self._weigh(claim, level, "kernel log" if claim == BF16_ALLOWED else "data types")

    def _level(self, word: str) -> str | None:
        level = self.levels.get({"attention": "matmul"}.get(word, word))
        return level if level in ("fp32", "reduced", "bf16") else None

    def _weigh(self, claim: str, level: str | None, source: str) -> tuple[str, str]:
        if claim not in ("fp32", BF16_ALLOWED, "unknown"):
            return claim, "both" if claim == level else source
        if self.by_type and level != "fp32":
            return (claim, source) if claim == "fp32" else (UNKNOWN, "nothing")
        if level is None:
            return (claim, source) if claim == "fp32" else (UNKNOWN, "nothing")
        return level, "both" if claim == level else "canary"
