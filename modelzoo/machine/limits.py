"""How many threads and how much memory this process may use."""

from __future__ import annotations

import os
from pathlib import Path

from modelzoo.machine.cgroups import read_cgroup_limits
from modelzoo.machine.linux import FILESYSTEM_ROOT, allowed_cpus, count_cores, format_cpu_list, read_meminfo
from modelzoo.records.machine import Threads


def usable_threads(root: Path = FILESYSTEM_ROOT, affinity: frozenset[int] | None = None) -> Threads:
    """Return the default number of threads: min(CPU affinity, control group quota, physical cores).

    A quota is rounded down, but not below 1: if there are more threads than the quota allows, some are stopped while
    all others wait for them. SMT siblings are not counted, because two threads of a matrix product would share the
    vector units of one core.

    Args:
        root: the directory that stands for ``/``.
        affinity: the logical CPUs that may be used, by default those of this process.
    """
    cpus = allowed_cpus() if affinity is None else affinity
    quota = read_cgroup_limits(root).cpus
    physical = count_cores(cpus, root) or min(system_cores(), len(cpus))
    count = min(physical, len(cpus), *(() if quota is None else (max(1, int(quota)),)))
    return Threads(max(1, count), physical, len(cpus), quota, format_cpu_list(cpus))


def memory_limit(root: Path = FILESYSTEM_ROOT) -> int | None:
    """Return the bytes of memory that this process may use: the physical memory, or its control groups' limit."""
    limits = (read_cgroup_limits(root).memory, physical_memory(root))
    return min((limit for limit in limits if limit is not None), default=None)


def available_memory(root: Path = FILESYSTEM_ROOT) -> int:
    """Return the bytes of memory that new processes may use without swapping.

    The kernel's estimate, but no more than the control groups' limit (whose current use is not subtracted: much of it
    is file cache, which the kernel gives up).
    """
    available = read_meminfo(root).get("MemAvailable")
    if available is None:
        import psutil

        available = int(psutil.virtual_memory().available)
    limit = read_cgroup_limits(root).memory
    return available if limit is None else min(available, limit)


def physical_memory(root: Path = FILESYSTEM_ROOT) -> int | None:
    """Return the machine's memory in bytes, or ``None`` if it is unknown."""
    total = read_meminfo(root).get("MemTotal")
    if total is not None or root != FILESYSTEM_ROOT:
        return total
    import psutil

    return int(psutil.virtual_memory().total)


def system_cores() -> int:
    """Return the number of physical cores of this machine as psutil reports it, for systems without /sys."""
    import psutil

    return psutil.cpu_count(logical=False) or os.cpu_count() or 1
