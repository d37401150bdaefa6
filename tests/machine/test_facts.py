"""The machine's facts, on recorded texts and planted trees."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import places
import pytest

from modelzoo.machine import cpu, linux, process
from modelzoo.machine import facts as machine
from modelzoo.machine.usage import CpuUsageMonitor, parse_stat

DATA = places.DATA / "machine"


def text(name: str) -> str:
    return (DATA / name).read_text()


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return root


def topology(cores: list[str], package: str = "0") -> dict[str, str]:
    """Files of /sys for CPUs whose sibling lists are ``cores``, one entry a logical CPU."""
    files = {"sys/devices/system/cpu/online": f"0-{len(cores) - 1}"}
    for number, siblings in enumerate(cores):
        folder = f"sys/devices/system/cpu/cpu{number}/topology"
        files[f"{folder}/core_cpus_list"] = siblings
        files[f"{folder}/physical_package_id"] = package
    return files


ARM = [
    ("yitian710.cpuinfo", "Neoverse-N2", True, {"sve", "sve2", "bf16", "i8mm", "asimddp"}),
    ("graviton2.cpuinfo", "Neoverse-N1", False, {"asimddp", "fphp"}),
    ("graviton3-old-kernel.cpuinfo", "Neoverse-V1", False, {"sve", "asimddp"}),
    ("kunpeng920.cpuinfo", "TaiShan v110", False, {"asimddp"}),
    ("qemu-neoverse-n1.cpuinfo", "Neoverse-N1", False, {"asimddp"}),
    ("qemu-neoverse-n2.cpuinfo", "Neoverse-N2", True, {"sve2", "bf16"}),
    ("qemu-neoverse-v1.cpuinfo", "Neoverse-V1", True, {"sve", "svebf16"}),
]


@pytest.mark.parametrize(("file", "name", "bf16", "features"), ARM)
def test_arm_cpus_are_named_by_their_register(file: str, name: str, bf16: bool, features: set[str]) -> None:
    """ARM's /proc/cpuinfo has no model name: implementer and part give it."""
    found = cpu.identify("aarch64", text(file))
    assert found.model == name
    assert found.has_bf16 is bf16
    assert features <= set(found.features)


@pytest.mark.parametrize(
    ("file", "name", "bf16"),
    [
        ("cobalt-neoverse-n2.lscpu", "Neoverse-N2", True),
        ("grace-neoverse-v2.lscpu", "Neoverse-V2", True),
        ("altra-q80.lscpu", "Neoverse-N1", False),
    ],
)
def test_lscpu_names_arm_cpus_where_cpuinfo_is_missing(file: str, name: str, bf16: bool) -> None:
    """lscpu alone is enough."""
    found = cpu.identify("aarch64", "", text(file))
    assert (found.model, found.has_bf16) == (name, bf16)


def test_the_makers_name_is_kept_beside_the_cores() -> None:
    """An Altra is a Neoverse N1 whose firmware says Altra."""
    found = cpu.identify("aarch64", text("graviton2.cpuinfo"), text("altra-q80.lscpu"))
    assert found.product == "Ampere(R) Altra(R) Processor Q80-30 CPU @ 3.0GHz"


def test_an_unknown_arm_part_is_named_by_its_numbers() -> None:
    """A core newer than the table is still told apart from others."""
    found = cpu.identify("aarch64", "CPU implementer : 0xc0\nCPU part : 0xfff\n")
    assert found.model == "Ampere part 0xfff"


def test_lscpu_under_emulation_is_not_believed() -> None:
    """Under qemu-user, lscpu reads the host's /proc/cpuinfo and names the host's CPU and flags."""
    found = cpu.identify("aarch64", text("qemu-neoverse-n2.cpuinfo"), text("qemu-neoverse-n2.lscpu.json"))
    assert found.model == "Neoverse-N2"
    bare = cpu.identify("aarch64", "", text("qemu-neoverse-n2.lscpu.json"))
    assert "EPYC" not in bare.model
    assert bare.features == ()


def test_x86_cpus() -> None:
    """The flags that decide are found on an AMX machine, on AVX-512 without AMX, and on AVX2 only."""
    xeon = cpu.identify("x86_64", "", text("xeon-8462y.lscpu"))
    assert xeon.model == "Intel(R) Xeon(R) Platinum 8462Y+"
    assert {"amx_bf16", "amx_tile", "avx512_fp16", "avx512_bf16"} <= set(xeon.features)
    assert xeon.has_bf16
    epyc = cpu.identify("x86_64", text("epyc-kvm.cpuinfo"), text("epyc-kvm.lscpu.json"))
    assert epyc.model == "AMD EPYC"
    assert epyc.has_bf16
    assert "amx_bf16" not in epyc.features
    old = cpu.identify("x86_64", text("broadwell-cloud.cpuinfo"))
    assert old.features == ("avx", "fma", "avx2")
    assert not old.has_bf16


def test_lscpu_json_and_lines_give_the_same_fields() -> None:
    """Both outputs of lscpu are read, nested ones too."""
    fields = cpu.lscpu_fields(text("epyc-kvm.lscpu.json"))
    assert fields["Hypervisor vendor"] == "KVM"
    lines = "\n".join(f"{name}: {value}" for name, value in fields.items())
    assert cpu.lscpu_fields(lines)["Model name"] == fields["Model name"]
    nested = {"lscpu": [{"field": "Vendor ID:", "data": "ARM", "children": [{"field": "Model name:", "data": "X"}]}]}
    assert cpu.lscpu_fields(json.dumps(nested)) == {"Vendor ID": "ARM", "Model name": "X"}


def test_emulators_are_told_from_hypervisors(tmp_path: Path) -> None:
    """qemu-user, QEMU without KVM and Rosetta are emulators; KVM is none."""
    root = plant(tmp_path / "a", {"sys/devices/system/cpu/modalias": text("epyc-kvm.modalias")})
    empty = tmp_path / "empty"
    empty.mkdir()
    epyc = text("epyc-kvm.cpuinfo")
    assert machine.emulator("x86_64", epyc, "KVM", root) is None
    assert machine.emulator("aarch64", text("qemu-neoverse-n2.cpuinfo"), None, root) == "qemu-user"
    # Before QEMU 8 /proc/cpuinfo is the host's.
    assert machine.emulator("aarch64", epyc, None, empty) == "qemu-user"
    assert machine.emulator("aarch64", text("yitian710.cpuinfo"), None, empty) is None
    assert machine.emulator("aarch64", text("qemu-max.cpuinfo"), None, empty) == "qemu-system"
    assert machine.emulator("x86_64", "model name\t: QEMU Virtual CPU version 2.5+", None, empty) == "qemu-system"
    assert machine.emulator("x86_64", "model name\t: QEMU Virtual CPU version 2.5+", "KVM", empty) is None
    assert machine.emulator("x86_64", "model name\t: VirtualApple @ 2.50GHz", None, empty) == "rosetta"
    binfmt = plant(tmp_path / "b", {"proc/sys/fs/binfmt_misc/qemu-aarch64": "enabled\ninterpreter /usr/bin/q"})
    assert machine.emulator("aarch64", text("yitian710.cpuinfo"), None, binfmt) == "qemu-user"
    assert machine.emulator("x86_64", epyc, "KVM", binfmt) is None


def test_threads_count_cores_not_siblings(tmp_path: Path) -> None:
    """Four logical CPUs on two cores give two threads, and a mask over one core gives one."""
    root = plant(tmp_path, topology(["0,2", "1,3", "0,2", "1,3"]))
    assert machine.usable_threads(root, frozenset({0, 1, 2, 3})).count == 2
    one = machine.usable_threads(root, frozenset({0, 2}))
    assert (one.count, one.physical_cores, one.affinity) == (1, 1, 2)
    assert one.reason == "physical cores"


def test_cores_with_equal_ids_in_two_packages_are_two(tmp_path: Path) -> None:
    """Core ids repeat between packages; without sibling lists the pair decides."""
    files = {}
    for number in range(2):
        folder = f"sys/devices/system/cpu/cpu{number}/topology"
        files[f"{folder}/core_id"] = "0"
        files[f"{folder}/physical_package_id"] = str(number)
    assert linux.cores(frozenset({0, 1}), plant(tmp_path, files)) == 2


V2 = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
V1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"


@pytest.mark.parametrize(("quota", "count"), [("150000 100000", 1), ("50000 100000", 1), ("300000 100000", 3)])
def test_a_quota_is_rounded_down_but_to_one_at_least(tmp_path: Path, quota: str, count: int) -> None:
    """cgroup v2: 1.5 CPUs give one thread, half a CPU one, three CPUs three."""
    root = plant(
        tmp_path,
        {
            **topology(["0", "1", "2", "3"]),
            "proc/self/cgroup": "0::/pod/app",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/pod/app/cpu.max": quota,
        },
    )
    found = machine.usable_threads(root, frozenset(range(4)))
    assert found.count == count
    assert "quota" in found.reason


def test_the_tightest_parent_group_decides(tmp_path: Path) -> None:
    """A limit set on the pod binds the container inside it, for CPU time and for memory."""
    root = plant(
        tmp_path,
        {
            **topology(["0", "1", "2", "3"]),
            "proc/self/cgroup": "0::/pod/app",
            "proc/self/mountinfo": V2,
            "proc/meminfo": "MemTotal: 8388608 kB",
            "sys/fs/cgroup/pod/app/cpu.max": "max 100000",
            "sys/fs/cgroup/pod/app/memory.max": "max",
            "sys/fs/cgroup/pod/cpu.max": "200000 100000",
            "sys/fs/cgroup/pod/memory.max": str(2**30),
        },
    )
    assert machine.usable_threads(root, frozenset(range(4))).count == 2
    assert machine.memory_limit(root) == 2**30


def test_cgroup_version_1(tmp_path: Path) -> None:
    """Version 1 has other files; its huge number means no limit; -1 means no quota."""
    root = plant(
        tmp_path,
        {
            **topology(["0", "1", "2", "3"]),
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc",
            "proc/self/mountinfo": V1 + "\n33 31 0:30 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            "proc/meminfo": "MemTotal: 8388608 kB",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "200000",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.stat": "nr_throttled 3\nthrottled_time 2500000000",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        },
    )
    assert machine.usable_threads(root, frozenset(range(4))).quota == 2.0
    assert machine.memory_limit(root) == 8 * 2**30
    assert linux.throttled_seconds(root) == 2.5


def test_a_path_outside_the_container_falls_back_to_the_mount(tmp_path: Path) -> None:
    """Without a cgroup namespace the path names a group that the container cannot see."""
    root = plant(
        tmp_path,
        {
            "proc/self/cgroup": "0::/../../system.slice/docker-1.scope",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/cpu.max": "100000 100000",
        },
    )
    assert linux.cgroup_limits(root).cpus == 1.0


def test_an_empty_tree_is_no_error(tmp_path: Path) -> None:
    """A system without /proc and /sys gives None, not an exception."""
    found = machine.facts(tmp_path, architecture="riscv64", affinity=frozenset({0}), environ={}, lscpu="")
    assert found.cpu == "unknown riscv64 CPU"
    assert (found.governor, found.huge_pages, found.memory, found.container) == (None, None, None, None)
    assert found.caches == ()


def test_facts_of_a_planted_server(tmp_path: Path) -> None:
    """A two-socket machine with SMT, governors, caches and a memory-only NUMA node is read whole."""
    files = topology(["0,2", "1,3", "0,2", "1,3"])
    for number in range(4):
        base = f"sys/devices/system/cpu/cpu{number}"
        files[f"{base}/topology/physical_package_id"] = str(number % 2)
        files[f"{base}/cpufreq/scaling_governor"] = "schedutil"
        files[f"{base}/cpufreq/scaling_cur_freq"] = "1200000"
        files[f"{base}/cpufreq/cpuinfo_max_freq"] = "3500000"
        for index, (level, kind, size) in enumerate([("1", "Data", "64K"), ("3", "Unified", "32M")]):
            folder = f"{base}/cache/index{index}"
            files[f"{folder}/level"], files[f"{folder}/type"], files[f"{folder}/size"] = level, kind, size
            files[f"{folder}/shared_cpu_list"] = "0,2" if number % 2 == 0 else "1,3"
    files = {
        **files,
        "sys/devices/system/node/node0/cpulist": "0,2",
        "sys/devices/system/node/node1/cpulist": "1,3",
        "sys/devices/system/node/node2/cpulist": "",
        "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]",
        "proc/cpuinfo": text("yitian710.cpuinfo"),
        "proc/meminfo": "MemTotal:       16777216 kB",
        "proc/sys/abi/sve_default_vector_length": "16",
        ".dockerenv": "",
    }
    environ = {"OMP_NUM_THREADS": "8", "HOME": "/home/joe", "MODELZOO_WEIGHTS": "/home/joe/w", "USER": "joe"}
    environ = {**environ, "MODELZOO_IMAGE": "acl-2.10", "TORCH_SECRET_TOKEN": "x"}
    root = plant(tmp_path, files)
    found = machine.facts(root, architecture="aarch64", affinity=frozenset({0, 2}), environ=environ)
    assert (found.sockets, found.cores, found.logical, found.threads_per_core) == (2, 2, 4, 2)
    assert (found.numa_nodes, found.numa_allowed) == (2, 1)
    assert (found.governor, found.mhz, found.max_mhz) == ("schedutil", 1200, 3500)
    assert found.caches == (machine.Cache("L1d", 65536, 2), machine.Cache("L3", 32 << 20, 2))
    assert (found.huge_pages, found.sve_bits, found.container) == ("never", 128, "docker")
    assert found.image == "acl-2.10"
    assert found.environment["MODELZOO_WEIGHTS"] == "~/w"
    stored = json.dumps(dataclasses.asdict(found))
    assert "joe" not in stored
    assert '"x"' not in stored


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
    """Each container leaves another trace."""
    tmp_path.joinpath("run").mkdir()
    assert linux.container(plant(tmp_path, files), environ) == kind


MAPS = """\
7f0000000000-7f0000100000 r-xp 00000000 fe:00 11 /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000200000-7f0000300000 r-xp 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4
7f0000400000-7f0000500000 rw-p 00000000 00:00 0
7f0000600000-7f0000700000 r-xp 00000000 fe:00 13 /opt/my dir/libjemalloc.so.2
"""


def test_allocator() -> None:
    """The mapping that holds malloc decides; a mapped replacement alone need not be in use."""
    assert process.allocator(MAPS) == "tcmalloc"
    assert process.allocator(MAPS, 0x7F0000000010) == "glibc"
    assert process.allocator(MAPS, 0x7F0000600010) == "jemalloc"
    assert process.allocator("") is None
    assert process.allocator("1-2 r-xp 0 0:0 1 /lib/ld-musl-aarch64.so.1") == "musl"


def test_the_fingerprint_follows_what_decides_the_ceilings() -> None:
    """A memory limit or another mask changes it, the clock of the moment does not."""
    found = machine.facts()
    assert machine.fingerprint(found) == machine.fingerprint(dataclasses.replace(found, mhz=1.0, image="other"))
    assert machine.fingerprint(found) != machine.fingerprint(dataclasses.replace(found, memory_limit=2**31))
    threads = dataclasses.replace(found.threads, affinity=found.threads.affinity + 1)
    assert machine.fingerprint(found) != machine.fingerprint(dataclasses.replace(found, threads=threads))


STAT = """\
cpu  300 0 100 5000 0 0 0 30 0 0
cpu0 100 10 50 2500 5 1 2 10 7 0
cpu1 200 0 50 2500 0 0 0 20 0 0
intr 1
"""


def test_parse_stat_adds_the_cpus_asked_for() -> None:
    """Idle, waiting and guest time are not busy; stolen time is apart."""
    found = parse_stat(STAT, frozenset({0}))
    assert found is not None
    assert (found.busy, found.stolen) == (100 + 10 + 50 + 1 + 2, 10)
    both = parse_stat(STAT, frozenset({0, 1}))
    assert both is not None
    assert both.stolen == 30
    assert parse_stat("", frozenset({0})) is None


def test_load_watch_tells_own_from_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy ticks less this process's own are others'; stolen ticks are a share of those wanted."""
    monkeypatch.setattr("modelzoo.machine.usage.linux.affinity", lambda: frozenset({0, 1}))
    clock = iter([100.0, 110.0])
    monkeypatch.setattr("modelzoo.machine.usage.time.perf_counter", lambda: next(clock))
    own = iter([1.0, 6.0])
    monkeypatch.setattr("modelzoo.machine.usage.tree_seconds", lambda pid: next(own))
    ticks = os.sysconf("SC_CLK_TCK")
    plant(tmp_path, {"proc/stat": "cpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0"})
    watch = CpuUsageMonitor(root=tmp_path).start()
    plant(tmp_path, {"proc/stat": f"cpu0 {6 * ticks} 0 0 0 0 0 0 {2 * ticks}\ncpu1 {2 * ticks} 0 0 0 0 0 0 0"})
    load = watch.stop()
    assert load.seconds == 10
    assert load.own_cores == pytest.approx(0.5)
    assert load.other_cores == pytest.approx(0.3)
    assert load.steal_percent == pytest.approx(20)
    assert load.throttled_seconds is None


def test_load_watch_on_this_machine() -> None:
    """The real files are read: this process's own work is seen as its own."""
    watch = CpuUsageMonitor().start()
    sum(range(300_000))
    load = watch.stop()
    assert load.own_cores >= 0
    assert load.seconds > 0
    with pytest.raises(RuntimeError):
        CpuUsageMonitor().stop()


def test_facts_of_this_machine_are_plain_data() -> None:
    """The real machine is read without an error, and its facts go into JSON and back."""
    found = machine.facts()
    again = json.loads(json.dumps(dataclasses.asdict(found)))
    assert again["threads"]["count"] >= 1
    assert again["cpu"]
    assert os.uname().nodename not in (found.cpu, found.kernel)
