"""The machine that a result was measured on: its threads and cores, and how busy they were."""

from __future__ import annotations

from typing import Annotated

import msgspec

from modelzoo.frozen import Argument, Message, Public

Positive = Annotated[int, msgspec.Meta(ge=1)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e9)]
"""30 years at most."""

OPENMP_AND_BLAS_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables that set a worker's number of threads; the OpenMP and BLAS libraries read them when they are loaded, before
torch can set a number."""
THREAD_VARIABLES = (*OPENMP_AND_BLAS_THREADS, "GOTO_NUM_THREADS", "BLIS_NUM_THREADS")
"""Variables that set the number of threads of any library."""
QUIET_CORES = 0.1
"""Cores kept busy by other programs up to which a machine counts as quiet."""
QUIET_SHARE = 0.01
"""The same as a share of the CPUs, which is more from eleven CPUs on: a large server runs more services."""


def quiet_limit(cpus: int, resolution: float) -> float:
    """Return how many cores other programs may keep busy on a quiet machine. The limits are modelzoo's own.

    Args:
        cpus: logical CPUs on which they were counted.
        resolution: uncertainty of the count, in cores (``CpuUsage.resolution``).
    """
    return max(QUIET_CORES, QUIET_SHARE * cpus) + resolution


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
    physical_cores: Positive
    affinity: int
    quota: float | None
    cpus_allowed: Public | None = None


class Cache(msgspec.Struct, frozen=True):
    """The caches of one level.

    Attributes:
        name: ``L1d``, ``L1i``, ``L2`` ….
        bytes: size of each.
        instances: how many there are in the machine.
    """

    name: Public
    bytes: int
    instances: int


class NumaNode(msgspec.Struct, frozen=True):
    """The cores of a NUMA node that a process may use.

    Attributes:
        number: of the node.
        cpus: the first usable hardware thread of each core, in the kernel's list format (``0-3,8``).
        cores: how many there are.
    """

    number: int
    cpus: Public
    cores: int


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
        nodes: the NUMA nodes of this process; empty if they were not recorded.
    """

    cpu: Public
    product: Public | None
    architecture: Public
    features: tuple[Public, ...]
    has_bf16: bool
    sve_bits: int | None
    sockets: int | None
    cores: Positive
    logical: Positive
    threads_per_core: Positive
    numa_nodes: int | None
    numa_allowed: int | None
    caches: tuple[Cache, ...]
    governor: Public | None
    mhz: float | None
    max_mhz: float | None
    huge_pages: Public | None
    allocator: Public | None
    threads: Threads
    memory: int | None
    memory_limit: int | None
    container: Public | None
    hypervisor: Public | None
    emulator: Public | None
    system: Public
    kernel: Public
    libc: Public | None
    python: Public
    image: str | None
    environment: dict[str, Argument]
    cloud: Public | None = None
    instance_type: Public | None = None
    vcpus_per_core: int | None = None
    image_id: Public | None = None
    niceness: int | None = None
    nodes: tuple[NumaNode, ...] = ()


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


class Throttling(msgspec.Struct, frozen=True):
    """How a control group's quota stopped its threads.

    Attributes:
        periods: of the kernel's scheduler, usually of 100 ms, in which the quota was used up.
        seconds: for which CPUs had to stop, added up over the CPUs.
    """

    periods: int
    seconds: float

    def since(self, earlier: Throttling) -> Throttling:
        """What was added since ``earlier``."""
        return Throttling(self.periods - earlier.periods, self.seconds - earlier.seconds)


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
        throttled_seconds: time for which the control group's quota stopped its threads, as ``Throttling.seconds``.
        waited_seconds: the part of ``seconds`` in which the process waited for its turn.
        frequency: clock frequencies; ``None`` in most virtual machines.
        huge_pages: bytes of this process's anonymous memory that were in huge pages at the end.
    """

    seconds: float
    own_cores: float
    other_cores: float | None
    steal_percent: float | None
    resolution: float
    minor_faults: int
    involuntary_switches: int
    throttled_seconds: float | None
    waited_seconds: float = 0.0
    frequency: ClockFrequency | None = None
    huge_pages: int | None = None


class Core(msgspec.Struct, frozen=True):
    """A physical core.

    Attributes:
        cpus: the logical CPUs of it that may be used, in ascending order.
        siblings: all of its logical CPUs that are online.
        socket: number of its package; ``None`` if the system does not say.
        node: number of its NUMA node; 0 if the system knows none.
        cache: the lowest of the logical CPUs that share its last-level cache; ``None`` if the system names none.
    """

    cpus: tuple[int, ...]
    siblings: tuple[int, ...]
    socket: int | None
    node: int
    cache: int | None = None


class Topology(msgspec.Struct, frozen=True):
    """The cores that may be used, node by node, and why others may not.

    Attributes:
        cores: those that may be used, in the order of their nodes, then of their first CPU.
        offline: logical CPUs that are switched off.
        excluded: logical CPUs that are online, but in neither the affinity mask nor the control group's cpuset.
        quota: CPUs that the control group's quota allows; ``None`` if there is none.
    """

    cores: tuple[Core, ...]
    offline: tuple[int, ...] = ()
    excluded: tuple[int, ...] = ()
    quota: float | None = None

    @property
    def nodes(self) -> tuple[int, ...]:
        """The NUMA nodes that have cores which may be used."""
        return tuple(sorted({core.node for core in self.cores}))

    @property
    def sockets(self) -> int:
        """Number of packages with such cores; those that the system does not tell apart count as one."""
        return len({core.socket for core in self.cores})

    def on_node(self, node: int) -> tuple[Core, ...]:
        """The cores of a node that may be used."""
        return tuple(core for core in self.cores if core.node == node)

    @property
    def clusters(self) -> tuple[tuple[Core, ...], ...]:
        """The cores that share a last-level cache, within a node; a node whose caches are not known is one cluster."""
        found: dict[tuple[int, int | None], list[Core]] = {}
        for core in self.cores:
            found.setdefault((core.node, core.cache), []).append(core)
        return tuple(map(tuple, found.values()))

    @property
    def text(self) -> str:
        """In a few words: ``128 cores, 2 sockets, 4 NUMA nodes (32 each)``."""
        sizes = [len(self.on_node(node)) for node in self.nodes]
        each = f"{sizes[0]} each" if len(set(sizes)) == 1 else ", ".join(map(str, sizes))
        parts = [f"{len(self.cores)} core{'s' if len(self.cores) != 1 else ''}"]
        if self.sockets > 1:
            parts.append(f"{self.sockets} sockets")
        parts.append("1 NUMA node" if len(sizes) == 1 else f"{len(sizes)} NUMA nodes ({each})")
        clusters = sorted({len(each) for each in self.clusters})
        if len(self.clusters) > len(sizes) and clusters[-1] > 1:
            parts.append(f"{' or '.join(map(str, clusters))} per L3 cache")
        if any(len(core.cpus) > 1 for core in self.cores):
            parts.append(f"{sum(len(core.cpus) for core in self.cores)} hardware threads")
        return ", ".join(parts)


LOCAL_SHARE = 0.99
"""Of a process's private memory, how much must be on the NUMA nodes of its CPUs for its placement to be verified."""


class NodeMemory(msgspec.Struct, frozen=True):
    """The memory of a process on one NUMA node, in bytes.

    Attributes:
        node: number of the node.
        private: memory that belongs to the process alone: heap, stacks, weights.
        files: mapped files, such as libraries, which other processes share.
    """

    node: int
    private: int
    files: int


class Placement(msgspec.Struct, frozen=True):
    """Where an instance runs and where its memory is.

    Attributes:
        cpus: the logical CPUs in its affinity mask.
        nodes: the NUMA nodes of these CPUs; empty if the system does not say.
        memory: its memory by node, as /proc/self/numa_maps shows it.
        problem: the system's error, if its memory could not be looked at.
        preferred_node: the node that new memory comes from as long as it has some; ``None``: no policy was set, because
            the CPUs are on several nodes, or the system names none, or has no such call, or refused …
        policy_problem: … with this error.
    """

    cpus: tuple[int, ...]
    nodes: tuple[int, ...]
    memory: tuple[NodeMemory, ...] = ()
    problem: Message | None = None
    preferred_node: int | None = None
    policy_problem: Message | None = None

    @property
    def local_share(self) -> float | None:
        """The share of its private memory that is on the nodes of its CPUs; ``None`` if that is not known."""
        total = sum(each.private for each in self.memory)
        if not self.nodes or not total:
            return None
        return sum(each.private for each in self.memory if each.node in self.nodes) / total

    @property
    def is_proven(self) -> bool:
        """Whether it runs on one node, and its private memory is there."""
        share = self.local_share
        return len(self.nodes) == 1 and share is not None and share >= LOCAL_SHARE


def fingerprint(machine: Machine) -> str:
    """Return 16 hexadecimal digits that depend on everything that decides the machine's peaks.

    The current frequency, the environment and the kernel are not included. Nor are torch's version and the number of
    threads: callers that store figures by fingerprint add them.
    """
    import hashlib
    import json

    names = ("cpu", "product", "features", "sve_bits", "cores", "logical", "sockets", "governor", "max_mhz", "emulator")
    decisive = {name: getattr(machine, name) for name in names} | {
        "caches": [[cache.name, cache.bytes, cache.instances] for cache in machine.caches],
        "affinity": machine.threads.affinity,
        "quota": machine.threads.quota,
        # In GiB: kernels reserve slightly different amounts at each boot.
        "memory": None if machine.memory_limit is None else round(machine.memory_limit / 2**30),
    }
    text = json.dumps(decisive, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
