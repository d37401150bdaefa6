"""Collect the facts about the machine that a result was measured on.

Nothing here imports torch. Neither the host name nor a user name is recorded.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from modelzoo.machine import linux
from modelzoo.machine.allocator import identify_allocator, malloc_address
from modelzoo.machine.cpu import identify_cpu, lscpu_fields
from modelzoo.machine.environment import IMAGE_ID_VARIABLE, recorded_environment
from modelzoo.machine.limits import memory_limit, physical_memory, system_cores, usable_threads
from modelzoo.machine.linux import FILESYSTEM_ROOT
from modelzoo.machine.virtualization import (
    count_vcpus_per_core,
    identify_cloud,
    identify_container,
    identify_emulator,
    identify_hypervisor,
)
from modelzoo.records.machine import Machine


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
    if lscpu is None:
        lscpu = _run_lscpu() if real else ""
    cpuinfo = linux.read_text(root / "proc/cpuinfo") or (_cpuinfo_substitute() if real else "")
    cpu = identify_cpu(architecture, cpuinfo, lscpu)
    online = linux.online_cpus(root) or frozenset(range(os.cpu_count() or 1))
    cores = linux.count_cores(online, root) or (system_cores() if real else len(online))
    threads_per_core = max(1, round(len(online) / cores))
    frequency = linux.read_cpu_frequency(online, root)
    listed = lscpu_fields(lscpu)
    hypervisor = listed.get("Hypervisor vendor")
    if hypervisor is None and cpu.architecture != "x86_64":  # x86 CPUs report it themselves
        hypervisor = identify_hypervisor(root)
    cloud = identify_cloud(root)
    return Machine(
        cpu=cpu.model,
        product=cpu.product,
        architecture=cpu.architecture,
        features=cpu.features,
        has_bf16=cpu.has_bf16,
        sve_bits=_sve_bits(root) if "sve" in cpu.features else None,
        sockets=linux.count_sockets(online, root) or _parse_count(listed.get("Socket(s)")),
        cores=cores,
        logical=len(online),
        threads_per_core=threads_per_core,
        numa_nodes=linux.count_numa_nodes(root),
        numa_allowed=linux.count_numa_nodes(root, cpus),
        caches=linux.read_caches(online, root),
        governor=frequency.governor,
        mhz=frequency.mhz or _cpuinfo_mhz(cpuinfo),
        max_mhz=frequency.max_mhz,
        huge_pages=linux.read_selected(root / "sys/kernel/mm/transparent_hugepage/enabled"),
        allocator=identify_allocator(
            linux.read_text(root / "proc/self/maps") or "", malloc_address() if real else None
        ),
        threads=usable_threads(root, cpus),
        memory=physical_memory(root),
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
        cloud=cloud.provider if cloud else None,
        instance_type=cloud.instance_type if cloud else None,
        image_id=environ.get(IMAGE_ID_VARIABLE),
        vcpus_per_core=count_vcpus_per_core(hypervisor is not None, threads_per_core, cpu.architecture, cpu.model),
        niceness=os.getpriority(os.PRIO_PROCESS, 0) if real else None,
    )


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
    """Return the width of SVE vectors (source: prctl(2); PR_SVE_GET_VL gives bytes in the low 16 bits)."""
    if root == FILESYSTEM_ROOT and platform.machine() in ("aarch64", "arm64"):
        answer: int = ctypes.CDLL(None).prctl(51, 0, 0, 0, 0)
        if answer > 0:
            return (answer & 0xFFFF) * 8
    length = linux.read_integer(root / "proc/sys/abi/sve_default_vector_length")
    return None if length is None else length * 8


def _cpuinfo_substitute() -> str:
    """Return a text in the form of /proc/cpuinfo for systems without that file."""
    name = platform.processor()
    return f"model name : {name}" if name else ""


def _cpuinfo_mhz(cpuinfo: str) -> float | None:
    values = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", cpuinfo, re.MULTILINE)
    return max(map(float, values), default=None)


def _parse_count(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
