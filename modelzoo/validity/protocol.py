"""What the driver (``judging``) and the tasks exchange: the two models, what is known of the call, prepared items."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from modelzoo.records.exhibits import Exhibit
from modelzoo.records.partial import JudgedSoFar, PictureNote
from modelzoo.records.validity import ValidityRequest

Progress = Callable[[JudgedSoFar], None]
"""Called after every batch."""
ExhibitSink = Callable[[Exhibit], None]
"""Called with each exhibit as soon as it is complete."""


class Predictor(msgspec.Struct, frozen=True):
    """One of the two models that are compared.

    Attributes:
        name: what tables call it: ``fp32``, ``bf16=autocast`` ….
        call: takes the model's positional arguments (CPU tensors) and returns its output. Autocast, casts and
            copies to a device happen inside.
        precision: ``fp32``, ``tf32``, ``bf16``, ``fp16`` or ``int8``; decides how much rounding error is expected.
        model: the module whose layers can be hooked while ``call`` runs; ``None`` if it is traced or compiled.
        active: returns a context in which the process-wide settings of this model are in force.
        recipe: by which a model in int8 was quantized; decides what is rounded, and how.
    """

    name: str
    call: Callable[..., Any]
    precision: str = "fp32"
    model: Any = None
    active: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    recipe: str | None = None


class TaskContext(msgspec.Struct, frozen=True):
    """What a task must know besides its declaration.

    Attributes:
        workload: its name, as the ``[VALID]`` line prints it.
        reference_name: what tables call the reference. tested_name: what they call the setting under test.
        significant_bits: of the precision under test, by which near ties are excused; ``None`` in fp32, where none are.
    """

    workload: str
    request: ValidityRequest
    reference_name: str = "fp32"
    tested_name: str = "tested"
    significant_bits: int | None = None


class PreparedItem(msgspec.Struct, frozen=True):
    """An item as the model takes it.

    Attributes:
        rows: one or more inputs; batches are made of rows (a picture has one, a question one per window).
        notes: how an unusual input was read.
        source: whatever the task needs to interpret the predictions.
    """

    rows: Sequence[Any]
    notes: tuple[PictureNote, ...] = ()
    source: Any = None


def no_progress(judged: JudgedSoFar) -> None:
    """Show nothing."""


def no_exhibit(exhibit: Exhibit) -> None:
    """Write nothing."""
