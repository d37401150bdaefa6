"""Which instance gets which CPUs, and where the generator runs. Pure, but for ``settled``.

Every instance has cores of one NUMA node, so that its memory is near all of them. Nodes are filled evenly: the next
instance goes to the node with the most free cores. There it has cores that share a last-level cache, of the cache with
the most free ones; if it needs more, those of as few caches as possible. Among equals it takes the lowest-numbered
cores, which are neighbours in most numberings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from modelzoo.errors import UsageError
from modelzoo.formatting import counted
from modelzoo.frozen import replace
from modelzoo.records.machine import Core, Topology
from modelzoo.records.race import InstancePlace, Smt
from modelzoo.records.serving import GeneratorPlace


def plan(topology: Topology, instances: int, cores: int, smt: Smt = Smt.OFF) -> tuple[InstancePlace, ...]:
    """Return the place of each instance.

    Args:
        topology: the cores that may be used.
        instances: their number, at least 1.
        cores: physical cores of each, at least 1.
        smt: whether an instance uses one hardware thread of each of its cores, or all of them.

    Raises:
        UsageError: they do not fit.
    """
    free = {node: list(topology.on_node(node)) for node in topology.nodes}
    largest = max(map(len, free.values()), default=0)
    asked = f"{instances} × {counted(cores, 'core')}"
    if cores > largest:
        raise UsageError(
            f"{asked}: no NUMA node has more than {counted(largest, 'core')} ({topology.text})"
            f"; give --cores-per-instance {largest} or fewer"
        )
    most = most_instances(topology, cores)
    if instances > most:
        raise UsageError(
            f"{asked}: the NUMA nodes have room for only "
            f"{counted(most, 'instance')} of {counted(cores, 'core')} ({topology.text}); give fewer instances or cores"
        )
    places = []
    for _ in range(instances):
        node = max(free, key=lambda each: (len(free[each]), -each))
        chosen = _take(free[node], cores)
        free[node] = [core for core in free[node] if core not in chosen]
        cpus = sorted(cpu for core in chosen for cpu in (core.cpus if smt is Smt.ON else core.cpus[:1]))
        places.append(InstancePlace(tuple(cpus), node))
    # An instance has a thread for each of its CPUs, and all instances are to be alike.
    counts = sorted({len(place.cpus) for place in places})
    if smt is Smt.ON and counts == [cores]:
        raise UsageError("--smt on: these cores have no second hardware thread that may be used; leave it out")
    if smt is Smt.ON and len(counts) > 1:
        raise UsageError(
            f"--smt on: instances would have {' or '.join(map(str, counts))} hardware threads, because some siblings "
            "are offline or not allowed; leave it out, or allow them"
        )
    threads = sum(len(place.cpus) for place in places)
    if topology.quota is not None and threads > topology.quota:
        raise UsageError(
            f"{asked}, {threads} threads: the control group's quota allows {topology.quota:g} "
            "CPUs, so instances would be stopped in turns; give fewer instances or cores, or raise the quota"
        )
    return tuple(places)


def _take(free: Sequence[Core], cores: int) -> list[Core]:
    """So many of the ``free`` cores of a node, which has enough."""
    clusters: dict[int | None, list[Core]] = {}
    for core in free:
        clusters.setdefault(core.cache, []).append(core)
    chosen: list[Core] = []
    while len(chosen) < cores:
        left = cores - len(chosen)
        fitting = [each for each in clusters.values() if len(each) >= left]
        # What is left of several caches goes where it leaves the least.
        cluster = min(fitting, key=len) if fitting and chosen else max(clusters.values(), key=len)
        chosen += cluster[:left]
        del cluster[:left]
    return sorted(chosen, key=lambda core: core.cpus)


def most_instances(topology: Topology, cores: int) -> int:
    """Return how many instances of ``cores`` cores fit, each into one NUMA node."""
    return sum(len(topology.on_node(node)) // cores for node in topology.nodes)


def most_cores(topology: Topology, instances: int) -> int:
    """Return the most cores that each of ``instances`` instances can have; 0 if not even one.

    With a quota of CPU time, no more than its share.
    """
    largest = max((len(topology.on_node(node)) for node in topology.nodes), default=0)
    allowed = largest if topology.quota is None else min(largest, int(topology.quota // max(1, instances)))
    fitting = (cores for cores in range(allowed, 0, -1) if most_instances(topology, cores) >= instances)
    return next(fitting, 0)


def idle_cores(topology: Topology, instances: int, cores: int) -> int:
    """Return how many cores, of those that the quota allows, are left if each instance has ``cores`` of them."""
    count = len(topology.cores)
    return (count if topology.quota is None else min(count, int(topology.quota))) - instances * cores


def splits(topology: Topology) -> tuple[tuple[int, int], ...]:
    """Return the (instances, cores per instance) that a search tries, the largest instances first.

    First whole nodes, then from one size to the next about half as many cores, each with as many instances as fit. Of
    the sizes between a half and a quarter, it is the one that leaves the fewest cores idle; among equals one that
    divides the last-level caches, or fills some of them, and then the largest. So a node of 96 cores is divided into 2
    × 48, 4 × 24, 8 × 12 …, and if 8 cores share a cache, into 2 × 48, 4 × 24, 12 × 8 …. A single instance on the
    largest node is among them, because the others are compared with it.
    """
    sizes = {len(topology.on_node(node)) for node in topology.nodes}
    if not sizes:
        return ()
    cores = max(1, most_cores(topology, 1))
    found, shared = {(1, cores)}, {len(cluster) for cluster in topology.clusters}

    def rank(size: int) -> tuple[int, bool, int]:
        idle = idle_cores(topology, _most_allowed(topology, size), size)
        return idle, any(size % each and each % size for each in shared), -size

    while cores:
        sizes.add(cores)
        cores = min(range(cores // 2, cores // 4, -1), key=rank, default=0)
    found |= {(count, each) for each in sizes if (count := _most_allowed(topology, each))}
    return tuple(sorted(found, key=lambda each: (-each[1], each[0])))


def _most_allowed(topology: Topology, cores: int) -> int:
    """How many instances of ``cores`` cores fit, and have their share of the quota."""
    count = most_instances(topology, cores)
    return count if topology.quota is None else min(count, int(topology.quota // cores))


def quota_in_cores(topology: Topology, smt: Smt) -> Topology:
    """Return ``topology`` with the quota in cores: each takes a CPU of it for every hardware thread that is used."""
    if topology.quota is None or smt is Smt.OFF:
        return topology
    return replace(topology, quota=topology.quota / max((len(core.cpus) for core in topology.cores), default=1))


FIRST = -10
"""Niceness of the generator. When a request is due it must not wait for the time slice of an instance to end, or, on a
core of its own, for that of any other program."""


def generator_place(topology: Topology, places: Sequence[InstancePlace], allowed: frozenset[int]) -> GeneratorPlace:
    """Return the CPUs of the generator: a core that no instance uses, not even a hardware thread of it.

    Args:
        topology: the cores that may be used.
        places: the CPUs of each instance.
        allowed: the CPUs that the generator has if there is no such core.
    """
    used = {cpu for place in places for cpu in place.cpus}
    has_quota = not _is_limited(topology) or len(used) + 1 <= (topology.quota or 0)
    free = [core for core in topology.cores if not used & set(core.siblings)]
    if free:
        nodes = {place.node for place in places}
        # Near the instances; the highest core is the farthest from CPU 0, which handles most interrupts.
        chosen = max(free, key=lambda core: (core.node in nodes, core.cpus))
        return GeneratorPlace(chosen.cpus, True, has_quota=has_quota)
    return GeneratorPlace(tuple(sorted(allowed)), False, has_quota=has_quota)


def cores_beside_generator(topology: Topology, instances: int) -> int:
    """Return the cores of each of ``instances`` instances under load, unless a number was given; at least 1.

    As many as fit beside a core for the generator, if there is one. A quota also has to last for the generator: if it
    is used up, all of them stop until the next period of the kernel's scheduler, and latencies have stalls that a
    server does not have.
    """
    beside = topology
    if _is_limited(topology) and topology.quota is not None:
        beside = replace(topology, quota=topology.quota - 1)
    largest = min(most_cores(beside, instances), (len(topology.cores) - 1) // instances)
    return max(1, largest or most_cores(topology, instances))


def _is_limited(topology: Topology) -> bool:
    """Whether there is a quota that can be used up."""
    return topology.quota is not None and topology.quota < sum(len(core.cpus) for core in topology.cores)


@contextmanager
def settled(place: GeneratorPlace) -> Iterator[GeneratorPlace]:
    """Keep this process on the core that is its own, if it has one, and let it go before others if that is allowed.

    Afterwards everything is as it was before. Yields the place with the niceness that it has.
    """
    cpus, usual = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    if place.is_own:
        os.sched_setaffinity(0, place.cpus)
    with suppress(PermissionError):  # it takes CAP_SYS_NICE
        os.setpriority(os.PRIO_PROCESS, 0, FIRST)
    try:
        yield replace(place, nice=os.getpriority(os.PRIO_PROCESS, 0))
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, usual)
        os.sched_setaffinity(0, cpus)
