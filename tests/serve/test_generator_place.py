"""The generator has a core of its own if there is one."""

from __future__ import annotations

import os

import pytest
from topologies import topology

from modelzoo.records.load import GeneratorPlace
from modelzoo.records.machine import Core, Topology
from modelzoo.records.throughput import InstancePlace
from modelzoo.serve.places import cores_beside_generator, generator_place, plan, settled

SMT = Topology(tuple(Core((cpu, cpu + 4), (cpu, cpu + 4), 0, 0) for cpu in range(4)))
ALL = frozenset(range(8))


def test_a_core_without_instances_is_the_generators() -> None:
    """The highest one, with its hardware threads; a sibling of an instance's CPU does not count as free."""
    found = generator_place(SMT, [InstancePlace((0, 1), 0)], ALL)
    assert (found.cpus, found.is_own) == ((3, 7), True)


def test_without_a_free_core_it_shares() -> None:
    """Although the siblings are idle."""
    found = generator_place(SMT, [InstancePlace((0, 1), 0), InstancePlace((2, 3), 0)], ALL)
    assert not found.is_own
    assert found.cpus == tuple(range(8))


def test_the_generator_is_near_the_instances() -> None:
    """On their node if it has a free core, else on another."""
    servers = topology(4, 4)
    assert generator_place(servers, plan(servers, 1, 3), ALL).cpus == (3,)
    assert generator_place(servers, plan(servers, 1, 4), ALL).cpus == (7,)


@pytest.mark.parametrize(
    ("sizes", "instances", "cores"),
    [((64,), 1, 63), ((64,), 4, 15), ((16, 16), 1, 16), ((16, 16), 2, 15), ((2,), 1, 1)],
)
def test_a_core_is_left_to_the_generator(sizes: tuple[int, ...], instances: int, cores: int) -> None:
    """Unless the cores of an instance were given."""
    machine = topology(*sizes)
    assert cores_beside_generator(machine, instances) == cores
    assert generator_place(machine, plan(machine, instances, cores), ALL).is_own


def test_no_core_is_left_to_the_generator_if_each_has_an_instance() -> None:
    """As asked for by --instances."""
    assert cores_beside_generator(topology(4), 4) == cores_beside_generator(topology(1), 1) == 1


@pytest.mark.parametrize(
    ("quota", "instances", "cores", "polls"),
    [(4.0, 1, 3, True), (6.5, 2, 2, True), (1.0, 1, 1, False), (None, 1, 16, True), (400.0, 1, 16, True)],
)
def test_the_generator_counts_against_a_quota(quota: float, instances: int, cores: int, polls: bool) -> None:
    """One CPU of it is left to the generator, which polls; if that is not possible, it sleeps."""
    machine = topology(16, 16, quota=quota)
    assert cores_beside_generator(machine, instances) == cores
    place = generator_place(machine, plan(machine, instances, cores), ALL)
    assert place.is_own
    assert place.polls is polls


def test_instances_that_use_up_the_quota_leave_no_time_to_poll() -> None:
    """As asked for by --cores-per-instance."""
    machine = topology(16, quota=4.0)
    assert not generator_place(machine, plan(machine, 2, 2), ALL).polls
    assert generator_place(machine, plan(machine, 3, 1), ALL).polls


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is only one CPU")
def test_a_pinned_process_may_run_elsewhere_afterwards() -> None:
    """Only within the block it is on its core."""
    before = os.sched_getaffinity(0)
    cpu = max(before)
    with settled(generator_place(Topology((Core((cpu,), (cpu,), 0, 0),)), [], frozenset(before))):
        assert os.sched_getaffinity(0) == {cpu}
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("is_own", [True, False])
def test_the_generator_goes_first_if_it_may(is_own: bool) -> None:
    """Only within the block."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with settled(GeneratorPlace((min(os.sched_getaffinity(0)),), is_own)) as found:
        assert found.nice == os.getpriority(os.PRIO_PROCESS, 0) <= before
    if os.geteuid() == 0:
        assert os.getpriority(os.PRIO_PROCESS, 0) == before
