"""Compare the outputs of passes that are observed with those of passes that are not.

A model can tell that it is observed, and compute in another precision meanwhile; its outputs then differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelzoo.evidence.canary import FP32_BELOW
from modelzoo.evidence.probes import relative_error
from modelzoo.workload.nested import tensors_in


def kept(output: object) -> list[Any]:
    """Return copies of the tensors of an output, which the next call may overwrite."""
    return [each.clone() for each in tensors_in(output)]


def differ(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Return whether two outputs differ by more than the rounding of fp32, or in their shapes."""
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
