"""Shards as the work of a fleet: refuse members that would judge otherwise, keep what comes, count what differs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Callable, Optional, Union

from modelzoo.errors import InputError
from modelzoo.fleet.member import ShardFiles, facts_differ
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.fleet import (
    Finished,
    FleetEvent,
    HostMeasured,
    Joined,
    Judge,
    JudgedBy,
    SendShard,
    Shard,
    ShardPlan,
    ShardReceived,
    ShardResult,
    ToMember,
)
from modelzoo.records.hosts import FleetHost, PrecisionDifference, ShardingReport
from modelzoo.records.partial import PartialResult
from modelzoo.records.run import SideReport

MOST_NAMED = 3
"""Differences between two hosts that are named."""


class Sharding:
    """The ``Work`` of judging one data set.

    Args:
        plan: of the host of the store; all members must have the same.
        files: the shards on its disk, where all others are put.
        finished: those of them that can be used, identity to session.
        again: number of shards that two members judge.
        on_shard: called when a shard has come.
    """

    def __init__(
        self,
        plan: ShardPlan,
        files: ShardFiles,
        finished: Mapping[str, str],
        again: int = 0,
        on_shard: Callable[[FleetEvent], None] = lambda event: None,
    ) -> None:
        self._plan, self._files, self._on_shard = plan, files, on_shard
        self._ledger = Ledger(plan.shards, chosen_again(len(plan.shards), again))
        for shard in plan.shards:
            if shard.identity in finished:
                self._ledger.found(shard.number, finished[shard.identity])
        self._reused = set(self._ledger.sessions)
        self._judged_twice = self._differing = 0
        self._work: dict[int, tuple[int, float]] = {}

    def join(self, member: int, message: Joined) -> str:
        differences = facts_differ(self._plan.facts, message.facts)
        if differences:
            named = "; ".join(differences[:MOST_NAMED])
            return f"host {message.host} would judge otherwise than the host of the store ({named})"
        if message.shards != len(self._plan.shards):
            return f"host {message.host} has other shards; give all hosts the same --shard-items"
        self._ledger.joined(member, message.finished)
        return ""

    def receive(self, member: int, message: Union[Finished, HostMeasured]) -> None:
        if not isinstance(message, Finished):
            raise InputError("a member sent a measurement instead of a shard")
        result = message.result
        was_judged = self._ledger.is_judging(member)
        try:
            counts = self._ledger.received(member, result)
        except ValueError as error:
            raise InputError(f"{error}; run the same command again") from error
        if was_judged:
            items, seconds = self._work.get(member, (0, 0.0))
            self._work[member] = items + result.shard.items, seconds + result.seconds
        if counts:
            self._reused.update(() if was_judged else (result.shard.number,))
            stored = self._files.read(result.shard)
            if stored is None or stored.by.session != result.by.session:  # its own member has written it
                self._files.write(result)
            done = len(self._ledger.sessions)
            self._on_shard(ShardReceived(done, len(self._plan.shards), result.by.host))
            return
        first = self._files.read(result.shard)
        if first is not None:
            self._judged_twice += result.shard.items
            self._differing += differing(first.result, result.result)

    def next(self, member: int) -> Optional[ToMember]:
        return self._ledger.next(member)

    def lose(self, member: int) -> None:
        self._ledger.lost(member)

    def complete(self, members: Collection[int], absent: Collection[int]) -> bool:
        return self._ledger.complete(members)

    @property
    def finished(self) -> int:
        """Number of shards that are on the disk of the host of the store."""
        return len(self._ledger.sessions)

    def report(self, group: int, numbers: Collection[int], hosts: Collection[FleetHost]) -> ShardingReport:
        """Return how the data set was judged.

        Args:
            group: index of what was asked for.
            numbers: number of each member of ``hosts``, in that order; those without a number come last.
            hosts: the members.
        """
        worked = [self._work.get(number, (0, 0.0)) for number in numbers]
        worked += [(0, 0.0)] * (len(hosts) - len(worked))
        judges = self.judges()
        return ShardingReport(
            group=group,
            item_name=self._plan.item_name,
            items=self._plan.items,
            shards=len(self._plan.shards),
            reused=len(self._reused),
            judged_twice=self._judged_twice,
            differing=self._differing,
            hosts=tuple(replace(host, items=items, seconds=took) for host, (items, took) in zip(hosts, worked)),
            processors=tuple(sorted({each.provenance.machine.cpu for each in judges})),
            otherwise=tuple(proven_otherwise(judges)),
        )

    def judges(self) -> list[JudgedBy]:
        """The processes whose shards count, in the order of their first shard.

        Raises:
            InputError: a finished shard has been removed.
        """
        found: dict[str, JudgedBy] = {}
        for shard in self._plan.shards:
            stored = self._files.read(shard)
            if stored is None:
                raise InputError(f"a finished shard was removed from {self._files.directory}; run the command again")
            found.setdefault(stored.by.session, stored.by)
        return list(found.values())


def proven_otherwise(judges: Sequence[JudgedBy]) -> Iterator[PrecisionDifference]:
    """Whose models ran in another precision than those of the first: one metric would cover both."""
    first = judges[0]
    for each in judges[1:]:
        for of_reference, there, here in ((False, first.tested, each.tested), (True, first.reference, each.reference)):
            verdicts = {
                "canary": (there.observed.canary_verdict, here.observed.canary_verdict),
                "audit": (_verdict(there), _verdict(here)),
            }
            for check, (wanted, found) in verdicts.items():
                if found != wanted:
                    yield PrecisionDifference(of_reference, check, each.host, _name(found), first.host, _name(wanted))
                    break


def _verdict(side: SideReport) -> Optional[ProofVerdict]:
    return None if side.observed.evidence is None else side.observed.evidence.verdict


def _name(verdict: Union[CanaryVerdict, ProofVerdict, None]) -> Optional[str]:
    return None if verdict is None else str(verdict)


Task = Union[Judge, SendShard]
"""What a member is to do next."""


@dataclass
class Ledger:
    """The state of a data set while several members judge it.

    A shard counts once: the first result that arrives. A further result of another process is only compared with it.

    Args:
        shards: all of them.
        again: numbers of the shards that are to be judged twice, by two members.

    Attributes:
        sessions: the process whose result counts, by the number of the shard.
        judges: the member that judged a shard in this call, by its number.
    """

    shards: Sequence[Shard]
    again: Collection[int] = ()
    sessions: dict[int, str] = field(default_factory=dict)
    judges: dict[int, int] = field(default_factory=dict)
    _taken: dict[int, Task] = field(default_factory=dict)
    _on_disks: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    _rechecked: set[int] = field(default_factory=set)

    def found(self, number: int, session: str) -> None:
        """An earlier call finished this shard, and it is on the disk of the host of the store."""
        self.sessions[number] = session

    def joined(self, member: int, finished: Mapping[str, str]) -> None:
        """A member has these shards (identity to session) on its disk; those that are not known here are fetched."""
        numbers = {shard.identity: shard.number for shard in self.shards}
        held = [(numbers[identity], session) for identity, session in finished.items() if identity in numbers]
        self._on_disks[member] = sorted(each for each in held if self.sessions.get(each[0]) != each[1])

    def next(self, member: int) -> Optional[Task]:
        """What ``member`` is to do now; ``None`` if there is nothing that it could do at present."""
        task = self._next(member)
        if task is not None:
            self._taken[member] = task
        return task

    def _next(self, member: int) -> Optional[Task]:
        held = self._on_disks.get(member, [])
        while held:
            number, session = held.pop(0)
            if self.sessions.get(number) != session:
                return SendShard(number)
        busy = {each.number for each in self._taken.values()}
        on_disks = {number for others in self._on_disks.values() for number, _ in others}
        for shard in self.shards:
            if shard.number not in self.sessions and shard.number not in busy | on_disks:
                return Judge(shard.number)
        for number in self.again:
            if number in self.sessions and number not in self._rechecked | busy and self.judges.get(number) != member:
                return Judge(number, again=True)
        return None

    def is_judging(self, member: int) -> bool:
        """Whether the task of ``member`` is to judge a shard."""
        return isinstance(self._taken.get(member), Judge)

    def received(self, member: int, result: ShardResult) -> bool:
        """A member has sent the result of its task. Return whether it counts.

        Raises:
            ValueError: it is not the result of the task that the member was given.
        """
        task = self._taken.pop(member, None)
        number = result.shard.number
        if task is None or task.number != number or result.shard != self.shards[number]:
            raise ValueError(f"member {member} sent shard {number}, which it was not asked for")
        indices = [each.index for each in result.result.items]
        if indices != list(range(result.shard.start, result.shard.stop)):
            raise ValueError(f"shard {number} does not hold its {result.shard.items} items")
        if number in self.sessions:
            self._rechecked.add(number)
            return False
        self.sessions[number] = result.by.session
        if isinstance(task, Judge):
            self.judges[number] = member
        return True

    def lost(self, member: int) -> None:
        """A member has left, or is not heard of any more: what it was judging is free again."""
        self._taken.pop(member, None)
        self._on_disks.pop(member, None)

    def complete(self, members: Collection[int]) -> bool:
        """Whether nothing is left to do for these members, the ones that are present."""
        if len(self.sessions) < len(self.shards) or self._taken or any(self._on_disks.values()):
            return False
        waiting = [number for number in self.again if number not in self._rechecked]
        return not any(self.judges.get(number) != member for number in waiting for member in members)


def differing(first: PartialResult, second: PartialResult) -> int:
    """How many items of two results of the same shard are not equal to the last digit."""
    return sum(a != b for a, b in zip(first.items, second.items))


def chosen_again(shards: int, count: int) -> tuple[int, ...]:
    """The numbers of ``count`` shards that are judged twice, evenly spread over all; all if there are fewer."""
    wanted = min(count, shards)
    return tuple(number * shards // wanted for number in range(wanted)) if wanted else ()
