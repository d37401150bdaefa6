"""The settings that a search tries: a declared list, not every combination, and what is missing of it here.

The list begins with what usually helps most, because a short budget may not reach its end. Memory settings are tried
with the plain model and with the compiled one: how much they help depends on how often the model allocates, and
compiling changes that. bf16 is tried in each way of running that has bf16 kernels of its own, int8 only where its
predictions can be judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from modelzoo.engines import jittor
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine import memory
from modelzoo.machine.installation import installed_version
from modelzoo.machine.linux import allowed_cpus
from modelzoo.plan import Goal
from modelzoo.records.machine import Machine
from modelzoo.records.race import LeftOut, Obstacle
from modelzoo.setting import DEFAULTS, Setting, value_text

LARGEST = 52
"""Settings of a grid, the default included: all that are listed with the larger batches of ``Goal.THROUGHPUT``."""

Changes = Mapping[str, Any]
"""What a candidate changes in the default setting, by field of ``Setting``."""

_LAST = {"channels_last": True}
_COMPILED = {"mode": "compile"}
_LINEAR = {"linear": "onednn"}
_AUTOCAST: Changes = {"precision": "bf16", "bf16_method": "autocast"}
_FASTMATH: Changes = {"precision": "bf16", "bf16_method": "fastmath"}
_CAST: Changes = {"precision": "bf16", "bf16_method": "cast"}

MODES: tuple[Changes, ...] = (
    _COMPILED,
    {**_COMPILED, **_LAST},
    {**_COMPILED, **_LINEAR},
    {"engine": "openvino"},
    {"engine": "onnxruntime"},
    {**_LINEAR},
    {"mode": "script"},
    {**_LAST},
    {"mode": "max-autotune"},
    {"mode": "aot"},
    {"mode": "cpp-wrapper"},
    {"mode": "script", **_LAST},
    {"engine": "jittor"},
)
"""Engines, execution modes, memory formats and libraries of Linear layers in fp32."""
BF16: tuple[Changes, ...] = (
    {**_AUTOCAST, **_COMPILED},
    {"precision": "bf16", "engine": "openvino"},
    {**_CAST, **_COMPILED},
    {**_AUTOCAST},
    {**_CAST},
    {**_FASTMATH},
    {**_FASTMATH, **_COMPILED},
    {"precision": "bf16", "engine": "onnxruntime"},
    {**_AUTOCAST, "mode": "script"},
)
"""bf16, with the ways of running that have bf16 kernels."""
INT8: tuple[Changes, ...] = (
    {"precision": "int8", "recipe": "torchao"},
    {"precision": "int8", "recipe": "static", **_COMPILED},
    {"precision": "int8", "recipe": "static", "engine": "onnxruntime"},
    {"precision": "int8", "recipe": "dynamic"},
    {"precision": "int8", "recipe": "dynamic", "mode": "script"},
    {"precision": "int8", "engine": "onnxruntime"},
)
"""int8, by recipes whose products are int8."""
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
PACKAGES = ("onnxruntime", "openvino")
"""Engines that are packages of this environment."""


class Environment(msgspec.Struct, frozen=True):
    """What decides which candidates make sense, as far as it is known before anything has run.

    Attributes:
        threads: the machine's default number of threads.
        logical: logical CPUs that the process may use.
        missing: what this machine or installation lacks.
    """

    threads: int
    logical: int
    missing: tuple[LeftOut, ...] = ()
    is_limited: bool = False


def read_environment(machine: Machine, base: Setting, *, has_data: bool) -> Environment:
    """Return what is missing here. torch is not imported.

    int8 may lose much accuracy, so without the user's data it is not tried.

    What takes torch to find out, such as a mode that it lacks, is refused when the settings are prepared.
    """
    missing = [
        LeftOut("malloc", name, Obstacle.UNAVAILABLE, memory.missing_library(name))
        for name in memory.LIBRARIES
        if memory.locate_library(name) is None
    ]
    problem = memory.huge_pages_problem(memory.system_mode(), machine.allocator)
    if problem is not None:
        missing.append(LeftOut("thp", "on", Obstacle.UNAVAILABLE, problem))
    if not machine.has_bf16 and base.precision == "fp32" and base.device == "cpu":
        missing.append(LeftOut("precision", "bf16", Obstacle.NO_BF16))
    if not has_data and base.precision == "fp32" and base.device == "cpu":
        missing.append(LeftOut("precision", "int8", Obstacle.NO_DATA))
    elif installed_version("torchao") is None:
        missing.append(LeftOut("recipe", "torchao", Obstacle.NOT_INSTALLED))
    for name in PACKAGES:
        if installed_version(name) is None:
            missing.append(LeftOut("engine", name, Obstacle.NOT_INSTALLED))
    try:
        jittor.interpreter()
    except EnvironmentProblem as error:
        missing.append(LeftOut("engine", "jittor", Obstacle.UNAVAILABLE, str(error)))
    logical, quota = len(allowed_cpus()), machine.threads.quota
    allowed = logical if quota is None else max(machine.threads.count, min(logical, int(quota)))
    return Environment(machine.threads.count, allowed, tuple(missing), is_limited=allowed < logical)


def declared(
    base: Setting, goal: Goal, environment: Environment, batch: int
) -> tuple[tuple[Setting, ...], tuple[LeftOut, ...]]:
    """Return the grid for ``base`` on a machine like this, the default first, and what was left out. Pure.

    Args:
        base: the default setting: the options of the call.
        goal: with ``THROUGHPUT``, larger batches are tried too.
        environment: what there is.
        batch: the batch size of ``base``, as resolved.
    """
    settings, left_out = [base], dict[LeftOut, None]()
    for changes in _listed(goal, environment, batch, left_out):
        obstacles = _obstacles(base, changes, environment)
        left_out.update(dict.fromkeys(obstacles))
        setting = base.replace(**changes) if not obstacles and _makes_sense(base, changes) else None
        if setting is not None and setting not in settings:
            settings.append(setting)
    return tuple(settings), tuple(left_out)


def exact(base: Setting, settings: Sequence[Setting], environment: Environment, batch: int) -> tuple[Setting, ...]:
    """Return the grid of ``--vary``: these settings, after the default. Pure.

    Args:
        base: the default setting.
        settings: what is varied; what is the default anyway, such as its number of threads, is not measured twice.
        environment: what there is.
        batch: the batch size of ``base``, as resolved.

    Raises:
        UsageError: there are too many, or none besides the default.
    """
    usual = {"threads": environment.threads, "batch": batch}
    found = [base]
    for setting in settings:
        same = {name: getattr(base, name) for name, value in usual.items() if getattr(setting, name) == value}
        plain = setting.replace(**same)
        if plain not in found:
            found.append(plain)
    if not 1 < len(found) <= LARGEST:
        count = len(found) - 1
        raise UsageError(f"--vary names {count} settings besides the default; a search needs 1 to {LARGEST - 1}")
    return tuple(found)


def _listed(goal: Goal, environment: Environment, batch: int, left_out: dict[LeftOut, None]) -> Iterator[Changes]:
    yield from MODES[:2]
    if goal is Goal.THROUGHPUT:
        # Four and sixteen times the batch, with the ways of running that usually win.
        for factor in (4, 16):
            for changes in ({}, _COMPILED, {"engine": "openvino"}, {"engine": "onnxruntime"}):
                yield {**changes, "batch": batch * factor}
    yield from MODES[2:5]
    yield from BF16
    yield from MODES[5:]
    # Half as many threads as there are cores, and one per logical CPU.
    half, logical = environment.threads // 2, environment.logical
    for threads in [*([half] if half >= 1 else []), *([logical] if logical > environment.threads else [])]:
        yield {"threads": threads}
        yield {**_COMPILED, "threads": threads}
    if half < 1:
        left_out[LeftOut("threads", None, Obstacle.QUOTA if environment.is_limited else Obstacle.ONE_CORE)] = None
    elif logical <= environment.threads:
        obstacle = Obstacle.QUOTA if environment.is_limited else Obstacle.ONE_HARDWARE_THREAD
        left_out[LeftOut("threads", str(2 * environment.threads), obstacle)] = None
    yield from MEMORY
    yield from INT8
    yield from LAST


def _obstacles(base: Setting, changes: Changes, environment: Environment) -> list[LeftOut]:
    """Why these changes cannot be tried here: the first thing that is missing, or else what the call fixes."""
    for name, value in changes.items():
        for each in environment.missing:
            if each.field == name and each.value in (value_text(value), None):
                return [each]
    # What the call fixes is not varied: it belongs to the default.
    fixed = [name for name in changes if getattr(base, name) != DEFAULTS[name]]
    return [LeftOut(name, None, Obstacle.FIXED) for name in fixed] if _makes_sense(base, changes) else []


def _makes_sense(base: Setting, changes: Changes) -> bool:
    """Other engines than torch have no modes, and accelerators have no int8."""
    if changes.get("precision") == "int8" and base.device != "cpu":
        return False
    return bool(changes.get("engine", base.engine) == "torch" or changes.get("mode", base.mode) == "eager")
