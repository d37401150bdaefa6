"""What the members of a fleet tell each other. JSON; every message is checked when it is read."""

from __future__ import annotations

from typing import Any, Union

import msgspec

from modelzoo.records.shards import ShardResult

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
