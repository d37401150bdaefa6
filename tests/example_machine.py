"""A good machine for tests: an ARM server on which nothing distorts results, and its measured ceilings."""

from __future__ import annotations

from modelzoo.frozen import replace
from modelzoo.records.equipment import Build, ComputeLibrary, Libraries, Library
from modelzoo.records.machine import Cache, CpuUsage, Machine, Threads
from modelzoo.records.profile import Bandwidth, Ceilings, Gemm

SERVER = Machine(
    cpu="Neoverse-N2",
    product=None,
    architecture="aarch64",
    features=("asimddp", "sve2", "bf16"),
    has_bf16=True,
    sve_bits=128,
    sockets=1,
    cores=8,
    logical=8,
    threads_per_core=1,
    numa_nodes=1,
    numa_allowed=1,
    caches=(Cache("L2", 1 << 20, 8),),
    governor="performance",
    mhz=2700.0,
    max_mhz=2700.0,
    huge_pages="always",
    allocator="tcmalloc",
    threads=Threads(8, 8, 8, None, "0-7"),
    memory=32 << 30,
    memory_limit=32 << 30,
    container=None,
    hypervisor=None,
    emulator=None,
    system="Linux",
    kernel="6.8",
    libc="glibc 2.39",
    python="3.12.1",
    image=None,
    environment={},
)
BUILD = Build("GCC 13.3", "3.7.1", None, "4.5", "DEFAULT", "open", "open", "Release", ("-O2",), {})
OPENBLAS = Library("blas", "openblas", "0.3.30", "neoversev2", "openmp", 128, "torch", "libopenblas.so.0", limit=128)
OPENMP = Library("openmp", "openmp", None, None, None, 8, "torch", "libgomp.so.1")
LIBRARIES = Libraries(
    versions={"python": "3.12.1", "torch": "2.10.0", "torchvision": "0.25.0"},
    build=BUILD,
    build_line=BUILD.line,
    onednn=True,
    mkl=False,
    openmp=True,
    acl=ComputeLibrary("libarm_compute.so", is_loaded=False),
    backends=("onednn+acl", "openblas"),
    loaded=(OPENMP,),
    two_openmp=False,
    threads=8,
    interop_threads=8,
)
QUIET = CpuUsage(
    seconds=2.0,
    own_cores=0.0,
    other_cores=0.01,
    steal_percent=0.0,
    resolution=0.01,
    minor_faults=100,
    involuntary_switches=0,
    throttled_seconds=None,
)
CEILINGS = Ceilings(
    fingerprint="f",
    torch="2.10.0",
    threads=8,
    gemm=(
        Gemm("fp32", 1, 2048, "mm", 40.0),
        Gemm("fp32", 8, 2048, "mm", 300.0),
        Gemm("bf16", 8, 512, "mm", 900.0),
    ),
    bandwidth=(Bandwidth(1, 1 << 28, 20.0), Bandwidth(8, 1 << 28, 90.0)),
    seconds=20.0,
    other_cores=0.01,
)
TWO_CORES = Ceilings(
    fingerprint="f",
    torch="2.10.0",
    threads=2,
    gemm=(
        Gemm("fp32", 1, 1024, "mm", 140.0),
        Gemm("fp32", 1, 2048, "mm", 150.0),
        Gemm("fp32", 2, 1024, "mm", 250.0),
        Gemm("fp32", 2, 2048, "mm", 300.0),
        Gemm("bf16", 2, 2048, "mm", 160.0),
    ),
    bandwidth=(Bandwidth(1, 1 << 28, 15.0), Bandwidth(2, 1 << 28, 20.0)),
    seconds=20.0,
    other_cores=0.0,
)
"""Ceilings of a machine with two cores."""


def machine_with(**changes: object) -> Machine:
    return replace(SERVER, **changes)  # type: ignore[arg-type]
