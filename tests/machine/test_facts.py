"""The facts about a machine, on planted trees and on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

from planted import plant, recorded, topology

from modelzoo.machine.facts import read_machine
from modelzoo.records.codec import encode
from modelzoo.records.machine import Cache


def test_an_empty_tree_is_no_error(tmp_path: Path) -> None:
    """On a system without /proc and /sys, facts are unknown."""
    found = read_machine(tmp_path, architecture="riscv64", affinity=frozenset({0}), environ={}, lscpu="")
    assert found.cpu == "unknown riscv64 CPU"
    assert (found.governor, found.huge_pages, found.memory, found.container) == (None, None, None, None)
    assert found.caches == ()


def test_facts_of_a_planted_server(tmp_path: Path) -> None:
    """All facts of a two-socket machine with SMT and a memory-only NUMA node are read."""
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
        "proc/cpuinfo": recorded("yitian710.cpuinfo"),
        "proc/meminfo": "MemTotal:       16777216 kB",
        "proc/sys/abi/sve_default_vector_length": "16",
        "sys/class/dmi/id/sys_vendor": "Amazon EC2",
        "sys/class/dmi/id/product_name": "c7g.4xlarge",
        ".dockerenv": "",
    }
    environ = {"OMP_NUM_THREADS": "8", "HOME": "/home/joe", "MODELZOO_WEIGHTS": "/home/joe/w", "USER": "joe"}
    environ = {**environ, "MODELZOO_IMAGE": "acl-2.10", "TORCH_SECRET_TOKEN": "x", "MODELZOO_IMAGE_ID": "sha256:1"}
    root = plant(tmp_path, files)
    found = read_machine(root, architecture="aarch64", affinity=frozenset({0, 2}), environ=environ)
    assert (found.cloud, found.instance_type, found.vcpus_per_core) == ("AWS", "c7g.4xlarge", 2)
    assert (found.sockets, found.cores, found.logical, found.threads_per_core) == (2, 2, 4, 2)
    assert (found.numa_nodes, found.numa_allowed) == (2, 1)
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
