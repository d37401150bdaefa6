"""What goes into a judgement and what comes out of it: plain frozen objects."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

VALID = "VALID"
NOT_VALID = "NOT VALID"
NUMERIC_ONLY = "NUMERIC ONLY"
CANNOT_JUDGE = "CANNOT JUDGE"

Progress = Callable[[int, int, str], None]
"""Called with (items done, items in all, the running metric in words)."""


def no_progress(done: int, total: int, running: str) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Side:
    """One of the two models that are compared.

    Attributes:
        name: how tables call it: ``fp32``, ``bf16 autocast`` …
        precision: ``fp32`` or ``bf16``; decides how much rounding is expected.
        call: takes the model's positional arguments (CPU tensors), returns its output. Autocast, casts and
            copies to a device happen inside.
        model: the module whose layers can be hooked while ``call`` runs, or ``None`` (traced, compiled).
        active: a context in which this side's process-wide settings hold.
    """

    name: str
    call: Callable[..., Any]
    precision: str = "fp32"
    model: Any = None
    active: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext


@dataclass(frozen=True)
class ValidityRequest:
    """What to judge on.

    Attributes:
        data: a folder or file of the user's, or ``None`` for the built-in set.
        limit: judge this many items at most, drawn with ``seed``.
        output: the directory for pictures, tables and plots.
        tolerance: threshold name to the value that replaces its default.
        batch: items in a forward pass.
        explain: write the error by layer.
        weights_are_random: only numbers can be compared then.
        own_weights: the weights are not the published ones, so published quality does not apply.
        model_path: the checkpoint's directory where there is one (a tokenizer lies there).
        pictures: output pictures are written for this many inputs at most.
    """

    output: Path
    data: Path | None = None
    limit: int | None = None
    seed: int = 0
    tolerance: Mapping[str, float] = field(default_factory=dict)
    batch: int = 1
    explain: bool = False
    weights_are_random: bool = False
    own_weights: bool = False
    model_path: Path | None = None
    pictures: int = 100


@dataclass(frozen=True)
class Job:
    """All that a judge needs: the workload's name and declared task, both sides and the request."""

    workload: str
    task: Any
    reference: Side
    tested: Side
    request: ValidityRequest

    @property
    def ties(self) -> bool:
        """Whether near ties are excused: only where bf16 is under test."""
        return self.tested.precision == "bf16"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was seen, what is required, and what would have passed.

    ``relation`` is ``>=`` or ``<=`` (seen to required). ``source`` says where ``required`` comes from.
    ``would_pass_at`` is the value of ``--tolerance <name>=…`` at which this check would just pass;
    ``None`` where no value would.
    """

    name: str
    title: str
    seen: float | None
    relation: str
    required: float
    source: str
    passed: bool
    would_pass_at: float | None


@dataclass(frozen=True)
class Table:
    """A table as text, for any display."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Validity:
    """The judgement of one setting of one workload.

    Attributes:
        metric: one word: ``top1``, ``top1_agreement``, ``box_ap``, ``detection_agreement``, ``f1``,
            ``tensor_error``.
        reference: the metric of fp32 (an agreement's is 1 by definition), ``None`` where there is none.
        tested: the metric of the setting under test.
        verdict: one of the four words.
        exit_code: 0 valid (or numerically within bf16), 1 not valid, 2 could not be judged.
        scope: what it was judged on, in words: "32 crops of 1 photograph: agreement only".
        reason: why the verdict is not VALID; empty where it is.
        counts: how many pictures, crops, photographs, questions … there were.
        figures: every figure by name, for both sides where there are two.
        files: what was written.
    """

    workload: str
    task: str
    metric: str
    reference: float | None
    tested: float | None
    verdict: str
    exit_code: int
    scope: str
    reason: str
    checks: tuple[Check, ...] = ()
    tables: tuple[Table, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    reference_name: str = "fp32"
    tested_name: str = "tested"
    small: bool = False


def from_json(data: Mapping[str, Any]) -> Validity:
    """Rebuild a stored ``Validity``."""
    tables = tuple(
        Table(table["title"], tuple(table["columns"]), tuple(tuple(row) for row in table["rows"]), table["note"])
        for table in data["tables"]
    )
    checks = tuple(Check(**check) for check in data["checks"])
    rebuilt = {**data, "tables": tables, "checks": checks, "notes": tuple(data["notes"]), "files": tuple(data["files"])}
    return Validity(**rebuilt)


def line(validity: Validity) -> str:
    """The last line on stdout: ``[VALID] <workload> <metric> <fp32> <tested> <verdict>``.

    Where the built-in set was used, or nothing could be judged, the verdict says so in parentheses.
    """
    values = [_value(validity.reference), _value(validity.tested)]
    text = " ".join(["[VALID]", validity.workload, validity.metric, *values, validity.verdict])
    if validity.verdict == CANNOT_JUDGE:
        return f"{text} ({validity.reason})"
    return f"{text} ({validity.scope})" if validity.small else text


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
