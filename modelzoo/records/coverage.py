"""What an audit of a pass is based on: how much of the pass is known, and products whose outputs are wrong, with how
they are called again outside the suite.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from modelzoo.frozen import PUBLIC, Public

MOVEMENT = "memory movement"
NATIVE = "no matrix arithmetic"
DISPATCH = "dispatch and set-up"
"""What time outside products was spent on, in place of a precision."""
REORDER = "oneDNN reorder"
"""The kernel that brings the operands and outputs of oneDNN's products into another layout."""
KNOWN_SHARE = 0.95
"""What must be known of a pass's counted operations before its precision is called verified."""
FOREIGN_NUMBERS = 256
"""So many numbers that no operator computed may be a product; fewer are constants that a model writes in Python."""

SUBNORMAL_SHARE = 1e-3
"""Share of subnormal numbers from which there is a warning: one in 125 vectors of 8 has one then. The microcode that
computes with it takes about 150 cycles on Intel's CPUs (Fog, "The microarchitecture of Intel, AMD and VIA CPUs")."""


class TimeShare(msgspec.Struct, frozen=True):
    """One line of a table.

    Attributes:
        name: of the kernel, precision or operator.
        seconds: summed over all audited passes.
        share: of the total time of these passes, 0 to 1.
        count: number of calls in all audited passes.
    """

    name: Public
    seconds: float
    share: float
    count: int


class Coverage(msgspec.Struct, frozen=True):
    """How much of the audited passes is known. Shares are from 0 to 1.

    fp32 is verified, and a reduced precision active, only if ``known_arithmetic`` is at least ``KNOWN_SHARE`` and no
    operator is ``uncounted``; where an engine lists everything that ran (``lists_all``), if ``known_time`` is.

    Attributes:
        counted: operations of one pass of the eager torch model; ``None`` if they were not counted.
        known_arithmetic: the part of ``counted`` in products whose precision is known.
        known_time: the part of the passes' time in such products, in kernels that are known to multiply nothing, and,
            if the products do all that was counted, around operators.
        unknown: what the rest of the time was spent on, longest first.
        uncounted: operators that are neither known products nor known to be none, and those whose operations and
            precision are not known.
        unexplained: types narrower than the requested precision that were logged, although no product has them.
        unread: lines of the kernel log that could not be read, without those that replayed products printed.
        foreign: floating-point numbers that operators of a pass read, and that no operator had computed.
        subnormal: share of subnormal numbers in the operands of its products, by samples.
        outputs_differ: whether the model computed other outputs while it was observed.
        lists_all: whether everything that ran is known to be listed, so that nothing needs to be counted.
    """

    counted: int | None
    known_arithmetic: float | None
    known_time: float
    unknown: tuple[TimeShare, ...] = ()
    uncounted: tuple[Public, ...] = ()
    unexplained: tuple[Public, ...] = ()
    unread: int = 0
    lists_all: bool = False
    foreign: int = 0
    subnormal: float = 0.0
    outputs_differ: bool = False

    @property
    def is_enough(self) -> bool:
        """Whether so much is known that the precision of the whole pass can be called verified."""
        known = self.known_time if self.lists_all else self.known_arithmetic
        differs = self.outputs_differ or self.foreign >= FOREIGN_NUMBERS
        unknown = self.uncounted or self.unexplained or self.unread or differs
        return known is not None and known >= KNOWN_SHARE and not unknown


Fault = Annotated[Literal["error", "not finite", "other row"], PUBLIC]
"""In what the outputs of a product are wrong.

``error``: they are off by more than the bound. ``not finite``: they are not finite where the exact ones are, or the
reverse. ``other row``: a NaN in one row of the left operand appears in other rows of the output, or not in its own."""


class WrongOutputs(msgspec.Struct, frozen=True):
    """Outputs of a product that no precision explains (``modelzoo.evidence.wrong``).

    Attributes:
        fault: in what they are wrong; the first of the faults that apply.
        outputs: how many of those that were compared are wrong; rows, if it is OTHER_ROW.
        compared: how many were compared.
        bound: the largest error that is explained, relative to the product of the absolute values.
        excess: the largest error, as a multiple of what is explained at its place; ``None`` unless it is ERROR.
    """

    fault: Fault
    outputs: int
    compared: int
    bound: float
    excess: float | None = None


PlainValue = None | bool | int | float | Public | tuple[bool | int | float, ...]


class Argument(msgspec.Struct, frozen=True):
    """One argument of an operator: a tensor, or a value.

    Attributes:
        name: its keyword; empty if it is passed by position.
        value: what is passed, if it is no tensor.
        shape: of the tensor; ``None`` if it is none.
        strides: in elements.
        dtype: torch's name of its data type.
        seed: of the noise that it is filled with (``modelzoo.evidence.probes``); ``None``: it masks nothing.
        scale: what the noise is multiplied by.
    """

    name: Public = ""
    value: PlainValue = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] = ()
    dtype: Public = ""
    seed: int | None = None
    scale: float = 1.0


class ProductCall(msgspec.Struct, frozen=True):
    """All that is needed to call a product again in another process.

    Attributes:
        operator: its path in ``torch.ops``, with the overload (``aten.convolution.default``).
        arguments: those by position, then those by keyword.
        factors: positions of the two arguments that are multiplied; empty if it is no plain product of two.
        rows: position of the argument whose rows are those of the output; ``None`` if it has none.
        wanted: the precision that was asked for, of the operands or of the kernel.
        least: the smallest relative root-mean-square error that shows this precision.
        below: all errors that show it are smaller.
        device: the kind of device that computes it, such as ``cuda``.
    """

    operator: Public
    arguments: tuple[Argument, ...]
    factors: tuple[int, ...] = ()
    rows: int | None = None
    wanted: Public = "fp32"
    least: float = 0.0
    below: float = 0.0
    device: Public = "cpu"
