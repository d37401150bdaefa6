"""The facts about a machine, on planted trees and on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from example_machine import SERVER
from planted import plant, plant_topology, recorded

from modelzoo.frozen import replace
from modelzoo.machine.facts import (
    count_vcpus_per_core,
    identify_cloud,
    identify_container,
    identify_emulator,
    identify_hypervisor,
    read_machine,
)
from modelzoo.records.codec import encode
from modelzoo.records.machine import Cache, NumaNode, fingerprint


def test_an_empty_tree_is_no_error(tmp_path: Path) -> None:
    """On a system without /proc and /sys, facts are unknown."""
    found = read_machine(tmp_path, architecture="riscv64", affinity=frozenset({0}), environ={}, lscpu="")
    assert found.cpu == "unknown riscv64 CPU"
    assert (found.governor, found.huge_pages, found.container) == (None, None, None)
    assert found.caches == ()


def test_facts_of_a_planted_server(tmp_path: Path) -> None:
    """All facts of a two-socket machine with SMT and a memory-only NUMA node are read."""
    files: dict[str, str] = {}
    for number in range(4):
        base = f"sys/devices/system/cpu/cpu{number}"
        files[f"{base}/cpufreq/scaling_governor"] = "schedutil"
        files[f"{base}/cpufreq/scaling_cur_freq"] = "1200000"
        files[f"{base}/cpufreq/cpuinfo_max_freq"] = "3500000"
        for index, (level, kind, size) in enumerate([("1", "Data", "64K"), ("3", "Unified", "32M")]):
            folder = f"{base}/cache/index{index}"
            files[f"{folder}/level"], files[f"{folder}/type"], files[f"{folder}/size"] = level, kind, size
            files[f"{folder}/shared_cpu_list"] = "0,2" if number % 2 == 0 else "1,3"
    files = {
        **files,
        "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]",
        "proc/cpuinfo": recorded("yitian710.cpuinfo"),
        "proc/sys/abi/sve_default_vector_length": "16",
        "sys/class/dmi/id/sys_vendor": "Amazon EC2",
        "sys/class/dmi/id/product_name": "c7g.4xlarge",
        ".dockerenv": "",
    }
    environ = {"OMP_NUM_THREADS": "8", "HOME": "/home/joe", "MODELZOO_WEIGHTS": "/home/joe/w", "USER": "joe"}
    environ = {**environ, "MODELZOO_IMAGE": "acl-2.10", "TORCH_SECRET_TOKEN": "x", "MODELZOO_IMAGE_ID": "sha256:1"}
    nodes, siblings = {0: (0, 2), 1: (1, 3), 2: ()}, {cpu: (cpu % 2, cpu % 2 + 2) for cpu in range(4)}
    root = plant(plant_topology(tmp_path, nodes, sockets={0: 0, 1: 1}, siblings=siblings), files)
    found = read_machine(root, architecture="aarch64", affinity=frozenset({0, 2}), environ=environ)
    assert (found.cloud, found.instance_type, found.vcpus_per_core) == ("AWS", "c7g.4xlarge", 2)
    assert (found.sockets, found.cores, found.logical, found.threads_per_core) == (2, 2, 4, 2)
    assert (found.numa_nodes, found.numa_allowed) == (2, 1)
    assert found.nodes == (NumaNode(0, "0", 1),), "one hardware thread of each core"
    assert (found.governor, found.mhz, found.max_mhz) == ("schedutil", 1200, 3500)
    assert found.caches == (Cache("L1d", 65536, 2), Cache("L3", 32 << 20, 2))
    assert (found.huge_pages, found.sve_bits, found.container) == ("never", 128, "docker")
    assert (found.image, found.image_id) == ("acl-2.10", "sha256:1")
    assert found.environment["MODELZOO_WEIGHTS"] == "~/w"
    stored = json.dumps(encode(found))
    assert "joe" not in stored
    assert '"x"' not in stored


def test_facts_of_this_machine_are_plain_data() -> None:
    """The real machine can be read, and its facts stored, without its name."""
    found = read_machine()
    again = json.loads(json.dumps(encode(found)))
    assert again["threads"]["count"] >= 1
    assert again["cpu"]
    assert again["niceness"] == os.getpriority(os.PRIO_PROCESS, 0)
    assert os.uname().nodename not in (found.cpu, found.kernel)


def test_the_fingerprint_follows_what_decides_the_ceilings() -> None:
    """A memory limit or another affinity mask changes it; the current frequency does not."""
    assert fingerprint(SERVER) == fingerprint(replace(SERVER, mhz=1.0, image="other"))
    assert fingerprint(SERVER) != fingerprint(replace(SERVER, memory_limit=2**31))
    threads = replace(SERVER.threads, affinity=SERVER.threads.affinity + 1)
    assert fingerprint(SERVER) != fingerprint(replace(SERVER, threads=threads))


EPYC, YITIAN = recorded("epyc-kvm.cpuinfo"), recorded("yitian710.cpuinfo")
QEMU_CPU = "model name\t: QEMU Virtual CPU version 2.5+"
MODALIAS = "sys/devices/system/cpu/modalias"
ON_X86 = {MODALIAS: recorded("epyc-kvm.modalias")}
HANDLED = {"proc/sys/fs/binfmt_misc/qemu-aarch64": "enabled\ninterpreter /usr/bin/q"}


@pytest.mark.parametrize(
    ("architecture", "cpuinfo", "hypervisor", "files", "emulator"),
    [
        ("x86_64", EPYC, "KVM", ON_X86, None),
        ("amd64", EPYC, "KVM", ON_X86, None),
        ("arm64", YITIAN, None, {MODALIAS: "cpu:type:aarch64:feature:,0001"}, None),
        ("aarch64", YITIAN, None, {}, None),
        ("aarch64", recorded("qemu-neoverse-n2.cpuinfo"), None, ON_X86, "qemu-user"),
        ("aarch64", EPYC, None, {}, "qemu-user"),  # before QEMU 8, /proc/cpuinfo is the host's
        ("x86_64", YITIAN, None, {}, "qemu-user"),
        ("aarch64", YITIAN, None, HANDLED, "qemu-user"),
        ("x86_64", EPYC, "KVM", HANDLED, None),
        ("aarch64", recorded("qemu-max.cpuinfo"), None, {}, "qemu-system"),
        ("x86_64", QEMU_CPU, None, {}, "qemu-system"),
        ("x86_64", QEMU_CPU, "KVM", {}, None),
        ("x86_64", "model name\t: VirtualApple @ 2.50GHz", None, {}, "rosetta"),
    ],
)
def test_emulators_are_told_from_hypervisors(
    architecture: str, cpuinfo: str, hypervisor: str | None, files: dict[str, str], emulator: str | None, tmp_path: Path
) -> None:
    """qemu-user, QEMU without KVM and Rosetta are emulators; KVM is not."""
    assert identify_emulator(architecture, cpuinfo, hypervisor, plant(tmp_path, files)) == emulator


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
    """Each kind of container is recognized by its own traces."""
    tmp_path.joinpath("run").mkdir()
    assert identify_container(plant(tmp_path, files), environ) == kind


# Fields as the providers and cloud-init document them; no machine of these clouds was at hand.
AZURE = {"chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}


@pytest.mark.parametrize(
    ("vendor", "product", "others", "cloud", "hypervisor"),
    [
        ("Amazon EC2", "c7g.4xlarge", {}, ("AWS", "c7g.4xlarge"), "Amazon EC2"),
        ("Amazon EC2", "u-6tb1.metal", {}, ("AWS", "u-6tb1.metal"), None),
        ("Amazon EC2", "Not Specified", {}, ("AWS", None), "Amazon EC2"),
        ("Xen", "HVM domU", {"bios_version": "4.11.amazon"}, ("AWS", None), "Xen"),
        ("Alibaba Cloud", "Alibaba Cloud ECS", {}, ("Alibaba Cloud", None), "Alibaba Cloud"),
        ("Alibaba Cloud", "ecs.g8y.2xlarge", {}, ("Alibaba Cloud", "ecs.g8y.2xlarge"), "Alibaba Cloud"),
        ("Google", "Google Compute Engine", {}, ("Google Cloud", None), "Google"),
        ("Microsoft Corporation", "Virtual Machine", AZURE, ("Azure", None), "Microsoft Corporation"),
        ("Microsoft Corporation", "Virtual Machine", {}, None, "Microsoft Corporation"),
        ("Xen", "HVM domU", {"bios_version": "4.13"}, None, "Xen"),
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", {}, None, "QEMU"),
        ("Dell Inc.", "PowerEdge R760", {}, None, None),
    ],
)
def test_clouds_and_hypervisors_are_known_by_their_firmware(
    vendor: str,
    product: str,
    others: dict[str, str],
    cloud: tuple[str, str | None] | None,
    hypervisor: str | None,
    tmp_path: Path,
) -> None:
    """The instance type only if the firmware contains one; machines without a hypervisor are bare metal."""
    fields = {"sys_vendor": vendor, "product_name": product, **others}
    root = plant(tmp_path, {f"sys/class/dmi/id/{name}": value for name, value in fields.items()})
    assert (identify_cloud(root), identify_hypervisor(root)) == (cloud, hypervisor)
    plant(root, {"sys/hypervisor/type": "xen"})
    assert identify_hypervisor(root) == "xen"


def test_vcpus_per_core_are_not_guessed() -> None:
    """A guest that sees one thread per core may be deceived on x86, but not on ARM cores without SMT."""
    assert count_vcpus_per_core(False, 2, "x86_64", "Intel(R) Xeon(R)") is None
    assert count_vcpus_per_core(True, 2, "x86_64", "Intel(R) Xeon(R)") == 2
    assert count_vcpus_per_core(True, 1, "x86_64", "AMD EPYC") is None
    assert count_vcpus_per_core(True, 1, "aarch64", "Neoverse-N2") == 1
    assert count_vcpus_per_core(True, 1, "aarch64", "ThunderX2") is None
