"""Compare the outputs of passes that are observed with those of passes that are not.

A model can tell that it is observed, and compute in another precision meanwhile; its outputs then differ.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Callable

from modelzoo.evidence.canary import FP32_BELOW
from modelzoo.evidence.flops import tensors_in
from modelzoo.evidence.probes import relative_error


class OutputWatch:
    """The outputs of one call, at first and while it is observed.

    Args:
        call: one pass; it is called once now, unobserved.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        began = time.perf_counter()
        output = call()
        self.seconds = time.perf_counter() - began
        """What this call took."""
        self._first = _kept(output)
        self.differ = False
        """Whether an observed pass had other outputs."""

    def observed(self) -> None:
        """Call it while it is observed."""
        output = self._call()
        self.differ = self.differ or _differ(self._first, tensors_in(output))

    def is_random(self) -> bool:
        """Whether even the outputs of two passes that nobody observes differ; not asked unless others did."""
        return self.differ and _differ(self._first, tensors_in(self._call()))


def _kept(output: object) -> list[Any]:
    """The tensors of an output, which the next call may overwrite."""
    return [each.clone() for each in tensors_in(output)]


def _differ(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two outputs differ by more than the rounding of fp32, or in their shapes."""
    return len(first) != len(second) or any(map(_differs, first, second))


def _differs(first: Any, second: Any) -> bool:
    import torch

    if first.shape != second.shape or first.dtype != second.dtype:
        return True
    if torch.equal(first, second):
        return False
    if not first.is_floating_point():
        return True
    different = ~((first == second) | (first.isnan() & second.isnan()))
    return bool(different.any()) and not relative_error([(second, first.double())]) < FP32_BELOW
