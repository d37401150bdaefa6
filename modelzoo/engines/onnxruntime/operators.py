"""What is known of ONNX Runtime's operators by name: which are products, and which multiply no matrices. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from modelzoo.records.evidence import OperatorClass
from modelzoo.records.profile import Shape

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
    BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip Compress Cos Cosh CumSum Div Dropout
    EmbedLayerNormalization Elu Equal Erf Exp FastGelu Floor Gelu GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual
    GridSample GroupNorm GroupNormalization HardSigmoid HardSwish Hardmax InstanceNormalization IsInf IsNaN LRN
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool Max MaxPool MaxRoiPool Mean
    MeanVarianceNormalization Min Mish Mod Mul Neg NonMaxSuppression NonZero Not Or PRelu Pow QuickGelu RandomNormal
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
    if operator in ("Conv", "FusedConv", "ConvTranspose"):
        if len(inputs) < 2 or len(inputs[1]) < 3:
            return None
        # Each output (or, if transposed, each input) is multiplied by one filter: in channels × kernel.
        positions = inputs[0] if operator == "ConvTranspose" else outputs[0]
        return 2 * math.prod(positions) * math.prod(inputs[1][1:])
    if operator in ("Gemm", "FusedGemm", "MatMul", "FusedMatMul"):
        return 2 * math.prod(outputs[0]) * _depth(inputs[0], outputs[0])
    if operator in ("Attention", "MultiHeadAttention") and len(inputs) > 2 and len(inputs[1]) == len(inputs[0]) > 2:
        keys = inputs[1][-2]
        return 2 * keys * (math.prod(inputs[0]) + math.prod(outputs[0]))  # Q·Kᵀ and P·V
    return None


def _depth(left: Shape, output: Shape) -> int:
    """How many products each element of the output sums up; the left operand may be transposed."""
    return left[-1] if min(len(left), len(output)) < 2 else math.prod(left[-2:]) // max(output[-2], 1)
