"""Run the settings of one workload in fresh processes, side by side, and yield each run as it ends.

One sweep is one new process per setting. The workers of a round are alive at the same time and sample in alternating
half-second turns, so that a machine whose speed drifts affects all settings alike. Sweeps go A B, B A, A B …. If there
are more settings than fit into memory, a sweep consists of several blocks, each with the baseline.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import NoneType
from typing import TypeVar

from modelzoo.errors import ModelzooError, NoAnswerError, WorkerError
from modelzoo.frozen import replace
from modelzoo.machine.facts import available_memory
from modelzoo.measure.jobs import OnEvent, Request, prepare, start_worker
from modelzoo.measure.process import Remote
from modelzoo.records.equipment import AcceleratorUse
from modelzoo.records.protocol import Looks, Preparation
from modelzoo.records.run import Run, RunReport, now

MEMORY_SHARE = 0.8
"""The workers that are alive at the same time may use this share of the memory that is available."""
FIRST_PEAK = 2 << 30
"""Bytes that each worker is taken to need before any has been measured."""
DEVICE_CONTEXT = 1 << 30
"""Bytes that a process occupies on an accelerator besides its tensors: the context of the driver, the libraries' work
space, and what torch's allocator has reserved. A guess on the safe side."""
FULL_AUDITS = 1
"""Processes per setting that are audited in full; of the others it is proven that the same kernels ran."""
T = TypeVar("T")


def capacity(available: int, largest: int) -> int:
    """Return how many workers fit into memory at the same time, at least two: a pair must share a round.

    Args:
        available: bytes that are available before any worker is started.
        largest: peak memory of the largest worker so far, in bytes; 0 before any has been measured.
    """
    return max(2, int(MEMORY_SHARE * available) // (largest or FIRST_PEAK))


def device_capacity(uses: Collection[AcceleratorUse]) -> int:
    """Return how many workers fit into the memory of an accelerator at the same time, at least two.

    Args:
        uses: by the workers so far. Before the first one, and if torch does not tell the size or what was occupied, it
            is two.
    """
    peaks = [each.peak_memory for each in uses if each.peak_memory]
    sizes = [each.device.memory for each in uses if each.device.memory]
    if not peaks or not sizes:
        return 2
    return max(2, int(MEMORY_SHARE * min(sizes)) // (max(peaks) + DEVICE_CONTEXT))


def blocks(settings: Sequence[int], capacity: int, sweep: int) -> list[tuple[int, ...]]:
    """Divide the settings into blocks of at most ``capacity``, each with the first setting, the baseline.

    Each setting is compared with the baseline's process of its own block, so the blocks need not fit into memory
    together. The blocks are of nearly equal size; from sweep to sweep settings move on, so that each meets different
    neighbours, and every other block is started backwards (A B C, C B A).

    Args:
        settings: indices of the settings; the first is the baseline.
        capacity: number of workers that may be alive at the same time.
        sweep: number of the pass over all settings, from 0.
    """
    if len(settings) < 2:
        return [tuple(settings)] if settings else []
    baseline, *others = settings
    shift = sweep % len(others)
    others = others[shift:] + others[:shift]
    count = -(-len(others) // max(1, capacity - 1))
    edges = [round(i * len(others) / count) for i in range(count + 1)]
    divided = [(baseline, *sorted(others[a:b])) for a, b in itertools.pairwise(edges)]
    return [block if (sweep + i) % 2 == 0 else block[::-1] for i, block in enumerate(divided)]


@dataclass
class Rounds:
    """The rounds of one request.

    The settings are resolved first, in one process for each launcher. A setting that reported an error is not tried
    again, and neither is one that an emulator ran, where nothing is timed; a worker that died is replaced in the next
    sweep, be it a process that resolves settings.

    Attributes:
        sweeps: number of finished sweeps.
        is_emulated: an emulator has run at least one of the settings, which is enough of it.
    """

    request: Request
    on_event: OnEvent
    sweeps: int = 0
    is_emulated: bool = False
    _round: int = 0
    _prepared: tuple[Preparation, ...] = ()
    _measured: dict[int, int] = field(default_factory=dict)
    _over: set[int] = field(default_factory=set)
    _largest: int = 0
    _uses: list[AcceleratorUse] = field(default_factory=list)

    @property
    def can_run(self) -> bool:
        """Whether any setting is left that may run, or all of them if the request needs all."""
        return not self._over if self.request.needs_all else len(self._over) < len(self.request.settings)

    def sweep(self, seconds: float | None, among: Collection[int] | None = None) -> Iterator[Run]:
        """Yield one run of each setting; a run that failed is yielded too, with its reason.

        Args:
            seconds: how long each process samples; ``None`` if the plan gives a number of iterations.
            among: the indices of the settings that take part, the baseline's among them; ``None``: all of them.
        """
        if not self._prepared or any(each.error_kind == WorkerError.__name__ for each in self._prepared):
            self._prepared = prepare(self.request, self.on_event)
        request = replace(self.request, plan=replace(self.request.plan, max_seconds=seconds))
        wanted = range(len(request.settings)) if among is None else sorted(among)
        possible = [index for index in wanted if index not in self._over]
        most = capacity(available_memory(), self._largest)
        if any(self.request.settings[index].device != "cpu" for index in possible):
            most = min(most, device_capacity(self._uses))
        for block in blocks(possible, most, self.sweeps):
            yield from self._run(request, [index for index in block if index not in self._over])
            self._round += 1
        self.sweeps += 1

    def _run(self, request: Request, block: Sequence[int]) -> Iterator[Run]:
        """Yield the runs of one round; if the user interrupts a call that does not return, its run is a failed one."""
        workers = [WorkerRun(request, index, self._round, self.on_event) for index in block]
        with ExitStack() as stack:
            try:
                # All import their libraries at the same time; then each builds and warms up alone.
                for worker in workers:
                    count = self._measured.get(worker.index, 0)
                    worker.start(self._prepared[worker.index], count == 0, count < FULL_AUDITS, stack)
                for worker in workers:
                    worker.load()
                for worker in workers:
                    worker.warm_up()
                    if worker.problem is not None:
                        yield self._remember(worker.index, worker.finish())
                ready = [worker for worker in workers if worker.problem is None]
                take_turns(ready)
                for worker in ready:  # what they look at takes seconds, so all have had their turns before
                    yield self._remember(worker.index, worker.finish())
            except KeyboardInterrupt:
                for worker in workers:
                    if worker.interrupted is not None:
                        yield worker.ended(None, worker.interrupted)
                raise

    def _remember(self, index: int, done: Run) -> Run:
        report = done.report
        if report is None:
            self._over.update({index} if done.error_kind != WorkerError.__name__ else ())
            return done
        self._measured[index] = self._measured.get(index, 0) + 1
        self._largest = max(self._largest, report.peak_memory)
        if report.accelerator is not None:
            self._uses.append(report.accelerator)
        if report.provenance.machine.emulator is not None:
            self.is_emulated = True
            self._over.add(index)
        return done


def take_turns(workers: Sequence[WorkerRun]) -> None:
    """Let the workers sample in alternating turns until each has taken those that its plan gives it."""
    waiting = list(workers)
    while waiting:
        waiting = [worker for worker in waiting if worker.turn()]


class WorkerRun:
    """One setting in one round. It is suspended while others have their turns.

    Attributes:
        problem: why it has failed; ``None`` if it has not.
        interrupted: what to report of it if the user interrupted a call that did not return.
    """

    _worker: Remote

    def __init__(self, request: Request, index: int, round_number: int, on_event: OnEvent) -> None:
        self.index = index
        self._request, self._round, self._on_event = request, round_number, on_event
        self._started = now()
        self.problem: ModelzooError | None = None
        self.interrupted: NoAnswerError | None = None

    def start(self, prepared: Preparation, extras: bool, full_audit: bool, stack: ExitStack) -> None:
        """Start the worker and have it import its libraries, without waiting for that.

        Args:
            prepared: the setting as resolved.
            extras: also collect what only one process per setting must provide.
            full_audit: attribute the time to kernels; otherwise only prove that the same kernels ran.
            stack: ends the worker when it is closed.
        """
        request = self._request
        self._looks = Looks(request.audit, full_audit, extras, request.profiling)
        try:
            worker = start_worker(request, self.index, prepared, self._on_event, round_number=self._round)
            self._worker = stack.enter_context(worker)
            worker.send("load")
        except ModelzooError as problem:
            self.problem = problem

    def load(self) -> None:
        """Wait until it has imported its libraries."""
        self._do(lambda worker: worker.wait(NoneType))

    def warm_up(self) -> None:
        """Let it build its model and warm it up."""
        request = self._request
        own_turns = not all(request.launcher_of(setting).is_local for setting in request.settings)
        plan, mhz = request.plan, request.locked_mhz
        self._do(lambda worker: worker.call("warm_up", plan, own_turns, mhz, result=NoneType))

    def turn(self) -> bool:
        """Let it sample for half a second; return whether there is more to sample."""
        return bool(self._do(lambda worker: worker.call("turn", result=bool)))

    def finish(self) -> Run:
        """Let it look at what ran, and return its run, or that of a worker that has failed."""
        report = self._do(lambda worker: worker.call("observe", self._looks, result=RunReport, last=True), ends=True)
        return self.ended(report, self.problem)

    def _do(self, step: Callable[[Remote], T], *, ends: bool = False) -> T | None:
        """What a step of the worker gives, which is suspended afterwards or ``ends``; ``None`` if it has failed."""
        try:
            if self.problem is None:
                found = step(self._worker)
                (self._worker.end if ends else self._worker.suspend)()
                return found
        except ModelzooError as problem:
            self.problem = problem
        except KeyboardInterrupt:
            self.interrupted = self._worker.silence("interrupted")
            raise
        return None

    def ended(self, report: RunReport | None, problem: ModelzooError | None) -> Run:
        """Return the run of a worker that has reported, or has failed."""
        return Run(
            workload=self._request.workload.name,
            group=self._request.first_group + self.index,
            requested=self._request.settings[self.index],
            round=self._round,
            started=self._started,
            ended=now(),
            report=report,
            error=None if problem is None else str(problem),
            error_kind=None if problem is None else type(problem).__name__,
        )
