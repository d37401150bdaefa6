"""Parsers of Linux's /proc and /sys: CPU topology, caches, frequencies, memory, and the limits of control groups; and
what every process of the suite begins with.

``root`` is the directory that stands for ``/``, so that tests can provide the files of another machine. A file that
is missing or unreadable gives ``None``: containers and other systems lack many of them.
"""

from __future__ import annotations

import errno
import functools
import getpass
import io
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from modelzoo.files import own_temporary_directory
from modelzoo.records.machine import Cache, Throttling

FILESYSTEM_ROOT = Path("/")
_FREQUENCY_SAMPLES = 16
"""CPUs whose frequency is read: on older x86 kernels each read takes up to 20 ms."""


def read_text(path: Path) -> str | None:
    """Return the stripped text of ``path``, or ``None`` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return None


def output_of(*command: str, **environ: str) -> str | None:
    """Return what a program prints; ``None`` if it is missing, fails, or takes more than 10 s.

    Args:
        command: the program and its arguments.
        environ: variables that it gets besides those of this process.
    """
    import subprocess  # few processes need it

    env = {**os.environ, **environ}
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, env=env, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def read_integer(path: Path) -> int | None:
    """Return the integer in ``path``, or ``None`` if there is none."""
    try:
        return int(read_text(path) or "")
    except ValueError:
        return None


def parse_cpu_list(text: str) -> frozenset[int]:
    """Parse the kernel's list format: ``"0-3,8"`` gives {0, 1, 2, 3, 8}.

    Raises:
        ValueError: the text is not such a list.
    """
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if not part:
            continue
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def format_cpu_list(cpus: Iterable[int]) -> str:
    """Return ``cpus`` in the kernel's list format: {0, 1, 2, 3, 8} gives ``"0-3,8"``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


@functools.cache
def allowed_cpus() -> frozenset[int]:
    """Return the logical CPUs in this process's affinity mask; all of them if the system has no affinity.

    The first call decides, and every process makes it before it loads anything: with ``OMP_PROC_BIND``, libgomp binds
    the thread that loads it to one CPU, and all threads and processes that this thread starts inherit that.
    """
    return current_cpus()


def current_cpus() -> frozenset[int]:
    """Return the logical CPUs that the calling thread may use now, which a library may have bound."""
    try:
        return frozenset(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not Linux
        return frozenset(range(os.cpu_count() or 1))


def leave_bound_cpu() -> None:
    """Let the calling thread run on all of ``allowed_cpus`` again, if an OpenMP library has bound it to some.

    For threads that are not OpenMP's. One of them is bound again, once, by the first parallel region that it enters, so
    this is to be called before every piece of its work.
    """
    cpus = allowed_cpus()
    if current_cpus() != cpus:
        os.sched_setaffinity(0, cpus)


def online_cpus(root: Path) -> frozenset[int] | None:
    """Return the logical CPUs that are online, or ``None`` if /sys does not say."""
    text = read_text(root / "sys/devices/system/cpu/online")
    return parse_cpu_list(text) if text else None


def count_cores(cpus: frozenset[int], root: Path) -> int | None:
    """Count the physical cores of the logical CPUs ``cpus``; ``None`` if /sys does not say."""
    cores = {read_siblings(cpu, root) for cpu in cpus}
    return None if None in cores else len(cores) or None


def read_siblings(cpu: int, root: Path) -> str | None:
    """Return the list of the logical CPUs that are one core with ``cpu``; ``None`` if /sys does not say."""
    folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
    return read_text(folder / "core_cpus_list") or read_text(folder / "thread_siblings_list")


def read_socket(cpu: int, root: Path) -> int | None:
    """Return the package that a logical CPU is in; ``None`` if unknown, which some ARM firmware reports as -1."""
    package = read_integer(root / f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id")
    return None if package == -1 else package


def read_numa_nodes(root: Path) -> dict[int, frozenset[int]]:
    """Return the logical CPUs of each NUMA node that has any (some have memory only); empty on kernels without them."""
    folders = sorted((root / "sys/devices/system/node").glob("node[0-9]*"))
    found = {int(folder.name[len("node") :]): parse_cpu_list(read_text(folder / "cpulist") or "") for folder in folders}
    return {node: cpus for node, cpus in sorted(found.items()) if cpus}


def read_caches(cpus: frozenset[int], root: Path) -> tuple[Cache, ...]:
    """Return the caches of every level, L1 first."""
    owners: dict[tuple[str, int], set[str]] = {}
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    for cpu in cpus:
        for folder in (root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index[0-9]*"):
            level, kind = read_text(folder / "level"), read_text(folder / "type")
            size = re.fullmatch(r"(\d+)([KMG]?)", read_text(folder / "size") or "0")
            if not level or size is None or not int(size[1]):
                continue
            name = f"L{level}" + {"Data": "d", "Instruction": "i"}.get(kind or "", "")
            key = name, int(size[1]) * units.get(size[2], 1)
            owners.setdefault(key, set()).add(read_text(folder / "shared_cpu_list") or str(cpu))
    return tuple(Cache(name, size, len(shared)) for (name, size), shared in sorted(owners.items()))


def last_level_cache(cpu: int, root: Path) -> int | None:
    """Return the lowest of the logical CPUs that share the last cache before memory with ``cpu``.

    ``None`` if the system names none, or if it is no more than the second level: that of a core, while the cache of the
    whole chip is not shown, as on some ARM processors.
    """
    found = [
        (level, parse_cpu_list(shared))
        for folder in (root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index[0-9]*")
        if (level := read_integer(folder / "level") or 0) > 2 and (shared := read_text(folder / "shared_cpu_list"))
    ]
    return min(max(found)[1], default=None) if found else None


def current_mhz(cpus: frozenset[int], root: Path) -> list[float]:
    """Read the current frequencies in MHz of up to 16 of ``cpus``, evenly spread; empty without cpufreq."""
    chosen = sorted(cpus)[:: max(1, len(cpus) // _FREQUENCY_SAMPLES)]
    # The files hold kHz.
    values = [read_integer(root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in chosen]
    return [khz / 1e3 for khz in values if khz]


_UNLIMITED = 1 << 60
"""Version 1 writes "no limit" as the largest page-aligned 64-bit number."""


def cpu_quota(root: Path = FILESYSTEM_ROOT) -> float | None:
    """Return the CPUs of time that the control groups allow: the least of this process's group and all its parents."""
    quotas = [_cpu_quota(folder) for folder in _cgroup_folders("cpu", root)]
    return min((quota for quota in quotas if quota is not None), default=None)


def cgroup_memory(root: Path = FILESYSTEM_ROOT) -> int | None:
    """Return the bytes of memory that the control groups allow, in the same way."""
    names = ("memory.max", "memory.limit_in_bytes")
    limits = [read_integer(folder / name) for folder in _cgroup_folders("memory", root) for name in names]
    return min((limit for limit in limits if limit is not None and 0 < limit < _UNLIMITED), default=None)


def read_cgroup_cpus(root: Path) -> frozenset[int] | None:
    """Return the logical CPUs that the cpuset of this process's group allows; ``None`` if there is no cpuset."""
    for folder in _cgroup_folders("cpuset", root):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            text = read_text(folder / name)
            if text:
                return parse_cpu_list(text)
    return None


def read_throttling(root: Path = FILESYSTEM_ROOT) -> Throttling | None:
    """Return how often, and for how long, quotas have stopped this process's group and its parents so far.

    ``None`` if there is no quota, or the kernel does not say. Each group counts the stops by its own quota.
    """
    known = []
    for folder in _cgroup_folders("cpu", root):
        if _cpu_quota(folder) is None:
            continue
        lines = (line.split() for line in (read_text(folder / "cpu.stat") or "").splitlines())
        values = {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}
        # Version 2 counts microseconds, version 1 nanoseconds.
        for name, unit in (("throttled_usec", 1e6), ("throttled_time", 1e9)):
            if name in values:
                known.append((values.get("nr_throttled", 0), values[name] / unit))
                break
    return Throttling(*map(sum, zip(*known))) if known else None


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
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():  # source: proc(5)
        fields, _, tail = line.partition(" - ")
        words, kind = fields.split(" "), tail.split(" ")
        if len(words) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            folders += _existing_folders(root, words[4], words[3], paths.get("", "/"))
        elif kind[0] == "cgroup" and controller in kind[2].split(","):
            folders += _existing_folders(root, words[4], words[3], paths.get(controller, "/"))
    return folders


def _existing_folders(root: Path, mount: str, mount_root: str, path: str) -> list[Path]:
    """Return the folder of the group ``path`` and of its parents within a mount, innermost first.

    A container may see a path that does not exist inside its own mount; then the top of the mount is its group
    (source: cgroups(7), cgroup_namespaces(7)).
    """
    base = root / mount.lstrip("/")
    inside = PurePosixPath(path)
    inside = inside.relative_to(mount_root) if inside.is_relative_to(mount_root) else PurePosixPath()
    if ".." in inside.parts:
        inside = PurePosixPath()
    return [folder for each in (inside, *inside.parents) if (folder := base / each).is_dir()]


class _Stderr(io.TextIOWrapper):
    """What is for people is lost, and nothing else, if the disk that stderr is written to is full."""

    def write(self, text: str) -> int:
        with _unless_full():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with _unless_full():
            super().flush()


@contextmanager
def _unless_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def begin() -> None:
    """Do what every process of the suite does first, before any library is loaded.

    The CPUs of this thread are noted; stdout and stderr take every text, whatever their encoding lacks; and a user id
    without an entry in passwd, as containers may have, gets the name that torch asks for (``default_cache_dir`` in
    ``torch/_inductor/runtime/cache_dir_utils.py``) and a home directory, which torch's and Hugging Face's caches need.

    Raises:
        EnvironmentProblem: another user can write to that home directory.
    """
    allowed_cpus()
    # A stream that was closed before the start is None, and print would send errors to stdout.
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    first = sys.__stderr__
    if first is not None and sys.stderr is first:  # it keeps the buffer open
        sys.stderr = _Stderr(first.buffer, first.encoding, "backslashreplace", line_buffering=True)
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"uid-{os.getuid()}"
    if os.path.expanduser("~") == "~":  # noqa: PTH111 - Path.home() would raise
        os.environ["HOME"] = str(own_temporary_directory())
