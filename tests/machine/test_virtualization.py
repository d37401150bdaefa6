"""Containers, hypervisors, emulators and clouds, from planted trees."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted import plant, recorded

from modelzoo.machine.facts import (
    CloudInstance,
    count_vcpus_per_core,
    identify_cloud,
    identify_container,
    identify_emulator,
    identify_hypervisor,
)


def test_emulators_are_told_from_hypervisors(tmp_path: Path) -> None:
    """qemu-user, QEMU without KVM and Rosetta are emulators; KVM is not."""
    root = plant(tmp_path / "a", {"sys/devices/system/cpu/modalias": recorded("epyc-kvm.modalias")})
    empty = tmp_path / "empty"
    empty.mkdir()
    epyc = recorded("epyc-kvm.cpuinfo")
    assert identify_emulator("x86_64", epyc, "KVM", root) is None
    assert identify_emulator("aarch64", recorded("qemu-neoverse-n2.cpuinfo"), None, root) == "qemu-user"
    # Before QEMU 8 /proc/cpuinfo is the host's.
    assert identify_emulator("aarch64", epyc, None, empty) == "qemu-user"
    assert identify_emulator("aarch64", recorded("yitian710.cpuinfo"), None, empty) is None
    assert identify_emulator("aarch64", recorded("qemu-max.cpuinfo"), None, empty) == "qemu-system"
    assert identify_emulator("x86_64", "model name\t: QEMU Virtual CPU version 2.5+", None, empty) == "qemu-system"
    assert identify_emulator("x86_64", "model name\t: QEMU Virtual CPU version 2.5+", "KVM", empty) is None
    assert identify_emulator("x86_64", "model name\t: VirtualApple @ 2.50GHz", None, empty) == "rosetta"
    binfmt = plant(tmp_path / "b", {"proc/sys/fs/binfmt_misc/qemu-aarch64": "enabled\ninterpreter /usr/bin/q"})
    assert identify_emulator("aarch64", recorded("yitian710.cpuinfo"), None, binfmt) == "qemu-user"
    assert identify_emulator("x86_64", epyc, "KVM", binfmt) is None


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({}, {"container": "lxc"}, "lxc"),
        ({"proc/self/cgroup": "0::/kubepods/burstable/pod1"}, {}, "kubernetes"),
        ({"proc/1/cgroup": "4:cpu:/docker/abc"}, {}, "docker"),
        ({"proc/1/cgroup": "0::/init.scope"}, {}, None),
    ],
)
def test_containers(tmp_path: Path, files: dict[str, str], environ: dict[str, str], kind: str | None) -> None:
    """Each kind of container is recognised by its own traces."""
    tmp_path.joinpath("run").mkdir()
    assert identify_container(plant(tmp_path, files), environ) == kind


def dmi(**fields: str) -> dict[str, str]:
    return {f"sys/class/dmi/id/{name}": value for name, value in fields.items()}


# Fields as the providers and cloud-init document them; no machine of these clouds was at hand.
CLOUDS = [
    (dmi(sys_vendor="Amazon EC2", product_name="c7g.4xlarge"), CloudInstance("AWS", "c7g.4xlarge")),
    (dmi(sys_vendor="Amazon EC2", product_name="u-6tb1.metal"), CloudInstance("AWS", "u-6tb1.metal")),
    (dmi(sys_vendor="Amazon EC2", product_name="Not Specified"), CloudInstance("AWS", None)),
    (dmi(sys_vendor="Xen", product_name="HVM domU", bios_version="4.11.amazon"), CloudInstance("AWS", None)),
    (dmi(sys_vendor="Alibaba Cloud", product_name="Alibaba Cloud ECS"), CloudInstance("Alibaba Cloud", None)),
    (
        dmi(sys_vendor="Alibaba Cloud", product_name="ecs.g8y.2xlarge"),
        CloudInstance("Alibaba Cloud", "ecs.g8y.2xlarge"),
    ),
    (dmi(sys_vendor="Google", product_name="Google Compute Engine"), CloudInstance("Google Cloud", None)),
    (
        dmi(
            sys_vendor="Microsoft Corporation",
            product_name="Virtual Machine",
            chassis_asset_tag="7783-7084-3265-9085-8269-3286-77",
        ),
        CloudInstance("Azure", None),
    ),
    (dmi(sys_vendor="Microsoft Corporation", product_name="Virtual Machine"), None),
    (dmi(sys_vendor="Xen", product_name="HVM domU", bios_version="4.13"), None),
    (dmi(sys_vendor="QEMU", product_name="Standard PC (Q35 + ICH9, 2009)"), None),
    (dmi(sys_vendor="Dell Inc.", product_name="PowerEdge R760"), None),
    ({}, None),
]


@pytest.mark.parametrize(("files", "cloud"), CLOUDS)
def test_clouds(tmp_path: Path, files: dict[str, str], cloud: CloudInstance | None) -> None:
    """The provider is recognised by the firmware; the instance type only if the firmware contains one."""
    assert identify_cloud(plant(tmp_path, files)) == cloud


@pytest.mark.parametrize(
    ("files", "hypervisor"),
    [
        ({"sys/hypervisor/type": "xen"}, "xen"),
        (dmi(sys_vendor="QEMU", product_name="KVM Virtual Machine"), "QEMU"),
        (dmi(sys_vendor="Amazon EC2", product_name="c7g.4xlarge"), "Amazon EC2"),
        (dmi(sys_vendor="Amazon EC2", product_name="c7g.metal"), None),
        (dmi(sys_vendor="Dell Inc."), None),
    ],
)
def test_hypervisors(tmp_path: Path, files: dict[str, str], hypervisor: str | None) -> None:
    """The firmware names the hypervisor; machines without one are bare metal."""
    assert identify_hypervisor(plant(tmp_path, files)) == hypervisor


def test_vcpus_per_core_are_not_guessed() -> None:
    """A guest that sees one thread per core may be deceived on x86, but not on ARM cores without SMT."""
    assert count_vcpus_per_core(False, 2, "x86_64", "Intel(R) Xeon(R)") is None
    assert count_vcpus_per_core(True, 2, "x86_64", "Intel(R) Xeon(R)") == 2
    assert count_vcpus_per_core(True, 1, "x86_64", "AMD EPYC") is None
    assert count_vcpus_per_core(True, 1, "aarch64", "Neoverse-N2") == 1
    assert count_vcpus_per_core(True, 1, "aarch64", "ThunderX2") is None
