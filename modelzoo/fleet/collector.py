"""The host of the store: hears all members, tells each what to do, notices those that are lost; how members meet."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Callable, Optional, Protocol, Union

import msgspec

from modelzoo.errors import EnvironmentProblem, InputError, ModelzooError
from modelzoo.fleet.member import CLOSED, LONGEST_WAIT, Link, beat_of, to_host, to_member
from modelzoo.fleet.membership import Address, Membership
from modelzoo.fleet.store import ANSWER_SECONDS, Connection, Heartbeat, Server, StoreLostError
from modelzoo.records.fleet import (
    FLEET_PROTOCOL,
    Done,
    Finished,
    FleetEvent,
    HostMeasured,
    Joined,
    Left,
    MemberEnded,
    MemberJoined,
    Refused,
    ToHost,
    ToMember,
    decode_to_host,
)
from modelzoo.records.hosts import FleetHost

LOST_SECONDS = 60.0
"""A member that has not been heard of for so long is lost; what it was doing is given to others."""
BEAT_SECONDS = 5.0
"""Seconds between two signs of life."""
GATHER_SECONDS = 10.0
"""So long after the first member has joined, the others may join before work is handed out: who comes later may have
finished on an earlier call what another one would do again."""
LOOK_SECONDS = 0.1
"""Seconds between two looks at the store; a look takes one request for each member that is present, and one more."""
REFUSED_SECONDS = 5.0
"""How long a member that is refused may take to read why, before the store may be closed."""


class Work(Protocol):
    """What the members of a fleet do together."""

    def join(self, member: int, message: Joined) -> str:
        """A member has come. Return why it cannot take part; empty if it can."""

    def receive(self, member: int, message: Union[Finished, HostMeasured]) -> None:
        """A member has sent what it found.

        Raises:
            InputError: it cannot be used. The member cannot take part any more; the others go on.
            ModelzooError: nothing can go on, because this disk is full for example.
        """

    def next(self, member: int) -> Optional[ToMember]:
        """What a member that waits is to do; ``None`` if there is nothing that it could do at present."""

    def lose(self, member: int) -> None:
        """A member has left, or is lost."""

    def complete(self, members: Collection[int], absent: Collection[int]) -> bool:
        """Whether nothing is left to do, with these members present, and these ranks without any member."""


@dataclass
class _Member:
    heard: int = 0
    told: int = 0
    waits: bool = False
    present: bool = True
    joined: Optional[Joined] = None
    problem: str = ""
    beats: int = 0
    alive: float = 0.0
    refused: float = 0.0


class Collector:
    """Serves the members until all work is done and all of them have left.

    Args:
        connection: to the store, of its own.
        size: number of ranks.
        work: what they do.
        on_event: called when a member comes, leaves or is lost.
        lost_seconds: see ``LOST_SECONDS``.
        look_seconds: see ``LOOK_SECONDS``.
        gather_seconds: see ``GATHER_SECONDS``.
    """

    def __init__(
        self,
        connection: Connection,
        size: int,
        work: Work,
        on_event: Callable[[FleetEvent], None] = lambda event: None,
        lost_seconds: float = LOST_SECONDS,
        look_seconds: float = LOOK_SECONDS,
        gather_seconds: float = GATHER_SECONDS,
    ) -> None:
        self._connection, self._size, self._work = connection, size, work
        self._on_event, self._lost_seconds, self._look_seconds = on_event, lost_seconds, look_seconds
        self._members: dict[int, _Member] = {}
        self._began = self._looked = time.monotonic()
        self._gather_seconds, self._first_joined = gather_seconds, math.inf

    def run(self) -> None:
        """Serve the members.

        Raises:
            EnvironmentProblem: all members have left, and work is left to do.
            StoreLostError: the store does not answer.
        """
        while True:
            self._welcome()
            for number, member in self._members.items():
                while member.present and self._connection.has(to_host(number, member.heard)):
                    member.alive = time.monotonic()
                    try:
                        message = self._connection.take(to_host(number, member.heard), decode_to_host)
                        member.heard += 1
                        self._hear(number, member, message)
                    except InputError as error:
                        self._refuse(number, member, str(error))
            self._check_lives()
            done = self._work.complete(self._present(), self._absent())
            self._answer(done)
            if not self._present() and not self._awaited() and not self._reading():
                if done:
                    return
                self._check_hopeless()
            time.sleep(self._look_seconds)

    def hosts(self) -> tuple[FleetHost, ...]:
        """Every member, in the order in which they came, and every rank that never came."""
        found = [
            FleetHost(each.joined.rank, each.joined.host, each.joined.restarts, problem=each.problem)
            for each in self._members.values()
            if each.joined is not None
        ]
        missing = sorted(set(range(self._size)) - {each.rank for each in found})
        return (*found, *(FleetHost(rank, f"rank {rank}", problem="it never joined") for rank in missing))

    def numbers(self) -> tuple[int, ...]:
        """The number of each member of ``hosts``, in its order, without those that never came."""
        return tuple(number for number, each in self._members.items() if each.joined is not None)

    def _welcome(self) -> None:
        for number in range(len(self._members) + 1, self._connection.add("members", 0) + 1):
            self._members[number] = _Member(alive=time.monotonic())

    def _hear(self, number: int, member: _Member, message: ToHost) -> None:
        if isinstance(message, Left):
            self._end(number, member, message.error)
            return
        member.waits = True
        if isinstance(message, Joined):
            if not 0 <= message.rank < self._size:
                raise InputError(f"a host has joined as rank {message.rank}, and the ranks are 0 to {self._size - 1}")
            for other, former in self._members.items():  # it cannot say itself that it has ended
                if former.present and other != number and former.joined and former.joined.rank == message.rank:
                    self._end(other, former, "torchrun has restarted it")
            member.joined = message
            self._first_joined = min(self._first_joined, time.monotonic())
            reason = self._work.join(number, message) if message.protocol == FLEET_PROTOCOL else "another protocol"
            if reason:
                self._refuse(number, member, reason)
            else:
                self._on_event(MemberJoined(message.host, message.rank))
            return
        if member.joined is None:
            raise InputError("a host has sent something before it joined")
        self._work.receive(number, message)

    def _answer(self, done: bool) -> None:
        if not done and self._is_gathering():
            return
        for number, member in self._members.items():
            if member.present and member.waits:
                task = Done() if done else self._work.next(number)
                if task is not None:
                    self._tell(number, member, task)

    def _tell(self, number: int, member: _Member, answer: ToMember) -> None:
        self._connection.put(to_member(number, member.told), answer)
        member.told += 1
        member.waits = False

    def _check_lives(self) -> None:
        now = time.monotonic()
        if now - self._looked < min(1.0, self._lost_seconds / 4):
            return
        self._looked = now
        for number, member in self._members.items():
            beats = self._connection.add(beat_of(number), 0) if member.present else 0
            if beats != member.beats:
                member.beats, member.alive = beats, now
            elif member.present and now - member.alive > self._lost_seconds:
                # If it is heard of again, it learns that others do its work.
                self._refuse(number, member, f"it was not heard of for {self._lost_seconds:g} s")

    def _refuse(self, number: int, member: _Member, reason: str) -> None:
        self._tell(number, member, Refused(reason))
        self._end(number, member, reason)
        member.refused = time.monotonic()

    def _end(self, number: int, member: _Member, problem: str) -> None:
        member.present, member.waits, member.problem = False, False, problem
        self._work.lose(number)
        if problem and member.joined is not None:
            self._on_event(MemberEnded(member.joined.host, member.joined.rank, problem))

    def _present(self) -> list[int]:
        return [number for number, member in self._members.items() if member.present]

    def _awaited(self) -> bool:
        """Whether a rank has not come yet, and still may."""
        return not self._all_joined() and time.monotonic() - self._began < self._lost_seconds

    def _is_gathering(self) -> bool:
        """Whether the work waits for ranks that have not come yet."""
        return not self._all_joined() and time.monotonic() - self._first_joined < self._gather_seconds

    def _all_joined(self) -> bool:
        return len({each.joined.rank for each in self._members.values() if each.joined is not None}) == self._size

    def _reading(self) -> bool:
        """Whether a member that has just been refused has not yet read why."""
        since = time.monotonic() - min(REFUSED_SECONDS, self._lost_seconds)
        return any(
            each.refused > since and self._connection.has(to_member(number, each.told - 1))
            for number, each in self._members.items()
        )

    def _absent(self) -> list[int]:
        """Ranks that nobody has any more, or never had within the time that a member may be silent."""
        joined = {each.joined.rank for each in self._members.values() if each.joined is not None}
        present = {each.joined.rank for each in self._members.values() if each.present and each.joined is not None}
        waiting = time.monotonic() - self._began < self._lost_seconds
        return [rank for rank in range(self._size) if rank not in present and (rank in joined or not waiting)]

    def _check_hopeless(self) -> None:
        """Nobody is here and work is left: raise if nobody can be expected to come."""
        last = max((each.alive for each in self._members.values()), default=self._began)
        if time.monotonic() - last > self._lost_seconds:
            problems = [f"{each.host}: {each.problem}" for each in self.hosts() if each.problem]
            raise EnvironmentProblem(f"no member of the fleet is left ({'; '.join(problems)})")


_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Times(msgspec.Struct, frozen=True):
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
