"""Where the generator runs. Pure, but for ``settled``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from modelzoo.frozen import replace
from modelzoo.records.load import GeneratorPlace
from modelzoo.records.throughput import InstancePlace
from modelzoo.records.topology import Topology

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
    free = [core for core in topology.cores if not used & set(core.siblings)]
    if free:
        # The highest core is the farthest from CPU 0, which handles most interrupts.
        return GeneratorPlace(max(free, key=lambda core: core.cpus).cpus, True)
    return GeneratorPlace(tuple(sorted(allowed)), False)


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
