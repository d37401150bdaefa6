"""Which shards are finished, which are being judged, and by whom. Pure: no clock, no network, no files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional, Union

from modelzoo.records.fleet import Judge, SendShard
from modelzoo.records.partial import AnsweredQuestion, ClassifiedPicture, DetectedPicture, PartialResult
from modelzoo.records.shards import Shard, ShardResult

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
        indices = [each.index for each in items_of(result.result)]
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


def items_of(result: PartialResult) -> Sequence[Union[ClassifiedPicture, DetectedPicture, AnsweredQuestion]]:
    """The comparisons of all items of a result, whatever its task."""
    return (*result.classified, *result.detected, *result.answered)


def differing(first: PartialResult, second: PartialResult) -> int:
    """How many items of two results of the same shard are not equal to the last digit."""
    return sum(a != b for a, b in zip(items_of(first), items_of(second)))


def chosen_again(shards: int, count: int) -> tuple[int, ...]:
    """The numbers of ``count`` shards that are judged twice, evenly spread over all; all if there are fewer."""
    wanted = min(count, shards)
    return tuple(number * shards // wanted for number in range(wanted)) if wanted else ()
