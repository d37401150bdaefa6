"""Make a workload's pipeline ready in a worker process, and time it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Optional

from modelzoo.engines.protocol import AsynchronousDevice, Model, Session
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.measure import sampler
from modelzoo.measure.in_flight import InFlight
from modelzoo.measure.pipeline import Step, steps_of
from modelzoo.measure.pipeline_clock import InFlightClock, PipelineClock
from modelzoo.measure.pipeline_trace import TracedBatch, of_flights, of_passes
from modelzoo.plan import Plan
from modelzoo.records.export import Export
from modelzoo.records.pipeline import PER_BATCH, Pipeline
from modelzoo.records.timing import Timing
from modelzoo.records.workload import Weights
from modelzoo.setting import ResolvedSetting
from modelzoo.validity.prefetch import limit_openmp_to_one_thread
from modelzoo.workload import InputRequest, Workload
from modelzoo.workload.declaration import ModelInput, ModelOutput, Stages, input_request, whole_model


def require_stages(work: Workload) -> Callable[[InputRequest], Stages]:
    """Return the function that makes the stages of ``work``.

    Raises:
        UsageError: it declares none.
    """
    if work.stages is None:
        raise UsageError(f"workload {work.name} declares no stages; see docs/workload.md")
    return work.stages


def declared_stages(work: Workload, setting: ResolvedSetting, weights: Weights) -> Stages:
    """Return the stages that ``work`` declares for ``setting``.

    Raises:
        UsageError: it declares none.
    """
    return require_stages(work)(input_request(setting, weights))


def check_stages(
    work: Workload, setting: ResolvedSetting, weights: Weights, export: Optional[Export], interpreter: Optional[str]
) -> None:
    """Check that the stages of ``work`` can run with the engine of ``setting``.

    Raises:
        UsageError: they cannot; the message says why.
    """
    stages = declared_stages(work, setting, weights)
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


def without_staged_parts(work: Workload, stages: Stages) -> Workload:
    """``work`` with a model from which the parts are taken that are stages of their own."""
    load = work.load
    return replace(
        work,
        build=lambda options: stages.part(work.build(options)),
        load=None if load is None else lambda options, path: stages.part(load(options, path)),
    )


@dataclass(frozen=True)
class Staged:
    """A pipeline that is ready to run.

    Attributes:
        steps: its stages in this process.
        source: the batch that the first one takes.
        in_flight: batches in it at the same time.
        device: the accelerator; ``None`` for a CPU.
        active: makes the context in which stages run.
    """

    steps: tuple[Step, ...]
    source: Any
    in_flight: int
    device: Optional[AsynchronousDevice]
    active: Callable[[], Any]

    def record(self) -> Pipeline:
        """What the result stores of it."""
        return Pipeline(tuple(step.record() for step in self.steps), self.in_flight)


def staged(stages: Stages, model: Model, session: Session, setting: ResolvedSetting, *, exported: bool) -> Staged:
    """Put ``model`` between the stages.

    Args:
        exported: whether the engine runs a converted model, whose inputs and outputs ``Model.predict`` converts.
    """
    assert setting.in_flight is not None

    def run(value: ModelInput) -> ModelOutput:
        output = model.predict(*value.args) if exported else model.call(*model.prepare(value.args))
        return ModelOutput(output, value.context)

    steps = steps_of(stages, run, session.device, setting.device)
    return Staged(steps, stages.source, setting.in_flight, session.device, session.active)


def time_pipeline(
    pipeline: Staged, plan: Plan, progress: sampler.Progress, pause: sampler.Pause
) -> tuple[Timing, Sequence[TracedBatch]]:
    """Time the stages and the whole; return the samples, and the last batches for a trace."""
    if pipeline.in_flight == 1:
        clock = PipelineClock(pipeline.steps, pipeline.source, pipeline.device)
        return sampler.measure(clock.run, clock, plan, progress, pause), of_passes(clock.passes)

    @contextmanager
    def entered() -> Iterator[None]:
        limit_openmp_to_one_thread()
        with pipeline.active():
            yield

    with InFlight(pipeline.steps, pipeline.in_flight, pipeline.device, entered) as flight:
        flying = InFlightClock(flight, pipeline.source)
        timing = sampler.measure(flying.run, flying, plan, progress, pause, watched=PER_BATCH)
    return timing, of_flights(flying.flights)
