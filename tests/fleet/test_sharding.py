"""A fleet of threads judges a data set: nothing lost, nothing counted twice, whoever is killed."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Optional

import pytest
from fleet_members import (
    QUICK,
    FakeJudge,
    Killed,
    Outcome,
    directory,
    free_port,
    judged,
    member,
    plan,
    renamed,
    together,
)

from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.fleet.collector import Times, store_of
from modelzoo.fleet.member import Link, ShardFiles
from modelzoo.fleet.sharding import proven_otherwise
from modelzoo.fleet.store import Connection, StoreLostError
from modelzoo.fleet.validation import Judged, cannot_judge, judge_together
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.fleet import Joined, Shard, ShardPlan, ShardResult
from modelzoo.records.hosts import ShardingReport
from modelzoo.records.run import Observed, SideReport
from modelzoo.validity.judging import merge
from modelzoo.views.fleet import sharding_notes


def fleet(
    folder: Path, judges: list[FakeJudge], again: int = 0, times: Times = QUICK, late: float = 0.0
) -> list[Outcome]:
    """Run all members; the disk of each is a directory of its own. The last one comes ``late`` seconds later."""
    port = free_port()

    def call(rank: int) -> Optional[Judged]:
        here = member(rank, len(judges), port)
        time.sleep(late if rank == len(judges) - 1 else 0.0)
        with store_of(here) as store:
            files = ShardFiles(directory(folder, rank))
            return judge_together(here, store, judges[rank], files, again=again, times=times)

    return together([lambda rank=rank: call(rank) for rank in range(len(judges))])  # type: ignore[misc]


def collected(outcomes: list[Outcome]) -> Judged:
    """What the host of the store returned."""
    assert outcomes[0].error is None, outcomes[0].error
    assert isinstance(outcomes[0].value, Judged)
    return outcomes[0].value


def check_whole(folder: Path, divided: ShardPlan) -> None:
    """Every item is there once, in the shards on the disk of the host of the store."""
    stored = [ShardFiles(directory(folder, 0)).read(shard) for shard in divided.shards]
    merged = merge([each.result for each in stored if each is not None])
    assert [each.index for each in merged.classified] == list(range(divided.items))


def test_three_members_judge_every_shard_once(tmp_path: Path) -> None:
    """Each takes part, and all shards end on the disk of the host of the store."""
    divided, barrier = plan(), threading.Barrier(3)
    judges = [FakeJudge(f"host-{rank}", divided, meets=barrier) for rank in range(3)]
    found = collected(fleet(tmp_path, judges)).sharding
    assert sorted(number for judge in judges for number in judge.done) == list(range(6))
    assert all(judge.done for judge in judges)
    assert (found.items, found.shards, found.reused, found.judged_twice) == (24, 6, 0, 0)
    assert sorted(each.host for each in found.hosts) == ["host-0", "host-1", "host-2"]
    assert sum(each.items for each in found.hosts) == 24
    check_whole(tmp_path, divided)


def test_a_killed_member_costs_only_its_unfinished_shard(tmp_path: Path) -> None:
    """It is named, the others judge what it had begun, and what it had finished counts once."""
    divided, barrier = plan(), threading.Barrier(3)
    judges = [FakeJudge(f"host-{rank}", divided, meets=barrier) for rank in range(3)]
    judges[2].dies_at = 1
    outcomes = fleet(tmp_path, judges)
    found = collected(outcomes).sharding
    assert isinstance(outcomes[2].error, Killed)
    assert sorted(number for judge in judges for number in judge.done) == list(range(6))
    assert {each.host: each.problem for each in found.hosts}["host-2"] == "it was not heard of for 2 s"
    assert next(each for each in found.hosts if each.host == "host-2").items == 4
    check_whole(tmp_path, divided)


def test_another_call_goes_on_after_the_host_of_the_store_was_killed(tmp_path: Path) -> None:
    """The others say so in one line; their finished shards are used by the next call, and none is judged again."""
    divided, barrier = plan(), threading.Barrier(2)
    first = [FakeJudge(f"host-{rank}", divided, meets=barrier) for rank in range(2)]
    first[0].dies_at = 0
    outcomes = fleet(tmp_path, first)
    assert isinstance(outcomes[0].error, Killed)
    assert isinstance(outcomes[1].error, StoreLostError)
    text = str(outcomes[1].error)
    assert text.startswith("the host of the store, 127.0.0.1:")
    assert text.endswith(f"finished shards are kept in {directory(tmp_path, 1)}, run the same command again")
    assert "\n" not in text
    kept = first[1].done
    assert kept
    second = [FakeJudge(f"host-{rank}", divided) for rank in range(2)]
    found = collected(fleet(tmp_path, second)).sharding
    assert sorted([*kept, *second[0].done, *second[1].done]) == list(range(6))
    assert found.reused == len(kept)
    check_whole(tmp_path, divided)


def test_what_a_member_that_comes_later_has_finished_is_not_judged_again(tmp_path: Path) -> None:
    """The others wait for it, but not for ever."""
    divided = plan()
    kept = divided.shards[:3]
    for shard in kept:
        ShardFiles(directory(tmp_path, 1)).write(judged(shard, "host-1"))
    judges = [FakeJudge(f"host-{rank}", divided) for rank in range(2)]
    found = collected(fleet(tmp_path, judges, late=0.3)).sharding
    assert sorted([*judges[0].done, *judges[1].done]) == [3, 4, 5]
    assert found.reused == len(kept)
    judges = [FakeJudge(f"host-{rank}", divided) for rank in range(2)]
    fleet(tmp_path / "new", judges, times=replace(QUICK, gather=0.05), late=0.5)
    assert judges[0].done == list(range(6))


def test_a_third_call_judges_nothing(tmp_path: Path) -> None:
    """All shards are on the disk of the host of the store."""
    divided = plan()
    fleet(tmp_path, [FakeJudge("host-0", divided)])
    judge = FakeJudge("host-0", divided)
    found = collected(fleet(tmp_path, [judge])).sharding
    assert not judge.done
    assert found.reused == 6


def test_a_damaged_shard_is_judged_again(tmp_path: Path) -> None:
    """The rest of its disk is used."""
    divided = plan()
    fleet(tmp_path, [FakeJudge("host-0", divided)])
    damaged = next(path for path in sorted(directory(tmp_path, 0).iterdir()) if path.suffix == ".json")
    damaged.write_bytes(damaged.read_bytes()[:100])
    judge = FakeJudge("host-0", divided)
    found = collected(fleet(tmp_path, [judge])).sharding
    assert judge.done == [0]
    assert found.reused == 5
    check_whole(tmp_path, divided)


def test_shards_of_pictures_that_have_changed_are_judged_again(tmp_path: Path) -> None:
    """Their files no longer have the contents that were judged."""
    divided = plan()
    fleet(tmp_path, [FakeJudge("host-0", divided)])
    judge = FakeJudge("host-0", divided, files="other files")
    found = collected(fleet(tmp_path, [judge])).sharding
    assert judge.done == list(range(6))
    assert found.reused == 0


@pytest.mark.parametrize(("score", "differing"), [(0.5, 0), (0.25, 8)])
def test_predictions_that_differ_between_hosts_are_counted(tmp_path: Path, score: float, differing: int) -> None:
    """Two shards are judged by both members; the first result counts."""
    divided, barrier = plan(4), threading.Barrier(2)
    judges = [FakeJudge("host-0", divided, meets=barrier), FakeJudge("host-1", divided, score, meets=barrier)]
    found = collected(fleet(tmp_path, judges, again=2)).sharding
    assert (found.judged_twice, found.differing) == (8, differing)
    assert sum(each.items for each in found.hosts) == 16 + 8
    check_whole(tmp_path, divided)


def test_a_shard_that_two_hosts_have_finished_counts_once(tmp_path: Path) -> None:
    """As after a call in which one was taken for lost: the second result is only compared with the first."""
    divided = plan(3)
    for rank in range(2):
        ShardFiles(directory(tmp_path, rank)).write(judged(divided.shards[1], f"host-{rank}"))
    judges = [FakeJudge(f"host-{rank}", divided) for rank in range(2)]
    found = collected(fleet(tmp_path, judges)).sharding
    assert sorted([*judges[0].done, *judges[1].done]) == [0, 2]
    assert (found.reused, found.judged_twice, found.differing) == (1, 4, 0)
    check_whole(tmp_path, divided)


def test_a_member_that_would_judge_otherwise_is_refused(tmp_path: Path) -> None:
    """The reason names what differs; the others go on."""
    divided = plan()
    judges = [FakeJudge("host-0", divided), FakeJudge("host-1", renamed(divided, torch="2.9.1"))]
    outcomes = fleet(tmp_path, judges)
    found = collected(outcomes).sharding
    assert isinstance(outcomes[1].error, EnvironmentProblem)
    assert "host-1 would judge otherwise than the host of the store (torch: 2.9.1 instead of 2.10.0)" in str(
        outcomes[1].error
    )
    assert judges[0].done == list(range(6))
    assert found.hosts[-1].problem or found.hosts[0].problem


def test_the_others_go_on_without_a_host_that_cannot_judge(tmp_path: Path) -> None:
    """Also without the one that has the store: its worker has died, its store has not."""
    divided, barrier = plan(), threading.Barrier(2)

    class Broken(FakeJudge):
        def judge(self, shard: object) -> object:  # type: ignore[override]
            barrier.wait(30.0)
            raise EnvironmentProblem("the worker process was ended by SIGKILL")

    judges = [Broken("host-0", divided), FakeJudge("host-1", divided, meets=barrier)]
    found = collected(fleet(tmp_path, judges)).sharding
    assert sorted(judges[1].done) == list(range(6))
    assert {each.host: each.items for each in found.hosts} == {"host-0": 0, "host-1": 24}
    check_whole(tmp_path, divided)


def test_nobody_waits_for_a_host_that_cannot_keep_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its disk is full: it says so, and the others end as well."""
    divided = plan()
    write = ShardFiles.write

    def full(files: ShardFiles, result: ShardResult) -> None:
        if files.directory == directory(tmp_path, 0) and result.by.host != "host-0":
            raise UsageError("cannot write the shard: No space left on device")
        write(files, result)

    monkeypatch.setattr(ShardFiles, "write", full)
    barrier = threading.Barrier(2)
    outcomes = fleet(tmp_path, [FakeJudge(f"host-{rank}", divided, meets=barrier) for rank in range(2)])
    assert "No space left on device" in str(outcomes[0].error)
    assert isinstance(outcomes[1].error, EnvironmentProblem)


@pytest.mark.parametrize("message", [{"type": "left", "error": 7}, {"type": "measured", "result": ""}, {}])
def test_a_member_that_sends_nonsense_is_named_and_the_others_go_on(tmp_path: Path, message: object) -> None:
    """Whatever it sends, it cannot end the fleet."""
    divided, port = plan(), free_port()
    here = member(0, 2, port)
    judge = FakeJudge("host-0", divided)
    with store_of(here) as store:
        connection = Connection(store, "0/", seconds=10.0)
        link = Link(connection)
        link.say(Joined(rank=1, host="host-1", facts=divided.facts, shards=len(divided.shards)))
        connection.put(f"to-host/{link.member}/1", message)
        judged_here = judge_together(here, store, judge, ShardFiles(directory(tmp_path, 0)), times=QUICK)
    assert judged_here is not None
    assert judge.done == list(range(6))
    assert {each.host for each in judged_here.sharding.hosts if each.problem} == {"host-1"}
    check_whole(tmp_path, divided)


def test_a_member_that_was_taken_for_lost_learns_it(tmp_path: Path) -> None:
    """It was suspended, say: what it judged meanwhile does not count, and stays on its disk."""
    divided, port, both, lost = plan(), free_port(), threading.Barrier(2), threading.Event()

    class Suspended(FakeJudge):
        def judge(self, shard: Shard) -> ShardResult:
            if not self.done:
                both.wait(30.0)
                self.done.append(shard.number)
                assert lost.wait(30.0)
            return judged(shard, self.host)

    class Waiting(FakeJudge):
        def judge(self, shard: Shard) -> ShardResult:
            if not self.done:
                both.wait(30.0)
            found = super().judge(shard)
            if len(self.done) == 6:
                lost.set()
                suspended.wait(30.0)
            return found

    suspended = threading.Event()
    judges = [Waiting("host-0", divided), Suspended("host-1", divided)]

    def call(rank: int) -> Optional[Judged]:
        here = member(rank, 2, port)
        times = replace(QUICK, lost=0.5, beat=0.1 if rank == 0 else 600.0)
        with store_of(here) as store:
            files = ShardFiles(directory(tmp_path, rank))
            try:
                return judge_together(here, store, judges[rank], files, times=times)
            finally:
                suspended.set()

    outcomes = together([lambda rank=rank: call(rank) for rank in range(2)])  # type: ignore[misc]
    found = collected(outcomes).sharding
    assert sorted(judges[0].done) == list(range(6))
    assert {each.host: each.items for each in found.hosts} == {"host-0": 24, "host-1": 0}
    assert isinstance(outcomes[1].error, EnvironmentProblem)
    assert "not heard of for 0.5 s" in str(outcomes[1].error)
    check_whole(tmp_path, divided)


def test_a_member_that_comes_when_all_is_done_has_nothing_to_do(tmp_path: Path) -> None:
    """It does not wait for ever while the host of the store goes on with other settings."""
    divided, port = plan(), free_port()
    here = member(0, 1, port)
    with store_of(here) as store:
        judge_together(here, store, FakeJudge("host-0", divided), ShardFiles(directory(tmp_path, 0)), times=QUICK)
        late = FakeJudge("host-1", divided)
        judge_together(member(1, 2, port), store, late, ShardFiles(directory(tmp_path, 1)), times=QUICK)
    assert not late.done


def test_nobody_waits_for_a_setting_that_the_host_of_the_store_cannot_judge(tmp_path: Path) -> None:
    """They are told why, and the next setting is judged."""
    divided, port = plan(), free_port()
    with store_of(member(0, 2, port)) as store:
        cannot_judge(store, 0, "no such device", QUICK)
        with pytest.raises(EnvironmentProblem, match="has given up: no such device"):
            judge_together(
                member(1, 2, port), store, FakeJudge("a", divided), ShardFiles(directory(tmp_path, 1)), times=QUICK
            )


def test_hosts_that_ran_another_precision_are_named() -> None:
    """One metric would cover predictions in bf16 and in fp32."""
    verdicts = CanaryVerdict.ACTIVE, CanaryVerdict.NOT_ACTIVE
    active, inactive = (SideReport(observed=Observed(canary_verdict=each)) for each in verdicts)
    judges = [
        replace(judged(plan().shards[0], host).by, tested=side)
        for host, side in (("zoo0", active), ("zoo1", active), ("zoo2", inactive))
    ]
    (found,) = proven_otherwise(judges)
    assert (found.of_reference, found.check, found.host, found.first_host) == (False, "canary", "zoo2", "zoo0")
    assert sharding_notes(ShardingReport(0, "picture", 24, 6, otherwise=(found,)))[1] == (
        "The canary of the model under test says not active on host zoo2, and active on host zoo0: not all predictions "
        "have the same precision."
    )
