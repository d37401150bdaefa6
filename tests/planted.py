"""Trees of /proc and /sys files for tests, and recorded texts of real machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import places

CGROUP_V1_CPU_MOUNT = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
CGROUP_V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"


def recorded(name: str) -> str:
    return (places.DATA / "machine" / name).read_text()


def plant(root: Path, files: Mapping[str, str]) -> Path:
    """Write ``files`` (path to content) below ``root``, and return ``root``."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return root
