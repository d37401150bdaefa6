"""The machine that a number was measured on: what the process may use, and what the machine is.

Nothing here imports torch. Facts are read under a ``root`` that stands for ``/``. No host name and no
user name is recorded.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from modelzoo.machine import cpu, linux
from modelzoo.machine.linux import ROOT
from modelzoo.machine.process import allocator, environment, malloc_address
from modelzoo.records.machine import Cache, Machine, Threads


def usable_threads(root: Path = ROOT, affinity: frozenset[int] | None = None) -> Threads:
    """Return the threads this process may really use: min(affinity, quota, physical cores).

    A quota is rounded down, but to no less than 1: a thread more than the quota allows is throttled,
    and all others wait for it. SMT siblings do not count: two GEMM threads on one core share its
    vector units. ``affinity`` is the set of logical CPUs; by default this process's own.
    """
    cpus = linux.affinity() if affinity is None else affinity
    quota = linux.cgroup_limits(root).cpus
    physical = linux.cores(cpus, root) or min(_psutil_cores(), len(cpus))
    limits = [(physical, "physical cores"), (len(cpus), "CPU affinity")]
    if quota is not None:
        limits.append((max(1, int(quota)), f"the control group's quota of {quota:g} CPUs"))
    count, reason = min(limits, key=lambda item: item[0])
    return Threads(max(1, count), physical, len(cpus), quota, reason)


def memory_limit(root: Path = ROOT) -> int | None:
    """Return the bytes of memory this process may use: the physical ones, or its groups' limit."""
    limits = [linux.cgroup_limits(root).memory, physical_memory(root)]
    return min((limit for limit in limits if limit is not None), default=None)


def physical_memory(root: Path = ROOT) -> int | None:
    """Return the machine's memory in bytes, or ``None`` where nothing says it."""
    total = linux.meminfo(root).get("MemTotal")
    if total is not None or root != ROOT:
        return total
    import psutil

    return int(psutil.virtual_memory().total)


def facts(
    root: Path = ROOT,
    *,
    architecture: str | None = None,
    affinity: frozenset[int] | None = None,
    environ: Mapping[str, str] = os.environ,
    lscpu: str | None = None,
) -> Machine:
    """Collect the facts; takes some 20 ms, because ``lscpu`` is run.

    Args:
        root: the directory that stands for ``/``.
        architecture: what ``uname -m`` says, by default this machine's.
        affinity: logical CPUs this process may use, by default its own mask.
        environ: the environment variables.
        lscpu: output of ``lscpu``; by default it is run where ``root`` is the real one.
    """
    real = root == ROOT
    architecture = architecture or platform.machine()
    cpus = linux.affinity() if affinity is None else affinity
    if lscpu is None:
        lscpu = _run_lscpu() if real else ""
    cpuinfo = linux.read(root / "proc/cpuinfo") or (_other_systems_cpu() if real else "")
    named = cpu.identify(architecture, cpuinfo, lscpu)
    online = linux.online(root) or frozenset(range(os.cpu_count() or 1))
    listed = cpu.lscpu_fields(lscpu)
    cores = linux.cores(online, root) or (_psutil_cores() if real else len(online))
    sockets = linux.sockets(online, root) or _number(listed.get("Socket(s)"))
    frequency = linux.frequency(online, root)
    hypervisor = listed.get("Hypervisor vendor")
    if hypervisor is None and named.architecture != "x86_64":  # x86 CPUs tell it themselves
        hypervisor = linux.hypervisor(root)
    return Machine(
        cpu=named.model,
        product=named.product,
        architecture=named.architecture,
        features=named.features,
        has_bf16=named.has_bf16,
        sve_bits=_sve_bits(root) if "sve" in named.features else None,
        sockets=sockets,
        cores=cores,
        logical=len(online),
        threads_per_core=max(1, round(len(online) / cores)),
        numa_nodes=linux.numa_nodes(root),
        numa_allowed=linux.numa_nodes(root, cpus),
        caches=tuple(Cache(*entry) for entry in linux.caches(online, root)),
        governor=frequency.governor,
        mhz=frequency.mhz or _mhz(cpuinfo),
        max_mhz=frequency.max_mhz,
        huge_pages=linux.chosen(root / "sys/kernel/mm/transparent_hugepage/enabled"),
        allocator=allocator(linux.read(root / "proc/self/maps") or "", malloc_address() if real else None),
        threads=usable_threads(root, cpus),
        memory=physical_memory(root),
        memory_limit=memory_limit(root),
        container=linux.container(root, environ),
        hypervisor=hypervisor,
        emulator=emulator(architecture, cpuinfo, hypervisor, root),
        system=platform.system(),
        kernel=platform.release(),
        libc=" ".join(platform.libc_ver()).strip() or None,
        python=platform.python_version(),
        image=environ.get("MODELZOO_IMAGE"),
        environment=environment(environ),
    )


def fingerprint(machine: Machine) -> str:
    """Return 16 hex digits that change when something that decides the machine's ceilings does.

    The frequency of the moment, the environment and the kernel's patch level are not in it; torch's
    version and the number of threads are to be added by whoever keeps figures under it.
    """
    decisive = {
        "cpu": machine.cpu,
        "product": machine.product,
        "features": machine.features,
        "sve_bits": machine.sve_bits,
        "cores": machine.cores,
        "logical": machine.logical,
        "sockets": machine.sockets,
        "caches": [[cache.name, cache.bytes, cache.instances] for cache in machine.caches],
        "affinity": machine.threads.affinity,
        "quota": machine.threads.quota,
        # In GiB: kernels reserve a little more or less at each boot.
        "memory": None if machine.memory_limit is None else round(machine.memory_limit / 2**30),
        "governor": machine.governor,
        "max_mhz": machine.max_mhz,
        "emulator": machine.emulator,
    }
    text = json.dumps(decisive, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def emulator(architecture: str, cpuinfo: str, hypervisor: str | None, root: Path = ROOT) -> str | None:
    """Name the emulator that executes this process's instructions, or ``None``.

    A virtual machine on KVM, Xen, Hyper-V … is none. QEMU without KVM that poses as a real CPU model
    cannot be told from the real thing by these files.
    """
    modalias = linux.read(root / "sys/devices/system/cpu/modalias") or ""
    if cpu.is_foreign(architecture, cpuinfo, modalias):
        return "qemu-user"
    if "VirtualApple" in cpuinfo:
        return "rosetta"
    # An enabled handler for this very architecture: a native kernel would not need it.
    handler = linux.read(root / f"proc/sys/fs/binfmt_misc/qemu-{architecture}") or ""
    if handler.startswith("enabled"):
        return "qemu-user"
    info = cpu.cpuinfo_fields(cpuinfo)
    name = info.get("model name", "")
    if "QEMU TCG" in name or ("QEMU Virtual CPU" in name and not hypervisor):
        return "qemu-system"
    # "-cpu max" under TCG on ARM: implementer 0, part 0x051 (source: QEMU target/arm/tcg/cpu64.c).
    if info.get("CPU implementer") == "0x00" and info.get("CPU part") == "0x051":
        return "qemu-system"
    return None


def _run_lscpu() -> str:
    program = shutil.which("lscpu")
    if program is None:
        return ""
    # Field names follow the locale.
    env = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run([program, "-J"], capture_output=True, text=True, timeout=10, env=env, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _sve_bits(root: Path) -> int | None:
    """Width of SVE vectors in bits (source: prctl(2), PR_SVE_GET_VL gives bytes in the low 16 bits)."""
    if root == ROOT and platform.machine() in ("aarch64", "arm64"):
        answer = ctypes.CDLL(None).prctl(51, 0, 0, 0, 0)
        if answer > 0:
            return (answer & 0xFFFF) * 8
    length = linux.read_int(root / "proc/sys/abi/sve_default_vector_length")
    return None if length is None else length * 8


def _other_systems_cpu() -> str:
    """What stands for /proc/cpuinfo on a system without it."""
    name = platform.processor()
    return f"model name : {name}" if name else ""


def _psutil_cores() -> int:
    import psutil

    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def _mhz(cpuinfo: str) -> float | None:
    values = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", cpuinfo, re.MULTILINE)
    return max(map(float, values), default=None)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
