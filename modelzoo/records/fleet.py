"""A data set that several hosts judge: its shards, what judging one gave, and what the hosts tell each other.

Messages are JSON; every one is checked when it is read.
"""

from __future__ import annotations

from typing import Any, Union

import msgspec

from modelzoo.records.partial import PartialResult
from modelzoo.records.run import Provenance, SideReport


class Shard(msgspec.Struct, frozen=True):
    """Consecutive items of a data set, cut between batches.

    Attributes:
        number: position among the shards, from 0.
        start: index of the first item.
        stop: index after the last item.
        identity: SHA-256 of everything that its predictions depend on, without the contents of images. Equal on every
            host that would judge the same.
    """

    number: int
    start: int
    stop: int
    identity: str

    @property
    def items(self) -> int:
        """Number of its items."""
        return self.stop - self.start


class ShardPlan(msgspec.Struct, frozen=True):
    """How a data set is divided. Every host makes the plan by itself, and all must agree.

    Attributes:
        facts: what all shards depend on, by name: the setting, weights, versions, the data set. If two hosts do not
            agree, they say what differs.
        item_name: what is counted: ``picture``, ``question``.
        shards: in the order of their items.
    """

    facts: dict[str, str]
    item_name: str
    shards: tuple[Shard, ...]

    @property
    def items(self) -> int:
        """Number of items of the data set."""
        return self.shards[-1].stop


class JudgedBy(msgspec.Struct, frozen=True):
    """The process that judged a shard, with the proof of what both of its models ran.

    Attributes:
        session: an id of the process. A shard that two processes judged has two.
        host: the name of its host.
        tested: the model under test. reference: the fp32 model.
        provenance: what it ran with, and on what.
    """

    session: str
    host: str
    tested: SideReport
    reference: SideReport
    provenance: Provenance


class ShardResult(msgspec.Struct, frozen=True):
    """What judging one shard gave; a file of its own on the disk of the host.

    Attributes:
        content: SHA-256 of the files of its items, as they were when it was judged; empty if the items have none.
        result: the comparison of each item.
        seconds: wall-clock time, without loading the models.
    """

    shard: Shard
    content: str
    result: PartialResult
    by: JudgedBy
    seconds: float = 0.0


FLEET_PROTOCOL = 2
"""Changes whenever members with different versions of the suite would no longer understand each other."""


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """A member's first message.

    Attributes:
        rank: of torchrun.
        host: the name of its host.
        restarts: how often torchrun has restarted it.
        facts: what its predictions depend on (``ShardPlan.facts``); empty if it times.
        shards: number of shards of its plan.
        finished: identities of the shards that are on its disk, each with the session that judged it.
    """

    rank: int
    host: str
    restarts: int = 0
    facts: dict[str, str] = {}
    shards: int = 0
    finished: dict[str, str] = {}
    protocol: int = FLEET_PROTOCOL


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """A shard that was judged, or that was on the member's disk."""

    result: ShardResult


class HostMeasured(msgspec.Struct, frozen=True, tag="measured"):
    """A complete result file of one host, as JSON."""

    result: bytes


class Left(msgspec.Struct, frozen=True, tag="left"):
    """The member's last message, with the reason if it could not do its part."""

    error: str = ""


class Judge(msgspec.Struct, frozen=True, tag="judge"):
    """Judge the shard of this number; ``again``: another member has judged it before."""

    number: int
    again: bool = False


class Measure(msgspec.Struct, frozen=True, tag="measure"):
    """Measure now, and send the result."""


class SendShard(msgspec.Struct, frozen=True, tag="send"):
    """Send the shard of this number, which is on the member's disk."""

    number: int


class Done(msgspec.Struct, frozen=True, tag="done"):
    """There is nothing more to do."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The member cannot take part."""

    reason: str


ToHost = Union[Joined, Finished, HostMeasured, Left]
"""What a member sends to the host of the store."""
ToMember = Union[Judge, SendShard, Measure, Done, Refused]
"""The answer to each message, but for the last."""


class MemberJoined(msgspec.Struct, frozen=True):
    """A member has come."""

    host: str
    rank: int


class MemberEnded(msgspec.Struct, frozen=True):
    """A member has left, is lost or was refused, for this reason."""

    host: str
    rank: int
    problem: str


class ResultReceived(msgspec.Struct, frozen=True):
    """A host has sent what it measured, which is in this file."""

    host: str
    rank: int
    path: str


class HostReady(msgspec.Struct, frozen=True):
    """The host of the store has measured, and waits for these ranks."""

    awaited: tuple[int, ...]


class ShardsFound(msgspec.Struct, frozen=True):
    """So many of all shards were finished before, and are in this directory."""

    count: int
    shards: int
    directory: str


class ShardReceived(msgspec.Struct, frozen=True):
    """Another shard was finished, by this host; it is the ``count``-th of all."""

    count: int
    shards: int
    host: str


class CannotJudge(msgspec.Struct, frozen=True):
    """The worker of the host of the store has failed; the other members go on."""

    problem: str


FleetEvent = Union[MemberJoined, MemberEnded, ResultReceived, HostReady, ShardsFound, ShardReceived, CannotJudge]
"""What the host of the store tells its user."""


class RecordHead(msgspec.Struct, frozen=True):
    """What precedes the parts of a record in the store: its size in bytes, and its SHA-256."""

    size: int
    sha256: str


def decode_to_host(data: bytes) -> ToHost:
    """Raises ``msgspec.DecodeError`` for anything that is no message to the host of the store."""
    message: ToHost = _TO_HOST.decode(data)
    return message


def decode_to_member(data: bytes) -> ToMember:
    """Raises ``msgspec.DecodeError`` for anything that is no message to a member."""
    message: ToMember = _TO_MEMBER.decode(data)
    return message


def decode_left(data: bytes) -> Left:
    """Raises ``msgspec.DecodeError`` for anything else."""
    return _LEFT.decode(data)


_LEFT: msgspec.json.Decoder[Left] = msgspec.json.Decoder(Left)
_TO_HOST: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ToHost)
_TO_MEMBER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ToMember)
