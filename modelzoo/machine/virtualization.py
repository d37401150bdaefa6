"""What stands between this process and the hardware: containers, hypervisors, emulators, clouds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from modelzoo.machine.cpu import cpuinfo_fields, is_foreign_architecture
from modelzoo.machine.linux import FILESYSTEM_ROOT, read_text

_HYPERVISORS = (
    "QEMU",
    "KVM",
    "VMware",
    "Microsoft Corporation",
    "Amazon EC2",
    "Google",
    "Alibaba Cloud",
    "Xen",
)
"""Words in the firmware of virtual machines. Those of Alibaba and Amazon contain only the vendor's name."""
_AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
"""Tells Azure from other Hyper-V machines (source: cloud-init, DataSourceAzure)."""
_ARM_CORES_WITH_SMT = ("Neoverse-E1", "TaiShan v120", "ThunderX2")


@dataclass(frozen=True)
class CloudInstance:
    """A cloud provider, and its name for this kind of machine if the firmware contains it."""

    provider: str
    instance_type: str | None


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


def identify_hypervisor(root: Path = FILESYSTEM_ROOT) -> str | None:
    """Return the hypervisor that the firmware names, for CPUs that do not report one (ARM)."""
    kind = read_text(root / "sys/hypervisor/type")
    if kind:
        return kind
    vendor, product = _dmi(root, "sys_vendor"), _dmi(root, "product_name")
    if "metal" in product:
        return None
    return next((name for name in _HYPERVISORS if name in vendor or name in product), None)


def identify_cloud(root: Path = FILESYSTEM_ROOT) -> CloudInstance | None:
    """Return the cloud instance that the firmware describes; ``None`` if it describes no known cloud.

    Amazon's firmware contains the instance type (source: AWS, "Detect whether a host is an EC2 instance"). Those of
    Alibaba Cloud, Google and Azure contain general names only; their types are left unknown.
    """
    vendor, product = _dmi(root, "sys_vendor"), _dmi(root, "product_name")
    if vendor == "Amazon EC2":
        return CloudInstance("AWS", _matching(r"[a-z][a-z0-9-]*\.[a-z0-9-]+", product))
    if vendor == "Xen" and "amazon" in _dmi(root, "bios_version").lower():
        return CloudInstance("AWS", None)
    if vendor == "Alibaba Cloud":
        return CloudInstance("Alibaba Cloud", _matching(r"ecs\.[a-z0-9-]+\.[a-z0-9-]+", product))
    if vendor == "Google" and product == "Google Compute Engine":
        return CloudInstance("Google Cloud", None)
    if vendor == "Microsoft Corporation" and _dmi(root, "chassis_asset_tag") == _AZURE_ASSET_TAG:
        return CloudInstance("Azure", None)
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


def identify_emulator(
    architecture: str, cpuinfo: str, hypervisor: str | None, root: Path = FILESYSTEM_ROOT
) -> str | None:
    """Return the emulator that executes this process's instructions, or ``None``.

    A virtual machine on KVM, Xen or Hyper-V is not emulated. QEMU without KVM that presents a real CPU model cannot
    be told from that CPU by these files.
    """
    modalias = read_text(root / "sys/devices/system/cpu/modalias") or ""
    if is_foreign_architecture(architecture, cpuinfo, modalias):
        return "qemu-user"
    if "VirtualApple" in cpuinfo:
        return "rosetta"
    # An enabled handler for this very architecture: a native kernel would not need it.
    handler = read_text(root / f"proc/sys/fs/binfmt_misc/qemu-{architecture}") or ""
    if handler.startswith("enabled"):
        return "qemu-user"
    info = cpuinfo_fields(cpuinfo)
    name = info.get("model name", "")
    if "QEMU TCG" in name or ("QEMU Virtual CPU" in name and not hypervisor):
        return "qemu-system"
    # "-cpu max" under TCG on ARM: implementer 0, part 0x051 (source: QEMU target/arm/tcg/cpu64.c).
    if info.get("CPU implementer") == "0x00" and info.get("CPU part") == "0x051":
        return "qemu-system"
    return None


def _dmi(root: Path, name: str) -> str:
    return read_text(root / "sys/class/dmi/id" / name) or ""


def _matching(pattern: str, text: str) -> str | None:
    return text if re.fullmatch(pattern, text) else None
