"""Run settings in fresh processes, interleaved, and yield each run as it ends. The parent's side.

Rounds go A B, B A, A B …. The workers of a round are alive at the same time and sample in alternating half-second
turns, so that a machine whose speed drifts affects all settings alike.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

from modelzoo.errors import KINDS, ModelzooError, WorkerError
from modelzoo.measure.jobs import JobEnvironment, job_environment, prepare_environment, prepare_job
from modelzoo.measure.launcher import Launcher, LocalLauncher
from modelzoo.measure.process import WorkerProcess, call
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.protocol import (
    Exhibited,
    Judged,
    Measured,
    MeasureJob,
    Message,
    Preparation,
    Prepared,
    Progress,
    ValidateJob,
)
from modelzoo.records.run import Run, RunReport, ValidityReport, now
from modelzoo.records.validity import ValidityRequest
from modelzoo.records.workload import Weights
from modelzoo.setting import PROCESSES, Plan, ResolvedSetting, Setting, labels
from modelzoo.workload import Workload


@dataclass(frozen=True)
class Event:
    """Progress of one worker: which workload, setting (by its label) and round, and its message."""

    workload: str
    label: str
    round: int
    message: Progress


OnEvent = Callable[[Event], None]


@dataclass(frozen=True)
class Request:
    """One workload with the settings to compare; the first is the baseline.

    ``first_group`` is the number of the first setting's group in the result; ``engine`` is what ``create_engine``
    takes.
    """

    workload: Workload
    settings: tuple[Setting, ...]
    plan: Plan
    processes: int = PROCESSES
    profiling: bool = False
    trace: Optional[str] = None
    audit: bool = True
    first_group: int = 0
    engine: str = "torch"
    launcher: Launcher = field(default_factory=LocalLauncher)


def order(settings: int, round_number: int) -> Sequence[int]:
    """Return the indices of the settings in the order of one round: forwards in even rounds, backwards in odd ones."""
    return range(settings) if round_number % 2 == 0 else range(settings)[::-1]


def run(request: Request, on_event: OnEvent) -> Iterator[Run]:
    """Yield each run as it ends; a run that failed is yielded too, with its reason.

    The settings are resolved first, in one process. A setting that reported an error is not tried again in later
    rounds; a worker that died is replaced in the next round, be it this first one.
    """
    prepared: tuple[Preparation, ...] = ()
    state = _State()
    for round_number in range(request.processes):
        if not prepared or any(each.error_kind == WorkerError.__name__ for each in prepared):
            prepared = prepare(request, on_event)
        with ExitStack() as stack:
            paused: list[WorkerRun] = []
            for index in order(len(request.settings), round_number):
                if index in state.impossible:
                    continue
                worker = WorkerRun(request, index, round_number, on_event)
                done = worker.start(prepared[index], index not in state.measured, stack)
                if done is None:
                    paused.append(worker)
                    continue
                state.remember(index, done)
                yield done
            for worker in alternate(paused):
                done = worker.finish()
                state.remember(worker.index, done)
                yield done


@dataclass
class _State:
    """Indices of the settings that have been measured, and of those that reported why they cannot run."""

    measured: set[int] = field(default_factory=set)
    impossible: set[int] = field(default_factory=set)

    def remember(self, index: int, done: Run) -> None:
        if done.error is None:
            self.measured.add(index)
        elif done.error_kind != WorkerError.__name__:
            self.impossible.add(index)


def prepare(request: Request, on_event: OnEvent) -> tuple[Preparation, ...]:
    """Resolve all settings of ``request`` and their weights in one process.

    If the process itself fails, each setting gets its error.
    """
    label = labels(request.settings)[0] if request.settings else ""
    listener = _listener(request.workload.name, label, 0, on_event)
    try:
        job = prepare_job(request.workload, request.settings, request.engine)
        return call(request.launcher, job, prepare_environment().variables, Prepared, listener).settings
    except ModelzooError as problem:
        return (Preparation(error=str(problem), error_kind=type(problem).__name__),) * len(request.settings)


def _required(prepared: Preparation) -> tuple[ResolvedSetting, Weights]:
    """Return the resolved setting and its weights, or raise the reason why there are none."""
    if prepared.resolved is None or prepared.weights is None:
        raise KINDS.get(prepared.error_kind, ModelzooError)(prepared.error or "the setting was not resolved")
    return prepared.resolved, prepared.weights


def alternate(paused: Sequence[WorkerRun]) -> Iterator[WorkerRun]:
    """Let workers sample in alternating turns until all are precise enough; yield each as it ends."""
    waiting = list(paused)
    while waiting:
        go_on = not all(worker.process.is_precise for worker in waiting)
        for worker in list(waiting):
            worker.process.resume(go_on)
            if not worker.process.advance():
                waiting.remove(worker)
                yield worker


class WorkerRun:
    """One setting in one round."""

    process: WorkerProcess

    def __init__(self, request: Request, index: int, round_number: int, on_event: OnEvent) -> None:
        self.index = index
        self._request, self._round = request, round_number
        self._started = now()
        label = labels(request.settings)[index]
        self._listener = _listener(request.workload.name, label, round_number, on_event)

    def start(self, prepared: Preparation, extras: bool, stack: ExitStack) -> Run | None:
        """Start the worker and wait until it pauses; return its run if it has ended already.

        Args:
            prepared: the setting as resolved.
            extras: also collect what only one process per setting must provide.
            stack: kills the worker when it is closed.
        """
        try:
            job, environment = self._job(prepared, extras)
            self.process = stack.enter_context(
                WorkerProcess(self._request.launcher, job, environment.variables, self._listener)
            )
            return None if self.process.advance() else self.finish()
        except ModelzooError as problem:
            return self._failed(problem)

    def _job(self, prepared: Preparation, extras: bool) -> tuple[MeasureJob, JobEnvironment]:
        request = self._request
        resolved, weights = _required(prepared)
        environment = job_environment(prepared.variables)
        job = MeasureJob(
            directory=str(request.workload.directory),
            asked=request.settings[self.index],
            resolved=resolved,
            weights=weights,
            plan=request.plan,
            parent=os.getpid(),
            changes=environment.changes,
            math_mode=prepared.math_mode,
            engine=request.engine,
            audit=request.audit,
            extras=extras,
            profiling=request.profiling,
            trace=_trace(request.trace, self.index),
            turns=len(request.settings) > 1,
        )
        return job, environment

    def finish(self) -> Run:
        """Return the run of the worker, which has ended."""
        try:
            report = self.process.result(Measured).report
        except ModelzooError as problem:
            return self._failed(problem)
        return self._run(report=report)

    def _failed(self, problem: ModelzooError) -> Run:
        """Return the run of a worker that failed."""
        return self._run(error=str(problem), error_kind=type(problem).__name__)

    def _run(
        self, report: Optional[RunReport] = None, error: Optional[str] = None, error_kind: Optional[str] = None
    ) -> Run:
        return Run(
            workload=self._request.workload.name,
            group=self._request.first_group + self.index,
            asked=self._request.settings[self.index],
            round=self._round,
            started=self._started,
            ended=now(),
            report=report,
            error=error,
            error_kind=error_kind,
        )


def validate(
    request: Request, validity: ValidityRequest, on_event: OnEvent, on_exhibit: Callable[[Exhibit], None]
) -> ValidityReport:
    """Judge the only setting of ``request`` in a fresh process, with fp32 as the reference.

    Raises:
        ModelzooError: it could not be judged.
    """
    (setting,) = request.settings
    (prepared,) = prepare(request, on_event)
    resolved, weights = _required(prepared)
    environment = job_environment(prepared.validation_variables)
    job = ValidateJob(
        directory=str(request.workload.directory),
        asked=setting,
        resolved=resolved,
        weights=weights,
        parent=os.getpid(),
        changes=environment.changes,
        math_mode=prepared.math_mode,
        engine=request.engine,
        request=validity,
    )
    listener = _listener(request.workload.name, setting.label, 0, on_event, on_exhibit)
    return call(request.launcher, job, environment.variables, Judged, listener).report


def _listener(
    workload: str,
    label: str,
    round_number: int,
    on_event: OnEvent,
    on_exhibit: Optional[Callable[[Exhibit], None]] = None,
) -> Callable[[Message], None]:
    def listen(message: Message) -> None:
        if isinstance(message, Progress):
            on_event(Event(workload, label, round_number, message))
        elif isinstance(message, Exhibited) and on_exhibit is not None:
            on_exhibit(message.exhibit)

    return listen


def _trace(path: Optional[str], index: int) -> Optional[str]:
    """One file per setting: ``trace.json``, ``trace-1.json`` …."""
    if path is None or index == 0:
        return path
    return str(Path(path).with_name(f"{Path(path).stem}-{index}{Path(path).suffix}"))
