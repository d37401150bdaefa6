"""The files of machines with many cores, as Linux shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from planted import plant

from modelzoo.machine.linux import format_cpu_list
from modelzoo.records.machine import Core, Topology


def plant_topology(
    root: Path,
    nodes: Mapping[int, Iterable[int]],
    *,
    sockets: Mapping[int, int] | None = None,
    siblings: Mapping[int, tuple[int, ...]] | None = None,
    online: str | None = None,
    cpuset: str | None = None,
    quota: str | None = None,
    caches: Iterable[Iterable[int]] = (),
) -> Path:
    """Write the files below ``root``: nodes with their CPUs, the socket of each node, and the siblings of each CPU.

    ``caches`` are the CPUs that share each last-level cache.
    """
    members = {node: tuple(cpus) for node, cpus in nodes.items()}
    cpus = sorted(cpu for each in members.values() for cpu in each)
    system = "sys/devices/system"
    files = {f"{system}/cpu/present": format_cpu_list(cpus), f"{system}/cpu/online": online or format_cpu_list(cpus)}
    for node, own in members.items():
        files[f"{system}/node/node{node}/cpulist"] = format_cpu_list(own)
        for cpu in own:
            folder = f"{system}/cpu/cpu{cpu}/topology"
            files[f"{folder}/core_cpus_list"] = format_cpu_list((siblings or {}).get(cpu, (cpu,)))
            files[f"{folder}/physical_package_id"] = str((sockets or {}).get(node, 0))
    for shared in map(tuple, caches):
        for cpu in shared:
            folder = f"{system}/cpu/cpu{cpu}/cache"
            for level, own in ((2, siblings.get(cpu, (cpu,)) if siblings else (cpu,)), (3, shared)):
                files[f"{folder}/index{level}/level"] = str(level)
                files[f"{folder}/index{level}/shared_cpu_list"] = format_cpu_list(own)
    files["proc/self/cgroup"] = "0::/"
    files["proc/self/mountinfo"] = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw"
    (root / "sys/fs/cgroup").mkdir(parents=True, exist_ok=True)
    if cpuset is not None:
        files["sys/fs/cgroup/cpuset.cpus.effective"] = cpuset
    if quota is not None:
        files["sys/fs/cgroup/cpu.max"] = quota
    return plant(root, files)


def dual_socket(root: Path) -> Path:
    nodes = {node: range(32 * node, 32 * node + 32) for node in range(4)}
    return plant_topology(root, nodes, sockets={0: 0, 1: 0, 2: 1, 3: 1})


def topology(*sizes: int, smt: int = 1, quota: float | None = None, cache: int | None = None) -> Topology:
    """Nodes with this many cores of ``smt`` hardware threads each; second threads are numbered after all first ones.

    ``cache`` is how many cores share each last-level cache.
    """
    total, cores, first = sum(sizes), [], 0
    for node, size in enumerate(sizes):
        for cpu in range(first, first + size):
            cpus = tuple(cpu + total * thread for thread in range(smt))
            cores.append(Core(cpus, cpus, 0, node, cpu - (cpu - first) % cache if cache else None))
        first += size
    return Topology(tuple(cores), quota=quota)
