"""The facts about the machine that a result was measured on, and whether it is a virtual one.

Nothing here imports torch. Neither the host name nor a user name is recorded.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from modelzoo.machine import cpu, linux
from modelzoo.machine.environment import IMAGE_ID_VARIABLE, recorded_environment
from modelzoo.machine.linux import FILESYSTEM_ROOT, read_text
from modelzoo.machine.memory import identify_allocator, malloc_address, system_mode
from modelzoo.records.machine import Machine, NumaNode


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
    cpuinfo = linux.read_text(root / "proc/cpuinfo") or (f"model name : {platform.processor()}" if real else "")
    found = cpu.identify_cpu(architecture, cpuinfo, lscpu)
    online = linux.online_cpus(root) or frozenset(range(os.cpu_count() or 1))
    cores = linux.count_cores(online, root) or (cpu.system_cores() if real else len(online))
    threads_per_core = max(1, round(len(online) / cores))
    scaling = [root / f"sys/devices/system/cpu/cpu{each}/cpufreq" for each in online]
    governors = {read_text(folder / "scaling_governor") for folder in scaling}
    current = linux.current_mhz(online, root) or [
        float(mhz) for mhz in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", cpuinfo, re.MULTILINE)
    ]
    highest = [linux.read_integer(folder / "cpuinfo_max_freq") for folder in scaling]
    listed = cpu.first_fields(lscpu)
    hypervisor, sockets = listed.get("Hypervisor vendor"), listed.get("Socket(s)", "")
    packages = {linux.read_socket(each, root) for each in online}
    if hypervisor is None and found.architecture != "x86_64":  # x86 CPUs report it themselves
        hypervisor = identify_hypervisor(root)
    cloud, instance_type = identify_cloud(root) or (None, None)
    topology = cpu.read_topology(root, cpus, caches=False)
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
        allocator=identify_allocator(
            linux.read_text(root / "proc/self/maps") or "", malloc_address() if real else None
        ),
        threads=cpu.usable_threads(root, cpus),
        memory=cpu.physical_memory(),
        memory_limit=cpu.memory_limit(root),
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
    modalias = read_text(root / "sys/devices/system/cpu/modalias") or ""
    if cpu.is_foreign_architecture(architecture, cpuinfo, modalias):
        return "qemu-user"
    if "VirtualApple" in cpuinfo:
        return "rosetta"
    # An enabled handler for this very architecture: a native kernel would not need it.
    handler = read_text(root / f"proc/sys/fs/binfmt_misc/qemu-{architecture}") or ""
    if handler.startswith("enabled"):
        return "qemu-user"
    info = cpu.first_fields(cpuinfo)
    name = info.get("model name", "")
    if "QEMU TCG" in name or ("QEMU Virtual CPU" in name and not hypervisor):
        return "qemu-system"
    # "-cpu max" under TCG on ARM: implementer 0, part 0x051 (source: QEMU target/arm/tcg/cpu64.c).
    if info.get("CPU implementer") == "0x00" and info.get("CPU part") == "0x051":
        return "qemu-system"
    return None


def _dmi(root: Path, name: str) -> str:
    return read_text(root / "sys/class/dmi/id" / name) or ""
