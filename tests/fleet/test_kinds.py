"""Hosts by kind: what counts as equal, which is odd, and what is different about it."""

from __future__ import annotations

import math
from dataclasses import replace

import instances
from fake_runs import MACHINE, make, result_of

from modelzoo.fleet.kinds import HostResult, kind_of, kinds
from modelzoo.records.hosts import FleetComparison
from modelzoo.records.machine import Machine
from modelzoo.records.sharding import FleetHost
from modelzoo.report.fleet import comparison_notes, host_columns, kind_columns, total_line

PERFORMANCE = replace(MACHINE, governor="performance")


def host(rank: int, seconds: float, machine: Machine = PERFORMANCE) -> HostResult:
    """A host whose processes all took about ``seconds`` per batch."""
    runs = [make([seconds * (1 + 0.001 * number)] * 3, round=number, machine=machine) for number in range(3)]
    return HostResult(rank, f"host-{rank}", result_of(*runs))


def fleet(slow: HostResult) -> list[HostResult]:
    """Nine equal hosts, which differ by half a per cent, and one more."""
    return [*(host(rank, 0.1 * math.exp(0.005 * math.sin(3 * rank))) for rank in range(9)), slow]


def test_the_odd_host_is_named_with_what_is_different() -> None:
    """6 % slower because of its governor, with the interval."""
    (kind,) = kinds(fleet(host(9, 0.106, replace(PERFORMANCE, governor="powersave"))))
    assert [each.host for each in kind.levels if each.odd] == ["host-9"]
    (line, *others) = comparison_notes(FleetComparison((), (kind,)))
    assert line.startswith("host host-9 is 6")
    assert line.endswith("; governor powersave instead of performance")
    assert "% slower [" in line
    assert others


def test_a_host_that_is_odd_for_no_recorded_reason_is_named_all_the_same() -> None:
    """A faster one is odd, too."""
    (kind,) = kinds(fleet(host(9, 0.08)))
    (line, *_) = comparison_notes(FleetComparison((), (kind,)))
    assert "% faster [" in line
    assert line.endswith("nothing that was recorded is different about it")


def test_equal_hosts_are_not_named() -> None:
    """The table has all of them."""
    (kind,) = kinds(fleet(host(9, 0.1)))
    assert "none of 10 hosts is odd" in comparison_notes(FleetComparison((), (kind,)))[0]
    assert kind_columns(kind)[0].cells == tuple(f"host-{rank}" for rank in range(10))


def test_kinds_are_told_apart_by_what_cannot_be_set() -> None:
    """Processor and cores; not the governor, nor limits on frequency and CPUs."""
    limits = replace(MACHINE.threads, affinity=2, quota=1.5)
    set_otherwise = replace(MACHINE, governor="powersave", max_mhz=1000.0, threads=limits, memory_limit=1 << 30)
    assert kind_of(set_otherwise) == kind_of(MACHINE)
    assert kind_of(replace(MACHINE, cpu="Neoverse-V1")) != kind_of(MACHINE)
    found = kinds([host(0, 0.1), host(1, 0.1), host(2, 0.1, replace(PERFORMANCE, cpu="Neoverse-V1"))])
    assert [each.hosts for each in found] == [("host-0", "host-1"), ("host-2",)]
    assert "it takes three to say which one is odd" in found[0].problem
    notes = comparison_notes(FleetComparison((), found))
    assert any("Hosts of different kinds are not compared" in note for note in notes)


def test_hosts_without_a_result_are_listed_with_the_reason() -> None:
    """And those that torchrun had restarted."""
    hosts = (FleetHost(0, "a", result="r.json"), FleetHost(1, "b", 2, problem="it was not heard of for 60 s"))
    columns = {column.title: column.cells for column in host_columns(hosts)}
    assert columns["result"] == ("r.json", "none: it was not heard of for 60 s")
    assert columns["restarts"] == ("0", "2")
    notes = comparison_notes(FleetComparison(hosts, ()))
    assert notes == ["host b was restarted by torchrun 2 times; its measurement began anew."]


def instances_of(rank: int, seconds: float, machine: Machine = PERFORMANCE) -> HostResult:
    """A host that served with one instance and with four, in three rounds each."""
    one, four = instances.configuration(1), instances.configuration(4)
    runs = []
    for number in range(3):
        runs += [instances.ran(0, one, number, [seconds]), instances.ran(1, four, number, [1.2 * seconds] * 4)]
    stored = instances.result([one, four], runs, machine=machine)
    return HostResult(rank, f"host-{rank}", replace(stored, runs=(make([0.1] * 3, machine=machine),)))


def test_instances_of_hosts_are_compared_and_added_up() -> None:
    """By the time per item of each configuration; the sum is that of the best one."""
    hosts = [instances_of(rank, 0.01 * math.exp(0.005 * math.sin(3 * rank))) for rank in range(9)]
    slow = instances_of(9, 0.013, replace(PERFORMANCE, governor="powersave"))
    (kind,) = kinds([*hosts, slow])
    (line, *_) = comparison_notes(FleetComparison((), (kind,)))
    assert line.startswith("host host-9 is ")
    assert line.endswith("governor powersave instead of performance")
    assert {each.subject for each in kind.levels} == {"", "1 × 1 core, batch 1", "4 × 1 core, batch 1"}
    text = total_line([each.result for each in hosts])
    assert text.startswith("9 hosts together: 3")
    assert text.endswith(" rows/s, the sum of 4 × 1 core, batch 1 on each.")


def test_without_a_common_configuration_there_is_no_total() -> None:
    """Of a search, for example, that ended with another one on each host."""
    other = instances.result([instances.configuration(2)], [])
    assert "there is no total" in total_line([instances_of(0, 0.1).result, other])


def test_hosts_that_measured_nothing_are_a_kind_of_their_own() -> None:
    """They are not compared."""
    empty = HostResult(0, "a", result_of())
    assert kinds([empty])[0].problem == "nothing was measured on these hosts"
