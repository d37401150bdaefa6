"""Products that are wrong: in what, and how they are called again outside the suite."""

from __future__ import annotations

import msgspec

from modelzoo.frozen import Public, Word


class Fault(Word):
    """In what the outputs of a product are wrong.

    ERROR: they are off by more than the bound. NOT_FINITE: they are not finite where the exact ones are, or the
    reverse. OTHER_ROW: a NaN in one row of the left operand appears in other rows of the output, or not in its own.
    """

    ERROR = "error"
    NOT_FINITE = "not finite"
    OTHER_ROW = "other row"


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


Literal = None | bool | int | float | Public | tuple[bool | int | float, ...]


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
    value: Literal = None
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
