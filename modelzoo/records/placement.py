"""Where a process runs, and on which NUMA nodes its memory is."""

from __future__ import annotations

from typing import Optional

import msgspec

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
