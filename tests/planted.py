"""Trees of /proc and /sys files of machines small and large, recorded texts of real ones, and NVML without a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import places

from modelzoo.machine.linux import format_cpu_list
from modelzoo.records.machine import Core, Topology

CGROUP_V1_CPU_MOUNT = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
CGROUP_V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"


def recorded(name: str) -> str:
    return (places.DATA / "machine" / name).read_text()


def plant(root: Path, files: Mapping[str, str]) -> Path:
    """Write ``files`` (path to content) below ``root``, and return ``root``."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return root


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


class NVMLError(Exception):
    """What NVML raises."""


def fake_nvml(*, reasons: int = 0, denied: bool = False, count: int = 2, log: str = "/dev/null") -> Any:
    """A library with ``count`` GPUs; the file ``log`` has what was locked and set back, ``denied`` refuses to lock."""

    def note(text: str) -> None:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def not_supported(handle: str) -> int:
        raise NVMLError("Not Supported")

    def lock(handle: str, low: int, high: int) -> None:
        if denied:
            raise NVMLError("Insufficient Permissions")
        note(f"{handle} locked at {low} to {high}")

    def by_uuid(uuid: str) -> str:
        if not uuid.startswith("GPU-"):
            raise NVMLError("Not Found")
        return uuid

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: f"gpu {index}",
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetClockInfo=lambda handle, kind: {1: 1980, 2: 2619}[kind],
        nvmlDeviceGetPowerUsage=lambda handle: 312_500,
        nvmlDeviceGetTemperature=lambda handle, kind: 45,
        nvmlDeviceGetTotalEnergyConsumption=not_supported,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: reasons,
        nvmlDeviceSetGpuLockedClocks=lock,
        nvmlDeviceResetGpuLockedClocks=lambda handle: note(f"{handle} set back"),
    )
