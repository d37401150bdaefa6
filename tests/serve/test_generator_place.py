"""The generator has a core of its own if there is one."""

from __future__ import annotations

import os

import pytest

from modelzoo.records.load import GeneratorPlace
from modelzoo.records.machine import Core, Topology
from modelzoo.records.throughput import InstancePlace
from modelzoo.serve.places import generator_place, settled

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
