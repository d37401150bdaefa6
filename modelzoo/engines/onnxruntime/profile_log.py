"""Read what ONNX Runtime's profiler writes, a JSON array of events, and what is known of its operators by name. Pure.

The profiler records one event per node of the optimized graph, which need not be a node of the model: convolutions may
have been fused with what follows and converted to the NCHWc layout, with nodes that reorder. The event of a node that
runs a subgraph (``If``, ``Loop``) includes those of the subgraph's nodes. The operations of a pass are counted from the
shapes of these nodes. As with torch, only products of matrices count, and a multiplication and an addition are two
operations.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.profiler import CpuEvent
from modelzoo.records.evidence import OperatorClass
from modelzoo.records.profile import Flops, Shape

CONSTANT = "constant"
_CLASS_PATTERNS = (
    (OperatorClass.ATTENTION, re.compile(r"Attention")),
    (OperatorClass.CONV, re.compile(r"Conv")),
    (OperatorClass.LINEAR, re.compile(r"Gemm|(LSTM|GRU|RNN)$")),
    (OperatorClass.MATMUL, re.compile(r"MatMul|^Einsum$")),
)
_NARROW = (
    ("int4", re.compile(r"MatMulNBits|Bnb4")),
    ("int8", re.compile(r"Integer|^Q[A-Z]|QLinear|Quant")),
)
"""Products of quantized operands, whose weights may be packed, so that no data type shows it."""
_MOVEMENT = frozenset(
    """
    Cast CastLike Concat ConcatFromSequence ConstantOfShape DepthToSpace Expand EyeLike Flatten Gather GatherElements
    GatherND Identity MemcpyFromHost MemcpyToHost OneHot Pad Range ReorderInput ReorderOutput Reshape ReverseSequence
    ScatterElements ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength
    Shape Size Slice SpaceToDepth Split SplitToSequence Squeeze Tile Transpose Trilu Unsqueeze
    """.split()  # noqa: SIM905 - a list of words
)
_OTHERS = frozenset(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BiasGelu BiasSoftmax
    BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip Compress Cos Cosh CumSum DequantizeLinear Div
    Dropout DynamicQuantizeLinear
    EmbedLayerNormalization Elu Equal Erf Exp FastGelu Floor Gelu GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual
    GridSample GroupNorm GroupNormalization HardSigmoid HardSwish Hardmax InstanceNormalization IsInf IsNaN LRN
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool Max MaxPool MaxRoiPool Mean
    MeanVarianceNormalization Min Mish Mod Mul Neg NhwcMaxPool NonMaxSuppression NonZero Not Or PRelu Pow QLinearAdd
    QLinearAveragePool QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax
    QuantizeLinear QuickGelu
    RandomNormal
    RandomUniform Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Relu Resize RoiAlign RotaryEmbedding Round Selu Shrink Sigmoid Sign
    SimplifiedLayerNormalization Sin Sinh SkipLayerNormalization SkipSimplifiedLayerNormalization Softmax Softplus
    Softsign Sqrt Sub Sum Tan Tanh ThresholdedRelu TopK Unique Upsample Where Xor
    """.split()  # noqa: SIM905 - a list of words
)


def operator_of(name: str) -> str:
    """Return the operator of a node, without what ``parse_profile`` appends."""
    return name.partition(" [")[0]


def marks_of(name: str) -> Sequence[str]:
    """Return what ``parse_profile`` appends to the operator of a node."""
    return name.partition(" [")[2].removesuffix("]").split(", ") if "[" in name else ()


def operator_class(name: str) -> OperatorClass | None:
    """Return the class of a node that multiplies matrices, otherwise ``None``.

    Args:
        name: as ``parse_profile`` returns it.
    """
    operator = operator_of(name)
    kind = next((kind for kind, pattern in _CLASS_PATTERNS if pattern.search(operator)), None)
    # A layer of weights, whether with a bias (Gemm) or without.
    return OperatorClass.LINEAR if kind is OperatorClass.MATMUL and CONSTANT in marks_of(name) else kind


def named_precision(operator: str) -> str | None:
    """Return the precision that the name of a product says its operands have, ``None`` if it says none."""
    return next((precision for precision, pattern in _NARROW if pattern.search(operator)), None)


def moves_memory(operator: str) -> bool:
    """Return whether an operator is known to create, copy or rearrange tensors only."""
    return operator in _MOVEMENT


def multiplies_nothing(operator: str) -> bool:
    """Return whether an operator is known to multiply no matrices; those of extensions are not."""
    return operator in _MOVEMENT or operator in _OTHERS


def operations(operator: str, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int | None:
    """Return the operations of one product; ``None`` if there is no formula for its operator and shapes."""
    if not inputs or not outputs or not inputs[0] or not outputs[0]:
        return None
    if operator in ("Conv", "FusedConv", "ConvTranspose", QUANTIZED_CONVOLUTION):
        if len(inputs) < 2 or len(inputs[1]) < 3:
            return None
        # Each output (or, if transposed, each input) is multiplied by one filter: in channels × kernel.
        positions = inputs[0] if operator == "ConvTranspose" else outputs[0]
        return 2 * math.prod(positions) * math.prod(inputs[1][1:])
    if operator in ("Gemm", "FusedGemm", "MatMul", "FusedMatMul", *_QUANTIZED_PRODUCTS):
        return 2 * math.prod(outputs[0]) * _depth(inputs[0], outputs[0])
    if operator in ("Attention", "MultiHeadAttention") and len(inputs) > 2 and len(inputs[1]) == len(inputs[0]) > 2:
        keys = inputs[1][-2]
        return 2 * keys * (math.prod(inputs[0]) + math.prod(outputs[0]))  # Q·Kᵀ and P·V
    return None


_QUANTIZED_PRODUCTS = ("DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QGemm", "QLinearMatMul")


def _depth(left: Shape, output: Shape) -> int:
    """How many products each element of the output sums up; the left operand may be transposed."""
    return left[-1] if min(len(left), len(output)) < 2 else math.prod(left[-2:]) // max(output[-2], 1)


NCHWC = "NCHWc"
QUANTIZED_CONVOLUTION = "QLinearConv"
CPU_PROVIDER = "CPUExecutionProvider"
_RUN_EVENT = "model_run"
_KERNEL_EVENT = "_kernel_time"
_COPIED_NODE = re.compile(r"_token_\d+$")
"""How ONNX Runtime names a node that replaces one of the model: by its name and this."""
_NCHWC_NODE = re.compile(r"_nchwc(_token_\d+)?$")
"""How ONNX Runtime names the nodes that it converts to the NCHWc layout; their operators keep their names."""


class ProfileLogError(ValueError):
    """The log cannot be read; the message says why, in one line."""


class Tensor(msgspec.Struct, frozen=True):
    """The type, as the profiler names it, and the shape of an input or output."""

    dtype: str
    shape: Shape


Weights = Mapping[str, Shape]
"""The shapes of constants that the profiler may not show, by the name of the node in the model."""
NO_WEIGHTS: Weights = MappingProxyType({})


class NodeCall(msgspec.Struct, frozen=True):
    """One call of one node; constant inputs that have been packed are missing."""

    operator: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


class _Arguments(msgspec.Struct):
    op_name: str = ""
    provider: str = ""
    parameter_size: str = "0"
    input_type_shape: list[dict[str, list[int]]] = []
    output_type_shape: list[dict[str, list[int]]] = []


class _Entry(msgspec.Struct):
    name: str
    ts: int
    dur: int
    cat: str = ""
    tid: int = 0
    args: _Arguments = msgspec.field(default_factory=_Arguments)


def parse_profile(text: bytes, passes: int, weights: Weights = NO_WEIGHTS) -> tuple[CpuEvent, ...]:
    """Return the last ``passes`` runs of the session, each as a ``PASS_EVENT``, and the nodes that ran in them.

    The name of a node is its operator's, followed by what tells its kernel from others of the same operator, in
    brackets: ``Conv [NCHWc]``, or ``MatMul [constant]`` if the second operand is a constant, whose shape is missing if
    it has been packed. Another provider than the CPU's is named too.

    Args:
        text: the contents of the profiler's file.
        passes: number of runs to return.
        weights: of quantized convolutions.

    Raises:
        ProfileLogError: the file is not complete, or it has fewer runs.
    """
    entries = _read(text)
    runs = _last_runs(entries, passes)
    nodes = [each for each in entries if _is_node(each)]
    return (
        *(_event(each, PASS_EVENT, weights) for each in runs),
        *(_event(each, _node_name(each), weights) for each in nodes),
    )


def parse_calls(text: bytes, weights: Weights = NO_WEIGHTS) -> tuple[NodeCall, ...]:
    """Return the calls of nodes in the last run of the session, in the order in which they ended.

    Args:
        text: the contents of the profiler's file.
        weights: of quantized convolutions.

    Raises:
        ProfileLogError: the file is not complete, or it has no run.
    """
    entries = _read(text)
    (run,) = _last_runs(entries, 1)
    return tuple(
        NodeCall(each.args.op_name, _inputs(each, weights), _tensors(each.args.output_type_shape))
        for each in entries
        if _is_node(each) and run.ts <= each.ts <= run.ts + run.dur
    )


def _read(text: bytes) -> list[_Entry]:
    try:
        return msgspec.json.decode(text, type=list[_Entry])
    except msgspec.DecodeError as error:
        raise ProfileLogError(f"ONNX Runtime's profile cannot be read: {error}") from error


def _last_runs(entries: Sequence[_Entry], count: int) -> list[_Entry]:
    runs = sorted((each for each in entries if each.name == _RUN_EVENT), key=lambda each: each.ts)
    if len(runs) < count:
        raise ProfileLogError(f"ONNX Runtime's profile has {len(runs)} runs instead of {count}")
    return runs[-count:]


def _is_node(entry: _Entry) -> bool:
    return entry.cat == "Node" and entry.name.endswith(_KERNEL_EVENT)


def _tensors(listed: Sequence[Mapping[str, Sequence[int]]]) -> tuple[Tensor, ...]:
    return tuple(Tensor(dtype, tuple(shape)) for each in listed for dtype, shape in each.items())


def _inputs(entry: _Entry, weights: Weights) -> tuple[Tensor, ...]:
    """The inputs of a node; those of a quantized convolution as of any other: pictures, weights, then the others.

    Its weights come after scale and zero point of the pictures, and are missing once they have been packed.
    """
    found = _tensors(entry.args.input_type_shape)
    if entry.args.op_name != QUANTIZED_CONVOLUTION or not found:
        return found
    pictures, *others = found
    kernels = [each for each in others if len(each.shape) > _MATRIX]
    if not kernels:
        name = _COPIED_NODE.sub("", entry.name.removesuffix(_KERNEL_EVENT))
        kernels = [Tensor("int8", weights[name])] if _fits(weights.get(name), entry) else []
    return (pictures, *kernels, *(each for each in others if len(each.shape) <= _MATRIX))


_MATRIX = 2


def _fits(weight: Shape | None, entry: _Entry) -> bool:
    """Whether a convolution with these weights has the outputs of ``entry``, whose channels may be the last size."""
    outputs = _tensors(entry.args.output_type_shape)
    return weight is not None and bool(outputs) and weight[0] in outputs[0].shape[1:]


def _event(entry: _Entry, name: str, weights: Weights) -> CpuEvent:
    """The event in nanoseconds; the profiler counts in microseconds."""
    inputs = _inputs(entry, weights)
    return CpuEvent(
        name=name,
        start=1000 * entry.ts,
        stop=1000 * (entry.ts + entry.dur),
        thread=entry.tid,
        shapes=tuple(each.shape for each in inputs),
        dtypes=tuple(each.dtype for each in inputs),
        flop=_flop(entry, inputs),
    )


def _flop(entry: _Entry, inputs: Sequence[Tensor]) -> int | None:
    operator, outputs = entry.args.op_name, _tensors(entry.args.output_type_shape)
    if operator_class(operator) is None:
        return None
    return operations(operator, [each.shape for each in inputs], [each.shape for each in outputs])


def _node_name(entry: _Entry) -> str:
    operator, inputs = entry.args.op_name, entry.args.input_type_shape
    marks = []
    if _NCHWC_NODE.search(entry.name.removesuffix(_KERNEL_EVENT)):
        marks.append(NCHWC)
    if "MatMul" in operator and (len(inputs) == 1 or entry.args.parameter_size not in ("", "0")):
        marks.append(CONSTANT)
    if entry.args.provider != CPU_PROVIDER:
        marks.append(entry.args.provider or "unknown provider")
    return f"{operator} [{', '.join(marks)}]" if marks else operator


def fixed_sizes(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    """``shapes`` without the first size of each, which is the number of items: in detectors it depends on the data."""
    return tuple(shape[1:] for shape in shapes)


_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float": 4,
    "int64": 8,
    "double": 8,
}

_WITHOUT_TRAFFIC = ("Flatten", "Identity", "If", "Loop", "Reshape", "Scan", "Shape", "Squeeze", "Unsqueeze")
"""Operators that return their input in another shape, and those whose subgraph's nodes are counted."""
_LOOKUPS = ("Gather", "GatherElements", "GatherND")
"""Operators that read as much of their first input as they write."""


def count_flops(calls: Sequence[NodeCall]) -> Flops:
    """Return the operations and bytes of ``calls``, which are those of one pass."""
    by_operator: Counter[str] = Counter()
    missing = set()
    moved = 0
    for call in calls:
        moved += _moved(call)
        if operator_class(call.operator) is None:
            continue
        flop = operations(call.operator, [each.shape for each in call.inputs], [each.shape for each in call.outputs])
        if flop is None:
            missing.add(call.operator)
        else:
            by_operator[call.operator] += flop
            moved += _packed_bytes(call, flop)
    return Flops(sum(by_operator.values()), moved, dict(by_operator), tuple(sorted(missing)))


def _moved(call: NodeCall) -> int:
    """The size of inputs and outputs, as far as the node reads and writes them."""
    if call.operator in _WITHOUT_TRAFFIC:
        return 0
    outputs = sum(map(_size, call.outputs))
    if call.operator in _LOOKUPS:
        return 2 * outputs + sum(map(_size, call.inputs[1:]))
    return outputs + sum(map(_size, call.inputs))


def _packed_bytes(call: NodeCall, flop: int) -> int:
    """The size of constant weights that have been packed, and so are missing among the inputs."""
    if call.operator not in ("Gemm", "FusedGemm", "MatMul", "FusedMatMul") or not call.outputs[0].shape:
        return 0
    if len(call.inputs) > 1 and len(call.inputs[1].shape) > 1:
        return 0
    output = call.outputs[0]
    return flop // (2 * max(math.prod(output.shape), 1)) * output.shape[-1] * _BYTES.get(output.dtype, 0)


def _size(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * _BYTES.get(tensor.dtype, 0)
