"""Transparent huge pages of one process: requested by environment variables, forbidden by prctl, counted in /proc.

Nothing here changes the system's setting in ``/sys/kernel/mm/transparent_hugepage``.
"""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import linux
from modelzoo.machine.linux import FILESYSTEM_ROOT

PR_SET_THP_DISABLE, PR_GET_THP_DISABLE = 41, 42
"""Source: prctl(2)."""
REQUESTS: Mapping[str, str] = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_CONF": "thp:always",
    "THP_MEM_ALLOC_ENABLE": "1",
}
"""Variables with which glibc, jemalloc and torch ask the kernel for huge pages (``madvise``). gperftools' tcmalloc has
none."""
GLIBC_WITH_TUNABLE = (2, 35)
"""The first version with ``glibc.malloc.hugetlb`` (source: its NEWS)."""


def system_mode(root: Path = FILESYSTEM_ROOT) -> str | None:
    """Return the system's setting: ``always``, ``madvise`` or ``never``; ``None`` if the kernel has no huge pages."""
    return linux.read_selected(root / "sys/kernel/mm/transparent_hugepage/enabled")


def problem(mode: str | None, allocator: str | None, libc: tuple[str, str] | None = None) -> str | None:
    """Return why a process that uses ``allocator`` cannot have huge pages if it asks for them; ``None`` if it can.

    Args:
        mode: see ``system_mode``.
        allocator: as ``modelzoo.machine.allocator`` names it.
        libc: name and version of the C library, by default this process's.
    """
    if mode not in ("always", "madvise"):
        state = "off on this machine" if mode == "never" else "not supported by this kernel"
        return (
            f"transparent huge pages are {state}; an administrator can allow them with 'echo madvise | sudo tee "
            "/sys/kernel/mm/transparent_hugepage/enabled', or leave thp=on out"
        )
    name, version = platform.libc_ver() if libc is None else libc
    needs_tunable = mode == "madvise" and allocator == "glibc" and name == "glibc"
    if needs_tunable and tuple(map(int, version.split(".")[:2])) < GLIBC_WITH_TUNABLE:
        return (
            f"this machine has glibc {version}, which cannot request huge pages (2.35 and newer can); use "
            "malloc=jemalloc, or leave thp=on out"
        )
    return None


def require_huge_pages(mode: str | None, allocator: str | None, libc: tuple[str, str] | None = None) -> None:
    """Check that a process that uses ``allocator`` can have huge pages if it asks for them; see ``problem``.

    Raises:
        EnvironmentProblem: it cannot.
    """
    found = problem(mode, allocator, libc)
    if found is not None:
        raise EnvironmentProblem(f"thp=on: {found}")


def set_allowed(allowed: bool) -> None:
    """Allow or forbid huge pages in this process, for memory that it allocates from now on.

    Raises:
        EnvironmentProblem: this system cannot do that.
    """
    if _prctl(PR_SET_THP_DISABLE, int(not allowed)) != 0 or _prctl(PR_GET_THP_DISABLE, 0) != int(not allowed):
        raise EnvironmentProblem(
            f"thp={'on' if allowed else 'off'}: this system has no switch for the huge pages of one process "
            "(PR_SET_THP_DISABLE); leave thp out"
        )


def _prctl(operation: int, value: int) -> int:
    """Call prctl; -1 if it fails or does not exist."""
    arguments = [ctypes.c_ulong(each) for each in (value, 0, 0, 0)]
    try:
        return int(ctypes.CDLL(None).prctl(operation, *arguments))
    except (AttributeError, OSError, TypeError):  # not Linux
        return -1


def huge_page_bytes(root: Path = FILESYSTEM_ROOT) -> int | None:
    """Return how much anonymous memory of this process is in huge pages; ``None`` if the kernel does not say."""
    text = linux.read_text(root / "proc/self/smaps_rollup") or ""
    found = re.search(r"^AnonHugePages:\s+(\d+) kB$", text, re.MULTILINE)
    return None if found is None else 1024 * int(found.group(1))
