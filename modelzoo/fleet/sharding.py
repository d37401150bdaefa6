"""Shards as the work of a fleet: refuse members that would judge otherwise, keep what comes, count what differs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Callable, Optional, Union

from modelzoo.errors import InputError
from modelzoo.fleet.ledger import Ledger, chosen_again, differing
from modelzoo.fleet.member import facts_differ
from modelzoo.fleet.shard_files import ShardFiles
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.fleet import Finished, FleetEvent, Joined, Measured, ShardReceived, ToMember
from modelzoo.records.run import SideReport
from modelzoo.records.sharding import FleetHost, PrecisionDifference, ShardingReport
from modelzoo.records.shards import JudgedBy, ShardPlan

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

    def receive(self, member: int, message: Union[Finished, Measured]) -> None:
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
