"""The nodes that ONNX Runtime ran, from the JSON array that its profiler writes. Pure.

The profiler records one event per node of the optimized graph, which need not be a node of the model: convolutions may
have been fused with what follows and converted to the NCHWc layout, with nodes that reorder. The event of a node that
runs a subgraph (``If``, ``Loop``) includes those of the subgraph's nodes.

Nothing names the functions of MLAS, ONNX Runtime's library of kernels, so a kernel is named by its operator, layout and
operands. Their data types show what the operands were; whether MLAS rounded them, the canary shows, which has an
operator for each of its entry points.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

import msgspec

from modelzoo.engines.protocol import Observed, Unavailable
from modelzoo.evidence.coverage import AttributedAudit, Node, between_operators
from modelzoo.evidence.flops import product_flop
from modelzoo.evidence.kernel_names import UNKNOWN_KERNEL
from modelzoo.evidence.logs import BF16_ALLOWED
from modelzoo.evidence.precision import operand_precision
from modelzoo.evidence.verdict import canary_convolution, category_of, is_pointwise
from modelzoo.records.coverage import DISPATCH, NATIVE
from modelzoo.records.evidence import LogSource, OperatorClass, ProofSource
from modelzoo.records.profile import Shape

CPU_PROVIDER = "CPUExecutionProvider"
_CLASSES = (
    (OperatorClass.ATTENTION, re.compile(r"Attention")),
    (OperatorClass.CONV, re.compile(r"Conv")),
    (OperatorClass.LINEAR, re.compile(r"Gemm|(LSTM|GRU|RNN)$")),
    (OperatorClass.MATMUL, re.compile(r"MatMul|^Einsum$")),
)
_COUNTED = re.compile(
    r"(Fused)?(Gemm|MatMul|Conv)|ConvTranspose|(MultiHead)?Attention|QGemm|QLinear(Conv|MatMul)|DynamicQuantizeMatMul|"
    r"MatMulInteger(ToFloat)?"
)
"""The products whose operations follow from their shapes."""
_NARROW = (
    ("int4", re.compile(r"MatMulNBits|Bnb4")),
    ("int8", re.compile(r"Integer|^Q[A-Z]|QLinear|Quant")),
)
"""Products of quantized operands, whose weights may be packed, so that no data type shows it."""
_SHOWING = ("FusedConv", "FusedGemm", "FusedMatMul", "GroupQueryAttention", "MultiHeadAttention", "TransposeMatMul")
"""Products of ONNX Runtime's own that multiply what their data types show, as all products of ONNX do."""
_OWN = frozenset(
    """
    BiasGelu BiasSoftmax EmbedLayerNormalization FastGelu GroupNorm NhwcMaxPool QLinearAdd QLinearAveragePool
    QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QuickGelu
    RotaryEmbedding SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization
    """.split()  # noqa: SIM905 - a list of words
)
"""Operators of ONNX Runtime that multiply no matrices, besides those that move memory."""
_OPSET = 24
"""The newest version of ONNX whose operators are known here: one of a later version may do anything."""
_TRANSFORMS = ("AffineGrid", "DFT", "Det", "STFT", "SequenceMap")
"""Operators of ONNX that may multiply matrices although their names do not say so."""
_RUN_EVENT = "model_run"
_KERNEL_EVENT = "_kernel_time"
_COPIED_NODE = re.compile(r"_token_\d+$")
"""How ONNX Runtime names a node that replaces one of the model: by its name and this."""
_NCHWC_NODE = re.compile(r"_nchwc(_token_\d+)?$")
"""How ONNX Runtime names the nodes that it converts to the NCHWc layout; their operators keep their names."""
_MATRIX = 2

Weights = Mapping[str, Shape]
"""The shapes of constants that the profiler may not show, by the name of the node in the model."""
NO_WEIGHTS: Weights = MappingProxyType({})


class _Arguments(msgspec.Struct):
    """``parameter_size`` is that of the inputs that are constants, in bytes."""

    op_name: str = ""
    provider: str = ""
    parameter_size: str = "0"
    input_type_shape: list[dict[str, list[int]]] = []
    output_type_shape: list[dict[str, list[int]]] = []


class _Entry(msgspec.Struct):
    """An event; times are in microseconds, and ``own`` excludes the nodes of its subgraph."""

    name: str
    ts: int
    dur: int
    cat: str = ""
    tid: int = 0
    args: _Arguments = msgspec.field(default_factory=_Arguments)
    own: int = 0

    @property
    def end(self) -> int:
        return self.ts + self.dur

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.name.removesuffix(_KERNEL_EVENT)


def read_profile(
    text: bytes, passes: int, weights: Weights = NO_WEIGHTS, *, fast_math: bool = False
) -> Observed[AttributedAudit]:
    """Read what the profiler wrote: the last runs of a session.

    Args:
        text: the contents of its file.
        passes: number of runs to return.
        weights: of quantized convolutions.
        fast_math: whether products may round fp32 operands to bf16.

    Returns:
        ``Unavailable`` if the file is not complete, or has fewer runs.
    """
    try:
        entries = msgspec.json.decode(text, type=list[_Entry])
    except msgspec.DecodeError as error:
        return Unavailable(f"ONNX Runtime's profile cannot be read: {error}")
    runs = sorted((each for each in entries if each.name == _RUN_EVENT), key=lambda each: each.ts)
    if len(runs) < passes:
        return Unavailable(f"ONNX Runtime's profile has {len(runs)} runs instead of {passes}")
    kernels = [each for each in entries if each.cat == "Node" and each.name.endswith(_KERNEL_EVENT)]
    nodes: list[Node] = []
    providers = set()
    for entry in _nested(runs[-passes:], kernels):
        if entry.name == _RUN_EVENT:
            nodes.append(between_operators(entry.own / 1e6))
            continue
        nodes.append(_node(entry, weights, fast_math))
        providers.add(entry.args.provider)
    others = ", ".join(sorted(each or "unknown provider" for each in providers - {CPU_PROVIDER}))
    problems = (f"not all nodes ran on {CPU_PROVIDER}: {others}",) if others else ()
    return AttributedAudit(nodes, passes, LogSource.ENGINE, "ONNX Runtime", lists_all=True, problems=problems)


def _nested(runs: Sequence[_Entry], nodes: Sequence[_Entry]) -> list[_Entry]:
    """The events in ``runs`` and on their threads, in order, with their own times: those without subgraphs."""
    threads = {run.tid for run in runs}
    found: list[_Entry] = []
    running: list[_Entry] = []
    for entry in sorted([*runs, *nodes], key=lambda each: (each.ts, -each.dur)):
        while running and entry.ts >= running[-1].end:
            running.pop()
        if entry.tid not in threads or not (running or entry.name == _RUN_EVENT):
            continue
        entry.own = entry.dur
        if running:
            # The clock is read at slightly different moments, so a node may end just after its parent.
            entry.own = min(entry.end, running[-1].end) - entry.ts
            running[-1].own -= entry.own
        running.append(entry)
        found.append(entry)
    return found


def _node(entry: _Entry, weights: Weights, fast_math: bool) -> Node:
    args, inputs = entry.args, _inputs(entry, weights)
    operator, shapes, seconds = args.op_name, tuple(shape for _, shape in inputs), entry.own / 1e6
    kind = next((kind for kind, pattern in _CLASSES if pattern.search(operator)), None)
    if kind is None:
        return Node(operator, None, shapes, *_other_kernel(operator), ProofSource.DATA_TYPES, seconds)
    # A product by constants, which may have been packed and so be missing, is a layer.
    if "MatMul" in operator and (len(inputs) == 1 or args.parameter_size not in ("", "0")):
        kind = OperatorClass.LINEAR if kind is OperatorClass.MATMUL else kind
    marks = ["NCHWc"] if _NCHWC_NODE.search(entry.node) else []
    marks += [args.provider or "unknown provider"] if args.provider != CPU_PROVIDER else []
    size = ["1×1"] if kind is OperatorClass.CONV and is_pointwise(shapes) else []
    outputs = _tensors(args.output_type_shape)
    is_counted = outputs and _COUNTED.fullmatch(operator)
    is_transposed = operator == "ConvTranspose"
    return Node(
        operator=operator,
        operator_class=kind,
        shapes=shapes,
        implementation=" ".join(["MLAS", *marks, operator, *size]),
        precision=_operand_type(args, [dtype for dtype, _ in inputs[:2]], fast_math),
        decided_by=ProofSource.DATA_TYPES,
        seconds=seconds,
        flop=product_flop(kind, shapes, outputs[0][1], is_transposed=is_transposed) if is_counted else None,
        canary=_canary_operator(operator, kind, shapes),
    )


def _tensors(listed: Sequence[Mapping[str, Sequence[int]]]) -> list[tuple[str, Shape]]:
    return [(dtype, tuple(shape)) for each in listed for dtype, shape in each.items()]


def _inputs(entry: _Entry, weights: Weights) -> list[tuple[str, Shape]]:
    """Types and shapes; those of a quantized convolution as of any other: pictures, weights, then the others.

    Its weights come after scale and zero point of the pictures, and are missing once they have been packed.
    """
    found = _tensors(entry.args.input_type_shape)
    if entry.args.op_name != "QLinearConv" or not found:
        return found
    pictures, *others = found
    kernels = [each for each in others if len(each[1]) > _MATRIX]
    known, outputs = weights.get(_COPIED_NODE.sub("", entry.node)), _tensors(entry.args.output_type_shape)
    # A convolution with these weights has the outputs of the node, whose channels may be the last size.
    if not kernels and known is not None and outputs and known[0] in outputs[0][1][1:]:
        kernels = [("int8", known)]
    return [pictures, *kernels, *(each for each in others if len(each[1]) <= _MATRIX)]


def _operand_type(args: _Arguments, dtypes: Sequence[str], fast_math: bool) -> str:
    named = next((precision for precision, pattern in _NARROW if pattern.search(args.op_name)), None)
    if named is not None:
        return named
    if args.provider != CPU_PROVIDER or not (args.op_name in _SHOWING or _is_standard(args.op_name)):
        return "unknown"  # it may round, or quantize
    found = operand_precision(dtypes)
    return BF16_ALLOWED if found == "fp32" and fast_math else found


def _canary_operator(operator: str, kind: OperatorClass, shapes: Sequence[Shape]) -> str | None:
    """The operator of the canary that enters MLAS where this node does; ``None`` if there is none.

    With fast math, ``Attention`` and ``FusedMatMul`` with a transposed operand stay in fp32 where ``MatMul`` is in bf16
    (seen with 1.32 on an emulated Neoverse N2), so what the canary shows of one says nothing about the others.
    """
    if operator in ("Conv", "FusedConv"):
        return canary_convolution(shapes)
    if operator in ("Gemm", "FusedGemm"):
        return "linear"
    if operator == "MatMul":
        return "projection" if kind is OperatorClass.LINEAR else "matmul"
    return None


def _other_kernel(operator: str) -> tuple[str, str]:
    """Kernel and category of a node that multiplies no matrices."""
    is_known = operator in _OWN or (_is_standard(operator) and operator not in _TRANSFORMS)
    category = category_of(operator, is_known=is_known)
    return {DISPATCH: "control flow", NATIVE: "other operators", UNKNOWN_KERNEL: operator}.get(
        category, category
    ), category


@cache
def _is_standard(operator: str) -> bool:
    from onnx import defs

    return bool(defs.has(operator, _OPSET))
