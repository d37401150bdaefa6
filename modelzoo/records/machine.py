"""The machine that a result was measured on, and how busy its CPUs were."""

from __future__ import annotations

from typing import Optional

import msgspec

QUIET_CORES = 0.1
"""Cores kept busy by other programs up to which a machine counts as quiet."""


class Threads(msgspec.Struct, frozen=True):
    """How many threads a run uses by default: the lowest of its limits.

    Attributes:
        count: the default.
        physical_cores: cores that the affinity mask covers; SMT siblings are not counted.
        affinity: logical CPUs in the affinity mask.
        quota: the control group's limit in CPUs; ``None`` if there is no limit.
        cpus_allowed: the affinity mask in the kernel's list format (``0-3,8``); ``None`` if it was not recorded.
    """

    count: int
    physical_cores: int
    affinity: int
    quota: Optional[float]
    cpus_allowed: Optional[str] = None


class Cache(msgspec.Struct, frozen=True):
    """The caches of one level.

    Attributes:
        name: ``L1d``, ``L1i``, ``L2`` ….
        bytes: size of each.
        instances: how many there are in the machine.
    """

    name: str
    bytes: int
    instances: int


class Machine(msgspec.Struct, frozen=True):
    """Facts about a machine; ``None`` if the system does not report them.

    Attributes:
        cpu: name of the core (ARM) or of the processor.
        product: the firmware's name of the processor, if it differs from ``cpu``.
        architecture: ``aarch64``, ``x86_64`` ….
        features: the CPU flags that decide which kernels can run.
        has_bf16: whether the CPU has bf16 instructions.
        sve_bits: width of the SVE vectors of this process.
        sockets: processor packages online.
        cores: physical cores online.
        logical: logical CPUs online, SMT siblings included.
        threads_per_core: ``logical`` ÷ ``cores``, rounded; at least 1.
        numa_nodes: nodes that have CPUs.
        numa_allowed: nodes that have CPUs of the affinity mask.
        caches: every level, L1 first.
        governor: the frequency governor; several are joined by ``+``.
        mhz: current frequency of the fastest core.
        max_mhz: highest frequency of the fastest core.
        huge_pages: setting of transparent huge pages: ``always``, ``madvise`` or ``never``.
        allocator: the library whose ``malloc`` this process calls: ``glibc``, ``tcmalloc``, ``jemalloc`` ….
        threads: the default number of threads.
        memory: physical memory in bytes.
        memory_limit: bytes that this process may use.
        container: kind of container, such as ``docker``.
        hypervisor: vendor of the virtual machine.
        emulator: the emulator that executes this process's instructions; a hypervisor is not one.
        system: name of the operating system.
        kernel: release of the kernel.
        libc: name and version of the C library.
        python: version of Python.
        image: tag of the suite's container image, from ``MODELZOO_IMAGE``.
        image_id: the engine's id of the image, if the setting names one; it identifies the image's content.
        environment: the environment variables that change speed or precision, without private paths.
        cloud: the cloud provider, as the firmware names it.
        instance_type: the provider's name of this kind of machine. Only some providers put it into the firmware.
        vcpus_per_core: in a virtual machine, how many virtual CPUs share a physical core. ``None`` on bare metal, and
            if the guest cannot know: hypervisors often hide SMT siblings.
        niceness: of this process; the scheduler prefers programs with a lower one.
    """

    cpu: str
    product: Optional[str]
    architecture: str
    features: tuple[str, ...]
    has_bf16: bool
    sve_bits: Optional[int]
    sockets: Optional[int]
    cores: int
    logical: int
    threads_per_core: int
    numa_nodes: Optional[int]
    numa_allowed: Optional[int]
    caches: tuple[Cache, ...]
    governor: Optional[str]
    mhz: Optional[float]
    max_mhz: Optional[float]
    huge_pages: Optional[str]
    allocator: Optional[str]
    threads: Threads
    memory: Optional[int]
    memory_limit: Optional[int]
    container: Optional[str]
    hypervisor: Optional[str]
    emulator: Optional[str]
    system: str
    kernel: str
    libc: Optional[str]
    python: str
    image: Optional[str]
    environment: dict[str, str]
    cloud: Optional[str] = None
    instance_type: Optional[str] = None
    vcpus_per_core: Optional[int] = None
    image_id: Optional[str] = None
    niceness: Optional[int] = None


class ClockFrequency(msgspec.Struct, frozen=True):
    """Current frequencies of the CPUs in the affinity mask, read when a period began and when it ended, in MHz.

    Attributes:
        mean_mhz: the mean of all readings.
        min_mhz: the lowest reading.
        max_mhz: the highest reading.
    """

    mean_mhz: float
    min_mhz: float
    max_mhz: float


class CpuUsage(msgspec.Struct, frozen=True):
    """How busy the CPUs were during a period; ``None`` if the system does not report it.

    Attributes:
        seconds: length of the period, wall clock.
        own_cores: mean number of cores that the observed process and its children kept busy.
        other_cores: the same for all other programs, on the CPUs of the affinity mask.
        steal_percent: percentage of the CPU time demanded that the hypervisor gave to other virtual machines.
        resolution: uncertainty of ``other_cores`` due to the kernel's clock ticks, in cores.
        minor_faults: page faults of this process without disk access.
        involuntary_switches: how often the scheduler preempted this process.
        throttled_seconds: time for which the control group's quota stopped its threads.
        waited_seconds: the part of ``seconds`` in which the process waited for its turn.
        frequency: clock frequencies; ``None`` in most virtual machines.
        huge_pages: bytes of this process's anonymous memory that were in huge pages at the end.
    """

    seconds: float
    own_cores: float
    other_cores: Optional[float]
    steal_percent: Optional[float]
    resolution: float
    minor_faults: int
    involuntary_switches: int
    throttled_seconds: Optional[float]
    waited_seconds: float = 0.0
    frequency: Optional[ClockFrequency] = None
    huge_pages: Optional[int] = None
