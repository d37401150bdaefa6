"""The memory allocator in use, from recorded mappings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import memory
from modelzoo.machine.memory import find_library, identify_allocator, malloc_address, replacement_name

MAPS = """\
7f0000000000-7f0000100000 r-xp 00000000 fe:00 11 /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000200000-7f0000300000 r-xp 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4
7f0000400000-7f0000500000 rw-p 00000000 00:00 0
7f0000600000-7f0000700000 r-xp 00000000 fe:00 13 /opt/my dir/libjemalloc.so.2
"""


def test_allocator() -> None:
    """The mapping that holds malloc decides; a mapped replacement alone need not be in use."""
    assert identify_allocator(MAPS) == "tcmalloc"
    assert identify_allocator(MAPS, 0x7F0000000010) == "glibc"
    assert identify_allocator(MAPS, 0x7F0000600010) == "jemalloc"
    assert identify_allocator("") is None
    assert identify_allocator("1-2 r-xp 0 0:0 1 /lib/ld-musl-aarch64.so.1") == "musl"


def test_the_address_of_malloc_is_known() -> None:
    """It can be determined on Linux."""
    assert malloc_address()


LDCONFIG = """\
3 libs found in cache `/etc/ld.so.cache'
\tlibtcmalloc_minimal_debug.so.4 (libc6,x86-64) => {root}/debug/libtcmalloc_minimal_debug.so.4
\tlibtcmalloc_minimal.so.4 (libc6) => {root}/i386/libtcmalloc_minimal.so.4
\tlibtcmalloc_minimal.so.4 (libc6,x86-64) => {root}/own/libtcmalloc_minimal.so.4
"""


def library(path: Path, machine: bytes | None = None) -> Path:
    """A file that begins like a library for this machine, or for another ``machine`` of elf(5)."""
    header = Path("/proc/self/exe").read_bytes()[:20]
    path.parent.mkdir(parents=True)
    path.write_bytes(header if machine is None else header[:18] + machine)
    return path


def test_the_library_of_this_architecture_is_found_through_ldconfig(tmp_path: Path) -> None:
    """A machine may have libraries of several architectures, and the debugging variant is another library."""
    library(tmp_path / "debug/libtcmalloc_minimal_debug.so.4")
    library(tmp_path / "i386/libtcmalloc_minimal.so.4", machine=b"\x03\x00")
    own = library(tmp_path / "own/libtcmalloc_minimal.so.4")
    assert find_library("tcmalloc", tmp_path, LDCONFIG.format(root=tmp_path)) == own


@pytest.mark.parametrize("folder", ["usr/lib/aarch64-linux-gnu", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib"])
def test_without_ldconfig_the_usual_directories_are_searched(folder: str, tmp_path: Path) -> None:
    """Small images have no ldconfig."""
    own = library(tmp_path / folder / "libjemalloc.so.2")
    assert find_library("jemalloc", tmp_path, "") == own


@pytest.mark.parametrize(("name", "package"), [("tcmalloc", "libtcmalloc-minimal4"), ("jemalloc", "libjemalloc2")])
def test_a_library_that_is_missing_is_named_with_its_package(name: str, package: str, tmp_path: Path) -> None:
    """A file that is no library does not count."""
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib" / memory.LIBRARIES[name].files[0]).write_text("")
    with pytest.raises(EnvironmentProblem, match=f"malloc={name}: .* was not found on this machine; .*{package}"):
        find_library(name, tmp_path, "")


def test_libraries_that_replace_malloc_are_recognised_by_name() -> None:
    """In whatever directory; an OpenMP runtime is not one."""
    assert replacement_name("/opt/my dir/libjemalloc.so.2") == "jemalloc"
    assert replacement_name("libtcmalloc.so.4") == "tcmalloc"
    assert replacement_name("/opt/tcmalloc/libiomp5.so") is None


def test_a_process_with_another_allocator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is whatever is in use."""
    monkeypatch.setattr(memory, "current_allocator", lambda: "glibc")
    for wanted in ("default", "glibc"):
        memory.require_allocator(wanted)
    with pytest.raises(EnvironmentProblem, match="malloc=tcmalloc: the process that was to use it uses glibc"):
        memory.require_allocator("tcmalloc")


@pytest.mark.parametrize("name", memory.LIBRARIES)
def test_a_preloaded_library_is_the_allocator(name: str) -> None:
    """Found in its own process, by the address of malloc."""
    try:
        preload = find_library(name)
    except EnvironmentProblem as problem:
        pytest.skip(str(problem))
    ask = "from modelzoo.machine.memory import current_allocator; print(current_allocator())"
    environment = {**os.environ, "LD_PRELOAD": str(preload)}
    done = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == name
