"""A model that can be called, with the process-wide settings under which it runs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Callable


@dataclass(frozen=True)
class Predictor:
    """One of the two models that are compared.

    Attributes:
        name: what tables call it: ``fp32``, ``bf16=autocast`` ….
        call: takes the model's positional arguments (CPU tensors) and returns its output. Autocast, casts and
            copies to a device happen inside.
        precision: ``fp32``, ``tf32``, ``bf16`` or ``fp16``; decides how much rounding error is expected.
        model: the module whose layers can be hooked while ``call`` runs; ``None`` if it is traced or compiled.
        active: returns a context in which the process-wide settings of this model are in force.
    """

    name: str
    call: Callable[..., Any]
    precision: str = "fp32"
    model: Any = None
    active: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
