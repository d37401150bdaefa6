"""The inputs of a run, and a digest that identifies them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from modelzoo.records.workload import Weights
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import InputRequest, Inputs, Workload


def make_inputs(work: Workload, setting: ResolvedSetting, weights: Weights) -> Inputs:
    """Create one batch of inputs.

    Raises:
        InputError: the user's input cannot be read.
    """
    return work.inputs(input_request(setting, weights))


def input_request(setting: ResolvedSetting, weights: Weights) -> InputRequest:
    """Return what a workload must know to create one batch."""
    place = Path(weights.path)
    return InputRequest(
        batch=setting.batch,
        seed=setting.seed,
        path=Path(setting.input) if setting.input else None,
        options=setting.options,
        model_path=place if place.is_dir() else None,
    )


def inputs_digest(inputs: Inputs) -> str | None:
    """Return the SHA-256 of all arrays in ``inputs``, with their shapes and types.

    ``None`` if numpy cannot represent one of them: a bf16 tensor, an object of the workload's own.
    """
    import numpy as np

    digest = hashlib.sha256()
    for value in _leaves(inputs.args):
        try:
            array = np.ascontiguousarray(np.asarray(value))
        except (TypeError, ValueError, RuntimeError):
            return None
        if array.dtype.hasobject:  # its bytes are addresses
            return None
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _leaves(value: Any) -> Iterator[Any]:
    """The arrays and scalars in nested lists, tuples and dicts, in order."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value
