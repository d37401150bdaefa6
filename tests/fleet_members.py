"""Members of a fleet in one process: threads with a real store on loopback, and judges that answer at once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

from fake_runs import MACHINE

from modelzoo.fleet.collector import Times
from modelzoo.fleet.membership import Address, Membership
from modelzoo.frozen import replace
from modelzoo.records.fleet import JudgedBy, Shard, ShardPlan, ShardResult
from modelzoo.records.partial import ClassifiedPicture, PartialResult, TopClasses
from modelzoo.records.run import Provenance, SideReport

QUICK = Times(answer=10.0, lost=2.0, beat=0.1, look=0.005, gather=30.0)
"""Members that wait for each other as briefly as a test allows: work is handed out as soon as all have joined."""


def free_port() -> int:
    """A port of loopback on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def member(rank: int, size: int, port: int) -> Membership:
    """The membership of one rank, with the store on loopback."""
    return Membership(rank, size, 0, f"host-{rank}", Address("127.0.0.1", port), "127.0.0.1")


def plan(shards: int = 6, size: int = 4, facts: Optional[dict[str, str]] = None) -> ShardPlan:
    """A data set of ``shards`` × ``size`` pictures."""
    made = [Shard(number, number * size, (number + 1) * size, f"{number:032}{0:032}") for number in range(shards)]
    return ShardPlan({"torch": "2.10.0"} if facts is None else facts, "picture", tuple(made))


def picture(index: int, score: float = 0.5) -> ClassifiedPicture:
    """Picture ``index``, which both models put into the same class."""
    top = TopClasses((index % 5,), (score,), True)
    return ClassifiedPicture(index, f"{index}.jpg", index % 5, top, top, 0.0, 0.0, 0.0, 0.0, False)


def judged(shard: Shard, host: str, score: float = 0.5, content: str = "files") -> ShardResult:
    """What a host makes of a shard; another score stands for other rounding."""
    items = tuple(picture(index, score + index) for index in range(shard.start, shard.stop))
    by = JudgedBy(
        f"session of {host}", host, SideReport(), SideReport(), Provenance(MACHINE, "fake", fingerprint="f", cpus=(0,))
    )
    return ShardResult(shard, content, PartialResult("classification", classified=items), by, 1.0)


class Killed(BaseException):
    """Stands for SIGKILL: no code of the suite may catch it."""


@dataclass
class FakeJudge:
    """Judges at once.

    Attributes:
        dies_at: this shard kills the member.
        meets: other members that must have begun a shard before the first one of this member is judged.
    """

    host: str
    plan: ShardPlan
    score: float = 0.5
    dies_at: Optional[int] = None
    files: str = "files"
    meets: Optional[threading.Barrier] = None
    done: list[int] = field(default_factory=list)

    def judge(self, shard: Shard) -> ShardResult:
        if self.meets is not None and not self.done:
            with suppress(threading.BrokenBarrierError):
                self.meets.wait(30.0)
        if self.dies_at is not None and len(self.done) == self.dies_at:
            raise Killed
        self.done.append(shard.number)
        return judged(shard, self.host, self.score, self.files)

    def content(self, shard: Shard) -> str:
        return self.files


@dataclass
class Outcome:
    """How a member ended: what it returned, or what it raised."""

    value: object = None
    error: Optional[BaseException] = None


def together(calls: Sequence[Callable[[], object]]) -> list[Outcome]:
    """Run one call per member, each in a thread, and wait for all of them."""
    outcomes = [Outcome() for _ in calls]

    def run(outcome: Outcome, call: Callable[[], object]) -> None:
        try:
            outcome.value = call()
        except BaseException as error:
            outcome.error = error

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in zip(outcomes, calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
        assert not thread.is_alive(), "a member waits for ever"
    return outcomes


def directory(parent: Path, rank: int) -> Path:
    """The disk of one host."""
    return parent / f"disk-{rank}"


def renamed(each: ShardPlan, **facts: str) -> ShardPlan:
    """The same plan with other facts."""
    return replace(each, facts={**each.facts, **facts})
