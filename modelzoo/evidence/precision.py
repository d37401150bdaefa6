"""Decide the precision of a product from what is known of it. Pure.

What a kernel was given is shown by the kernel log and by the data types of the tensors. What came out of it is shown by
an error: that of the product itself, called again (``Product``), or that of an operator of the canary that ran the same
kernel, which proves nothing about any other kernel. Operands stored as bf16 prove bf16; an error cannot, because
products of bf16 numbers are exact in fp32. For fp32 operands the log may prove nothing if fast math is allowed, and a
BLAS may round inside its fp32 product; then the error decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from modelzoo.evidence.kernel_names import named_precision, operator_class, precision_of, shows_its_operands
from modelzoo.evidence.logs import BF16_ALLOWED, BlasCall, OneDnnLog, Primitive, logged_precision
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.evidence import BF16_IN_FP32, OperatorClass, Product, ProofSource, Subnormals

UNKNOWN = "unknown precision"
_CONCLUSIVE_LEVELS = (CanaryLevel.FP32, CanaryLevel.REDUCED, CanaryLevel.BF16)


class PrecisionProof(msgspec.Struct, frozen=True):
    """A precision (``fp32``, ``bf16``, ``int8`` … or ``UNKNOWN``) and what decided it."""

    precision: str
    decided_by: ProofSource


NO_PROOF = PrecisionProof(UNKNOWN, ProofSource.NOTHING)


def operand_precision(dtypes: Sequence[str]) -> str:
    """Return the precision of a product's operands by torch's names of their types; ``unknown`` if they differ.

    If one argument is quantized, the product is too: its weights have no more bits than that, whatever it computes in.
    """
    found = [each for each in map(precision_of, dtypes) if each is not None]
    quantized = [each for each in ("int4", "fp8", "int8") if each in found]
    if quantized:
        return quantized[0]
    return found[0] if len(set(found[:2])) == 1 else "unknown"


class PrecisionProver:
    """The rules, for one audit.

    Args:
        canary: what the canary showed; may be missing.
        bf16_method: how bf16 was requested, ``None`` for fp32.
    """

    def __init__(self, canary: Canary | None, bf16_method: str | None) -> None:
        self._checks = canary.operators if canary is not None else ()
        self._bf16_method = bf16_method

    def prove_primitive(self, primitive: Primitive) -> PrecisionProof:
        """Decide the precision of a oneDNN primitive."""
        alike = [check for check in self._checks if check.kernels == (primitive.kernel,)]
        logged = logged_precision(primitive)
        found = self._decide(logged, _level(alike), ProofSource.KERNEL_LOG)
        # On ARM, kernels of one name use fast math or not, by the layout of their weights.
        return found if logged != BF16_ALLOWED or found.precision == "fp32" else NO_PROOF

    def prove_library_call(self, operand_type: str, operator: str, source: ProofSource) -> PrecisionProof:
        """Decide the precision of a product outside oneDNN, computed by a BLAS library or a native kernel.

        Args:
            operand_type: the operands' data type, or ``unknown``.
            operator: the operator's name.
            source: how the type is known.
        """
        outside = [check for check in self._checks if check.kernels == ()]
        # There, convolution, attention and Linear without bias (mm) use the same sgemm as a plain matmul.
        own = OperatorClass.LINEAR if operator_class(operator) is OperatorClass.LINEAR else OperatorClass.MATMUL
        level = _level([check for check in outside if check.operator == own] or outside)
        if level is None and operand_type == "fp32" and self._bf16_method == "fastmath":
            # The library was asked for less than fp32, and no operator of the canary shows what it made of that.
            return NO_PROOF
        return self._decide(operand_type, level, source)

    def prove_product(
        self, product: Product, log: OneDnnLog, blas_calls: Sequence[BlasCall], shows_onednn: bool
    ) -> PrecisionProof:
        """Decide the precision of an operator's product: by its own error, its log, or the types of its operands.

        Args:
            product: what was called, and what it showed if it was called again.
            log: what oneDNN printed during the call.
            blas_calls: what MKL printed.
            shows_onednn: whether it is known what oneDNN ran.
        """
        own, name = own_proof(product), product.operator
        if own is not None:
            return own
        named = named_precision(name)
        given = product.operands if shows_its_operands(name) or product.shown is not None else "unknown"
        by_types = self.prove_library_call(named or given, name, ProofSource.DATA_TYPES)
        if log.unread and product.shown is None and named is None:
            return NO_PROOF  # what could not be read may be another product
        proofs = [self.prove_primitive(each) for each in log.primitives if each.is_compute]
        calls = (each for each in blas_calls if each.is_product)
        proofs += [self.prove_library_call(each.precision, name, ProofSource.KERNEL_LOG) for each in calls]
        found = {each.precision for each in proofs}
        if named is not None:
            return proofs[0] if found == {named} else by_types
        is_converted = given not in ("fp32", "unknown")
        if not proofs:
            always_onednn = "mkldnn" in name or name == "aten::_convolution"
            # oneDNN may have run a product in fp32, but no log shows how.
            return NO_PROOF if given == "fp32" and (always_onednn or not shows_onednn) else by_types
        if is_converted and found <= {UNKNOWN, given} and UNKNOWN in found:
            return by_types  # a log without types: what was multiplied is what was given
        return proofs[0] if len(found) == 1 else NO_PROOF

    def prove_operands(self, given: str, like: str | None, source: ProofSource) -> PrecisionProof:
        """Decide the precision of a product by its operands, and by an operator of the canary that runs its kernel.

        Args:
            given: the data type of its operands, ``BF16_ALLOWED`` or ``unknown``.
            like: the operator of the canary; ``None`` if there is none.
            source: how ``given`` is known.
        """
        return self._decide(given, _level([check for check in self._checks if check.operator == like]), source)

    def _decide(self, given: str, level: CanaryLevel | None, source: ProofSource) -> PrecisionProof:
        """Combine what a kernel was given with what the canary showed that ran the same kernel."""
        if given == "unknown":
            return NO_PROOF  # the canary's operands are known, and these are not
        if level not in _CONCLUSIVE_LEVELS:
            level = None
        if given not in ("fp32", BF16_ALLOWED):
            return PrecisionProof(given, ProofSource.BOTH if given == level else source)
        # Whatever converts to bf16, as autocast does, converts the canary's operands too: its error then shows nothing
        # about operands that were left in fp32.
        is_converted = self._bf16_method not in (None, "fastmath")
        if level is None or (is_converted and level is not CanaryLevel.FP32):
            return PrecisionProof(given, source) if given == "fp32" else NO_PROOF
        return PrecisionProof(level.value, ProofSource.BOTH if given == level else ProofSource.CANARY)


def _level(checks: list[OperatorCheck]) -> CanaryLevel | None:
    """What ``checks`` show, ``None`` if they disagree or there is none."""
    levels = {check.level for check in checks}
    return levels.pop() if len(levels) == 1 else None


def own_proof(product: Product) -> PrecisionProof | None:
    """Return the precision that a product shows itself; ``None`` if it was not replayed, or if its error shows less
    than its operands' types do.

    The log and the error of fp32 operands must agree. If they do not, the narrower one counts if the error shows it,
    because an error is what came out; a log that names something narrower than came out leaves the precision unknown.
    """
    if product.shown is None:
        return None
    if product.operands == "fp64" and product.shown == "fp32":
        return None  # no error of fp64 is small enough to tell it from fp32
    if product.operands != "fp32":
        # They are exact in fp32: the error tells only that nothing narrower was multiplied.
        if is_narrower(product.shown, product.operands):
            return PrecisionProof(product.shown, ProofSource.REPLAY)
        found = product.subnormals if product.operands == "bf16" else None
        arithmetic = _ARITHMETIC.get(found) if found is not None else None
        return PrecisionProof(arithmetic, ProofSource.PROBE) if arithmetic is not None else None
    if not product.disagrees:
        return PrecisionProof(product.shown, ProofSource.REPLAY if product.logged is None else ProofSource.BOTH)
    if is_narrower(product.shown, product.logged or ""):
        return PrecisionProof(product.shown, ProofSource.REPLAY)
    return NO_PROOF


PARTLY_IN_FP32 = "bf16 tensors, partly fp32 arithmetic"
_ARITHMETIC = {
    Subnormals.FLUSHED: "bf16",
    Subnormals.IN_FP32: BF16_IN_FP32,
    Subnormals.MIXED: PARTLY_IN_FP32,
}
COARSE = "narrower than bf16"
"""What an error shows that no type of 8 significant bits explains, and no other type that is known here either."""
ELEVEN_BITS = "tf32 or fp16"
"""What an error shows of a product whose operands cannot tell these two apart."""
_WIDTHS = ("fp64", "fp32", "tf32", "fp16, bf16", "fp8, int8, int8 weight-only", "fp4, int4, int4 weight-only")
_RANK = {name: rank for rank, names in enumerate(_WIDTHS) for name in names.split(", ")}
_RANK[COARSE], _RANK[ELEVEN_BITS] = _RANK["int8"], _RANK["tf32"]


def is_narrower(precision: str, requested: str) -> bool:
    """Return whether ``precision`` keeps fewer bits than ``requested``; not if either is no precision.

    >>> is_narrower("int8", "bf16"), is_narrower("fp16", "bf16"), is_narrower("unknown precision", "bf16")
    (True, False, False)
    """
    return _RANK.get(precision, 0) > _RANK.get(requested, len(_WIDTHS))
