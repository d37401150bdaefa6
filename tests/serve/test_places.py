"""Who gets which cores: instances on machines of many shapes, and the generator one of its own if there is one."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from planted import dual_socket, plant_topology, topology

from modelzoo.errors import UsageError
from modelzoo.machine.facts import read_topology
from modelzoo.records.machine import Core, Topology
from modelzoo.records.race import InstancePlace, Smt
from modelzoo.records.serving import GeneratorPlace
from modelzoo.serve.places import (
    cores_beside_generator,
    generator_place,
    idle_cores,
    most_cores,
    plan,
    quota_in_cores,
    settled,
    splits,
)


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


def test_siblings_are_left_idle_unless_they_are_asked_for() -> None:
    """One thread per core, or all of them."""
    machine = topology(4, smt=2)
    assert [place.cpus for place in plan(machine, 2, 2)] == [(0, 1), (2, 3)]
    assert [place.cpus for place in plan(machine, 2, 2, Smt.ON)] == [(0, 1, 4, 5), (2, 3, 6, 7)]


def test_instances_with_unequal_threads_are_refused(tmp_path: Path) -> None:
    """One sibling is offline, another is outside the cpuset."""
    siblings = {cpu: (cpu % 4, cpu % 4 + 4) for cpu in range(8)}
    root = plant_topology(tmp_path, {0: range(8)}, siblings=siblings, online="0-6", cpuset="0-6")
    machine = read_topology(root)
    assert [place.cpus for place in plan(machine, 2, 2)] == [(0, 1), (2, 3)]
    with pytest.raises(UsageError, match="--smt on: instances would have 3 or 4 hardware threads"):
        plan(machine, 2, 2, Smt.ON)


def test_a_quota_limits_the_instances() -> None:
    """With more threads than it allows, some are stopped while others wait; with --smt on, a core takes two CPUs."""
    machine, tiny, twofold = topology(8, quota=4.5), topology(8, quota=0.5), topology(8, smt=2, quota=4)
    assert (len(plan(machine, 2, 2)), most_cores(machine, 2)) == (2, 2)
    assert (4, 1) in splits(machine)
    assert splits(tiny) == ((1, 1),)
    assert len(plan(twofold, 4, 1)) == len(plan(twofold, 2, 1, Smt.ON)) * 2
    assert splits(quota_in_cores(twofold, Smt.ON)) == ((1, 2), (2, 1))
    for limited, instances, cores, smt, allowed in (
        (machine, 3, 2, Smt.OFF, "quota allows 4.5 CPUs"),
        (tiny, 1, 1, Smt.OFF, "quota allows 0.5 CPUs"),
        (twofold, 4, 1, Smt.ON, "4 × 1 core, 8 threads: the control group's quota allows 4 CPUs"),
    ):
        with pytest.raises(UsageError, match=allowed):
            plan(limited, instances, cores, smt)


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


SMT = Topology(tuple(Core((cpu, cpu + 4), (cpu, cpu + 4), 0, 0) for cpu in range(4)))
ALL = frozenset(range(8))


def test_without_a_free_core_it_shares() -> None:
    """Although the siblings are idle."""
    assert cores_beside_generator(topology(4), 4) == cores_beside_generator(topology(1), 1) == 1
    found = generator_place(SMT, [InstancePlace((0, 1), 0), InstancePlace((2, 3), 0)], ALL)
    assert not found.is_own
    assert found.cpus == tuple(range(8))


@pytest.mark.parametrize(
    ("quota", "instances", "cores", "polls"),
    [(4.0, 1, 3, True), (6.5, 2, 2, True), (1.0, 1, 1, False), (None, 2, 15, True), (400.0, 1, 16, True)],
)
def test_the_generator_counts_against_a_quota(quota: float | None, instances: int, cores: int, polls: bool) -> None:
    """One CPU of it is left to the generator, which polls; if that is not possible, it sleeps."""
    machine = topology(16, 16, quota=quota)
    assert cores_beside_generator(machine, instances) == cores
    place = generator_place(machine, plan(machine, instances, cores), ALL)
    assert place.is_own
    assert place.polls is polls
    machine = topology(16, quota=4.0)  # used up as asked for by --cores-per-instance
    assert not generator_place(machine, plan(machine, 2, 2), ALL).polls
    assert generator_place(machine, plan(machine, 3, 1), ALL).polls


@pytest.mark.parametrize("is_own", [True, False])
def test_the_generator_has_its_core_and_goes_first_if_it_may(is_own: bool) -> None:
    """Only within the block; afterwards this process may run elsewhere."""
    cpus, nice = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    with settled(GeneratorPlace((max(cpus),), is_own)) as found:
        assert os.sched_getaffinity(0) == ({max(cpus)} if is_own else cpus)
        assert found.nice == os.getpriority(os.PRIO_PROCESS, 0) <= nice
    assert os.sched_getaffinity(0) == cpus
    if os.geteuid() == 0:
        assert os.getpriority(os.PRIO_PROCESS, 0) == nice
