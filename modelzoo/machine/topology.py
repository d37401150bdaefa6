"""Read which cores there are: sockets, NUMA nodes, SMT siblings, and which logical CPUs may be used."""

from __future__ import annotations

from pathlib import Path

from modelzoo.machine.cgroups import read_cgroup_cpus, read_cgroup_limits
from modelzoo.machine.linux import (
    FILESYSTEM_ROOT,
    allowed_cpus,
    online_cpus,
    parse_cpu_list,
    read_integer,
    read_text,
)
from modelzoo.records.topology import Core, Topology


def read_topology(root: Path = FILESYSTEM_ROOT, affinity: frozenset[int] | None = None) -> Topology:
    """Return the cores that this process may use.

    A core whose siblings the system does not name counts as one core for each logical CPU. A CPU that belongs to no
    NUMA node, as on kernels without NUMA, is on node 0.

    Args:
        root: the directory that stands for ``/``.
        affinity: the affinity mask, by default that of this process, or, for another root, all CPUs.
    """
    if affinity is None and root == FILESYSTEM_ROOT:
        affinity = allowed_cpus()
    present = _cpu_list(root / "sys/devices/system/cpu/present")
    online = online_cpus(root) or affinity or frozenset()
    cpuset = read_cgroup_cpus(root)
    allowed = online & (online if affinity is None else affinity) & (online if cpuset is None else cpuset)
    nodes = _nodes(root)
    found: dict[tuple[int, ...], Core] = {}
    for cpu in sorted(allowed):
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        listed = read_text(folder / "core_cpus_list") or read_text(folder / "thread_siblings_list")
        siblings = tuple(sorted((parse_cpu_list(listed) & online) | {cpu})) if listed else (cpu,)
        usable = tuple(each for each in siblings if each in allowed)
        socket = read_integer(folder / "physical_package_id")
        # Some ARM firmware reports -1 for unknown.
        found.setdefault(usable, Core(usable, siblings, None if socket == -1 else socket, nodes.get(cpu, 0)))
    return Topology(
        cores=tuple(sorted(found.values(), key=lambda core: (core.node, core.cpus))),
        offline=tuple(sorted(present - online)),
        excluded=tuple(sorted(online - allowed)),
        quota=read_cgroup_limits(root).cpus,
    )


def _nodes(root: Path) -> dict[int, int]:
    """The NUMA node of every logical CPU."""
    found = {}
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        for cpu in _cpu_list(folder / "cpulist"):
            found[cpu] = int(folder.name[len("node") :])
    return found


def _cpu_list(path: Path) -> frozenset[int]:
    return parse_cpu_list(read_text(path) or "")
