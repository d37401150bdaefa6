"""The operator profile of a forward pass: times, operations and bytes by operator and by layer."""

from __future__ import annotations

from typing import Optional

import msgspec

Shape = tuple[int, ...]

BETWEEN_OPERATORS = "(between operators)"
"""Name of the row for the time in no operator."""
OTHERS = "(others)"
"""Name of the row for the operators that are not listed."""


class Flops(msgspec.Struct, frozen=True):
    """The floating-point operations of one pass.

    Attributes:
        total: number of operations.
        bytes: size of the inputs and outputs of every call; data that stays in a cache between two calls is counted
            twice.
        by_operator: operations by name of the operator.
        missing: operators whose operations are not known: products without a formula, and operators of extensions.
    """

    total: int
    bytes: int
    by_operator: dict[str, int] = msgspec.field(default_factory=dict)
    missing: tuple[str, ...] = ()


class OperatorRow(msgspec.Struct, frozen=True):
    """One operator with one set of shapes, over all passes.

    Attributes:
        name: name of the operator.
        shapes: the shapes of its inputs.
        count: number of calls.
        seconds: self time.
        share: the part of the passes' time, 0 to 1.
        flop: operations of all calls; ``None`` if unknown.
        bytes: inputs and outputs of all calls; ``None`` if unknown.
        kernel: the kernel that ran; empty if the audit did not see the call.
        precision: the precision that it ran in; empty likewise.
    """

    name: str
    shapes: tuple[Shape, ...]
    count: int
    seconds: float
    share: float
    flop: Optional[int] = None
    bytes: Optional[int] = None
    kernel: str = ""
    precision: str = ""

    @property
    def gflops_per_second(self) -> Optional[float]:
        """Achieved GFLOP/s; ``None`` if no operations were counted."""
        return self.flop / self.seconds / 1e9 if self.flop and self.seconds > 0 else None

    @property
    def gigabytes_per_second(self) -> Optional[float]:
        """Achieved GB/s; ``None`` if no bytes were counted."""
        return self.bytes / self.seconds / 1e9 if self.bytes and self.seconds > 0 else None

    @property
    def intensity(self) -> Optional[float]:
        """Arithmetic intensity: operations per byte moved (Williams et al., Roofline, 2009)."""
        return self.flop / self.bytes if self.flop and self.bytes else None


class LayerRow(msgspec.Struct, frozen=True):
    """One module of the model, over all passes.

    Attributes:
        path: the module's name, such as ``layer1.0.conv1``.
        kind: its class.
        count: number of calls.
        seconds: its time, children included.
        own_seconds: its time without its children.
        share: the part of the passes' time, 0 to 1.
        flop: operations of all calls; ``None`` if unknown.
    """

    path: str
    kind: str
    count: int
    seconds: float
    own_seconds: float
    share: float
    flop: Optional[int] = None


class Profile(msgspec.Struct, frozen=True):
    """The profile of some passes.

    Attributes:
        iterations: number of passes.
        seconds: their total time under the profiler, which is slower than without it.
        operators: the operators, by shapes.
        layers: the model's modules.
        flops: the operations of one pass.
        trace: path of the Chrome trace, if one was written.
        problems: what could not be measured.
    """

    iterations: int
    seconds: float
    operators: tuple[OperatorRow, ...]
    layers: tuple[LayerRow, ...]
    flops: Optional[Flops]
    trace: Optional[str]
    problems: tuple[str, ...]
