"""An audit whose time is attributed to kernels and precisions, of any engine. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from modelzoo.evidence.kernel_names import UNATTRIBUTED, UNKNOWN_KERNEL
from modelzoo.records.coverage import DISPATCH, MOVEMENT, NATIVE
from modelzoo.records.evidence import LogSource, OperatorClass, Product, ProofSource
from modelzoo.records.profile import Flops, Shape

_NOT_A_PRECISION = (MOVEMENT, NATIVE, DISPATCH, UNATTRIBUTED, UNKNOWN_KERNEL)


class Node(msgspec.Struct, frozen=True):
    """A node: a call of an operator or of a kernel, or a part of its time, and what it was spent on.

    ``precision`` is that of the product, or a category (``MOVEMENT``, ``NATIVE``, ``DISPATCH``, ``UNATTRIBUTED``,
    ``UNKNOWN_KERNEL``) if it is not known to be one. ``count`` is the number of calls that this part stands for: the
    parts of one call count only once. ``flop`` are the operations of a product, ``None`` if they are not known.
    ``product`` is the place of the product that was replayed, ``None`` if it is a part of none.

    An engine that lists its nodes yields them with the type of a product's operands as ``precision``, and with the
    canary's operator that may run the same kernel as ``canary`` (``modelzoo.evidence.nodes``).
    """

    operator: str
    operator_class: OperatorClass | None
    shapes: tuple[Shape, ...]
    implementation: str
    precision: str
    decided_by: ProofSource
    seconds: float
    count: int = 1
    is_reference: bool = False
    flop: int | None = None
    product: int | None = None
    canary: str | None = None

    @property
    def is_compute(self) -> bool:
        """Whether the time was spent multiplying matrices."""
        return self.precision not in _NOT_A_PRECISION


class AttributedAudit(msgspec.Struct, frozen=True):
    """What an engine yields of an audit, for the one builder of evidence (``modelzoo.evidence.verdict``).

    Attributes:
        parts: all of the time of the audited passes.
        iterations: number of audited passes.
        log_source: how it is known which kernels ran.
        library: what computes the products, as it is called in the reasons.
        bf16_allowed: whether ``library`` was allowed to round fp32 operands to bf16; ``None`` if it computed nothing.
        counted: the operations of one pass of the eager torch model; ``None`` if they were not counted.
        lists_all: whether ``parts`` are known to list everything that ran, as on an accelerator whose driver reports
            each kernel; otherwise what was counted must show that nothing is missing.
        logged: the data types that the kernel log has outside products.
        dequantized: operators that converted int8 numbers back to floating point.
        unread: lines of the kernel log that could not be read, without those in ``unread_in_products``.
        unread_in_products: those that were printed by products whose error was measured.
        products: the products that were replayed.
        replay_seconds: what that took; ``None`` if none was.
        foreign: as in ``Coverage``, and so are the following two.
        onednn_version: as in ``Evidence``, and so are the following.
    """

    parts: Sequence[Node]
    iterations: int
    log_source: LogSource
    library: str
    bf16_allowed: bool | None = None
    counted: Flops | None = None
    lists_all: bool = False
    logged: frozenset[str] = frozenset()
    dequantized: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    unread_in_products: tuple[str, ...] = ()
    products: tuple[Product, ...] = ()
    replay_seconds: float | None = None
    foreign: int = 0
    subnormal: float = 0.0
    outputs_differ: bool = False
    onednn_version: str = ""
    onednn_isa: str = ""
    blas: str = ""
    problems: tuple[str, ...] = ()
