"""Who gets which cores, on machines of many shapes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from topologies import dual_socket, plant_topology, topology

from modelzoo.errors import UsageError
from modelzoo.machine.cpu import read_topology
from modelzoo.records.machine import Core, Topology
from modelzoo.records.throughput import Smt
from modelzoo.serve.places import idle_cores, most_cores, most_instances, plan, quota_in_cores, splits


@pytest.mark.parametrize(("instances", "cores"), [(1, 32), (4, 32), (8, 16), (16, 8), (128, 1), (5, 3), (40, 3)])
def test_every_instance_is_inside_one_node_and_shares_no_core(instances: int, cores: int, tmp_path: Path) -> None:
    """On 128 cores in 2 sockets and 4 nodes; the nodes are filled evenly."""
    machine = read_topology(dual_socket(tmp_path))
    places = plan(machine, instances, cores)
    assert len(places) == instances
    used = Counter(cpu for place in places for cpu in place.cpus)
    assert len(used) == instances * cores
    assert set(used.values()) == {1}
    for place in places:
        assert {core.node for core in machine.cores if core.cpus[0] in place.cpus} == {place.node}
    counts = Counter(place.node for place in places)
    if instances >= 4 and instances % 4 == 0:
        assert len(set(counts.values())) == 1


def test_uneven_nodes_are_filled_from_the_largest() -> None:
    """6 cores and 2: three instances of two cores on the first, one on the second."""
    machine = topology(6, 2)
    places = plan(machine, 4, 2)
    assert Counter(place.node for place in places) == {0: 3, 1: 1}
    assert most_instances(machine, 2) == 4
    assert most_instances(machine, 3) == 2
    with pytest.raises(UsageError, match=r"3 × 3 cores: the NUMA nodes have room for only 2 instances of 3 cores"):
        plan(machine, 3, 3)


def test_an_instance_never_spans_two_nodes() -> None:
    """Although there are enough cores in all."""
    with pytest.raises(UsageError, match="no NUMA node has more than 4 cores .*; give --cores-per-inst"):
        plan(topology(4, 4), 1, 5)


def test_siblings_are_left_idle_unless_they_are_asked_for() -> None:
    """One thread per core, or all of them."""
    machine = topology(4, smt=2)
    assert [place.cpus for place in plan(machine, 2, 2)] == [(0, 1), (2, 3)]
    assert [place.cpus for place in plan(machine, 2, 2, Smt.ON)] == [(0, 1, 4, 5), (2, 3, 6, 7)]
    with pytest.raises(UsageError, match="--smt on: these cores have no second hardware thread"):
        plan(topology(4), 2, 2, Smt.ON)


def test_instances_with_unequal_threads_are_refused(tmp_path: Path) -> None:
    """One sibling is offline, another is outside the cpuset."""
    siblings = {cpu: (cpu % 4, cpu % 4 + 4) for cpu in range(8)}
    root = plant_topology(tmp_path, {0: range(8)}, siblings=siblings, online="0-6", cpuset="0-6")
    machine = read_topology(root)
    assert [place.cpus for place in plan(machine, 2, 2)] == [(0, 1), (2, 3)]
    with pytest.raises(UsageError, match="--smt on: instances would have 3 or 4 hardware threads"):
        plan(machine, 2, 2, Smt.ON)


def test_offline_cpus_and_cpusets_are_never_used(tmp_path: Path) -> None:
    """What may not be used is no place."""
    root = plant_topology(tmp_path, {0: range(8), 1: range(8, 16)}, online="0-3,6-15", cpuset="2-12")
    places = plan(read_topology(root), 4, 2)
    assert {cpu for place in places for cpu in place.cpus} <= set(range(2, 13)) - {4, 5}
    assert Counter(place.node for place in places) == {0: 2, 1: 2}


def test_a_quota_limits_the_instances() -> None:
    """With more threads than it allows, some are stopped while others wait for them."""
    machine = topology(8, quota=4.5)
    assert len(plan(machine, 2, 2)) == 2
    with pytest.raises(UsageError, match="the control group's quota allows 4.5 CPUs"):
        plan(machine, 3, 2)
    assert most_cores(machine, 2) == 2
    assert (4, 1) in splits(machine)
    less_than_one = topology(8, quota=0.5)
    assert splits(less_than_one) == ((1, 1),)
    with pytest.raises(UsageError, match=r"the control group's quota allows 0\.5 CPUs"):
        plan(less_than_one, 1, 1)


def test_a_quota_is_used_up_by_threads() -> None:
    """With --smt on, a core takes two CPUs of it."""
    machine = topology(8, smt=2, quota=4)
    assert len(plan(machine, 4, 1)) == len(plan(machine, 2, 1, Smt.ON)) * 2
    with pytest.raises(UsageError, match="4 × 1 core, 8 threads: the control group's quota allows 4 CPUs"):
        plan(machine, 4, 1, Smt.ON)
    assert splits(quota_in_cores(machine, Smt.ON)) == ((1, 2), (2, 1))


@pytest.mark.parametrize(("instances", "cores"), [(0, 1), (1, 0), (-1, 2)])
def test_nothing_is_no_plan(instances: int, cores: int) -> None:
    """At least one instance with at least one core."""
    with pytest.raises(UsageError, match="there must be 1 instance or more, of 1 core or more"):
        plan(topology(4), instances, cores)


def test_the_most_cores_for_so_many_instances() -> None:
    """When only the number of instances is given."""
    machine = topology(32, 32, 32, 32)
    assert [most_cores(machine, count) for count in (1, 2, 4, 8, 12, 128, 129)] == [32, 32, 32, 16, 10, 1, 0]


Splits = list[tuple[int, int]]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (topology(2), [(1, 2), (2, 1)]),
        (topology(72), [(1, 72), (2, 36), (4, 18), (8, 9), (18, 4), (36, 2), (72, 1)]),
        (topology(80), [(1, 80), (2, 40), (4, 20), (8, 10), (16, 5), (40, 2), (80, 1)]),
        (topology(96), [(1, 96), (2, 48), (4, 24), (8, 12), (16, 6), (32, 3), (96, 1)]),
        (topology(96, cache=8), [(1, 96), (2, 48), (4, 24), (12, 8), (24, 4), (48, 2), (96, 1)]),
        (topology(32, 32, 32, 32), [(1, 32), (4, 32), (8, 16), (16, 8), (32, 4), (64, 2), (128, 1)]),
        (topology(96, quota=6.5), [(1, 6), (2, 3), (6, 1)]),
        (Topology((Core((0,), (0,), 0, 0),)), [(1, 1)]),
    ],
)
def test_a_search_tries_splits_that_use_all_cores(machine: Topology, expected: Splits) -> None:
    """Whole nodes, then about half as many cores each time; a single instance on one node is compared with them."""
    found = splits(machine)
    assert list(found) == expected
    compared = found[1:] if len(machine.nodes) > 1 else found
    assert {idle_cores(machine, *each) for each in compared} == {0}


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (topology(31), [(1, 31, 0), (2, 15, 1), (5, 6, 1), (10, 3, 1), (31, 1, 0)]),
        (topology(6, 2), [(1, 6, 2), (4, 2, 0), (8, 1, 0)]),
        (topology(20, 44), [(1, 44, 20), (3, 20, 4), (6, 10, 4), (16, 4, 0), (32, 2, 0), (64, 1, 0)]),
    ],
)
def test_of_sizes_that_do_not_fit_those_with_the_fewest_idle_cores_are_tried(
    machine: Topology, expected: list[tuple[int, int, int]]
) -> None:
    """A prime number of cores, and nodes of different sizes."""
    assert [(*each, idle_cores(machine, *each)) for each in splits(machine)] == expected


def test_a_search_is_no_longer_on_machines_of_odd_sizes() -> None:
    """There are no more splits than powers of two, and fewer cores are idle than there are instances."""
    for cores in range(1, 257):
        found = splits(topology(cores))
        assert len(found) <= cores.bit_length()
        assert {(1, cores), (cores, 1)} <= set(found)
        assert all(0 <= idle_cores(topology(cores), *each) < each[0] for each in found)


@pytest.mark.parametrize(("instances", "cores"), [(24, 8), (48, 4), (96, 2), (8, 24), (4, 48), (5, 6)])
def test_instances_share_no_more_last_level_caches_than_they_must(instances: int, cores: int) -> None:
    """On two nodes of 96 cores, 8 of which share a cache."""
    machine = topology(96, 96, cache=8)
    for place in plan(machine, instances, cores):
        caches = {core.cache for core in machine.cores if core.cpus[0] in place.cpus}
        assert len(caches) == -(-cores // 8)


def test_caches_that_are_used_in_part_are_filled_last(tmp_path: Path) -> None:
    """A cpuset leaves 4, 8 and 4 cores of three caches."""
    caches = [range(first, first + 8) for first in (0, 8, 16)]
    machine = read_topology(plant_topology(tmp_path, {0: range(24)}, cpuset="4-19", caches=caches))
    assert machine.text == "16 cores, 1 NUMA node, 4 or 8 per L3 cache"
    assert [place.cpus for place in plan(machine, 1, 8)] == [tuple(range(8, 16))]
    assert [place.cpus for place in plan(machine, 4, 4)][:2] == [(8, 9, 10, 11), (4, 5, 6, 7)]


def test_a_cache_of_one_core_or_of_the_whole_node_is_no_cluster(tmp_path: Path) -> None:
    """As on processors whose system cache Linux does not show, or shows as a third level of all cores."""
    whole = read_topology(plant_topology(tmp_path / "whole", {0: range(8)}, caches=[range(8)]))
    private = plant_topology(tmp_path / "private", {0: range(8)})
    for cpu in range(8):
        folder = private / f"sys/devices/system/cpu/cpu{cpu}/cache/index2"
        folder.mkdir(parents=True)
        (folder / "level").write_text("2")
        (folder / "shared_cpu_list").write_text(str(cpu))
    for machine in (whole, read_topology(private)):
        assert len(machine.clusters) == 1
        assert machine.text == "8 cores, 1 NUMA node"
