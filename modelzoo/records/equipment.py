"""What a run computes with besides its CPUs: an accelerator, with its clocks, power and temperature while it was timed;
and the numerical libraries of its process, with how they were built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from modelzoo.frozen import PUBLIC, Message, Public

LAUNCH_BOUND_SHARE = 0.8
"""From this ratio of issue time to device time on, a call is launch-bound.

The device cannot finish before the last kernel has been issued, so however fast the kernels were, the device time would
not fall below the issue time: faster kernels could save at most 1 - 0.8 = 20 % of it.
"""


Phase = Annotated[Literal["before", "warm-up", "steady", "after"], PUBLIC]
"""When a reading was taken: before the first call, in the warm-up, between timed calls, after the last one."""


class Accelerator(msgspec.Struct, frozen=True):
    """An accelerator, as its driver describes it; ``None`` if it does not.

    Attributes:
        kind: ``cuda``, ``npu`` or ``xpu``.
        index: number of the device among those that the process can use.
        name: the product's name.
        capability: compute capability of a CUDA device, such as ``9.0``.
        driver: version of the driver.
        runtime: name and version of the libraries that torch uses, such as ``CUDA 12.8, cuDNN 9.10.2``.
        memory: size of its memory in bytes.
        lacks: what torch cannot tell of this device, in words: timed events, memory figures.
    """

    kind: Public
    index: int
    name: Public
    capability: Public | None = None
    driver: Public | None = None
    runtime: Public | None = None
    memory: int | None = None
    lacks: tuple[Message, ...] = ()


class Reading(msgspec.Struct, frozen=True):
    """What the device's sensors showed at one moment; ``None`` if they do not show it.

    Attributes:
        phase: when it was taken.
        calls: number of timed calls before it: the cold start, those of the warm-up and the samples.
        mhz: frequency of the processors.
        memory_mhz: frequency of the memory.
        watts: power.
        celsius: temperature.
        joules: the device's energy counter, from an arbitrary start.
        throttled: the reasons for which the clock is held down, such as ``power cap``; empty if there are none.
        begins_turn: the process waited for its turn before it, so the counter's difference to the reading before
            includes other processes.
    """

    phase: Phase
    calls: int
    mhz: float | None = None
    memory_mhz: float | None = None
    watts: float | None = None
    celsius: float | None = None
    joules: float | None = None
    throttled: tuple[Public, ...] = ()
    begins_turn: bool = False


class Copies(msgspec.Struct, frozen=True):
    """Copying the inputs to the device and the outputs back: a stage of its own, outside the latency.

    Attributes:
        to_device: median seconds of preparing one batch on the device, conversions included.
        to_host: median seconds of copying its outputs back.
        included: whether the latency includes both (``--include-copies``).
    """

    to_device: float
    to_host: float
    included: bool = False


class AcceleratorUse(msgspec.Struct, frozen=True):
    """How one process used an accelerator.

    Attributes:
        device: what it is.
        peak_memory: the most bytes that tensors occupied on it while calls were timed; ``None`` if unknown.
        copies: what the copies to and from it cost; ``None`` if nothing was timed.
        sensors: where the readings come from (``NVML``, ``npu-smi``); empty if there are none.
        readings: in the order in which they were taken.
        throttled_samples: indices of the samples that were taken while the clock was held down, in each series.
        joules_per_call: energy of one call, from the differences of the energy counter within turns; ``None`` if
            the device has no such counter.
        locked_mhz: the frequency that ``--lock-clocks`` set; ``None``: none was set.
        problems: what could not be read, and why.
    """

    device: Accelerator
    peak_memory: int | None = None
    copies: Copies | None = None
    sensors: Public = ""
    readings: tuple[Reading, ...] = ()
    throttled_samples: tuple[int, ...] = ()
    joules_per_call: float | None = None
    locked_mhz: int | None = None
    problems: tuple[Message, ...] = ()


def bound_by_launching(issue: float, device: float, kernels: float | None = None) -> bool:
    """Return whether a call spends its time issuing kernels rather than running them.

    Args:
        issue: seconds in which the host issued the work, the median of the samples.
        device: seconds between the events around it.
        kernels: seconds in which kernels ran, from the profiler; ``None`` if unknown. If they fill the device time,
            the host waited for the device (a full queue, or a call that needs a value), not the other way round.
    """
    if not device > 0 or issue / device < LAUNCH_BOUND_SHARE:
        return False
    return kernels is None or kernels / device < LAUNCH_BOUND_SHARE


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
