"""NaN and Inf: nothing is wrong with those that fp32 gives at the same place, such as the -inf of a mask."""

from __future__ import annotations

import hashlib
from typing import Any

from modelzoo.workload.nested import leaves


def places(output: Any) -> str:
    """Return a digest of where NaN, inf and -inf are in the tensors of ``output``; empty if there are none.

    Args:
        output: tensors, nested as in ``leaves``.
    """
    import torch

    digest, found = hashlib.sha256(), False
    tensors = (each for each in leaves(output) if isinstance(each, torch.Tensor) and each.is_floating_point())
    for number, tensor in enumerate(tensors):
        if not torch.isfinite(tensor).all():
            found = True
            kinds = torch.isnan(tensor) * 3 + torch.isposinf(tensor) * 2 + torch.isneginf(tensor) * 1
            digest.update(f"{number} {tuple(tensor.shape)}".encode())
            digest.update(kinds.to("cpu", torch.uint8).numpy().tobytes())
    return digest.hexdigest() if found else ""


def without_alike(first: Any, second: Any) -> tuple[Any, Any]:
    """Return two tensors of one shape, flat, without the places at which both hold NaN, or the same infinity."""
    alike = ~first.isfinite() & ((first == second) | (first.isnan() & second.isnan()))
    return (first[~alike], second[~alike]) if alike.any() else (first, second)


def usable(reference: Any, tested: Any, *, is_logits: bool = True) -> tuple[bool, bool]:
    """Return whether each of two predictions can be judged.

    fp32's can if it is free of NaN and, for logits, of inf, and not all of it is infinite. The other one's NaN and Inf
    must be those of fp32; if fp32's cannot be judged, it is asked the same alone.

    Args:
        reference: numbers; of logits, each row of the last axis is a distribution.
        tested: likewise.
    """
    import numpy as np

    def is_finite(values: Any) -> bool:
        return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())

    def is_usable(values: Any) -> bool:
        if is_finite(values) or not values.size:
            return True
        if np.isnan(values).any() or (is_logits and np.isposinf(values).any()):
            return False
        return bool(np.isfinite(values).any(-1).all() if is_logits else np.isfinite(values).any())

    first, second = np.asarray(reference), np.asarray(tested)
    if not is_usable(first):
        return False, is_usable(second)
    if is_finite(first) and is_finite(second):
        return True, True
    if first.shape != second.shape:
        return True, False
    first, second = (np.where(np.isfinite(each), 0, each) for each in (first, second))
    return True, bool(np.array_equal(first, second, equal_nan=True))
