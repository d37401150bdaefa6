"""Inputs are identified by a digest of what the model is given."""

from __future__ import annotations

import numpy as np
import torch

from modelzoo.workload import Inputs
from modelzoo.workload.declaration import inputs_digest


def digest(*args: object) -> str | None:
    """The digest of these arguments."""
    return inputs_digest(Inputs(args, ("item",)))


def test_the_digest_follows_values_shapes_types_and_order() -> None:
    """Equal arrays of any library give the same digest, and every difference another one."""
    array = np.arange(6, dtype="float32").reshape(2, 3)
    same = digest(torch.from_numpy(array))
    assert digest(array) == same
    assert digest([array]) == same, "lists are flattened"
    others = [array.reshape(3, 2), array.astype("float64"), array + 1]
    assert len({same, *map(digest, others)}) == 4
    assert digest(array, array + 1) != digest(array + 1, array)


def test_inputs_that_numpy_cannot_represent_have_no_digest() -> None:
    """They run all the same: a bf16 tensor, one that requires a gradient, an object of the workload's own."""
    assert digest(torch.ones(2, dtype=torch.bfloat16)) is None
    assert digest(torch.ones(2, requires_grad=True)) is None
    assert digest(np.ones(2), object()) is None
