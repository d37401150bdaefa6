"""Limits of this process's control groups, versions 1 and 2."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from modelzoo.machine.linux import FILESYSTEM_ROOT, parse_cpu_list, read_integer, read_text

_UNLIMITED = 1 << 60
"""Version 1 writes "no limit" as the largest page-aligned 64-bit number."""


@dataclass(frozen=True)
class CgroupLimits:
    """What the control groups allow: CPU time in CPUs, and memory in bytes; ``None`` if there is no limit."""

    cpus: float | None
    memory: int | None


def read_cgroup_limits(root: Path = FILESYSTEM_ROOT) -> CgroupLimits:
    """Return the lowest limits among this process's groups and all their parents."""
    quotas = [_cpu_quota(folder) for folder in _cgroup_folders("cpu", root)]
    memory = [
        read_integer(folder / name)
        for folder in _cgroup_folders("memory", root)
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    return CgroupLimits(
        cpus=min((quota for quota in quotas if quota is not None), default=None),
        memory=min((limit for limit in memory if limit is not None and 0 < limit < _UNLIMITED), default=None),
    )


def read_cgroup_cpus(root: Path = FILESYSTEM_ROOT) -> frozenset[int] | None:
    """Return the logical CPUs that the cpuset of this process's group allows; ``None`` if there is no cpuset."""
    for folder in _cgroup_folders("cpuset", root):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            text = read_text(folder / name)
            if text:
                return parse_cpu_list(text)
    return None


def read_throttled_seconds(root: Path = FILESYSTEM_ROOT) -> float | None:
    """Return for how long its quota has stopped this process's group; ``None`` if there is no quota."""
    for folder in _cgroup_folders("cpu", root):
        if _cpu_quota(folder) is None:
            continue
        for line in (read_text(folder / "cpu.stat") or "").splitlines():
            name, _, value = line.partition(" ")
            if name == "throttled_usec" and value.isdigit():  # version 2
                return int(value) / 1e6
            if name == "throttled_time" and value.isdigit():  # version 1, nanoseconds
                return int(value) / 1e9
    return None


def _cpu_quota(folder: Path) -> float | None:
    """Return the CPUs that one group allows (version 2 ``cpu.max``, version 1 ``cpu.cfs_*``)."""
    text = read_text(folder / "cpu.max")
    if text is not None:
        quota, _, period = text.partition(" ")
    else:
        quota = read_text(folder / "cpu.cfs_quota_us") or ""
        period = read_text(folder / "cpu.cfs_period_us") or ""
    try:
        cpus = int(quota) / int(period or 100_000)
    except (ValueError, ZeroDivisionError):  # "max", or no such file
        return None
    return cpus if cpus > 0 and math.isfinite(cpus) else None


def _cgroup_folders(controller: str, root: Path) -> list[Path]:
    """Return the folders of this process's group for ``controller`` and of its parents, innermost first.

    Versions 1 and 2 may be mounted at the same time.
    """
    paths: dict[str, str] = {}
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for name in names.split(","):  # version 2 has one line with an empty name
            paths[name] = path
    folders: list[Path] = []
    for mount, mount_root, kind, options in _cgroup_mounts(root):
        if kind == "cgroup2":
            folders += _existing_folders(root, mount, mount_root, paths.get("", "/"))
        elif controller in options:
            folders += _existing_folders(root, mount, mount_root, paths.get(controller, "/"))
    return folders


def _cgroup_mounts(root: Path) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield mount point, root within the file system, type and options of each mount (source: proc(5))."""
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        fields, _, tail = line.partition(" - ")
        words, kind = fields.split(" "), tail.split(" ")
        if len(words) >= 5 and len(kind) >= 3 and kind[0] in ("cgroup", "cgroup2"):
            yield words[4], words[3], kind[0], kind[2].split(",")


def _existing_folders(root: Path, mount: str, mount_root: str, path: str) -> list[Path]:
    """Return the folder of the group ``path`` and of its parents within a mount, innermost first.

    A container may see a path that does not exist inside its own mount; then the top of the mount is its group
    (source: cgroups(7), cgroup_namespaces(7)).
    """
    base = root / mount.lstrip("/")
    try:
        inside = PurePosixPath(path).relative_to(mount_root)
    except ValueError:
        inside = PurePosixPath("")
    if ".." in inside.parts:
        inside = PurePosixPath("")
    candidates = [base / inside]
    candidates += [base / parent for parent in inside.parents if inside.parts]
    existing = [folder for folder in candidates if folder.is_dir()]
    return existing or ([base] if base.is_dir() else [])
