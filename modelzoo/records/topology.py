"""The cores of a machine, and where they are."""

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
