"""What the CPUs are, where their cores are, and how many of them and how much memory this process may use.

Name and features come from the texts of ``/proc/cpuinfo`` and ``lscpu``.

On ARM the identification register decides: there ``/proc/cpuinfo`` has no model name, and under qemu-user ``lscpu``
reads the host's file and reports the host's CPU.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from modelzoo.machine import linux
from modelzoo.records.machine import Core, Threads, Topology

# (implementer, part) of MIDR_EL1, as /proc/cpuinfo has them. Sources: util-linux sys-utils/lscpu-arm.c, Linux
# arch/arm64/include/asm/cputype.h.
_PARTS = {
    ("0x41", "0xd03"): "Cortex-A53",
    ("0x41", "0xd07"): "Cortex-A57",
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse-N1",  # also Ampere Altra, Graviton2
    ("0x41", "0xd40"): "Neoverse-V1",  # Graviton3
    ("0x41", "0xd47"): "Cortex-A710",
    ("0x41", "0xd49"): "Neoverse-N2",  # Yitian 710, Cobalt 100
    ("0x41", "0xd4a"): "Neoverse-E1",
    ("0x41", "0xd4f"): "Neoverse-V2",  # Grace, Graviton4, Axion
    ("0x41", "0xd83"): "Neoverse-V3AE",
    ("0x41", "0xd84"): "Neoverse-V3",
    ("0x41", "0xd8e"): "Neoverse-N3",
    ("0x43", "0x0af"): "ThunderX2",
    ("0x46", "0x001"): "A64FX",
    ("0x48", "0xd01"): "TaiShan v110",  # Kunpeng 920
    ("0x48", "0xd02"): "TaiShan v120",
    ("0x70", "0x662"): "FTC662",
    ("0x70", "0x663"): "FTC663",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
    ("0xc0", "0xac5"): "Ampere-1b",
}
FEATURES = {
    "aarch64": ("fphp", "asimdhp", "asimddp", "sve", "sve2", "i8mm", "bf16", "svebf16", "sme", "sme2"),
    "x86_64": (
        *("avx", "fma", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
        *("amx_tile", "amx_bf16", "amx_int8"),
    ),
}
"""The CPU flags that decide which kernels can run, by architecture. Others are not recorded."""
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}
_BF16 = ("bf16", "svebf16", "avx512_bf16", "amx_bf16", "avx_ne_convert")


class Cpu(msgspec.Struct, frozen=True):
    """Name and features of a CPU; see ``modelzoo.records.machine.Machine``."""

    model: str
    product: str | None
    architecture: str
    features: tuple[str, ...]
    has_bf16: bool


def identify_cpu(architecture: str, cpuinfo: str, lscpu: str = "") -> Cpu:
    """Identify the CPU of a machine.

    Args:
        architecture: output of ``uname -m``.
        cpuinfo: text of ``/proc/cpuinfo``.
        lscpu: output of ``lscpu``; may be empty.
    """
    architecture = _ALIASES.get(architecture, architecture)
    info, listed = first_fields(cpuinfo), first_fields(lscpu)
    if architecture == "aarch64" and listed.get("Vendor ID") in ("GenuineIntel", "AuthenticAMD", "HygonGenuine"):
        listed = {}
    flags = info.get("Features") if architecture == "aarch64" else info.get("flags") or info.get("Features")
    product = listed.get("BIOS Model name")
    names = [listed.get("Model name"), info.get("model name"), info.get("Model"), product]
    if architecture == "aarch64":
        names.insert(0, _PARTS.get((info.get("CPU implementer", ""), info.get("CPU part", ""))))
    name = next((text for text in names if text and text != "-"), None)
    if name is None and "CPU part" in info:
        name = f"implementer {info.get('CPU implementer', 'unknown')}, part {info['CPU part']}"
    known = set((flags or listed.get("Flags", "")).split())
    return Cpu(
        model=name or f"unknown {architecture} CPU",
        product=product if product not in (None, "-", name) else None,
        architecture=architecture,
        features=tuple(flag for flag in FEATURES.get(architecture, ()) if flag in known),
        has_bf16=not known.isdisjoint(_BF16),
    )


def first_fields(text: str) -> dict[str, str]:
    """Return the fields of ``lscpu``'s output, or of the first processor in ``/proc/cpuinfo``."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() not in fields:
            fields[name.strip()] = value.strip()
    return fields


def is_foreign_architecture(architecture: str, cpuinfo: str, modalias: str) -> bool:
    """Return whether the kernel's CPU has another architecture than this process.

    This is how qemu-user can be recognized from inside: it translates ``uname``, but not /sys, and /proc/cpuinfo only
    since QEMU 8.
    """
    seen = _ALIASES.get(architecture, architecture)
    kind = modalias.partition("type:")[2].partition(",")[0].partition(":")[0]
    if kind and seen in ("x86_64", "aarch64") and kind != {"x86_64": "x86"}.get(seen, seen):
        return True
    info = first_fields(cpuinfo)
    if seen == "aarch64":
        return "vendor_id" in info and "CPU implementer" not in info
    return seen == "x86_64" and "CPU implementer" in info


def read_topology(
    root: Path = linux.FILESYSTEM_ROOT, affinity: frozenset[int] | None = None, *, caches: bool = True
) -> Topology:
    """Return the cores that this process may use.

    A core whose siblings the system does not name counts as one core for each logical CPU. A CPU that belongs to no
    NUMA node, as on kernels without NUMA, is on node 0.

    Args:
        root: the directory that stands for ``/``.
        affinity: the affinity mask, by default that of this process, or, for another root, all CPUs.
        caches: read which cores share a last-level cache, too, from several files of each CPU.
    """
    if affinity is None and root == linux.FILESYSTEM_ROOT:
        affinity = linux.allowed_cpus()
    present = linux.parse_cpu_list(linux.read_text(root / "sys/devices/system/cpu/present") or "")
    online = linux.online_cpus(root) or affinity or frozenset()
    cpuset = linux.read_cgroup_cpus(root)
    allowed = online & (online if affinity is None else affinity) & (online if cpuset is None else cpuset)
    nodes = {cpu: node for node, cpus in linux.read_numa_nodes(root).items() for cpu in cpus}
    found: dict[tuple[int, ...], Core] = {}
    for cpu in sorted(allowed):
        listed = linux.read_siblings(cpu, root)
        siblings = tuple(sorted((linux.parse_cpu_list(listed) & online) | {cpu})) if listed else (cpu,)
        usable = tuple(each for each in siblings if each in allowed)
        cache = linux.last_level_cache(cpu, root) if caches else None
        found.setdefault(usable, Core(usable, siblings, linux.read_socket(cpu, root), nodes.get(cpu, 0), cache))
    return Topology(
        cores=tuple(sorted(found.values(), key=lambda core: (core.node, core.cpus))),
        offline=tuple(sorted(present - online)),
        excluded=tuple(sorted(online - allowed)),
        quota=linux.read_cgroup_limits(root).cpus,
    )


def usable_threads(root: Path = linux.FILESYSTEM_ROOT, affinity: frozenset[int] | None = None) -> Threads:
    """Return the default number of threads: min(CPU affinity, control group quota, physical cores).

    A quota is rounded down, but not below 1: if there are more threads than the quota allows, some are stopped while
    all others wait for them. SMT siblings are not counted, because two threads of a matrix product would share the
    vector units of one core.

    Args:
        root: the directory that stands for ``/``.
        affinity: the logical CPUs that may be used, by default those of this process.
    """
    cpus = linux.allowed_cpus() if affinity is None else affinity
    quota = linux.read_cgroup_limits(root).cpus
    physical = linux.count_cores(cpus, root) or min(system_cores(), len(cpus))
    count = min(physical, len(cpus), *(() if quota is None else (max(1, int(quota)),)))
    return Threads(max(1, count), physical, len(cpus), quota, linux.format_cpu_list(cpus))


def memory_limit(root: Path = linux.FILESYSTEM_ROOT) -> int:
    """Return the bytes of memory that this process may use: the physical memory, or its control groups' limit."""
    total = physical_memory()
    return min(linux.read_cgroup_limits(root).memory or total, total)


def available_memory() -> int:
    """Return the bytes of memory that new processes may use without swapping.

    The kernel's estimate, but no more than the control groups' limit (whose current use is not subtracted: much of it
    is file cache, which the kernel gives up).
    """
    import psutil

    available = int(psutil.virtual_memory().available)
    return min(linux.read_cgroup_limits().memory or available, available)


def physical_memory() -> int:
    """Return the machine's memory in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def system_cores() -> int:
    """Return the number of physical cores of this machine as psutil reports it, for systems without /sys."""
    import psutil

    return psutil.cpu_count(logical=False) or os.cpu_count() or 1
