"""Huge pages are requested, forbidden and counted per process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import memory

SMAPS_ROLLUP = """\
5570dbe60000-7fff34b3d000 ---p 00000000 00:00 0                          [rollup]
Rss:              842180 kB
Pss:              806553 kB
Anonymous:        532096 kB
LazyFree:              0 kB
AnonHugePages:    405504 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:         0 kB
"""
"""Of a process with torch on Linux 6.18, shortened."""
GLIBC = ("glibc", "2.36")


def test_the_system_mode_is_the_selected_word(tmp_path: Path) -> None:
    """A kernel without huge pages lacks the file."""
    assert memory.system_mode(tmp_path) is None
    file = tmp_path / "sys/kernel/mm/transparent_hugepage/enabled"
    file.parent.mkdir(parents=True)
    file.write_text("always [madvise] never\n")
    assert memory.system_mode(tmp_path) == "madvise"


@pytest.mark.parametrize(
    ("mode", "allocator", "libc"),
    [
        ("madvise", "glibc", GLIBC),
        ("madvise", "jemalloc", ("glibc", "2.31")),
        ("madvise", "tcmalloc", ("glibc", "2.31")),
        ("always", "glibc", ("glibc", "2.31")),
        ("always", None, ("", "")),
    ],
)
def test_huge_pages_that_can_be_had(mode: str, allocator: str, libc: tuple[str, str]) -> None:
    """With ``always`` nobody needs to ask for them; with ``madvise``, an old glibc cannot."""
    memory.require_huge_pages(mode, allocator, libc)


@pytest.mark.parametrize(
    ("mode", "libc", "message"),
    [
        ("never", GLIBC, "thp=on: transparent huge pages are off on this machine; an administrator"),
        (None, GLIBC, "thp=on: transparent huge pages are not supported by this kernel"),
        ("madvise", ("glibc", "2.31"), "thp=on: this machine has glibc 2.31, which cannot request huge pages"),
    ],
)
def test_huge_pages_that_cannot_be_had(mode: str | None, libc: tuple[str, str], message: str) -> None:
    """The reason says what to do."""
    with pytest.raises(EnvironmentProblem, match=message):
        memory.require_huge_pages(mode, "glibc", libc)


def test_memory_in_huge_pages_is_counted(tmp_path: Path) -> None:
    """In bytes; kernels before 4.14 do not say."""
    assert memory.huge_page_bytes(tmp_path) is None
    file = tmp_path / "proc/self/smaps_rollup"
    file.parent.mkdir(parents=True)
    file.write_text(SMAPS_ROLLUP)
    assert memory.huge_page_bytes(tmp_path) == 405504 * 1024


ASK = """
import mmap, sys
from modelzoo.machine import memory
memory.set_allowed(sys.argv[1] == "on")
block = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
if hasattr(block, "madvise"):
    block.madvise(mmap.MADV_HUGEPAGE)
for page in range(0, 32 << 20, 4096):
    block[page] = 1
print(memory.huge_page_bytes())
"""


@pytest.mark.skipif(memory.system_mode() not in ("always", "madvise"), reason="this system has no huge pages")
def test_one_process_can_be_without_huge_pages() -> None:
    """The same memory is in huge pages in one process and not in the other, whatever the system's setting."""
    sizes = [
        int(subprocess.run([sys.executable, "-c", ASK, word], capture_output=True, check=True).stdout)
        for word in ("on", "off")
    ]
    assert sizes[0] >= 2 << 20
    assert sizes[1] == 0


def test_a_system_without_the_switch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting it and reading it back must agree."""
    monkeypatch.setattr(memory, "_prctl", lambda operation, value: -1)
    with pytest.raises(EnvironmentProblem, match="thp=off: this system has no switch"):
        memory.set_allowed(False)
