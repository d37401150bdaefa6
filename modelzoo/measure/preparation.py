"""Prepare settings, all that is decided once before any process is timed; load the model of one, and make its inputs.

Some models change their inputs in place. The first call shows whether one does. If so, they are restored before every
later one, outside of the timing, and whatever looks at the model afterwards gives copies to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from modelzoo.engines import create_engine
from modelzoo.engines.export.source import TorchSource
from modelzoo.engines.export.store import read_inputs
from modelzoo.engines.protocol import ComposableModel, Engine, Model, Session
from modelzoo.errors import EnvironmentProblem, ModelzooError, UsageError, WeightsError
from modelzoo.frozen import replace
from modelzoo.machine.environment import memory_variables
from modelzoo.machine.facts import usable_threads
from modelzoo.machine.installation import import_torch
from modelzoo.measure.pipeline import Generating, PipelineClock, moved, steps_of
from modelzoo.measure.sampler import Clock, Times
from modelzoo.records.protocol import Assignment, Preparation, PrepareJob, Progress, Send
from modelzoo.records.run import Prepared
from modelzoo.records.workload import Export, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload import InputRequest, Inputs, Workload
from modelzoo.workload.declaration import ModelInput, ModelOutput, Stages, input_request, make_inputs, whole_model
from modelzoo.workload.discovery import load_workload
from modelzoo.workload.nested import leaves
from modelzoo.workload.state import weights_files, weights_sha256
from modelzoo.workload.weights import resolve_weights


def require_stages(work: Workload) -> Callable[[InputRequest], Stages]:
    """Return the function that makes the stages of ``work``.

    Raises:
        UsageError: it declares none.
    """
    if work.stages is None:
        raise UsageError(f"workload {work.name} declares no stages; see docs/workload.md")
    return work.stages


def check_stages(
    work: Workload, setting: ResolvedSetting, weights: Weights, export: Export | None, interpreter: str | None
) -> None:
    """Check that the stages of ``work`` can run with the engine of ``setting``.

    Raises:
        UsageError: they cannot; the message says why.
    """
    stages = require_stages(work)(input_request(setting, weights))
    if interpreter is not None:
        raise UsageError(
            f"engine {setting.engine} runs in an environment of its own, which lacks what the stages of {work.name} "
            "need; leave --stages out, or use another engine"
        )
    if export is not None and stages.part is not whole_model:
        raise UsageError(
            f"stages of {work.name} take over a part of its torch module, and engine {setting.engine} runs the whole "
            "model; leave --stages out, or use --engine torch"
        )


def check_generation(work: Workload, setting: ResolvedSetting) -> None:
    """Check that a workload which generates tokens can do so under ``setting``.

    Raises:
        UsageError: it cannot; the message says what to use instead.
    """
    if work.generate is None:
        return
    problem = (
        f"--engine {setting.engine} runs one forward pass; use --engine torch"
        if setting.engine != "torch"
        else f"--mode {setting.mode} has no cache that grows; use --mode eager"
        if setting.mode != "eager"
        else "its tokens are on the host anyway; leave --include-copies out"
        if setting.include_copies
        else ""
    )
    if problem:
        raise UsageError(f"{work.name} generates tokens one by one, and {problem}")
    work.generate(setting.options)


class Built(msgspec.Struct, frozen=True):
    """A model that is ready to run, its inputs as the workload made them and as the model takes them.

    Attributes:
        seconds: how long that took, without compiling.
        pipeline: the stages that are timed; ``None`` if the model alone is.
        generating: the generation that a call of ``model`` is; ``None`` if it is one forward pass.
        changes_inputs: whether the model changes its inputs in place; ``model`` then gets a copy of them in each call.
    """

    model: Model
    inputs: Inputs
    args: tuple[Any, ...]
    seconds: float
    pipeline: PipelineClock | None = None
    generating: Generating | None = None
    changes_inputs: bool = False


def build(engine: Engine, session: Session, work: Workload, job: Assignment) -> Built:
    """Load the model of ``job`` in an active session.

    Raises:
        ModelzooError: it cannot be loaded, or the inputs cannot be read.
    """
    started = perf_counter()
    pipeline, weights, export = None, job.prepared.weights, job.prepared.export
    with engine.explained_errors():
        if not job.setting.stages:
            inputs = make_inputs(work, job.setting, weights) if export is None else read_inputs(export)
            model = session.load(work, weights, inputs, export)
        else:
            stages = require_stages(work)(input_request(job.setting, weights))
            own = Inputs(stages.model_input().args, stages.items) if export is None else read_inputs(export)
            inputs, whole, load = own, work.build, work.load
            # The model without the parts that are stages of their own.
            work = replace(
                work,
                build=lambda options: stages.part(whole(options)),
                load=None if load is None else lambda options, path: stages.part(load(options, path)),
            )
            model = session.load(work, weights, inputs, export)

            def run(value: ModelInput) -> ModelOutput:
                # An engine that runs a converted model converts inputs and outputs in ``predict``.
                is_plain = export is None
                output = model.call(*model.prepare(value.args)) if is_plain else model.predict(*value.args)
                return ModelOutput(output, value.context)

            steps = steps_of(stages, run, session.device, job.setting.device)
            pipeline = PipelineClock(steps, stages.source, session.device)
    args, generating = model.prepare(inputs.args), None
    seconds = perf_counter() - started - (model.compilation.seconds if model.compilation is not None else 0.0)
    if work.generate is not None:
        assert isinstance(model, ComposableModel), "check_generation refuses other engines"
        generating = Generating(work.generate(job.setting.options), model, args)
        model = generating.whole()
    return Built(model, inputs, args, seconds, pipeline, generating)


class KeptInputs:
    """The arrays in prepared arguments, as they were before the first call.

    Args:
        args: nested lists, tuples and dicts; what is neither a numpy array nor a dense tensor of torch is left alone.
    """

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.args = args
        self._arrays = [each for each in leaves(args) if _is_dense(each)]
        self._copies = [each.clone() if hasattr(each, "clone") else each.copy() for each in self._arrays]
        self._was_called = False
        self.changed = False
        """Whether the first call has changed them."""

    def look(self) -> None:
        """Find out whether the call before has changed them, if it was the first."""
        if not self._was_called:
            self._was_called = True
            self.changed = not all(map(_equal, self._arrays, self._copies))

    def restore(self) -> None:
        """Make them as they were, in place; nothing if they do not change."""
        if self.changed:
            for array, copy in zip(self._arrays, self._copies):
                array[...] = copy


def restoring(clock: Clock, inputs: KeptInputs) -> Clock:
    """Return a clock that restores the inputs before and after each call, outside of what it times."""

    def time(call: Callable[[], Any]) -> Times:
        inputs.restore()
        sample = clock(call)
        inputs.look()
        inputs.restore()  # a turn may begin with a call that is not timed
        return sample

    return time


def with_own_inputs(built: Built, inputs: KeptInputs) -> Built:
    """``built`` after the timing: if its model changes its inputs, each call gets a copy of them from now on."""
    inputs.restore()
    own = built.model if built.generating is None else built.generating.model
    if not inputs.changed or not isinstance(own, ComposableModel):
        return built
    own = own.composed(lambda forward: lambda *args: forward(*moved(args, lambda tensor: tensor.clone())))
    if built.generating is None:
        return replace(built, model=own, changes_inputs=True)
    generating = replace(built.generating, model=own)
    return replace(built, model=generating.whole(), generating=generating, changes_inputs=True)


def _is_dense(value: Any) -> bool:
    import numpy as np

    return isinstance(value, np.ndarray) or str(getattr(value, "layout", "")) == "torch.strided"


def _equal(first: Any, second: Any) -> bool:
    """Whether two arrays hold the same numbers; NaN is the same as NaN."""
    return bool(((first == second) | ((first != first) & (second != second))).all())


def prepare(job: PrepareJob, send: Send) -> tuple[Preparation, ...]:
    """Resolve every setting of ``job`` and its weights, in their order.

    A setting that cannot run does not keep the others from running.

    Raises:
        ModelzooError: nothing can run: the workload cannot be loaded.
    """
    threads = usable_threads().count  # first: OpenMP libraries may bind this thread to one CPU when they are loaded
    work = load_workload(Path(job.directory))
    # The weights that other workers have found or made, as far as this one can read the same file.
    weights = {_weights_key(each.setting): each.weights for each in job.earlier if _is_here(each.weights)}
    sources: dict[tuple[object, ...], TorchSource] = {}

    @functools.cache
    def loaded(name: str) -> Engine:
        engine = create_engine(name)
        engine.load()
        import_torch()  # it makes the weights, and what other engines convert
        return engine

    def prepared(engine: Engine, resolved: ResolvedSetting) -> Preparation:
        send(Progress("weights"))
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
            if key not in weights:
                weights[key] = resolve_weights(work, resolved.options, resolved.weights, resolved.seed)
            if resolved.engine != "torch":
                send(Progress("export"))
            batch = (*key, resolved.batch, resolved.input)
            if batch not in sources:
                sources.clear()  # Only one is kept: models are large.
                # Nothing of it is made before an engine asks for it.
                sources[batch] = TorchSource(work, resolved, weights[key])
            export = engine.export(resolved, sources[batch])
            if resolved.stages:
                check_stages(work, resolved, weights[key], export, interpreter)
        return Preparation(
            Prepared(resolved, weights[key], export),
            math_mode=job.math_mode,
            variables={**engine.variables(resolved), **memory},
            validation_variables={**engine.variables(resolved, with_reference=True), **memory},
            interpreter=interpreter,
        )

    preparations = []
    for requested in job.settings:
        try:
            engine = loaded(requested.engine)
            resolved = resolve(engine, work, requested, threads, job.math_mode)
            preparations.append(prepared(engine, resolved))
        except ModelzooError as error:
            preparations.append(Preparation(error=str(error), error_kind=type(error).__name__))
        except PermissionError as error:
            reason = f"{error.filename} cannot be read: permission denied to the user of the worker; change its mode"
            preparations.append(Preparation(error=reason, error_kind=UsageError.__name__))
    return tuple(preparations)


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
