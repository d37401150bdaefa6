"""Results as the work of a fleet: every host sends its own, and each is written as it comes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Callable, Optional, Union

from modelzoo.errors import EnvironmentProblem, InputError, ModelzooError, UsageError
from modelzoo.files import write_atomically
from modelzoo.fleet.collector import Times, collect, joined
from modelzoo.fleet.hosts import HostResult
from modelzoo.fleet.member import INTERRUPTED, Link, facts_differ
from modelzoo.fleet.membership import Address, Membership
from modelzoo.fleet.store import StoreLostError
from modelzoo.frozen import replace
from modelzoo.records.fleet import (
    Done,
    Finished,
    FleetEvent,
    HostMeasured,
    HostReady,
    Joined,
    Left,
    Measure,
    Refused,
    ResultReceived,
    ToMember,
)
from modelzoo.records.hosts import FleetHost
from modelzoo.results import store

LOOK_SECONDS = 2.0
"""While hosts are timed, the store is looked at less often than while they judge."""
RUN_TIMES = Times(look=LOOK_SECONDS)


class Gathering:
    """The ``Work`` of measuring: every rank measures once, and sends its result.

    Args:
        directory: where the results are written, as ``host-RANK.json``.
        size: number of ranks.
        facts: what all hosts must measure alike, by name.
        on_result: called for each.

    Attributes:
        results: by rank. paths: their files, by rank.
    """

    def __init__(
        self,
        directory: Path,
        size: int,
        facts: Mapping[str, str],
        on_result: Callable[[FleetEvent], None] = lambda event: None,
    ) -> None:
        self._directory, self._size, self._facts, self._on_result = directory, size, facts, on_result
        self._ranks: dict[int, Joined] = {}
        self._sent: set[int] = set()
        self.results: dict[int, HostResult] = {}
        self.paths: dict[int, Path] = {}

    def join(self, member: int, message: Joined) -> str:
        differences = facts_differ(self._facts, message.facts)
        if differences:
            return f"host {message.host} would measure something else ({'; '.join(differences)})"
        self._ranks[member] = message
        return ""

    def receive(self, member: int, message: Union[Finished, HostMeasured]) -> None:
        if not isinstance(message, HostMeasured):
            raise InputError("a member sent a shard instead of a measurement")
        who = self._ranks[member]
        path = self._directory / f"host-{who.rank}.json"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            write_atomically(path, message.result)
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}; name another directory, --json-dir DIR"
            ) from error
        try:
            self.results[who.rank] = HostResult(who.rank, who.host, store.read(path))
        except InputError:
            path.unlink()  # else nothing could be done with the directory as a whole
            raise
        self.paths[who.rank] = path
        self._sent.add(member)
        self._on_result(ResultReceived(who.host, who.rank, str(path)))

    def next(self, member: int) -> Optional[ToMember]:
        return Done() if member in self._sent else Measure()

    def lose(self, member: int) -> None:
        """Nobody else can measure its host."""

    def complete(self, members: Collection[int], absent: Collection[int]) -> bool:
        """Whether every rank has sent its result, or has nobody any more who could."""
        return all(rank in self.results or rank in absent for rank in range(self._size))

    def hosts(self, members: Collection[FleetHost]) -> tuple[FleetHost, ...]:
        """Every rank once: what became of its last member, and its result."""
        last = {each.rank: each for each in members}
        return tuple(
            replace(each, result=str(self.paths[rank]), problem="") if rank in self.paths else each
            for rank, each in sorted(last.items())
        )


def measure_together(
    here: Membership,
    store_address: Address,
    facts: Mapping[str, str],
    measure: Callable[[], Path],
    directory: Path,
    on_event: Callable[[FleetEvent], None] = lambda event: None,
    times: Times = RUN_TIMES,
) -> Optional[tuple[Gathering, tuple[FleetHost, ...]]]:
    """Measure on this host and send the result; on the host of the store, wait for those of all others.

    Args:
        here: this member.
        store_address: where this process reaches the store, see ``store_of``.
        facts: what all hosts must measure alike, by name.
        measure: measures, and returns the file of the complete result.
        directory: where the host of the store writes all results.
        on_event: told about members and results.

    Returns:
        on the host of the store all results and what became of each rank; elsewhere ``None``.

    Raises:
        StoreLostError: the host of the store does not answer.
        ModelzooError: this host could not measure; on the host of the store, all others are waited for first.
    """
    work = Gathering(directory, here.size, facts, on_event)
    collecting = collect(store_address, "run/", here.size, work, on_event, times) if here.has_store else None
    problem: Optional[ModelzooError] = None
    with joined(store_address, "run/", f"results are kept in {directory}", times) as link:
        try:
            _take_part(link, Joined(here.rank, here.host, here.restarts, dict(facts)), measure)
        except StoreLostError:
            raise
        except ModelzooError as error:
            link.leave(str(error))
            problem = error
        except KeyboardInterrupt:
            link.leave(INTERRUPTED)
            raise
    if collecting is None:
        if problem is not None:
            raise problem
        return None
    others = sorted(set(range(here.size)) - {here.rank} - set(work.results))
    if others:
        on_event(HostReady(tuple(others)))
    collecting.wait()
    return work, work.hosts(collecting.collector.hosts())


def _take_part(link: Link, joined: Joined, measure: Callable[[], Path]) -> None:
    """Measure when the host of the store says so, and send the result.

    Raises:
        EnvironmentProblem: the host of the store does not want it.
    """
    _check(link.ask(joined), Measure)
    _check(link.ask(HostMeasured(measure().read_bytes())), Done)
    link.say(Left())


def _check(answer: ToMember, expected: type[ToMember]) -> None:
    if isinstance(answer, Refused):
        raise EnvironmentProblem(f"the host of the store refuses this host: {answer.reason}")
    if not isinstance(answer, expected):
        raise EnvironmentProblem("the others have measured without this host; run the same command on all hosts")
