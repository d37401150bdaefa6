"""The facts about a machine, on planted trees and on this machine; CPUs, from recorded texts of many machines."""

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
    identify_cpu,
    identify_emulator,
    identify_hypervisor,
    memory_limit,
    physical_memory,
    read_machine,
    read_topology,
    usable_threads,
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


NEON = "fphp asimdhp asimddp"
SVE2 = f"{NEON} sve sve2 i8mm bf16 svebf16"
AVX512 = "avx512f avx512_vnni avx512_bf16"


@pytest.mark.parametrize(
    ("file", "name", "features"),
    [
        ("yitian710.cpuinfo", "Neoverse-N2", SVE2),
        ("graviton2.cpuinfo", "Neoverse-N1", NEON),
        ("graviton3-old-kernel.cpuinfo", "Neoverse-V1", f"{NEON} sve"),
        ("kunpeng920.cpuinfo", "TaiShan v110", NEON),
        ("qemu-neoverse-n1.cpuinfo", "Neoverse-N1", NEON),
        ("qemu-neoverse-n2.cpuinfo", "Neoverse-N2", SVE2),
        ("qemu-neoverse-v1.cpuinfo", "Neoverse-V1", f"{NEON} sve i8mm bf16 svebf16"),
        ("cobalt-neoverse-n2.lscpu", "Neoverse-N2", SVE2),
        ("grace-neoverse-v2.lscpu", "Neoverse-V2", SVE2),
        ("altra-q80.lscpu", "Neoverse-N1", ""),
        (
            "xeon-8462y.lscpu",
            "Intel(R) Xeon(R) Platinum 8462Y+",
            f"avx fma avx2 avx_vnni {AVX512} avx512_fp16 amx_tile amx_bf16 amx_int8",
        ),
        ("epyc-kvm.cpuinfo", "AMD EPYC", f"avx fma avx2 {AVX512}"),
        ("broadwell-cloud.cpuinfo", "Intel(R) Xeon(R) CPU @ 2.20GHz", "avx fma avx2"),
    ],
)
def test_one_text_is_enough_to_identify_a_cpu(file: str, name: str, features: str) -> None:
    """ARM's /proc/cpuinfo has no model name, but implementer and part; lscpu gives name and features."""
    texts = ("", recorded(file)) if file.endswith("lscpu") else (recorded(file), "")
    found = identify_cpu("aarch64" if name.startswith(("Neoverse", "TaiShan")) else "x86_64", *texts)
    assert (found.model, found.features) == (name, tuple(features.split()))
    assert found.has_bf16 is ("bf16" in features)


def test_the_product_name_is_kept_beside_the_core() -> None:
    """An Altra is a Neoverse N1 whose firmware says Altra."""
    found = identify_cpu("aarch64", recorded("graviton2.cpuinfo"), recorded("altra-q80.lscpu"))
    assert found.product == "Ampere(R) Altra(R) Processor Q80-30 CPU @ 3.0GHz"


def test_an_unknown_arm_part_is_named_by_its_numbers() -> None:
    """A core newer than the table can still be told from others."""
    found = identify_cpu("aarch64", "CPU implementer : 0xc0\nCPU part : 0xfff\n")
    assert found.model == "implementer 0xc0, part 0xfff"


def test_lscpu_is_ignored_under_emulation() -> None:
    """Under qemu-user, lscpu reads the host's /proc/cpuinfo and names the host's CPU and flags."""
    found = identify_cpu("aarch64", recorded("qemu-neoverse-n2.cpuinfo"), recorded("qemu-neoverse-n2.lscpu"))
    assert found.model == "Neoverse-N2"
    bare = identify_cpu("aarch64", "", recorded("qemu-neoverse-n2.lscpu"))
    assert "EPYC" not in bare.model
    assert bare.features == ()


def test_cpus_that_are_offline_or_not_allowed_are_left_out(tmp_path: Path) -> None:
    """A core with one sibling offline or outside the cpuset has the other one only."""
    siblings = {cpu: (cpu % 4, cpu % 4 + 4) for cpu in range(8)}
    root = plant_topology(tmp_path, {0: range(8)}, siblings=siblings, online="0-6", cpuset="0-2,4-7")
    found = read_topology(root)
    assert [(core.cpus, core.siblings) for core in found.cores] == [
        ((0, 4), (0, 4)),
        ((1, 5), (1, 5)),
        ((2, 6), (2, 6)),
    ]
    assert (found.offline, found.excluded) == ((7,), (3,))
    narrower = read_topology(root, affinity=frozenset({0, 5}))
    assert [core.cpus for core in narrower.cores] == [(0,), (5,)]


def test_uneven_nodes_and_nodes_without_cpus(tmp_path: Path) -> None:
    """A node may have memory only, and node numbers need not follow each other."""
    found = read_topology(plant_topology(tmp_path, {0: range(6), 1: range(0), 8: range(6, 8)}))
    assert found.nodes == (0, 8)
    assert found.text == "8 cores, 2 NUMA nodes (6, 2)"


def test_a_system_that_says_little_has_a_core_per_cpu(tmp_path: Path) -> None:
    """No topology folders, no nodes: containers and other systems lack them."""
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-2\n")
    found = read_topology(tmp_path)
    assert [core.cpus for core in found.cores] == [(0,), (1,), (2,)]
    assert (found.nodes, found.sockets) == ((0,), 1)


def test_threads_count_cores_not_siblings(tmp_path: Path) -> None:
    """Four logical CPUs on two cores give two threads, and a mask over one core gives one."""
    root = plant_topology(tmp_path, {0: range(4)}, siblings={cpu: (cpu % 2, cpu % 2 + 2) for cpu in range(4)})
    assert usable_threads(root, frozenset({0, 1, 2, 3})).count == 2
    one = usable_threads(root, frozenset({0, 2}))
    assert (one.count, one.physical_cores, one.affinity) == (1, 1, 2)
    assert one.cpus_allowed == "0,2"


@pytest.mark.parametrize(("quota", "count"), [("150000 100000", 1), ("50000 100000", 1), ("300000 100000", 3)])
def test_a_quota_is_rounded_down_to_at_least_one(tmp_path: Path, quota: str, count: int) -> None:
    """cgroup v2: 1.5 CPUs give one thread, half a CPU one, three CPUs three."""
    root = plant_topology(tmp_path, {0: range(4)}, quota=quota)
    assert usable_threads(root, frozenset(range(4))).count == count


def test_the_tightest_parent_group_decides(tmp_path: Path) -> None:
    """A limit of the pod applies to the container inside it, for CPU time and for memory."""
    root = plant(
        plant_topology(tmp_path, {0: range(4)}),
        {
            "proc/self/cgroup": "0::/pod/app",
            "sys/fs/cgroup/pod/app/cpu.max": "max 100000",
            "sys/fs/cgroup/pod/app/memory.max": "max",
            "sys/fs/cgroup/pod/cpu.max": "200000 100000",
            "sys/fs/cgroup/pod/memory.max": str(2**30),
        },
    )
    assert usable_threads(root, frozenset(range(4))).count == 2
    assert memory_limit(root) == 2**30


def test_without_limits_the_whole_memory_may_be_used(tmp_path: Path) -> None:
    """The physical memory is the limit."""
    assert memory_limit(tmp_path) == physical_memory() >= memory_limit() > 0
