"""The memory allocator: which one a process uses, and where the libraries are that replace it."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import linux
from modelzoo.machine.linux import FILESYSTEM_ROOT

_REPLACEMENTS = ("tcmalloc", "jemalloc", "mimalloc", "snmalloc", "libhoard", "tbbmalloc_proxy")


@dataclass(frozen=True)
class AllocatorLibrary:
    """A library that replaces ``malloc`` if it is preloaded.

    Attributes:
        files: names under which it is installed, the preferred one first.
        package: the package of Debian and Ubuntu.
    """

    files: tuple[str, ...]
    package: str


LIBRARIES = {
    "tcmalloc": AllocatorLibrary(("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"), "libtcmalloc-minimal4"),
    "jemalloc": AllocatorLibrary(("libjemalloc.so.2",), "libjemalloc2"),
}
"""By the allocator's name in a setting."""


def identify_allocator(maps: str, address: int | None = None) -> str | None:
    """Return the name of the ``malloc`` in use, or ``None`` if it is unknown.

    Args:
        maps: the text of ``/proc/self/maps``.
        address: of the process's global ``malloc``. It decides, because a mapped library need not have replaced
            ``malloc``. Without it, the first mapped replacement counts.
    """
    names = _mapped_files(maps, address)
    for name in names:
        replacement = replacement_name(name)
        if replacement:
            return replacement
    if any(re.match(r"libc(\.so\.6|-[\d.]+\.so)$", name) for name in names):
        return "glibc"
    if any("musl" in name for name in names):
        return "musl"
    return None


def replacement_name(file: str) -> str | None:
    """Return the name of the allocator that the library ``file`` (a name or path) provides, or ``None``."""
    return next((known for known in _REPLACEMENTS if known in Path(file).name), None)


def current_allocator() -> str | None:
    """Return the name of this process's allocator, or ``None`` if it is unknown."""
    return identify_allocator(linux.read_text(Path("/proc/self/maps")) or "", malloc_address())


def require_allocator(wanted: str) -> None:
    """Check that this process uses the allocator of a setting; ``default`` is whatever it uses.

    Raises:
        EnvironmentProblem: it uses another one.
    """
    if wanted == "default":
        return
    found = current_allocator()
    if found != wanted:
        raise EnvironmentProblem(
            f"malloc={wanted}: the process that was to use it uses {found or 'an unknown allocator'}; check that "
            "LD_PRELOAD takes effect here (ldd shows whether the library fits this system)"
        )


def malloc_address() -> int | None:
    """Return the address of this process's global ``malloc``, or ``None`` if it cannot be determined."""
    try:
        return ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError):
        return None


def locate_library(name: str, root: Path = FILESYSTEM_ROOT, listing: str | None = None) -> Path | None:
    """Return the path of the library of allocator ``name``, for this process's architecture; ``None`` if there is none.

    Args:
        name: ``tcmalloc`` or ``jemalloc``.
        root: the directory that stands for ``/``.
        listing: output of ``ldconfig -p``; by default it is run.
    """
    library = LIBRARIES[name]
    known = _parse_listing(_run_ldconfig() if listing is None else listing)
    own = _elf_class(Path("/proc/self/exe"))
    for file in library.files:
        places: list[Path] = [*known.get(file, ()), *(folder / file for folder in _directories(root))]
        for path in places:
            kind = _elf_class(path)
            if kind is not None and own in (kind, None):
                return path
    return None


def problem(name: str) -> str:
    """Say that the library of allocator ``name`` is missing, and what to do."""
    library = LIBRARIES[name]
    return (
        f"{library.files[0]} was not found on this machine; install it (Debian and Ubuntu: apt-get install "
        f"{library.package}), or leave this allocator out"
    )


def find_library(name: str, root: Path = FILESYSTEM_ROOT, listing: str | None = None) -> Path:
    """Return what ``locate_library`` returns.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    path = locate_library(name, root, listing)
    if path is None:
        raise EnvironmentProblem(f"malloc={name}: {problem(name)}")
    return path


def _run_ldconfig() -> str:
    program = shutil.which("ldconfig") or "/sbin/ldconfig"  # /sbin is often not in a user's PATH
    try:
        done = subprocess.run([program, "-p"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _parse_listing(listing: str) -> dict[str, list[Path]]:
    """The paths of every library in the output of ``ldconfig -p``, by name."""
    found: dict[str, list[Path]] = {}
    for name, path in re.findall(r"^\s+(\S+) \(.*\) => (\S+)$", listing, re.MULTILINE):
        found.setdefault(name, []).append(Path(path))
    return found


def _directories(root: Path) -> list[Path]:
    """Where libraries lie that ``ldconfig`` does not list: environments such as conda's, and usual directories."""
    machines = sorted((root / "usr/lib").glob("*-linux-gnu"))
    usual = ("usr/local/lib64", "usr/local/lib", "usr/lib64", "usr/lib", "lib64", "lib")
    return [Path(sys.prefix) / "lib", *machines, *(root / name for name in usual)]


def _elf_class(path: Path) -> Optional[tuple[int, bytes]]:
    """The word size and the architecture that an ELF file is for (source: elf(5)); ``None`` if it is none."""
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError:
        return None
    return (header[4], header[18:20]) if header.startswith(b"\x7fELF") and len(header) == 20 else None


def _mapped_files(maps: str, address: int | None) -> list[str]:
    """Return the name of the file mapped at ``address``; if there is none, those of all mapped files."""
    names: list[str] = []
    for line in maps.splitlines():
        words = line.split(maxsplit=5)
        if len(words) < 6 or not words[5].startswith("/"):
            continue
        name = Path(words[5]).name
        first, _, end = words[0].partition("-")
        if address is not None and int(first, 16) <= address < int(end, 16):
            return [name]
        names.append(name)
    return names
