"""Load the model of a job and make its inputs, ready to run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Optional, Union

from modelzoo.engines.export.store import read_inputs
from modelzoo.engines.protocol import Engine, Model, Session
from modelzoo.measure.staging import Staged, declared_stages, staged, without_staged_parts
from modelzoo.records.protocol import InstanceJob, MeasureJob
from modelzoo.workload import Inputs, Workload
from modelzoo.workload.batches import make_inputs


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Import without collecting garbage: there is hardly any, and looking for it takes a fifth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # what was imported stays, so it need not be looked through before sampling either
        gc.enable()


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


def build(engine: Engine, session: Session, work: Workload, job: Union[MeasureJob, InstanceJob]) -> Built:
    """Load the model of ``job`` in an active session.

    Raises:
        ModelzooError: it cannot be loaded, or the inputs cannot be read.
    """
    started = perf_counter()
    pipeline = None
    with engine.explained_errors():
        if job.resolved.in_flight is None:
            inputs = make_inputs(work, job.resolved, job.weights) if job.export is None else read_inputs(job.export)
            model = session.load(work, job.weights, inputs, job.export)
        else:
            stages = declared_stages(work, job.resolved, job.weights)
            own = Inputs(stages.model_input().args, stages.items) if job.export is None else read_inputs(job.export)
            inputs, work = own, without_staged_parts(work, stages)
            model = session.load(work, job.weights, inputs, job.export)
            pipeline = staged(stages, model, session, job.resolved, exported=job.export is not None)
    args = model.prepare(inputs.args)
    seconds = perf_counter() - started - (model.compile_seconds or 0.0)
    return Built(model, inputs, args, seconds, pipeline)
