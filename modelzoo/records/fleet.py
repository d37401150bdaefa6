"""A data set that several processes judge: its shards, and what judging one gave."""

from __future__ import annotations

from typing import Annotated

import msgspec

from modelzoo.records.partial import PartialResult
from modelzoo.records.run import Provenance, SideReport
from modelzoo.records.validity import ValidityRequest
from modelzoo.setting import Setting


class Shard(msgspec.Struct, frozen=True):
    """Consecutive items of a data set, cut between batches.

    Attributes:
        number: position among the shards, from 0.
        start: index of the first item.
        stop: index after the last item.
        identity: SHA-256 of everything that its predictions depend on, without the contents of images. Equal on every
            host that would judge the same. Files are named after it.
    """

    number: int
    start: int
    stop: int
    identity: Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z]+\Z")]

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
    shards: Annotated[tuple[Shard, ...], msgspec.Meta(min_length=1)]

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


class ShardedCall(msgspec.Struct, frozen=True):
    """What is judged in shards, wherever that is.

    Attributes:
        workload: name of a workload that comes with the suite, or the absolute path of its directory.
        setting: with absolute paths.
        request: the data and the thresholds.
        shard_items: items per shard; ``None``: a hundredth of them.
        timeout: seconds that a call of the model may take; ``None``: any.
    """

    workload: str
    setting: Setting
    request: ValidityRequest
    shard_items: int | None = None
    timeout: float | None = None


class JudgedPart(msgspec.Struct, frozen=True, tag="modelzoo-part/2", tag_field="format"):
    """A file of ``modelzoo validate --shard NUMBER/COUNT``.

    Attributes:
        call: what was judged.
        number: from 1. count: number of parts.
        facts: what the predictions depend on (``ShardPlan.facts``).
        results: its shards.
    """

    call: ShardedCall
    number: int
    count: int
    facts: dict[str, str]
    results: tuple[ShardResult, ...]
