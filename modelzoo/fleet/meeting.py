"""Bring the members of a fleet together: the store on one host, a link on each, and who collects what they find."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Callable, Optional

from modelzoo.errors import ModelzooError
from modelzoo.fleet.collector import BEAT_SECONDS, GATHER_SECONDS, LOOK_SECONDS, LOST_SECONDS, Collector, Work
from modelzoo.fleet.member import CLOSED, LONGEST_WAIT, Link
from modelzoo.fleet.membership import Address, Membership
from modelzoo.fleet.store import ANSWER_SECONDS, Connection, Heartbeat, Server, StoreLostError
from modelzoo.records.fleet import FleetEvent, Left

_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True)
class Times:
    """How long members wait for each other, in seconds.

    Attributes:
        answer: see ``ANSWER_SECONDS``. lost: see ``LOST_SECONDS``. beat: see ``BEAT_SECONDS``. look: see
            ``LOOK_SECONDS``. gather: see ``GATHER_SECONDS``.
    """

    answer: float = ANSWER_SECONDS
    lost: float = LOST_SECONDS
    beat: float = BEAT_SECONDS
    look: float = LOOK_SECONDS
    gather: float = GATHER_SECONDS


class Collecting:
    """A ``Collector`` in a thread of its own."""

    def __init__(self, collector: Collector, connection: Connection) -> None:
        self.collector = collector
        self._connection = connection
        self._problem: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="collector")
        self._thread.start()

    def wait(self) -> None:
        """Wait until all members have left; raises what has ended it before."""
        while self._thread.is_alive():  # in steps, so that Ctrl-C is noticed
            self._thread.join(0.2)
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        reason = ""
        try:
            self.collector.run()
        except BaseException as problem:  # raised by ``wait``
            self._problem, reason = problem, str(problem) or type(problem).__name__
        with suppress(ModelzooError):  # nobody waits for answers that never come
            _close(self._connection, reason)


@contextmanager
def store_of(here: Membership) -> Iterator[Address]:
    """Open the store if this is its host; yield the address at which this process reaches it.

    Raises:
        EnvironmentProblem: the address is not one of this host, or the port is taken.
    """
    if not here.has_store:
        yield here.store
        return
    with Server(here.bind, here.store.port) as server:
        yield Address(_EVERY_INTERFACE.get(here.bind, here.bind), server.port)


@contextmanager
def joined(store: Address, prefix: str, kept: str, times: Times) -> Iterator[Link]:
    """Yield the link of this member, which shows that it is alive until the end of the block.

    Args:
        prefix, kept: as for ``Connection``.

    Raises:
        StoreLostError: the host of the store does not answer.
    """
    link = Link(Connection(store, prefix, kept, times.answer))
    with Heartbeat(Connection(store, prefix, kept, times.answer), link.beat, times.beat):
        yield link


def _close(connection: Connection, reason: str) -> None:
    """Say that there are no more answers; after a failure, which ends the store, with time to read why."""
    connection.put(CLOSED, Left(reason))
    if reason:
        time.sleep(2 * LONGEST_WAIT)


def give_up(store: Address, prefix: str, reason: str, times: Times) -> None:
    """Tell the members, on the host of the store, that there is nothing to take part in."""
    with suppress(StoreLostError):
        _close(Connection(store, prefix, seconds=times.answer), reason)


def collect(
    store: Address, prefix: str, size: int, work: Work, on_event: Callable[[FleetEvent], None], times: Times
) -> Collecting:
    """Start to serve ``size`` members, with a connection of its own."""
    connection = Connection(store, prefix, seconds=times.answer)
    return Collecting(Collector(connection, size, work, on_event, times.lost, times.look, times.gather), connection)
