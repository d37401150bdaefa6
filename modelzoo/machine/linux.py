"""Reading Linux's /proc and /sys: small parsers, pure functions of a file's text or of a tree.

``root`` is the directory that stands for ``/``, so that a test can plant a whole machine. A file that
is missing or unreadable reads as ``None``: containers and other systems lack many of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path("/")


def read(path: Path) -> str | None:
    """Return the stripped text of ``path``, or ``None`` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return None


def read_int(path: Path) -> int | None:
    """Return the integer in ``path``, or ``None`` where there is none."""
    try:
        return int(read(path) or "")
    except ValueError:
        return None


def cpu_list(text: str) -> frozenset[int]:
    """Parse the kernel's list format: ``"0-3,8"`` to {0, 1, 2, 3, 8}.

    Raises:
        ValueError: the text is not such a list.
    """
    found: set[int] = set()
    for part in text.strip().split(","):
        if not part:
            continue
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def affinity() -> frozenset[int]:
    """Logical CPUs this process may run on; all of them where the system has no affinity."""
    try:
        return frozenset(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not Linux
        return frozenset(range(os.cpu_count() or 1))


# --- cores -------------------------------------------------------------------------------------


def cores(cpus: frozenset[int], root: Path = ROOT) -> int | None:
    """Count the physical cores that ``cpus`` (logical numbers) lie on; ``None`` where /sys does not say.

    The sibling list decides before (package, core) ids, because core ids repeat between the dies and
    clusters of some machines.
    """
    found: set[object] = set()
    for cpu in cpus:
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        siblings = read(folder / "core_cpus_list") or read(folder / "thread_siblings_list")
        if siblings:
            found.add(siblings)
            continue
        package, core = read(folder / "physical_package_id"), read(folder / "core_id")
        if core is None:
            return None
        found.add((package, core))
    return len(found) or None


def online(root: Path = ROOT) -> frozenset[int] | None:
    """Logical CPUs that are online; ``None`` where /sys does not say."""
    text = read(root / "sys/devices/system/cpu/online")
    return cpu_list(text) if text else None


def sockets(cpus: frozenset[int], root: Path = ROOT) -> int | None:
    """Count the packages of ``cpus``. Some ARM firmware gives -1: then nobody knows."""
    folders = [root / f"sys/devices/system/cpu/cpu{cpu}/topology" for cpu in cpus]
    packages = {read_int(folder / "physical_package_id") for folder in folders}
    return None if packages & {None, -1} else len(packages) or None


def numa_nodes(root: Path = ROOT, cpus: frozenset[int] | None = None) -> int | None:
    """Count the NUMA nodes that have CPUs (some hold memory only), or have some of ``cpus``."""
    nodes = []
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        inside = cpu_list(read(folder / "cpulist") or "")
        nodes.append(inside if cpus is None else inside & cpus)
    return sum(1 for inside in nodes if inside) or None


def caches(cpus: frozenset[int], root: Path = ROOT) -> list[tuple[str, int, int]]:
    """List (name, bytes of each, instances) of every level of cache, L1 first."""
    found: dict[tuple[str, int], set[str]] = {}
    for cpu in cpus:
        for folder in (root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index[0-9]*"):
            level, kind = read(folder / "level"), read(folder / "type")
            size = _size(read(folder / "size") or "")
            if not level or not size:
                continue
            name = f"L{level}" + {"Data": "d", "Instruction": "i"}.get(kind or "", "")
            found.setdefault((name, size), set()).add(read(folder / "shared_cpu_list") or str(cpu))
    return sorted((name, size, len(owners)) for (name, size), owners in found.items())


def _size(text: str) -> int | None:
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    number = text.rstrip("KMG")
    return int(number) * units.get(text[-1:], 1) if number.isdigit() else None


@dataclass(frozen=True)
class Frequency:
    """What cpufreq says; all ``None`` in most virtual machines."""

    governor: str | None
    mhz: float | None
    max_mhz: float | None


def frequency(cpus: frozenset[int], root: Path = ROOT) -> Frequency:
    """Read governors and the fastest core's frequencies (the files hold kHz)."""
    folders = [root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq" for cpu in cpus]
    governors = {read(folder / "scaling_governor") for folder in folders} - {None}
    now = [read_int(folder / "scaling_cur_freq") for folder in folders]
    top = [read_int(folder / "cpuinfo_max_freq") for folder in folders]
    return Frequency(
        governor="+".join(sorted(text for text in governors if text)) or None,
        mhz=max((value / 1e3 for value in now if value), default=None),
        max_mhz=max((value / 1e3 for value in top if value), default=None),
    )


def meminfo(root: Path = ROOT) -> dict[str, int]:
    """Return /proc/meminfo in bytes."""
    found = {}
    for line in (read(root / "proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return found


def chosen(path: Path) -> str | None:
    """Return the word in brackets: ``always [madvise] never`` gives ``madvise``."""
    text = read(path) or ""
    return text.partition("[")[2].partition("]")[0] or None


def container(root: Path, environ: Mapping[str, str]) -> str | None:
    """Name the kind of container that this process runs in, or ``None``."""
    if (root / "run/.containerenv").exists():
        return "podman"
    named = environ.get("container")  # set by podman, systemd-nspawn, lxc
    if named:
        return named
    groups = (read(root / "proc/self/cgroup") or "") + (read(root / "proc/1/cgroup") or "")
    if "KUBERNETES_SERVICE_HOST" in environ or "kubepods" in groups:
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    for word in ("docker", "containerd", "libpod", "lxc", "buildkit"):
        if f"/{word}" in groups:
            return word
    return None


def hypervisor(root: Path) -> str | None:
    """Name the hypervisor from the firmware's tables, for machines whose CPU does not tell (ARM)."""
    kind = read(root / "sys/hypervisor/type")
    if kind:
        return kind
    vendor = read(root / "sys/class/dmi/id/sys_vendor") or ""
    product = read(root / "sys/class/dmi/id/product_name") or ""
    if "metal" in product:
        return None
    # Alibaba's and Amazon's virtual machines carry the vendor's name only.
    for word in (
        "QEMU",
        "KVM",
        "VMware",
        "Microsoft Corporation",
        "Amazon EC2",
        "Google",
        "Alibaba Cloud",
        "Xen",
    ):
        if word in vendor or word in product:
            return word
    return None


# --- control groups ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """What the process's control groups allow: CPUs' worth of time, bytes of memory."""

    cpus: float | None
    memory: int | None


_UNLIMITED = 1 << 60
"""cgroup v1 writes "no limit" as the largest page-aligned 64-bit number."""


def cgroup_limits(root: Path = ROOT) -> Limits:
    """Return the tightest quota and memory limit of this process's groups and of all their parents."""
    cpus: list[float] = []
    memory: list[int] = []
    for folder in _cgroup_folders("cpu", root):
        quota = _cpu_quota(folder)
        if quota is not None:
            cpus.append(quota)
    for folder in _cgroup_folders("memory", root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = read_int(folder / name)
            if limit is not None and 0 < limit < _UNLIMITED:
                memory.append(limit)
    return Limits(min(cpus, default=None), min(memory, default=None))


def throttled_seconds(root: Path = ROOT) -> float | None:
    """Return how long this process's own group was stopped by its quota; ``None`` without a quota."""
    for folder in _cgroup_folders("cpu", root):
        if _cpu_quota(folder) is None:
            continue
        for line in (read(folder / "cpu.stat") or "").splitlines():
            name, _, value = line.partition(" ")
            if name == "throttled_usec" and value.isdigit():  # version 2
                return int(value) / 1e6
            if name == "throttled_time" and value.isdigit():  # version 1, nanoseconds
                return int(value) / 1e9
    return None


def _cpu_quota(folder: Path) -> float | None:
    """CPUs' worth of time that one group allows (v2 ``cpu.max``, v1 ``cpu.cfs_*``)."""
    text = read(folder / "cpu.max")
    if text is not None:
        quota, _, period = text.partition(" ")
    else:
        quota = read(folder / "cpu.cfs_quota_us") or ""
        period = read(folder / "cpu.cfs_period_us") or ""
    try:
        value = int(quota) / int(period or 100_000)
    except (ValueError, ZeroDivisionError):  # "max", or nothing there
        return None
    return value if value > 0 and math.isfinite(value) else None


def _cgroup_folders(controller: str, root: Path) -> list[Path]:
    """Folders of this process's group for ``controller`` and of its parents, innermost first.

    Version 1, version 2 and both at once. A container may see a path that does not exist inside its
    own mount; then the mount's top is the group (source: cgroups(7), cgroup_namespaces(7)).
    """
    paths: dict[str, str] = {}
    for line in (read(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for name in names.split(","):  # version 2 has one line with an empty name
            paths[name] = path
    folders: list[Path] = []
    for line in (read(root / "proc/self/mountinfo") or "").splitlines():
        fields, _, tail = line.partition(" - ")
        words, kind = fields.split(" "), tail.split(" ")
        if len(words) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            path = paths.get("", "/")
        elif kind[0] == "cgroup" and controller in kind[2].split(","):
            path = paths.get(controller, "/")
        else:
            continue
        folders += _upwards(root, mount=words[4], top=words[3], path=path)
    return folders


def _upwards(root: Path, mount: str, top: str, path: str) -> list[Path]:
    base = root / mount.lstrip("/")
    try:
        inside = PurePosixPath(path).relative_to(top)
    except ValueError:
        inside = PurePosixPath("")
    if ".." in inside.parts:
        inside = PurePosixPath("")
    found = [base / inside]
    found += [base / parent for parent in inside.parents if inside.parts]
    existing = [folder for folder in found if folder.is_dir()]
    return existing or ([base] if base.is_dir() else [])
