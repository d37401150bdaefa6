"""A member of the fleet: what it says to the host of the store, what it does in answer, and the shards on its disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Callable, Optional, Protocol

import msgspec

from modelzoo.errors import EnvironmentProblem, InputError, ModelzooError, UsageError
from modelzoo.files import write_atomically
from modelzoo.fleet.store import Connection, StoreLostError
from modelzoo.records.codec import encode_json
from modelzoo.records.fleet import (
    Done,
    Finished,
    Joined,
    Judge,
    Left,
    Refused,
    SendShard,
    Shard,
    ShardPlan,
    ShardResult,
    ToHost,
    ToMember,
    decode_left,
    decode_to_member,
)
from modelzoo.records.protocol import decode_shard_result

CLOSED = "closed"
"""The record, a ``Left``, that says that the host of the store gives no more answers, with the reason if it failed."""
INTERRUPTED = "it was interrupted"
SHORTEST_WAIT, LONGEST_WAIT = 0.01, 0.5
"""Seconds between two looks for an answer; the wait grows from the first to the second."""


class Judging(Protocol):
    """What judges shards: ``modelzoo.measure.shard_calls.Shards``."""

    plan: ShardPlan

    def judge(self, shard: Shard) -> ShardResult:
        """Judge one shard."""

    def content(self, shard: Shard) -> str:
        """The SHA-256 of the files of its items."""


class Link:
    """The messages between one member and the host of the store, one answer for each message.

    Attributes:
        member: number of the member, from 1, in the order in which they came.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.member = connection.add("members", 1)
        self._said = self._heard = 0

    @property
    def beat(self) -> str:
        """The counter that shows that the member is alive."""
        return beat_of(self.member)

    def say(self, message: ToHost) -> None:
        """Send a message."""
        self._connection.put(to_host(self.member, self._said), message)
        self._said += 1

    def ask(self, message: ToHost) -> ToMember:
        """Send a message and wait for the answer."""
        self.say(message)
        name, wait = to_member(self.member, self._heard), SHORTEST_WAIT
        while not self._connection.has(name):
            if self._connection.has(CLOSED) and not self._connection.has(name):
                reason = self._connection.read(CLOSED, decode_left).error
                if not reason:
                    return Done()  # the others have done everything
                raise EnvironmentProblem(f"the host of the store has given up: {reason}")
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)
        self._heard += 1
        return self._connection.take(name, decode_to_member)

    def leave(self, reason: str) -> None:
        """Say why this member ends, if anybody listens."""
        with suppress(StoreLostError):
            self.say(Left(reason))


def to_host(member: int, number: int) -> str:
    """The name of a member's message in the store."""
    return f"to-host/{member}/{number}"


def to_member(member: int, number: int) -> str:
    """The name of an answer in the store."""
    return f"to-member/{member}/{number}"


def beat_of(member: int) -> str:
    """The name of the counter that a living member increases."""
    return f"beat/{member}"


def usable(judging: Judging, files: ShardFiles) -> dict[str, str]:
    """Return the shards on this disk, identity to session, whose items still have the same files."""
    stored = [each for each in map(files.read, judging.plan.shards) if each is not None]
    return {
        each.shard.identity: each.by.session
        for each in stored
        if not each.content or each.content == judging.content(each.shard)
    }


def take_part(
    link: Link,
    joined: Joined,
    judging: Judging,
    files: ShardFiles,
    on_shard: Callable[[Shard], None] = lambda shard: None,
) -> int:
    """Judge shards and send finished ones, as the host of the store says, until nothing is left to do.

    Each shard that was judged is on this disk before it is sent.

    Returns:
        the number of shards that it judged.

    Raises:
        ModelzooError: it could not go on; the host of the store has been told why.
    """
    count = 0
    try:
        answer = link.ask(joined)
        while not isinstance(answer, Done):
            result = _result(answer, judging, files)
            if isinstance(answer, Judge):
                count += 1
                on_shard(result.shard)
            answer = link.ask(Finished(result))
    except StoreLostError:  # it cannot be told anything
        raise
    except ModelzooError as error:
        link.leave(str(error))
        raise
    except KeyboardInterrupt:
        link.leave(INTERRUPTED)
        raise
    link.say(Left())
    return count


def _result(answer: ToMember, judging: Judging, files: ShardFiles) -> ShardResult:
    if isinstance(answer, Refused):
        raise EnvironmentProblem(answer.reason)
    if isinstance(answer, SendShard):
        stored = files.read(judging.plan.shards[answer.number])
        if stored is None:
            raise EnvironmentProblem(f"shard {answer.number} has been removed from {files.directory}")
        return stored
    if not isinstance(answer, Judge):
        raise EnvironmentProblem("the host of the store does something else; run the same command on all hosts")
    result = judging.judge(judging.plan.shards[answer.number])
    if not answer.again:
        files.write(result)
    return result


def facts_differ(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """Say which facts two plans do not share: ``torch: 2.10.0 instead of 2.9.1``."""
    names = list(dict.fromkeys((*here, *there)))
    return [
        f"{name}: {there.get(name, 'none') or 'none'} instead of {here.get(name, 'none') or 'none'}"
        for name in names
        if here.get(name) != there.get(name)
    ]


class ShardFiles:
    """The shards in one directory, which hosts may share. Files of other data sets and settings do no harm.

    Raises:
        UsageError: the directory cannot be created or written to.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {directory}: {error.strerror}; name another --shards-dir DIR") from error
        if not os.access(directory, os.W_OK | os.X_OK):  # or the first finished shard would show it
            raise UsageError(f"cannot write to {directory}: no permission; name another --shards-dir DIR")

    def write(self, result: ShardResult) -> None:
        """Store a finished shard.

        Raises:
            UsageError: it cannot be written.
        """
        path = self._path(result.shard)
        try:
            write_atomically(path, encode_json(result) + b"\n")
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}; name another --shards-dir DIR") from error

    def read(self, shard: Shard) -> Optional[ShardResult]:
        """Return the stored result of ``shard``; ``None`` if there is none, or none that can be read."""
        try:
            found = decode_shard_result(self._path(shard).read_bytes())
        except (OSError, msgspec.MsgspecError):  # a damaged file costs its shard, which is judged again
            return None
        # A plan with other shards in front of it gives it another number.
        return found if found.shard.identity == shard.identity and found.shard.number == shard.number else None

    def lines(self, plan: ShardPlan) -> Iterator[bytes]:
        """Yield every shard of ``plan`` as one line of JSON, in order.

        Raises:
            InputError: one has been removed.
        """
        for shard in plan.shards:
            path = self._path(shard)
            try:
                yield path.read_bytes().rstrip(b"\n")
            except OSError as error:
                raise InputError(
                    f"cannot read the finished shard {path}: {error.strerror}; run the same command again"
                ) from error

    def _path(self, shard: Shard) -> Path:
        return self.directory / f"{shard.identity[:32]}.json"
