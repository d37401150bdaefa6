"""Hosts send their results: all are written, and those that failed are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable

import pytest
from fake_runs import make, result_of
from fleet_members import QUICK, Killed, Outcome, directory, free_port, judged, member, plan, together

from modelzoo.errors import EnvironmentProblem, WorkerError
from modelzoo.fleet.collector import Times, store_of
from modelzoo.fleet.gathering import measure_together
from modelzoo.fleet.member import Link
from modelzoo.fleet.store import Connection
from modelzoo.frozen import replace
from modelzoo.records.fleet import Finished, HostMeasured, Joined, ToHost
from modelzoo.results import store

FACTS = {"settings": "toy fp32"}
PATIENT = replace(QUICK, lost=20.0)
"""So long may a member that is refused take to read why, on a machine that is busy; nobody is lost meanwhile."""


def measured(folder: Path, rank: int) -> Path:
    """A complete result of one host, in a file."""
    path = directory(folder, rank) / f"host-{rank}.json"
    store.write(result_of(make([0.1 + rank] * 3)), path)
    return path


def fleet(
    folder: Path, calls: list[Callable[[], Path]], facts: list[dict[str, str]], times: Times = QUICK
) -> list[Outcome]:
    """Run all members; each writes to a directory of its own."""
    port = free_port()

    def call(rank: int) -> object:
        here = member(rank, len(calls), port)
        with store_of(here) as reached:
            return measure_together(here, reached, facts[rank], calls[rank], directory(folder, rank), times=times)

    return together([lambda rank=rank: call(rank) for rank in range(len(calls))])  # type: ignore[misc]


def test_every_result_arrives_as_it_was_written(tmp_path: Path) -> None:
    """On the host of the store, byte for byte."""
    outcomes = fleet(tmp_path, [lambda r=r: measured(tmp_path, r) for r in range(3)], [FACTS] * 3)  # type: ignore[misc]
    assert [outcome.error for outcome in outcomes] == [None] * 3
    assert [outcome.value for outcome in outcomes[1:]] == [None, None]
    gathered, hosts = outcomes[0].value  # type: ignore[misc]
    assert [host.result for host in hosts] == [str(directory(tmp_path, 0) / f"host-{r}.json") for r in range(3)]
    for rank in range(3):
        arrived = (directory(tmp_path, 0) / f"host-{rank}.json").read_bytes()
        assert arrived == (directory(tmp_path, rank) / f"host-{rank}.json").read_bytes()
        assert json.loads(arrived)["runs"]
        assert gathered.results[rank].host == f"host-{rank}"


def test_a_host_that_failed_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    """One whose worker died, and one that was killed."""

    def failing() -> Path:
        raise WorkerError("the worker process was ended by SIGKILL")

    def killed() -> Path:
        raise Killed

    outcomes = fleet(tmp_path, [lambda: measured(tmp_path, 0), failing, killed], [FACTS] * 3)
    assert isinstance(outcomes[1].error, WorkerError)
    _, hosts = outcomes[0].value  # type: ignore[misc]
    assert [host.problem for host in hosts] == [
        "",
        "the worker process was ended by SIGKILL",
        "it was not heard of for 2 s",
    ]
    assert [host.result is None for host in hosts] == [False, True, True]


def test_the_host_of_the_store_keeps_the_results_of_others_if_it_fails_itself(tmp_path: Path) -> None:
    """It waits for them."""

    def failing() -> Path:
        raise EnvironmentProblem("no such device")

    outcomes = fleet(tmp_path, [failing, lambda: measured(tmp_path, 1)], [FACTS] * 2)
    assert outcomes[0].error is None
    _, hosts = outcomes[0].value  # type: ignore[misc]
    assert [host.problem for host in hosts] == ["no such device", ""]


def test_a_host_that_measured_something_else_is_refused(tmp_path: Path) -> None:
    """Another list of settings, for example; it says so itself, before it measures."""

    def never() -> Path:
        raise AssertionError("it measures")

    facts = [FACTS, {"settings": "toy bf16"}]
    outcomes = fleet(tmp_path, [lambda: measured(tmp_path, 0), never], facts, PATIENT)
    _, hosts = outcomes[0].value  # type: ignore[misc]
    assert "would measure something else (settings: toy bf16 instead of toy fp32)" in hosts[1].problem
    assert isinstance(outcomes[1].error, EnvironmentProblem)
    assert "(settings: toy bf16 instead of toy fp32)" in str(outcomes[1].error)


def test_a_host_that_sends_no_result_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    """Its file is damaged, or of a newer version of the suite."""

    def damaged() -> Path:
        path = measured(tmp_path, 1)
        path.write_bytes(path.read_bytes()[:100])
        return path

    outcomes = fleet(tmp_path, [lambda: measured(tmp_path, 0), damaged], [FACTS] * 2, PATIENT)
    gathered, hosts = outcomes[0].value  # type: ignore[misc]
    assert list(gathered.results) == [0]
    assert [host.result is None for host in hosts] == [False, True]
    assert "is not JSON" in hosts[1].problem
    assert "is not JSON" in str(outcomes[1].error)
    assert not (directory(tmp_path, 0) / "host-1.json").exists()


@pytest.mark.parametrize(
    "message",
    [HostMeasured(b"{}"), Joined(rank=7, host="x"), Joined(rank=-1, host="x"), Finished(judged(plan().shards[0], "x"))],
)
def test_who_does_not_join_as_a_member_does_is_left_out(tmp_path: Path, message: ToHost) -> None:
    """It has no rank, or none of this fleet; the others are not disturbed."""
    port = free_port()
    here = member(0, 1, port)
    with store_of(here) as reached:
        link = Link(Connection(reached, "run/", seconds=10.0))
        link.say(message)
        found = measure_together(
            here, reached, FACTS, lambda: measured(tmp_path, 0), directory(tmp_path, 0), times=QUICK
        )
    assert found is not None
    assert [(host.rank, host.problem) for host in found[1]] == [(0, "")]
    assert [path.name for path in directory(tmp_path, 0).iterdir()] == ["host-0.json"]


@pytest.mark.parametrize("rank", [1])
def test_a_host_that_never_came_is_named(tmp_path: Path, rank: int) -> None:
    """After the time that a member may be silent."""
    port = free_port()
    here = member(0, 2, port)
    with store_of(here) as reached:
        found = measure_together(
            here,
            reached,
            FACTS,
            lambda: measured(tmp_path, 0),
            directory(tmp_path, 0),
            times=replace(QUICK, gather=0.0),
        )
    assert found is not None
    assert [(host.rank, host.problem) for host in found[1]] == [(0, ""), (rank, "it never joined")]
