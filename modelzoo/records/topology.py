"""The cores of a machine, where a process runs, and on which NUMA nodes its memory is."""

from __future__ import annotations

from typing import Optional

import msgspec


class Core(msgspec.Struct, frozen=True):
    """A physical core.

    Attributes:
        cpus: the logical CPUs of it that may be used, in ascending order.
        siblings: all of its logical CPUs that are online.
        socket: number of its package; ``None`` if the system does not say.
        node: number of its NUMA node; 0 if the system knows none.
    """

    cpus: tuple[int, ...]
    siblings: tuple[int, ...]
    socket: Optional[int]
    node: int


class Topology(msgspec.Struct, frozen=True):
    """The cores that may be used, node by node, and why others may not.

    Attributes:
        cores: those that may be used, in the order of their nodes, then of their first CPU.
        offline: logical CPUs that are switched off.
        excluded: logical CPUs that are online, but in neither the affinity mask nor the control group's cpuset.
        quota: CPUs that the control group's quota allows; ``None`` if there is none.
    """

    cores: tuple[Core, ...]
    offline: tuple[int, ...] = ()
    excluded: tuple[int, ...] = ()
    quota: Optional[float] = None

    @property
    def nodes(self) -> tuple[int, ...]:
        """The NUMA nodes that have cores which may be used."""
        return tuple(sorted({core.node for core in self.cores}))

    @property
    def sockets(self) -> int:
        """Number of packages with such cores; those that the system does not tell apart count as one."""
        return len({core.socket for core in self.cores})

    def on_node(self, node: int) -> tuple[Core, ...]:
        """The cores of a node that may be used."""
        return tuple(core for core in self.cores if core.node == node)

    @property
    def text(self) -> str:
        """In a few words: ``128 cores, 2 sockets, 4 NUMA nodes (32 each)``."""
        sizes = [len(self.on_node(node)) for node in self.nodes]
        each = f"{sizes[0]} each" if len(set(sizes)) == 1 else ", ".join(map(str, sizes))
        parts = [f"{len(self.cores)} core{'s' if len(self.cores) != 1 else ''}"]
        if self.sockets > 1:
            parts.append(f"{self.sockets} sockets")
        parts.append("1 NUMA node" if len(sizes) == 1 else f"{len(sizes)} NUMA nodes ({each})")
        if any(len(core.cpus) > 1 for core in self.cores):
            parts.append(f"{sum(len(core.cpus) for core in self.cores)} hardware threads")
        return ", ".join(parts)


LOCAL_SHARE = 0.99
"""Of a process's private memory, how much must be on the NUMA nodes of its CPUs for its placement to be proven."""


class NodeMemory(msgspec.Struct, frozen=True):
    """The memory of a process on one NUMA node, in bytes.

    Attributes:
        node: number of the node.
        private: memory that belongs to the process alone: heap, stacks, weights.
        files: mapped files, such as libraries, which other processes share.
    """

    node: int
    private: int
    files: int


class Placement(msgspec.Struct, frozen=True):
    """Where an instance runs and where its memory is.

    Attributes:
        cpus: the logical CPUs in its affinity mask.
        nodes: the NUMA nodes of these CPUs; empty if the system does not say.
        memory: its memory by node, as /proc/self/numa_maps shows it.
        problem: the system's error, if its memory could not be looked at.
        preferred_node: the node that new memory comes from as long as it has some; ``None``: no policy was set, because
            the CPUs are on several nodes, or the system names none, or has no such call, or refused …
        policy_problem: … with this error.
    """

    cpus: tuple[int, ...]
    nodes: tuple[int, ...]
    memory: tuple[NodeMemory, ...] = ()
    problem: Optional[str] = None
    preferred_node: Optional[int] = None
    policy_problem: Optional[str] = None

    @property
    def local_share(self) -> Optional[float]:
        """The share of its private memory that is on the nodes of its CPUs; ``None`` if that is not known."""
        total = sum(each.private for each in self.memory)
        if not self.nodes or not total:
            return None
        return sum(each.private for each in self.memory if each.node in self.nodes) / total

    @property
    def is_proven(self) -> bool:
        """Whether it runs on one node, and its private memory is there."""
        share = self.local_share
        return len(self.nodes) == 1 and share is not None and share >= LOCAL_SHARE
