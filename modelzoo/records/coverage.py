"""How much of the audited passes is known, and whether that is enough to call a precision verified."""

from __future__ import annotations

import msgspec

from modelzoo.frozen import Public

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
