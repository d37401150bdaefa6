"""The settings that a search tries: a declared list, not every combination. Pure.

The list begins with what usually helps most, because a short budget may not reach its end. Memory settings are tried
with the plain model and with the compiled one: how much they help depends on how often the model allocates, and
compiling changes that. bf16 is tried in each way of running that has bf16 kernels of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modelzoo.errors import UsageError
from modelzoo.records.tuning import Goal, LeftOut
from modelzoo.setting import DEFAULTS, Setting, option_name, value_text

LARGEST = 40
"""Settings of a grid, the default included."""

Changes = Mapping[str, Any]
"""What a candidate changes in the default setting, by field of ``Setting``."""

_LAST = {"channels_last": True}
_COMPILED = {"mode": "compile"}
_AUTOCAST: Changes = {"precision": "bf16", "bf16_method": "autocast"}
_FASTMATH: Changes = {"precision": "bf16", "bf16_method": "fastmath"}
_CAST: Changes = {"precision": "bf16", "bf16_method": "cast"}

MODES: tuple[Changes, ...] = (
    _COMPILED,
    {**_COMPILED, **_LAST},
    {"engine": "openvino"},
    {"engine": "onnxruntime"},
    {"mode": "script"},
    {**_LAST},
    {"mode": "max-autotune"},
    {"mode": "aot"},
    {"mode": "cpp-wrapper"},
    {"mode": "script", **_LAST},
    {"engine": "jittor"},
)
"""Engines, execution modes and memory formats in fp32."""
BF16: tuple[Changes, ...] = (
    {**_AUTOCAST},
    {**_AUTOCAST, **_COMPILED},
    {**_FASTMATH},
    {**_FASTMATH, **_COMPILED},
    {**_CAST},
    {**_CAST, **_COMPILED},
    {"precision": "bf16", "engine": "openvino"},
    {"precision": "bf16", "engine": "onnxruntime"},
    {**_AUTOCAST, "mode": "script"},
)
"""bf16, with the ways of running that have bf16 kernels."""
MEMORY: tuple[Changes, ...] = (
    {**_COMPILED, "malloc": "tcmalloc"},
    {**_COMPILED, "thp": "on"},
    {"malloc": "tcmalloc"},
    {"malloc": "jemalloc"},
    {"thp": "on"},
    {**_COMPILED, "malloc": "tcmalloc", "thp": "on"},
    {"malloc": "tcmalloc", "thp": "on"},
)
"""Allocators and huge pages."""
LAST: tuple[Changes, ...] = (
    {"mode": "max-autotune", **_LAST},
    {"mode": "aot", **_LAST},
    {"mode": "cpp-wrapper", **_LAST},
    {"primitive_cache": 16384},
)
"""Expensive to compile, or rarely of use. oneDNN's own cache of primitives holds 1,024."""


@dataclass(frozen=True)
class Conditions:
    """What decides which candidates make sense, as far as it is known before anything has run.

    Attributes:
        threads: the machine's default number of threads.
        logical: logical CPUs that the process may use.
        missing: what this machine or installation lacks, as ``name=value`` or ``name``, with the reason.
    """

    threads: int
    logical: int
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """The settings of a search, the default first, and what was left out."""

    settings: tuple[Setting, ...]
    left_out: tuple[LeftOut, ...] = ()


def declared(base: Setting, goal: Goal, conditions: Conditions, batch: int) -> Grid:
    """Return the grid for ``base`` on a machine with these conditions.

    Args:
        base: the default setting: the options of the call.
        goal: with ``THROUGHPUT``, larger batches are tried too.
        conditions: of the machine.
        batch: the batch size of ``base``, as resolved.
    """
    settings, left_out = [base], dict[str, str]()
    for changes in _listed(goal, conditions, batch, left_out):
        reason = _obstacle(base, changes, conditions, left_out)
        setting = None if reason else base.replace(**changes)
        if setting is not None and setting not in settings and len(settings) < LARGEST:
            settings.append(setting)
    return Grid(tuple(settings), tuple(LeftOut(what, reason) for what, reason in left_out.items()))


def exact(base: Setting, settings: Sequence[Setting], conditions: Conditions, batch: int) -> Grid:
    """Return the grid of ``--vary``: these settings, after the default.

    Args:
        base: the default setting.
        settings: what is varied; what is the default anyway, such as its number of threads, is not measured twice.
        conditions: of the machine.
        batch: the batch size of ``base``, as resolved.

    Raises:
        UsageError: there are too many, or none besides the default.
    """
    usual = {"threads": conditions.threads, "batch": batch}
    found = [base]
    for setting in settings:
        same = {name: getattr(base, name) for name, value in usual.items() if getattr(setting, name) == value}
        plain = setting.replace(**same)
        if plain not in found:
            found.append(plain)
    if not 1 < len(found) <= LARGEST:
        count = len(found) - 1
        raise UsageError(f"--vary names {count} settings besides the default; a search needs 1 to {LARGEST - 1}")
    return Grid(tuple(found))


def _listed(goal: Goal, conditions: Conditions, batch: int, left_out: dict[str, str]) -> Iterator[Changes]:
    yield from MODES[:2]
    if goal is Goal.THROUGHPUT:
        yield from _batches(batch)
    yield from MODES[2:]
    yield from _threads(conditions, left_out)
    yield from MEMORY
    yield from BF16
    yield from LAST


def _batches(batch: int) -> Iterator[Changes]:
    """Four and sixteen times the batch, with the ways of running that usually win."""
    for factor in (4, 16):
        for changes in ({}, _COMPILED, {"engine": "openvino"}, {"engine": "onnxruntime"}):
            yield {**changes, "batch": batch * factor}


def _threads(conditions: Conditions, left_out: dict[str, str]) -> Iterator[Changes]:
    """Half as many threads as there are cores, and one per logical CPU."""
    half, logical = conditions.threads // 2, conditions.logical
    if half >= 1:
        yield {"threads": half}
        yield {**_COMPILED, "threads": half}
    else:
        left_out["threads"] = "there is one core"
    if logical > conditions.threads:
        yield {"threads": logical}
        yield {**_COMPILED, "threads": logical}
    elif half >= 1:
        left_out[f"threads={2 * conditions.threads}"] = "a core has one hardware thread here, or may use only one"


def _obstacle(base: Setting, changes: Changes, conditions: Conditions, left_out: dict[str, str]) -> str:
    """Why these changes make no sense here; empty if they do. The reason is also noted in ``left_out``."""
    for name, value in changes.items():
        for what in (f"{option_name(name)}={value_text(value)}", option_name(name)):
            if what in conditions.missing:
                left_out[what] = conditions.missing[what]
                return conditions.missing[what]
    if changes.get("engine", base.engine) != "torch" and changes.get("mode", base.mode) != "eager":
        return "other engines have no modes"
    # What the call fixes is not varied: it belongs to the default.
    fixed = [name for name in changes if getattr(base, name) != DEFAULTS[name]]
    for name in fixed:
        given = value_text(getattr(base, name))
        left_out[option_name(name)] = f"the call says {option_name(name)}={given}"
    return "fixed by the call" if fixed else ""
