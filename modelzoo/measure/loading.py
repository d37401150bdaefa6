"""Load the model of a job and make its inputs, ready to run."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Optional

from modelzoo.engines import create_engine
from modelzoo.engines.export.store import read_inputs
from modelzoo.engines.protocol import Engine, Model, Session
from modelzoo.measure.garbage import without_collection
from modelzoo.measure.staging import Staged, declared_stages, staged, without_staged_parts
from modelzoo.records.protocol import Assignment
from modelzoo.workload import Inputs, Workload
from modelzoo.workload.declaration import make_inputs
from modelzoo.workload.discovery import load_workload


@dataclass(frozen=True)
class Imported:
    """The engine of a job and its workload, with all that they import, and how many seconds that took."""

    engine: Engine
    workload: Workload
    seconds: float


def imported(job: Assignment) -> Imported:
    """Import the engine of ``job`` and what its workload's model is made of.

    No garbage is collected meanwhile: there is hardly any, and looking for it takes a fifth of the time.

    Raises:
        ModelzooError: something is not installed.
    """
    started = perf_counter()
    with without_collection():
        engine = create_engine(job.setting.engine)
        engine.load()
        work = load_workload(Path(job.directory))
        with engine.explained_errors():
            # An exported model needs nothing of what the workload's torch module is made of, and not its inputs either.
            for name in work.libraries if job.prepared.export is None or job.setting.in_flight is not None else ():
                import_module(name)
        gc.freeze()  # what was imported stays, so it need not be looked through before sampling either
    return Imported(engine, work, perf_counter() - started)


@dataclass(frozen=True)
class Built:
    """A model that is ready to run, its inputs as the workload made them and as the model takes them.

    Attributes:
        seconds: how long that took, without compiling.
        pipeline: the stages that are timed; ``None`` if the model alone is.
    """

    model: Model
    inputs: Inputs
    args: tuple[Any, ...]
    seconds: float
    pipeline: Optional[Staged] = None


def build(engine: Engine, session: Session, work: Workload, job: Assignment) -> Built:
    """Load the model of ``job`` in an active session.

    Raises:
        ModelzooError: it cannot be loaded, or the inputs cannot be read.
    """
    started = perf_counter()
    pipeline, weights, export = None, job.prepared.weights, job.prepared.export
    with engine.explained_errors():
        if job.setting.in_flight is None:
            inputs = make_inputs(work, job.setting, weights) if export is None else read_inputs(export)
            model = session.load(work, weights, inputs, export)
        else:
            stages = declared_stages(work, job.setting, weights)
            own = Inputs(stages.model_input().args, stages.items) if export is None else read_inputs(export)
            inputs, work = own, without_staged_parts(work, stages)
            model = session.load(work, weights, inputs, export)
            pipeline = staged(stages, model, session, job.setting, exported=export is not None)
    args = model.prepare(inputs.args)
    seconds = perf_counter() - started - (model.compile_seconds or 0.0)
    return Built(model, inputs, args, seconds, pipeline)
