"""What the parent is asked to run, the jobs that follow for its workers, and those that one process does on its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import NoneType

import msgspec

from modelzoo.errors import KINDS, ModelzooError, WorkerError
from modelzoo.frozen import replace
from modelzoo.machine import environment
from modelzoo.machine.facts import usable_threads
from modelzoo.measure.container import ContainerLauncher, Launcher
from modelzoo.measure.launcher import LocalLauncher
from modelzoo.measure.process import Remote
from modelzoo.plan import Plan
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.fleet import Shard, ShardPlan, ShardResult
from modelzoo.records.machine import OPENMP_AND_BLAS_THREADS
from modelzoo.records.protocol import Assignment, Looks, Message, Preparation, PrepareJob, Progress
from modelzoo.records.race import InstancePlace
from modelzoo.records.run import EnvironmentChanges, Prepared, ValidityReport
from modelzoo.records.validity import Validity, ValidityRequest
from modelzoo.records.workload import LocalWeights, Weights
from modelzoo.setting import Setting, labels
from modelzoo.workload import Workload


class Event(msgspec.Struct, frozen=True):
    """Progress of one worker: which workload, setting (by its label) and round, and its message."""

    workload: str
    label: str
    round: int
    message: Progress


OnEvent = Callable[[Event], None]
OnExhibit = Callable[[Exhibit], None]


class Request(msgspec.Struct, frozen=True):
    """One workload with the settings to compare; the first is the baseline.

    ``first_group`` is the number of the first setting's group in the result; ``locked_mhz`` is the frequency that the
    GPUs' clocks are locked at; with ``needs_all``, no setting is worth measuring without the others; ``timeout`` is
    that of ``Remote``, for every worker.
    """

    workload: Workload
    settings: tuple[Setting, ...]
    plan: Plan
    profiling: bool = False
    audit: bool = True
    first_group: int = 0
    locked_mhz: int | None = None
    needs_all: bool = False
    timeout: float | None = None

    def launcher_of(
        self, setting: Setting, interpreter: str | None = None, cpus: frozenset[int] | None = None
    ) -> Launcher:
        """Return what starts the workers of ``setting``.

        Args:
            interpreter: the one that the measuring workers of its engine need (``Preparation.interpreter``), on this
                machine or in the image.
            cpus: the logical CPUs that they are restricted to, by default those of this process.
        """
        if setting.image is not None:
            return ContainerLauncher(setting.image, interpreter or "python3", cpus)
        return LocalLauncher(interpreter or setting.python or sys.executable, cpus)


def listener(
    workload: str, label: str, round_number: int, on_event: OnEvent, on_exhibit: OnExhibit | None = None
) -> Callable[[Message], None]:
    """Return what passes on a worker's messages as events and exhibits."""

    def listen(message: Message) -> None:
        if isinstance(message, Progress):
            on_event(Event(workload, label, round_number, message))
        elif isinstance(message, Exhibit) and on_exhibit is not None:
            on_exhibit(message)

    return listen


def only_silence(on_event: OnEvent) -> OnEvent:
    """Return ``on_event`` for workers whose progress is not shown, unless they do not answer."""
    return lambda event: on_event(event) if event.message.silence is not None else None


def prepare_job(
    workload: Workload,
    settings: tuple[Setting, ...],
    environ: Mapping[str, str] = os.environ,
    earlier: tuple[Prepared, ...] = (),
) -> PrepareJob:
    """Return the job that resolves ``settings``.

    Args:
        environ: the variables that the worker inherits.
        earlier: what other workers have resolved.

    Raises:
        UsageError: the environment sets a math mode that oneDNN does not know.
    """
    return PrepareJob(
        directory=workload.place,
        settings=settings,
        parent=os.getpid(),
        math_mode=environment.inherited_math_mode(environ),
        earlier=earlier,
    )


def required(preparation: Preparation) -> Prepared:
    """Return what was prepared, or raise the reason why nothing was."""
    if preparation.prepared is None:
        raise KINDS.get(preparation.error_kind, ModelzooError)(preparation.error or "the setting was not resolved")
    return preparation.prepared


def prepare_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process that times nothing: plain fp32, with this machine's number of threads."""
    return job_environment(dict.fromkeys(OPENMP_AND_BLAS_THREADS, str(usable_threads().count)), environ)[0]


def job_environment(
    wanted: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> tuple[dict[str, str], EnvironmentChanges]:
    """Return the environment of a worker, and what was changed in that of the call.

    It is what the worker inherits, without its fast-math variables, and ``wanted``.

    Args:
        wanted: what the engine needs for the setting. Fast math is among them only if it was asked for.
        environ: what it inherits: ``Launcher.environment``, by default that of a worker on this machine.
    """
    inherited = LocalLauncher().environment() if environ is None else environ
    variables, changes = environment.worker_environment(inherited, wanted)
    variables["PYTHONUNBUFFERED"] = "1"
    variables["TOKENIZERS_PARALLELISM"] = "false"
    return variables, changes


def prepare(request: Request, on_event: OnEvent) -> tuple[Preparation, ...]:
    """Resolve all settings of ``request`` and their weights, in one process for each launcher.

    The processes on this machine come first: containers are shown the weights that they found. If a process itself
    fails, each of its settings gets its error.

    Returns:
        One entry per setting, in the order of the settings.
    """
    launchers = [request.launcher_of(setting) for setting in request.settings]
    prepared: dict[int, Preparation] = {}
    for launcher in sorted(dict.fromkeys(launchers), key=lambda each: not each.is_local):
        indices = [index for index, each in enumerate(launchers) if each == launcher]
        found = (each.prepared for each in prepared.values() if each.prepared is not None)
        earlier = tuple(Prepared(replace(each.setting, input=None, python=None), each.weights) for each in found)
        prepared.update(zip(indices, _prepare(request, launcher, indices, earlier, on_event)))
    return tuple(prepared[index] for index in range(len(request.settings)))


def _prepare(
    request: Request, launcher: Launcher, indices: Sequence[int], earlier: tuple[Prepared, ...], on_event: OnEvent
) -> tuple[Preparation, ...]:
    """Resolve the settings with these indices in one process."""
    listen = listener(request.workload.name, labels(request.settings)[indices[0]], 0, on_event)
    settings = tuple(request.settings[index] for index in indices)
    try:
        environ = launcher.environment()
        job = prepare_job(request.workload, settings, environ, earlier)
        with Remote(launcher, job, prepare_environment(environ), listen, request.timeout) as worker:
            found = worker.call("prepare", result=tuple[Preparation, ...], last=True)
        if len(found) != len(settings):
            raise WorkerError(f"the worker answered for {len(found)} settings, not {len(settings)}")
        return tuple(_known(*each, launcher.is_local, earlier) for each in zip(settings, found))
    except ModelzooError as problem:
        return (Preparation(error=str(problem), error_kind=type(problem).__name__),) * len(settings)


def _known(requested: Setting, found: Preparation, is_local: bool, earlier: Sequence[Prepared]) -> Preparation:
    """``found``, with weights of which this process knows whose they are.

    Args:
        is_local: whether the worker that has found them sees the files of this machine.

    Raises:
        WorkerError: the worker has changed what no engine decides.
    """
    if found.prepared is None:
        return found
    setting, weights = found.prepared.setting, found.prepared.weights
    for name in ("weights", "input", "device", "image"):
        if getattr(setting, name) != getattr(requested, name):
            raise WorkerError(f"the worker resolved another setting than it was asked for: {name} differs")
    if is_local:
        weights = LocalWeights(*(getattr(weights, name) for name in Weights.__struct_fields__))
    weights = next((each.weights for each in earlier if each.weights.path == weights.path), weights)
    return replace(found, prepared=replace(found.prepared, weights=weights))


def start_worker(
    request: Request,
    index: int,
    preparation: Preparation,
    on_event: OnEvent,
    *,
    round_number: int = 0,
    cpus: frozenset[int] | None = None,
    validity: ValidityRequest | None = None,
    on_exhibit: OnExhibit | None = None,
) -> Remote:
    """Start a worker for one setting.

    Args:
        request: the workload and its settings.
        index: of the setting.
        preparation: the setting as resolved.
        on_event: called with its progress.
        round_number: of the round that it belongs to.
        cpus: as for ``Request.launcher_of``.
        validity: how its predictions are judged; ``None``: it runs the setting alone.
        on_exhibit: called with what illustrates the judgement.

    Raises:
        ModelzooError: the setting could not be prepared, or the process cannot be started.
    """
    requested, prepared = request.settings[index], required(preparation)
    judges = validity is not None
    launcher = request.launcher_of(requested, None if judges else preparation.interpreter, cpus)
    wanted = preparation.validation_variables if judges else preparation.variables
    variables, changes = job_environment(wanted, launcher.environment())
    job = Assignment(
        directory=request.workload.place,
        requested=requested,
        prepared=prepared,
        parent=os.getpid(),
        environment=changes,
        math_mode=preparation.math_mode,
        validity=validity,
    )
    label = labels(request.settings)[index]
    listen = listener(request.workload.name, label, round_number, on_event, on_exhibit)
    return Remote(launcher, job, variables, listen, request.timeout)


def start_instance(
    request: Request,
    index: int,
    prepared: Preparation,
    place: InstancePlace,
    on_event: OnEvent,
    round_number: int = 0,
    sizes: tuple[int, ...] = (),
) -> Remote:
    """Start an instance of one setting, without waiting for it to be ready; that is its first answer.

    Args:
        request: the workload and its settings.
        index: of the setting.
        prepared: the setting as resolved.
        place: the CPUs that it may use.
        on_event: called with its progress.
        round_number: of the round that it belongs to.
        sizes: the batch sizes that it will serve, besides the setting's.

    Raises:
        ModelzooError: the setting could not be resolved, or the process cannot be started.
    """
    cpus = frozenset(place.cpus)
    instance = start_worker(request, index, prepared, on_event, round_number=round_number, cpus=cpus)
    instance.send("serve", request.plan, sizes)
    return instance


def looks_of(request: Request, number: int, *, extras: bool) -> Looks:
    """What an instance looks at in the end: with ``extras``, the first one audits itself in full and reports all."""
    has_extras = extras and number == 0
    return Looks(audit=request.audit, full_audit=has_extras, extras=has_extras)


def validate(request: Request, validity: ValidityRequest, on_event: OnEvent, on_exhibit: OnExhibit) -> ValidityReport:
    """Judge the only setting of ``request`` in a fresh process, with fp32 as the reference.

    Raises:
        ModelzooError: it could not be judged.
    """
    (preparation,) = prepare(request, on_event)
    with start_worker(request, 0, preparation, on_event, validity=validity, on_exhibit=on_exhibit) as worker:
        return worker.call("judge", result=ValidityReport, last=True)


@dataclass(frozen=True)
class Shards:
    """The data set of one setting, which a worker has divided, judges shard by shard, and concludes.

    Attributes:
        prepared: the setting as resolved, and its weights.
        plan: how the data set is divided.
        worker: judges them.
    """

    prepared: Prepared
    plan: ShardPlan
    worker: Remote

    def judge(self, shard: Shard) -> ShardResult:
        """Judge one shard.

        Raises:
            ModelzooError: it could not be judged, or the worker died.
        """
        found = self.worker.call("compare", shard, result=ShardResult)
        if found.shard != shard:
            raise WorkerError(f"the worker answered for another shard than number {shard.number}")
        return found

    def content(self, shard: Shard) -> str:
        """Return the SHA-256 of the files of the items of ``shard``, see ``ShardResult.content``."""
        return self.worker.call("content", shard, result=str)

    def conclude(self, results: Iterable[ShardResult]) -> Validity:
        """Merge the results of all shards, whoever judged them, and judge the whole.

        Args:
            results: in the order of the items.
        """
        for each in results:
            self.worker.call("merge", each, result=NoneType)
        return self.worker.call("conclude", result=Validity)


@contextmanager
def divided(
    request: Request, validity: ValidityRequest, shard_items: int | None, on_event: OnEvent, on_exhibit: OnExhibit
) -> Iterator[Shards]:
    """Resolve the only setting of ``request``, and have a worker divide the data set; it ends with the block.

    Args:
        shard_items: items per shard; ``None``: a hundredth of the data set.

    Raises:
        ModelzooError: the setting cannot run, or its predictions cannot be judged.
    """
    (preparation,) = prepare(request, on_event)
    with start_worker(request, 0, preparation, on_event, validity=validity, on_exhibit=on_exhibit) as worker:
        yield Shards(required(preparation), worker.call("divide", shard_items, result=ShardPlan), worker)
