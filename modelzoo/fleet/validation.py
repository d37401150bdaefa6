"""Judge one setting on a whole data set by all members of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Optional

import msgspec

from modelzoo.errors import ModelzooError
from modelzoo.fleet.collector import Times, collect, give_up, joined
from modelzoo.fleet.member import Judging, ShardFiles, take_part, usable
from modelzoo.fleet.membership import Address, Membership
from modelzoo.fleet.sharding import Sharding
from modelzoo.measure.shard_calls import Shards
from modelzoo.records.fleet import CannotJudge, FleetEvent, Joined, JudgedBy, ShardsFound
from modelzoo.records.hosts import ShardingReport
from modelzoo.records.run import ValidityReport
from modelzoo.records.validity import Validity


class Judged(msgspec.Struct, frozen=True):
    """What the host of the store has in the end.

    Attributes:
        sharding: who judged what.
        judges: the processes that judged, the one of the first shard first.
    """

    sharding: ShardingReport
    judges: Sequence[JudgedBy]


def judge_together(
    here: Membership,
    store: Address,
    judging: Judging,
    files: ShardFiles,
    group: int = 0,
    again: int = 0,
    on_event: Callable[[FleetEvent], None] = lambda event: None,
    times: Times = Times(),  # noqa: B008 - frozen
) -> Optional[Judged]:
    """Take part in judging the data set of ``judging``; on the host of the store, also collect all shards.

    Args:
        here: this member.
        store: where this process reaches the store, see ``store_of``.
        judging: a worker that has divided the data set.
        files: the finished shards on this host's disk.
        group: index of what was asked for.
        again: number of shards that two members judge.
        on_event: told about members and shards.

    Returns:
        what all members have judged on the host of the store, where every shard then is on the disk; elsewhere
        ``None``.

    Raises:
        StoreLostError: the host of the store does not answer.
        ModelzooError: this member cannot judge; on the host of the store: no member can.
    """
    kept = f"finished shards are kept in {files.directory}"
    finished = usable(judging, files)
    if finished:
        on_event(ShardsFound(len(finished), len(judging.plan.shards), str(files.directory)))
    hello = Joined(
        rank=here.rank,
        host=here.host,
        restarts=here.restarts,
        facts=judging.plan.facts,
        shards=len(judging.plan.shards),
        finished=finished,
    )
    prefix = _prefix(group)
    if not here.has_store:
        with joined(store, prefix, kept, times) as link:
            take_part(link, hello, judging, files)
        return None
    work = Sharding(judging.plan, files, finished, again, on_event)
    collecting = collect(store, prefix, here.size, work, on_event, times)
    try:
        with joined(store, prefix, kept, times) as link:
            take_part(link, hello, judging, files)
    except ModelzooError as error:  # the others can go on without this host's worker
        on_event(CannotJudge(str(error)))
    collecting.wait()
    collector = collecting.collector
    return Judged(work.report(group, collector.numbers(), collector.hosts()), work.judges())


def cannot_judge(store: Address, group: int, reason: str, times: Times = Times()) -> None:  # noqa: B008 - frozen
    """Tell all others, on the host of the store, that this setting is not judged; they would wait for it."""
    give_up(store, _prefix(group), reason, times)


def _prefix(group: int) -> str:
    """Of the names in the store, which several settings share."""
    return f"{group}/"


def report_of(judged: Judged, validity: Validity, shards: Shards) -> ValidityReport:
    """Return the report of a judgement by many hosts: the proof is that of the process that judged the first shard."""
    first = judged.judges[0]
    return ValidityReport(validity, shards.prepared, first.tested, first.reference, first.provenance)
