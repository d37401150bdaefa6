"""Which instance gets which CPUs, and where the generator runs. Pure, but for ``settled``.

Every instance has cores of one NUMA node, so that its memory is near all of them. Nodes are filled evenly: the next
instance goes to the node with the most free cores, and takes its lowest-numbered ones, which are neighbours in most
numberings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.load import GeneratorPlace
from modelzoo.records.machine import Core, Topology
from modelzoo.records.throughput import InstancePlace, Smt


def plan(topology: Topology, instances: int, cores: int, smt: Smt = Smt.OFF) -> tuple[InstancePlace, ...]:
    """Return the place of each instance.

    Args:
        topology: the cores that may be used.
        instances: their number.
        cores: physical cores of each.
        smt: whether an instance uses one hardware thread of each of its cores, or all of them.

    Raises:
        UsageError: they do not fit.
    """
    if instances < 1 or cores < 1:
        raise UsageError(f"{instances} × {cores}: there must be 1 instance or more, of 1 core or more")
    free = {node: list(topology.on_node(node)) for node in topology.nodes}
    largest = max(map(len, free.values()), default=0)
    if cores > largest:
        raise UsageError(
            f"{instances} × {_cores(cores)}: no NUMA node has more than {_cores(largest)} ({topology.text})"
            f"; give --cores-per-instance {largest} or fewer"
        )
    most = most_instances(topology, cores)
    if instances > most:
        raise UsageError(
            f"{instances} × {_cores(cores)}: the NUMA nodes have room for only {most} "
            f"instance{'s' if most > 1 else ''} of {_cores(cores)} ({topology.text}); give fewer instances or cores"
        )
    _check_quota(topology, instances, cores)
    places = []
    for _ in range(instances):
        node = max(free, key=lambda each: (len(free[each]), -each))
        chosen, free[node] = free[node][:cores], free[node][cores:]
        places.append(InstancePlace(_cpus(chosen, smt), node))
    _check_threads(places, cores, smt)
    return tuple(places)


def _cores(number: int) -> str:
    return f"{number} core{'s' if number != 1 else ''}"


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


def splits(topology: Topology) -> tuple[tuple[int, int], ...]:
    """Return the (instances, cores per instance) that a search tries, the largest instances first.

    Cores per instance are the powers of two that fit into the smallest node, and the sizes of the nodes; each comes
    with as many instances as fit. A single instance on the largest node is among them, because the others are compared
    with it.
    """
    sizes = [len(topology.on_node(node)) for node in topology.nodes]
    powers = [1 << exponent for exponent in range(min(sizes, default=0).bit_length())]
    found = {(1, max(1, most_cores(topology, 1)))} if sizes else set()
    for cores in {*powers, *sizes}:
        count = most_instances(topology, cores)
        if topology.quota is not None:
            count = min(count, int(topology.quota // cores))
        if count:
            found.add((count, cores))
    return tuple(sorted(found, key=lambda each: (-each[1], each[0])))


def _cpus(cores: Sequence[Core], smt: Smt) -> tuple[int, ...]:
    return tuple(sorted(cpu for core in cores for cpu in (core.cpus if smt is Smt.ON else core.cpus[:1])))


def _check_quota(topology: Topology, instances: int, cores: int) -> None:
    if topology.quota is not None and instances * cores > topology.quota:
        raise UsageError(
            f"{instances} × {_cores(cores)}: the control group's quota allows {topology.quota:g} CPUs, so instances "
            "would be stopped in turns; give fewer instances or cores, or raise the quota"
        )


def _check_threads(places: Sequence[InstancePlace], cores: int, smt: Smt) -> None:
    """An instance has a thread for each of its CPUs, and all instances are to be alike."""
    if smt is Smt.OFF:
        return
    counts = sorted({len(place.cpus) for place in places})
    if counts == [cores]:
        raise UsageError("--smt on: these cores have no second hardware thread that may be used; leave it out")
    if len(counts) > 1:
        raise UsageError(
            f"--smt on: instances would have {' or '.join(map(str, counts))} hardware threads, because some siblings "
            "are offline or not allowed; leave it out, or allow them"
        )


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

    As many as fit, but a quota also has to last for the generator: if it is used up, all of them stop until the next
    period of the kernel's scheduler, and latencies have stalls that a server does not have.
    """
    if _is_limited(topology) and topology.quota is not None:
        beside = most_cores(replace(topology, quota=topology.quota - 1), instances)
        if beside:
            return beside
    return max(1, most_cores(topology, instances))


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
