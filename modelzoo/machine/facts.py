"""The facts about the machine that a result was measured on, and whether it is a virtual one; what the CPUs are, where
their cores are, and how many of them and how much memory this process may use.

Nothing here imports torch. Neither the host name nor a user name is recorded.

On ARM the identification register decides: there ``/proc/cpuinfo`` has no model name, and under qemu-user ``lscpu``
reads the host's file and reports the host's CPU.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from modelzoo.machine import linux
from modelzoo.machine.environment import IMAGE_ID_VARIABLE, recorded_environment
from modelzoo.machine.linux import FILESYSTEM_ROOT, read_text
from modelzoo.machine.memory import identify_allocator, malloc_address, system_mode
from modelzoo.records.machine import Core, Machine, NumaNode, Threads, Topology


def read_machine(
    root: Path = FILESYSTEM_ROOT,
    *,
    architecture: str | None = None,
    affinity: frozenset[int] | None = None,
    environ: Mapping[str, str] = os.environ,
    lscpu: str | None = None,
) -> Machine:
    """Collect the facts. Takes about 20 ms, because ``lscpu`` is run.

    Args:
        root: the directory that stands for ``/``.
        architecture: output of ``uname -m``, by default this machine's.
        affinity: the logical CPUs that may be used, by default those of this process.
        environ: the environment variables.
        lscpu: output of ``lscpu``; by default it is run if ``root`` is the real one.
    """
    real = root == FILESYSTEM_ROOT
    architecture = architecture or platform.machine()
    cpus = linux.allowed_cpus() if affinity is None else affinity
    if lscpu is None:  # whose field names follow the locale
        lscpu = (linux.output_of("lscpu", LC_ALL="C") if real else None) or ""
    # Systems without that file name the processor otherwise.
    cpuinfo = read_text(root / "proc/cpuinfo") or (f"model name : {platform.processor()}" if real else "")
    found = identify_cpu(architecture, cpuinfo, lscpu)
    online = linux.online_cpus(root) or frozenset(range(os.cpu_count() or 1))
    cores = linux.count_cores(online, root) or (system_cores() if real else len(online))
    threads_per_core = max(1, round(len(online) / cores))
    scaling = [root / f"sys/devices/system/cpu/cpu{each}/cpufreq" for each in online]
    governors = {read_text(folder / "scaling_governor") for folder in scaling}
    current = linux.current_mhz(online, root) or [
        float(mhz) for mhz in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", cpuinfo, re.MULTILINE)
    ]
    highest = [linux.read_integer(folder / "cpuinfo_max_freq") for folder in scaling]
    listed = first_fields(lscpu)
    hypervisor, sockets = listed.get("Hypervisor vendor"), listed.get("Socket(s)", "")
    packages = {linux.read_socket(each, root) for each in online}
    if hypervisor is None and found.architecture != "x86_64":  # x86 CPUs report it themselves
        hypervisor = identify_hypervisor(root)
    cloud, instance_type = identify_cloud(root) or (None, None)
    topology = read_topology(root, cpus, caches=False)
    firsts = {node: [core.cpus[0] for core in topology.on_node(node)] for node in topology.nodes}
    numa_nodes = len(linux.read_numa_nodes(root)) or None
    return Machine(
        cpu=found.model,
        product=found.product,
        architecture=found.architecture,
        features=found.features,
        has_bf16=found.has_bf16,
        sve_bits=_sve_bits(root) if "sve" in found.features else None,
        sockets=len(packages) if None not in packages else int(sockets) if sockets.isdigit() else None,
        cores=cores,
        logical=len(online),
        threads_per_core=threads_per_core,
        numa_nodes=numa_nodes,
        numa_allowed=len(topology.nodes) if numa_nodes else None,
        caches=linux.read_caches(online, root),
        governor="+".join(sorted(name for name in governors if name)) or None,
        mhz=max(current, default=None),
        max_mhz=max((khz / 1e3 for khz in highest if khz), default=None),
        huge_pages=system_mode(root),
        allocator=identify_allocator(read_text(root / "proc/self/maps") or "", malloc_address() if real else None),
        threads=usable_threads(root, cpus),
        memory=physical_memory(),
        memory_limit=memory_limit(root),
        container=identify_container(root, environ),
        hypervisor=hypervisor,
        emulator=identify_emulator(architecture, cpuinfo, hypervisor, root),
        system=platform.system(),
        kernel=platform.release(),
        libc=" ".join(platform.libc_ver()).strip() or None,
        python=platform.python_version(),
        image=environ.get("MODELZOO_IMAGE"),
        environment=recorded_environment(environ),
        cloud=cloud,
        instance_type=instance_type,
        image_id=environ.get(IMAGE_ID_VARIABLE),
        vcpus_per_core=count_vcpus_per_core(hypervisor is not None, threads_per_core, found.architecture, found.model),
        niceness=os.getpriority(os.PRIO_PROCESS, 0) if real else None,
        nodes=tuple(NumaNode(node, linux.format_cpu_list(cpus), len(cpus)) for node, cpus in firsts.items()),
    )


def _sve_bits(root: Path) -> int | None:
    """Return the width of SVE vectors (source: prctl(2); PR_SVE_GET_VL gives bytes in the low 16 bits)."""
    if root == FILESYSTEM_ROOT and platform.machine() in ("aarch64", "arm64"):
        answer: int = ctypes.CDLL(None).prctl(51, 0, 0, 0, 0)
        if answer > 0:
            return (answer & 0xFFFF) * 8
    length = linux.read_integer(root / "proc/sys/abi/sve_default_vector_length")
    return None if length is None else length * 8


_HYPERVISORS = ("QEMU", "KVM", "VMware", "Microsoft Corporation", "Amazon EC2", "Google", "Alibaba Cloud", "Xen")
"""Words in the firmware of virtual machines. Those of Alibaba and Amazon contain only the vendor's name."""
_AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
"""Tells Azure from other Hyper-V machines (source: cloud-init, DataSourceAzure)."""
_ARM_CORES_WITH_SMT = ("Neoverse-E1", "TaiShan v120", "ThunderX2")


def identify_container(root: Path, environ: Mapping[str, str]) -> str | None:
    """Return the kind of container that this process runs in, or ``None``."""
    if (root / "run/.containerenv").exists():
        return "podman"
    declared = environ.get("container")  # set by podman, systemd-nspawn and lxc
    if declared:
        return declared
    groups = (read_text(root / "proc/self/cgroup") or "") + (read_text(root / "proc/1/cgroup") or "")
    if "KUBERNETES_SERVICE_HOST" in environ or "kubepods" in groups:
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    for kind in ("docker", "containerd", "libpod", "lxc", "buildkit"):
        if f"/{kind}" in groups:
            return kind
    return None


def identify_hypervisor(root: Path) -> str | None:
    """Return the hypervisor that the firmware names, for CPUs that do not report one (ARM)."""
    kind = read_text(root / "sys/hypervisor/type")
    if kind:
        return kind
    vendor, product = _dmi(root, "sys_vendor"), _dmi(root, "product_name")
    if "metal" in product:
        return None
    return next((name for name in _HYPERVISORS if name in vendor or name in product), None)


def identify_cloud(root: Path) -> tuple[str, str | None] | None:
    """Return the cloud provider that the firmware names, and its name for this kind of machine if it is there.

    ``None`` if it names no known cloud. Amazon's firmware contains the instance type (source: AWS, "Detect whether a
    host is an EC2 instance"). Those of Alibaba Cloud, Google and Azure contain general names only; their types are left
    unknown.
    """
    vendor, product = _dmi(root, "sys_vendor"), _dmi(root, "product_name")
    if vendor == "Amazon EC2":
        return "AWS", product if re.fullmatch(r"[a-z][a-z0-9-]*\.[a-z0-9-]+", product) else None
    if vendor == "Xen" and "amazon" in _dmi(root, "bios_version").lower():
        return "AWS", None
    if vendor == "Alibaba Cloud":
        return "Alibaba Cloud", product if re.fullmatch(r"ecs\.[a-z0-9-]+\.[a-z0-9-]+", product) else None
    if vendor == "Google" and product == "Google Compute Engine":
        return "Google Cloud", None
    if vendor == "Microsoft Corporation" and _dmi(root, "chassis_asset_tag") == _AZURE_ASSET_TAG:
        return "Azure", None
    return None


def count_vcpus_per_core(virtual: bool, threads_per_core: int, architecture: str, core: str) -> int | None:
    """Return how many virtual CPUs share a physical core, or ``None`` on bare metal or if it is unknown.

    Args:
        virtual: whether this is a virtual machine.
        threads_per_core: as the guest sees it.
        architecture: ``aarch64`` or ``x86_64``.
        core: name of the CPU.
    """
    if not virtual:
        return None
    if threads_per_core > 1:
        return threads_per_core
    # Hypervisors often present the hardware threads of an x86 core as cores; most ARM cores have one thread only.
    known_arm = architecture == "aarch64" and core.startswith(("Neoverse", "Ampere", "TaiShan", "Cortex"))
    return 1 if known_arm and core not in _ARM_CORES_WITH_SMT else None


def identify_emulator(architecture: str, cpuinfo: str, hypervisor: str | None, root: Path) -> str | None:
    """Return the emulator that executes this process's instructions, or ``None``.

    A virtual machine on KVM, Xen or Hyper-V is not emulated. QEMU without KVM that presents a real CPU model cannot
    be told from that CPU by these files.
    """
    # qemu-user translates ``uname``, but not /sys, and /proc/cpuinfo only since QEMU 8.
    seen, info = _ALIASES.get(architecture, architecture), first_fields(cpuinfo)
    modalias = read_text(root / "sys/devices/system/cpu/modalias") or ""
    kind = modalias.partition("type:")[2].partition(",")[0].partition(":")[0].replace("x86", "x86_64")
    is_foreign = {
        "aarch64": "vendor_id" in info and "CPU implementer" not in info,
        "x86_64": "CPU implementer" in info,
    }
    if is_foreign.get(seen, False) or (kind and seen in is_foreign and kind != seen):
        return "qemu-user"
    if "VirtualApple" in cpuinfo:
        return "rosetta"
    # An enabled handler for this very architecture: a native kernel would not need it.
    handler = read_text(root / f"proc/sys/fs/binfmt_misc/qemu-{architecture}") or ""
    if handler.startswith("enabled"):
        return "qemu-user"
    name = info.get("model name", "")
    if "QEMU TCG" in name or ("QEMU Virtual CPU" in name and not hypervisor):
        return "qemu-system"
    # "-cpu max" under TCG on ARM: implementer 0, part 0x051 (source: QEMU target/arm/tcg/cpu64.c).
    if info.get("CPU implementer") == "0x00" and info.get("CPU part") == "0x051":
        return "qemu-system"
    return None


def _dmi(root: Path, name: str) -> str:
    return read_text(root / "sys/class/dmi/id" / name) or ""


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


def read_topology(
    root: Path = FILESYSTEM_ROOT, affinity: frozenset[int] | None = None, *, caches: bool = True
) -> Topology:
    """Return the cores that this process may use.

    A core whose siblings the system does not name counts as one core for each logical CPU. A CPU that belongs to no
    NUMA node, as on kernels without NUMA, is on node 0.

    Args:
        root: the directory that stands for ``/``.
        affinity: the affinity mask, by default that of this process, or, for another root, all CPUs.
        caches: read which cores share a last-level cache, too, from several files of each CPU.
    """
    if affinity is None and root == FILESYSTEM_ROOT:
        affinity = linux.allowed_cpus()
    present = linux.parse_cpu_list(read_text(root / "sys/devices/system/cpu/present") or "")
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
        quota=linux.cpu_quota(root),
    )


def usable_threads(root: Path = FILESYSTEM_ROOT, affinity: frozenset[int] | None = None) -> Threads:
    """Return the default number of threads: min(CPU affinity, control group quota, physical cores).

    A quota is rounded down, but not below 1: if there are more threads than the quota allows, some are stopped while
    all others wait for them. SMT siblings are not counted, because two threads of a matrix product would share the
    vector units of one core.

    Args:
        root: the directory that stands for ``/``.
        affinity: the logical CPUs that may be used, by default those of this process.
    """
    cpus = linux.allowed_cpus() if affinity is None else affinity
    quota = linux.cpu_quota(root)
    physical = linux.count_cores(cpus, root) or min(system_cores(), len(cpus))
    count = min(physical, len(cpus), *(() if quota is None else (max(1, int(quota)),)))
    return Threads(max(1, count), physical, len(cpus), quota, linux.format_cpu_list(cpus))


def memory_limit(root: Path = FILESYSTEM_ROOT) -> int:
    """Return the bytes of memory that this process may use: the physical memory, or its control groups' limit."""
    total = physical_memory()
    return min(linux.cgroup_memory(root) or total, total)


def available_memory() -> int:
    """Return the bytes of memory that new processes may use without swapping.

    The kernel's estimate, but no more than the control groups' limit (whose current use is not subtracted: much of it
    is file cache, which the kernel gives up).
    """
    import psutil

    available = int(psutil.virtual_memory().available)
    return min(linux.cgroup_memory() or available, available)


def physical_memory() -> int:
    """Return the machine's memory in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def system_cores() -> int:
    """Return the number of physical cores of this machine as psutil reports it, for systems without /sys."""
    import psutil

    return psutil.cpu_count(logical=False) or os.cpu_count() or 1
