"""Preparing settings: everything that is decided once, before any process is timed."""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec

from modelzoo.engines import create_engine
from modelzoo.engines.export.source import TorchSource
from modelzoo.engines.protocol import Engine
from modelzoo.errors import EnvironmentProblem, ModelzooError, UsageError, WeightsError
from modelzoo.machine.cpu import usable_threads
from modelzoo.machine.environment import memory_variables
from modelzoo.machine.installation import import_torch
from modelzoo.measure.loading import check_generation, check_stages, require_stages
from modelzoo.records.protocol import Assignment, Preparation, PrepareJob, Progress, Send
from modelzoo.records.run import Prepared
from modelzoo.records.workload import Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload import InputRequest, Workload
from modelzoo.workload.discovery import load_workload
from modelzoo.workload.state import weights_files, weights_sha256
from modelzoo.workload.weights import resolve_weights


def prepare(job: PrepareJob, send: Send) -> tuple[Preparation, ...]:
    """Resolve every setting of ``job`` and its weights, in their order.

    A setting that cannot run does not keep the others from running.

    Raises:
        ModelzooError: nothing can run: the workload cannot be loaded.
    """
    threads = usable_threads().count  # first: OpenMP libraries may bind this thread to one CPU when they are loaded
    work = load_workload(Path(job.directory))
    loaded = functools.cache(_loaded)
    # The weights that other workers have found or made, as far as this one can read the same file.
    weights = {_weights_key(each.setting): each.weights for each in job.earlier if _is_here(each.weights)}
    shared = _Shared(work, job.math_mode, send, weights, {})
    preparations = []
    for requested in job.settings:
        try:
            engine = loaded(requested.engine)
            resolved = resolve(engine, work, requested, threads, job.math_mode)
            preparations.append(_prepared(engine, resolved, shared))
        except ModelzooError as error:
            preparations.append(Preparation(error=str(error), error_kind=type(error).__name__))
        except PermissionError as error:
            reason = f"{error.filename} cannot be read: permission denied to the user of the worker; change its mode"
            preparations.append(Preparation(error=reason, error_kind=UsageError.__name__))
    return tuple(preparations)


def _loaded(name: str) -> Engine:
    engine = create_engine(name)
    engine.load()
    import_torch()  # it makes the weights, and what other engines convert
    return engine


class _Shared(msgspec.Struct, frozen=True):
    """What the settings of a job share: weights by ``_weights_key``, and the latest torch module."""

    work: Workload
    math_mode: str
    send: Send
    weights: dict[tuple[object, ...], Weights]
    sources: dict[tuple[object, ...], TorchSource]


def _prepared(engine: Engine, resolved: ResolvedSetting, shared: _Shared) -> Preparation:
    work = shared.work
    shared.send(Progress("weights"))
    memory = memory_variables(resolved)
    with engine.explained_errors():
        # What the user may have got wrong comes first: making weights takes longest.
        if resolved.stages:
            require_stages(work)
        check_generation(work, resolved)
        if resolved.input is not None:
            work.inputs(InputRequest(1, resolved.seed, Path(resolved.input), resolved.options))
        interpreter = engine.interpreter()
        key = _weights_key(resolved)
        if key not in shared.weights:
            shared.weights[key] = resolve_weights(work, resolved.options, resolved.weights, resolved.seed)
        if resolved.engine != "torch":
            shared.send(Progress("export"))
        batch = (*key, resolved.batch, resolved.input)
        if batch not in shared.sources:
            shared.sources.clear()  # Only one is kept: models are large.
            # Nothing of it is made before an engine asks for it.
            shared.sources[batch] = TorchSource(work, resolved, shared.weights[key])
        export = engine.export(resolved, shared.sources[batch])
        if resolved.stages:
            check_stages(work, resolved, shared.weights[key], export, interpreter)
    return Preparation(
        Prepared(resolved, shared.weights[key], export),
        math_mode=shared.math_mode,
        variables={**engine.variables(resolved), **memory},
        validation_variables={**engine.variables(resolved, with_reference=True), **memory},
        interpreter=interpreter,
    )


def _weights_key(resolved: ResolvedSetting) -> tuple[object, ...]:
    """What decides which weights a setting of one workload has."""
    return resolved.weights, resolved.seed, tuple(sorted(resolved.options.items()))


def _is_here(weights: Weights) -> bool:
    try:
        files = weights_files(Path(weights.path))
        return bool(files) and weights_sha256(files) == weights.sha256
    except (OSError, WeightsError):  # closed to this process's user, which need not be that of the other worker
        return False


def resolve(engine: Engine, work: Workload, requested: Setting, threads: int, math_mode: str) -> ResolvedSetting:
    """Decide everything that ``requested`` leaves open; the only place where that happens.

    Args:
        threads: the machine's default, as it was before ``engine`` was loaded.

    Raises:
        UsageError: an option of the workload is not valid.
        EnvironmentProblem: this machine or engine cannot run the setting.
    """
    complete = requested.replace(options=work.option_values(requested.options, requested.weights))
    engine.check(complete)
    return engine.resolve(complete, batch=work.batch, threads=threads, math_mode=math_mode)


def check_resolution(engine: Engine, work: Workload, assignment: Assignment, threads: int) -> None:
    """Check that this process would resolve the setting of ``assignment`` as the ``prepare`` process did.

    Args:
        threads: as for ``resolve``.

    Raises:
        EnvironmentProblem: it would not; the message names the first difference.
    """
    requested, resolved = assignment.requested, assignment.setting
    here = resolve(engine, work, requested, threads, assignment.math_mode)
    for name in resolved.__struct_fields__:
        expected, found = getattr(resolved, name), getattr(here, name)
        if expected != found:
            raise EnvironmentProblem(
                f"this process would run {requested.label} with {name} {found}, but {expected} was decided for all "
                "processes of the call; did the machine or its limits change meanwhile?"
            )
