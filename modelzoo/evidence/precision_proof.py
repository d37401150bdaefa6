"""Decide the precision that a matrix product was computed in, from what the kernel was given and the canary. Pure.

The kernel log and the tensors' data types show what the kernel was given. The canary's error shows what came out of an
operator of the same class. Operands stored as bf16 prove bf16. For fp32 operands the log proves nothing if fast math
is allowed, so the canary decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from modelzoo.evidence.onednn_log import BF16_ALLOWED, Primitive, logged_precision
from modelzoo.evidence.operators import operator_class
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import OperatorClass, ProofSource

UNKNOWN = "unknown precision"
_CONCLUSIVE_LEVELS = (CanaryLevel.FP32, CanaryLevel.REDUCED, CanaryLevel.BF16)


@dataclass(frozen=True)
class PrecisionProof:
    """A precision (``fp32``, ``bf16``, ``int8`` … or ``UNKNOWN``) and what decided it."""

    precision: str
    decided_by: ProofSource


NO_PROOF = PrecisionProof(UNKNOWN, ProofSource.NOTHING)


class PrecisionProver:
    """The rules, for one audit.

    Args:
        levels: the canary's level by operator (``matmul``, ``linear``, ``conv``); may be empty.
        bf16_method: how bf16 was requested, ``None`` for fp32.
        onednn_classes: the classes of which at least one operator ran a oneDNN primitive.
    """

    def __init__(
        self, levels: Mapping[str, CanaryLevel], bf16_method: str | None, onednn_classes: Collection[OperatorClass]
    ) -> None:
        self._levels = levels
        # With autocast and cast the canary's operands are bf16, so its error shows nothing about fp32 operands.
        self._canary_has_bf16_operands = bf16_method in ("autocast", "cast")
        self._onednn_classes = onednn_classes

    def prove_primitive(self, primitive: Primitive, kind: OperatorClass) -> PrecisionProof:
        """Decide the precision of a oneDNN primitive that ran in an operator of class ``kind``."""
        canary = OperatorClass.MATMUL if kind is OperatorClass.ATTENTION else kind
        return self._decide(logged_precision(primitive), self._levels.get(canary), ProofSource.KERNEL_LOG)

    def prove_library_call(self, operand_type: str, operator: str, kind: OperatorClass) -> PrecisionProof:
        """Decide the precision of a product outside oneDNN, computed by a BLAS library or a native kernel.

        Args:
            operand_type: the operands' data type, or ``unknown``.
            operator: the operator's name.
            kind: its class.
        """
        # Outside oneDNN, convolution, attention and Linear without bias (mm) use the same sgemm as a plain matmul.
        is_linear = operator_class(operator) is OperatorClass.LINEAR
        level = self._levels.get(OperatorClass.LINEAR if is_linear else OperatorClass.MATMUL)
        if level is CanaryLevel.BF16 and kind in self._onednn_classes and operand_type == "fp32":
            # The canary's bf16 came from oneDNN, which this call did not use.
            return NO_PROOF
        source = ProofSource.KERNEL_LOG if operand_type == BF16_ALLOWED else ProofSource.DATA_TYPES
        return self._decide(operand_type, level, source)

    def _decide(self, given: str, level: CanaryLevel | None, source: ProofSource) -> PrecisionProof:
        return decide_precision(given, level, source, canary_has_bf16_operands=self._canary_has_bf16_operands)


def decide_precision(
    given: str, level: CanaryLevel | None, source: ProofSource, *, canary_has_bf16_operands: bool = False
) -> PrecisionProof:
    """Combine what a kernel was given with what the canary's operator of its class showed.

    Args:
        given: the data type of its operands, ``BF16_ALLOWED`` or ``unknown``.
        level: the precision that the canary's error shows; ``None`` if there is no such operator.
        source: how ``given`` is known.
        canary_has_bf16_operands: whether the canary's operands were bf16, as with autocast; a bf16 error then shows
            nothing about fp32 operands.
    """
    if level not in _CONCLUSIVE_LEVELS:
        level = None
    if given not in ("fp32", BF16_ALLOWED, "unknown"):
        return PrecisionProof(given, ProofSource.BOTH if given == level else source)
    is_inconclusive = level is None or (canary_has_bf16_operands and level is not CanaryLevel.FP32)
    if level is None or is_inconclusive:
        return PrecisionProof(given, source) if given == "fp32" else NO_PROOF
    return PrecisionProof(level.value, ProofSource.BOTH if given == level else ProofSource.CANARY)
