"""Hosts by kind: what counts as equal, which is odd (few hosts suffice), and what is different about it."""

from __future__ import annotations

import math
import random

import instances
import pytest
from fake_runs import MACHINE, make, result_of
from proven_results import PERFORMANCE, fleet, host, timed, wobble

from modelzoo.fleet.hosts import HostResult, host_ratios, installed, kind_of, kinds
from modelzoo.frozen import replace
from modelzoo.records.fleet import FleetComparison, HostDifference, HostKind
from modelzoo.records.machine import Machine
from modelzoo.records.race import Stage, StageKind
from modelzoo.records.serving import LatencyBound
from modelzoo.results.speed import Speed
from modelzoo.results.throughput import of
from modelzoo.stats.race import Choice
from modelzoo.views.fleet import comparison_notes, kind_columns, total_line

GIB = 2**30
POWERSAVE = replace(PERFORMANCE, governor="powersave")


def compared(hosts: list[HostResult]) -> tuple[HostKind, list[str]]:
    """Hosts of one kind, and what is said about them."""
    (kind,) = kinds(hosts)
    return kind, comparison_notes(FleetComparison((), (kind,)))


@pytest.mark.parametrize(("seconds", "level"), [(0.08, "20 % faster"), (0.25, "150 % slower")])
def test_the_odd_host_is_named(seconds: float, level: str) -> None:
    """A faster one is odd, too, and one of which nothing is known; 150 %, not 1.5e+02 %."""
    kind, (line, *others) = compared(fleet(host(9, seconds)))
    assert [each.host for each in kind.levels if each.odd] == ["host-9"]
    assert line.startswith(f"host host-9 is {level} [")
    assert line.endswith("nothing that was recorded is different about it")
    assert others


def test_kinds_are_told_apart_by_what_cannot_be_set() -> None:
    """Processor and cores; not the governor, nor limits on frequency and CPUs."""
    limits = replace(MACHINE.threads, affinity=2, quota=1.5)
    set_otherwise = replace(MACHINE, governor="powersave", max_mhz=1000.0, threads=limits, memory_limit=1 << 30)
    assert kind_of(set_otherwise) == kind_of(MACHINE)
    assert kind_of(replace(MACHINE, cpu="Neoverse-V1")) != kind_of(MACHINE)
    found = kinds([host(0, 0.1), host(1, 0.1), host(2, 0.1, replace(PERFORMANCE, cpu="Neoverse-V1"))])
    assert [each.hosts for each in found] == [("host-0", "host-1"), ("host-2",)]
    assert found[0].uncompared == "fewer than three hosts"
    notes = comparison_notes(FleetComparison((), found))
    assert "two hosts of this kind, and it takes three to say which one is odd." in notes[0]
    assert any("Hosts of different kinds are not compared" in note for note in notes)


def instances_of(rank: int, seconds: float, machine: Machine = PERFORMANCE) -> HostResult:
    """A host that served with one instance and with four, in three rounds each."""
    one, four = instances.configuration(1), instances.configuration(4)
    runs = []
    for number in range(3):
        runs += [instances.ran(0, one, number, [seconds]), instances.ran(1, four, number, [1.2 * seconds] * 4)]
    stored = instances.result([one, four], runs, machine=machine)
    return HostResult(f"host-{rank}", replace(stored, runs=(make([0.1] * 3, machine=machine),)))


def test_instances_of_hosts_are_compared_and_added_up() -> None:
    """By the time per item of each configuration; the sum is that of the best one."""
    hosts = [instances_of(rank, wobble(rank, 0.01)) for rank in range(9)]
    slow = instances_of(9, 0.013, POWERSAVE)
    kind, (line, *_) = compared([*hosts, slow])
    assert line.startswith("host host-9 is ")
    assert line.endswith("governor powersave instead of performance")
    assert {each.subject for each in kind.levels} == {"", "1 × 1 core, batch 1", "4 × 1 core, batch 1"}
    text = total_line([each.result for each in hosts])
    assert text.startswith("9 hosts together: 3")
    assert text.endswith(
        " rows/s, the sum of 4 × 1 core, batch 1 on each; it comes from the rounds that chose it, so it is not "
        "confirmed."
    )


def test_the_sum_is_that_of_the_confirmations() -> None:
    """If every host has measured the same configuration again: 100 rows/s in place of 300."""
    found = instances_of(0, wobble(0, 0.01)).result
    measured = of(found)
    own, rounds = measured.configurations, {run.round for run in measured.runs}
    again = [instances.ran(1, own[1], max(rounds) + 1 + number, [0.04] * 4) for number in range(2)]
    planned = Stage(StageKind.CONFIRMATION, (1,), 2, None, max(rounds) + 1)
    runs = (*measured.runs, *again)
    both = [replace(found, payload=replace(measured, runs=runs, stages=(planned,), choice=Choice(1, 1)))] * 2
    assert total_line(both) == "2 hosts together: 200.0 rows/s, the sum of 4 × 1 core, batch 1 on each."
    other = instances.result([instances.configuration(2)], [])  # as a search ends, with another one on each host
    assert "there is no total" in total_line([found, other])


def test_a_setting_that_failed_on_one_host_is_compared_on_the_others() -> None:
    """And the host is named; so is one on which nothing was timed, which takes nothing from the others."""
    both = [timed(rank, {"fp32": wobble(rank), "bf16": wobble(rank, 0.05)}) for rank in range(8)]
    failed = HostResult("host-9", result_of(make(None, machine=PERFORMANCE)))
    kind, notes = compared([*both, timed(8, {"fp32": wobble(8)}), failed])
    assert kind.uncompared is None
    assert kinds([HostResult("a", result_of())])[0].uncompared == "nothing was measured"
    assert {each.host for each in kind.levels} == {f"host-{rank}" for rank in range(9)}
    assert {each.host for each in kind.levels if each.subject == "toy bf16"} == {f"host-{rank}" for rank in range(8)}
    assert "none of 9 hosts is odd" in notes[0]
    assert "Nothing was timed on host-9." in notes
    assert "On host-8, toy bf16 was not timed to the end." in notes
    assert {column.title: column.cells for column in kind_columns(kind)}["toy bf16"][8] == "–"


def test_a_condition_that_another_host_has_as_well_explains_nothing() -> None:
    """However many values the others have of it."""
    hosts = [host(rank, wobble(rank), replace(PERFORMANCE, kernel=f"6.1.{rank}")) for rank in range(9)]
    (kind,) = kinds([*hosts, host(9, 0.12, replace(PERFORMANCE, kernel="6.1.7", governor="powersave"))])
    assert [each.name for each in kind.differences] == ["governor"]


def test_what_a_kernel_reserves_makes_no_kind_of_its_own() -> None:
    """503.4 and 503.6 GiB are two machines with 512; 377 are others."""
    found = [kind_of(replace(MACHINE, memory=int(size * GIB))) for size in (503.4, 503.6, 511.9, 377.0)]
    assert found[0] == found[1] == found[2] != found[3]
    assert [installed(int(size * GIB)) / GIB for size in (503.4, 512, 377.0, 15.6, 62.4)] == [512, 512, 384, 16, 64]


def test_kinds_say_what_tells_them_apart() -> None:
    """One server of ten has less memory; the names of both kinds are the same."""
    large, small = (replace(PERFORMANCE, memory=size * GIB) for size in (512, 256))
    found = kinds([*(host(rank, wobble(rank), large) for rank in range(9)), host(9, 0.1, small)])
    assert [(len(each.hosts), each.unlike) for each in found] == [
        (9, ()),
        (1, (HostDifference("host-9", "memory", ("256 GiB",), ("512 GiB",)),)),
    ]
    notes = comparison_notes(FleetComparison((), found))
    assert "What makes host-9 another kind: memory 256 GiB instead of 512 GiB." in notes


def test_a_configuration_that_may_miss_the_bound_is_not_added_up() -> None:
    """Neither one that misses it, nor one with too few samples to tell."""
    results = [instances_of(rank, 0.01).result for rank in range(3)]
    bounds = {LatencyBound(99.0, 1.0): True, LatencyBound(99.0, 0.001): False, LatencyBound(99.999, 1.0): False}
    for bound, is_met in bounds.items():
        bounded = [replace(each, payload=replace(of(each), bound=bound)) for each in results]
        assert total_line(bounded).startswith("3 hosts together: ") == is_met


def odd(found: Speed | None) -> bool:
    """Whether the verdict says so."""
    return found is not None and found.verdict.outcome in ("FASTER", "SLOWER")


def drawn(seed: int, hosts: int, settings: int = 1, spread: float = 0.01) -> list[list[float]]:
    """Log levels of equal hosts, each of which is faster or slower as a whole by ``spread``."""
    source = random.Random(seed)
    found = []
    for _ in range(hosts):
        whole = source.gauss(0.0, spread)
        found.append(
            [math.log(0.1 * (setting + 1)) + whole + source.gauss(0.0, spread / 4) for setting in range(settings)]
        )
    return found


def test_a_slow_host_among_ten_is_named_with_its_interval() -> None:
    """10 % slower, where equal hosts differ by 1 %."""
    levels = drawn(1, 10)
    levels[3][0] += math.log(1.10)
    found = host_ratios(levels)
    assert [odd(row[0]) for row in found] == [index == 3 for index in range(10)]
    assert found[3][0] is not None
    slow = found[3][0].ratio
    assert slow is not None
    assert slow.low < 1 / 1.10 < slow.high
    assert slow.high < 1 / 1.05


def test_a_host_that_is_slow_in_one_setting_is_found_there() -> None:
    """The mean over all settings hides it."""
    levels = drawn(2, 10, settings=4)
    levels[7][2] += math.log(1.3)
    found = host_ratios(levels)
    assert odd(found[7][3])
    assert not any(odd(standing) for index, row in enumerate(found) for standing in row if index != 7)


@pytest.mark.parametrize(("hosts", "settings"), [(3, 1), (10, 1), (10, 4)])
def test_equal_hosts_are_rarely_called_odd(hosts: int, settings: int) -> None:
    """In at most 2 % of all fleets, as verdicts promise: 300 fleets may show 13 (binomial, 99 %)."""
    false = sum(
        any(odd(standing) for row in host_ratios(drawn(seed, hosts, settings)) for standing in row)
        for seed in range(300)
    )
    assert false <= 13


def test_a_setting_that_a_host_lacks_is_compared_among_the_others() -> None:
    """The mean is over the settings that all of them have."""
    levels: list[list[float | None]] = [list(row) for row in drawn(3, 6, settings=3)]
    levels[5][2] = None
    levels[1][2] = (levels[1][2] or 0.0) + math.log(1.3)
    found = host_ratios(levels)
    assert found[5][3] is None
    assert [odd(row[3]) for row in found] == [index == 1 for index in range(6)]
    assert not any(odd(row[0]) for row in found)


def test_without_three_hosts_in_a_setting_nothing_is_said_about_it() -> None:
    """Nor about the mean, if there is no setting that all hosts have."""
    found = host_ratios([[0.0, None], [0.01, None], [None, 0.0], [0.02, 0.0]])
    assert [row[0] for row in found] == [None] * 4
    assert [row[1] is None for row in found] == [False, False, True, False]
    assert [row[2] for row in found] == [None] * 4
