"""What the load is put on: instances in processes of their own."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from modelzoo.errors import ModelzooError
from modelzoo.measure.jobs import OnEvent, Request, only_silence, start_worker
from modelzoo.measure.process import Remote, seconds_until
from modelzoo.records.protocol import Looks, Preparation
from modelzoo.records.race import InstancePlace
from modelzoo.records.serving import BatchDone


def start_instance(
    request: Request,
    index: int,
    prepared: Preparation,
    place: InstancePlace,
    on_event: OnEvent,
    round_number: int = 0,
    *,
    sizes: tuple[int, ...] = (),
    is_first: bool = True,
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
        is_first: of several; only the progress of the first one is shown.

    Raises:
        ModelzooError: the setting could not be resolved, or the process cannot be started.
    """
    listener = on_event if is_first else only_silence(on_event)
    cpus = frozenset(place.cpus)
    instance = start_worker(request, index, prepared, listener, round_number=round_number, cpus=cpus)
    instance.send("serve", request.plan, sizes)
    return instance


def looks_of(request: Request, number: int, *, extras: bool) -> Looks:
    """What an instance looks at in the end: with ``extras``, the first one audits itself in full and reports all."""
    has_extras = extras and number == 0
    return Looks(audit=request.audit, full_audit=has_extras, extras=has_extras)


class Reply(NamedTuple):
    """One instance has finished its batch.

    Attributes:
        instance: its number, from 0.
        started: when it began, in seconds of the server's clock.
        ended: when it had finished.
        error: why it has died instead; it takes no more batches.
    """

    instance: int
    started: float
    ended: float
    error: str | None = None


class Server(Protocol):
    """Instances of one model. What drives them is the same for processes, for tests and for benchmarks.

    Attributes:
        instances: their number.
        fixed_size: the only batch size that they can run, to which smaller batches are padded; ``None``: they run any.
    """

    instances: int
    fixed_size: int | None

    def now(self) -> float:
        """Seconds of the clock that all times are given in."""

    def start(self, instance: int, size: int) -> None:
        """Give an idle instance a batch of ``size`` requests, without waiting for it."""

    def wait(self, until: float) -> Sequence[Reply]:
        """Wait until ``until``, or until there are replies; return the replies, which may be none."""


class ProcessServer:
    """Running instances that are ready. It neither starts nor ends them.

    Args:
        instances: by their numbers.
        fixed_size: as in ``Server``.
        watch: what it waits with, opened before the instances were started: the time-out of ``epoll`` is in whole
            milliseconds, so it sleeps in ``select``, whose descriptors have to be below 1,024.
        polls: never sleep. That is for a loop that has a core of its own: a virtual CPU that has gone to sleep wakes up
            milliseconds late, and so would the loop and any other thread on it.
    """

    def __init__(
        self, instances: Sequence[Remote], fixed_size: int | None, watch: select.epoll, *, polls: bool
    ) -> None:
        self.instances, self.fixed_size = len(instances), fixed_size
        self._remotes, self._polls = tuple(instances), polls
        self._by_descriptor = {each.fileno(): number for number, each in enumerate(instances)}
        self._watch = watch
        for descriptor in self._by_descriptor:
            watch.register(descriptor, select.EPOLLIN)

    def now(self) -> float:
        return time.monotonic()

    def start(self, instance: int, size: int) -> None:
        self._remotes[instance].send("batch", size, phase="serve")

    def wait(self, until: float) -> Sequence[Reply]:
        due = self._due(until)
        while True:
            if not self._polls:
                select.select((self._watch,), (), (), seconds_until(due))
            ready = self._watch.poll(0)
            if ready:
                return [reply for each, _ in ready for reply in self._read(each)]
            now = time.monotonic()
            if now >= until:
                return ()
            if now >= due:
                for remote in self._remotes:
                    remote.attend()
                due = self._due(until)

    def _due(self, until: float) -> float:
        """When the wait ends at the latest; one without an end does so when an instance has not answered for long."""
        return min((each.due for each in self._remotes), default=until) if math.isinf(until) else until

    def _read(self, descriptor: int) -> list[Reply]:
        number = self._by_descriptor[descriptor]
        try:
            replies = self._remotes[number].answers(BatchDone)
        except ModelzooError as error:
            self._watch.unregister(descriptor)
            return [Reply(number, 0.0, 0.0, str(error))]
        return [Reply(number, each.started, each.ended) for each in replies]
