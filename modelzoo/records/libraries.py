"""The numerical libraries of a process, and how they were built."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from modelzoo.frozen import Message, Public


class Library(msgspec.Struct, frozen=True):
    """One loaded BLAS or OpenMP library.

    Attributes:
        api: ``blas`` or ``openmp``.
        kind: ``openblas``, ``mkl``, ``blis``, ``openmp`` ….
        version: its version, if it reports one.
        architecture: the core whose kernels it selected.
        threading: its threading layer.
        threads: number of threads in its pool.
        owner: the Python package that contains it (``torch``, ``numpy`` …), or ``system``.
        file: name of the file, without directories.
        limit: the most threads that it was built for, if it says so: OpenBLAS does.
    """

    api: Public
    kind: Public
    version: Public | None
    architecture: Public | None
    threading: Public | None
    threads: int
    owner: Public
    file: Message
    limit: int | None = None


class Build(msgspec.Struct, frozen=True):
    """How torch was built, from ``torch.__config__.show()``; ``None`` if it does not say.

    Attributes:
        compiler: name and version.
        onednn, mkl, openmp: versions.
        capability: the vector extension that ATen's own kernels use on this CPU.
        blas, lapack: the libraries chosen at build time.
        build_type: CMake's build type.
        flags: the compiler flags that change the speed of the code.
        settings: other build settings, by name.
    """

    compiler: Message | None
    onednn: Message | None
    mkl: Message | None
    openmp: Message | None
    capability: Message | None
    blas: Message | None
    lapack: Message | None
    build_type: Message | None
    flags: tuple[Message, ...]
    settings: dict[str, Message]

    @property
    def line(self) -> str:
        """The build in one line."""
        parts = [
            self.compiler,
            f"oneDNN {self.onednn}" if self.onednn else "no oneDNN",
            f"MKL {self.mkl}" if self.mkl else None,
            f"BLAS {self.blas}" if self.blas else None,
            f"OpenMP {self.openmp}" if self.openmp else None,
            f"ATen kernels {self.capability}" if self.capability else None,
        ]
        return ", ".join(part for part in parts if part)


class ComputeLibrary(msgspec.Struct, frozen=True):
    """How the Arm Compute Library was recognized.

    Attributes:
        file: its file; ``None`` if it is linked statically and only torch says that it is there.
        is_loaded: whether the file is loaded; otherwise it comes with torch.
        version: what its file says; ``None`` if unknown.
    """

    file: Message | None
    is_loaded: bool
    version: Message | None = None


class Libraries(msgspec.Struct, frozen=True):
    """Versions of the installed packages, torch's build, and what is loaded in a process.

    Attributes:
        versions: ``python`` and the installed packages that affect results, by name.
        build: how torch was built.
        build_line: the same in one line, with torch's version.
        onednn, mkl, openmp: whether torch can use them here.
        acl: the Arm Compute Library; ``None`` if it is not present.
        backends: the libraries that torch's matrix products and convolutions can use.
        loaded: BLAS and OpenMP libraries in the process; statically linked ones cannot be seen.
        two_openmp: whether several OpenMP runtimes are loaded, each with a thread pool of its own.
        threads, interop_threads: torch's intra-operator and inter-operator threads.
    """

    versions: dict[str, Message]
    build: Build
    build_line: Message
    onednn: bool
    mkl: bool
    openmp: bool
    acl: ComputeLibrary | None
    backends: tuple[Message, ...]
    loaded: tuple[Library, ...]
    two_openmp: bool
    threads: int
    interop_threads: int

    @property
    def openblas_limit(self) -> int | None:
        """The most threads that torch's OpenBLAS was built for; ``None`` if it is not loaded or does not say."""
        return openblas_limit(self.loaded)

    def uses(self, library: str) -> bool:
        """Whether torch can compute with ``library``: one of ``backends``, whatever oneDNN calls, or ``aten``."""
        if library == "aten":
            return self.build.capability is not None  # known of torch, and of no other engine
        return library in (name.partition("+")[0] for name in self.backends)


def openblas_limit(loaded: Sequence[Library]) -> int | None:
    """Return the most threads that torch's OpenBLAS was built for: numpy and scipy have copies of their own."""
    own = (library for library in loaded if library.owner in ("torch", "system"))
    return min((library.limit for library in own if library.limit is not None), default=None)
