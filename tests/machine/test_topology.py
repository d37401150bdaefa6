"""Topologies as /sys and /proc show them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from topologies import dual_socket, plant_topology

from modelzoo.machine.cpu import read_topology
from modelzoo.records.topology import Core


def test_a_server_with_two_sockets_and_four_nodes(tmp_path: Path) -> None:
    """128 cores: the nodes of a socket have neighbouring numbers."""
    found = read_topology(dual_socket(tmp_path))
    assert len(found.cores) == 128
    assert (found.sockets, found.nodes) == (2, (0, 1, 2, 3))
    assert found.on_node(2)[0] == Core((64,), (64,), 1, 2)
    assert found.text == "128 cores, 2 sockets, 4 NUMA nodes (32 each)"


def test_siblings_share_a_core(tmp_path: Path) -> None:
    """As x86 servers number them: the second threads of all cores follow the first ones."""
    root = plant_topology(tmp_path, {0: range(8)}, siblings={cpu: (cpu % 4, cpu % 4 + 4) for cpu in range(8)})
    found = read_topology(root)
    assert [core.cpus for core in found.cores] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert found.text == "4 cores, 1 NUMA node, 8 hardware threads"


def test_cpus_that_are_offline_or_not_allowed_are_left_out(tmp_path: Path) -> None:
    """A core with one sibling offline or outside the cpuset has the other one only."""
    siblings = {cpu: (cpu % 4, cpu % 4 + 4) for cpu in range(8)}
    root = plant_topology(tmp_path, {0: range(8)}, siblings=siblings, online="0-6", cpuset="0-2,4-7")
    found = read_topology(root)
    assert [(core.cpus, core.siblings) for core in found.cores] == [
        ((0, 4), (0, 4)),
        ((1, 5), (1, 5)),
        ((2, 6), (2, 6)),
    ]
    assert (found.offline, found.excluded) == ((7,), (3,))
    narrower = read_topology(root, affinity=frozenset({0, 5}))
    assert [core.cpus for core in narrower.cores] == [(0,), (5,)]


def test_a_quota_is_part_of_the_topology(tmp_path: Path) -> None:
    """Instances beyond it would be stopped in turns."""
    assert read_topology(plant_topology(tmp_path, {0: range(8)}, quota="250000 100000")).quota == 2.5


def test_uneven_nodes_and_nodes_without_cpus(tmp_path: Path) -> None:
    """A node may have memory only, and node numbers need not follow each other."""
    found = read_topology(plant_topology(tmp_path, {0: range(6), 1: range(0), 8: range(6, 8)}))
    assert found.nodes == (0, 8)
    assert found.text == "8 cores, 2 NUMA nodes (6, 2)"


def test_a_system_that_says_little_has_a_core_per_cpu(tmp_path: Path) -> None:
    """No topology folders, no nodes: containers and other systems lack them."""
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-2\n")
    found = read_topology(tmp_path)
    assert [core.cpus for core in found.cores] == [(0,), (1,), (2,)]
    assert (found.nodes, found.sockets) == ((0,), 1)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_the_topology_of_this_machine_has_the_cpus_of_this_process() -> None:
    """Each of them once."""
    cpus = [cpu for core in read_topology().cores for cpu in core.cpus]
    assert sorted(cpus) == sorted(os.sched_getaffinity(0))
