"""CPUs are identified from recorded texts of many machines."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted import plant, plant_topology, recorded

from modelzoo.machine.cpu import identify_cpu, memory_limit, physical_memory, read_topology, usable_threads

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
