"""Where the generator runs. Pure, but for ``pinned``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from modelzoo.records.load import GeneratorPlace
from modelzoo.records.throughput import Place
from modelzoo.records.topology import Topology


def generator_place(topology: Topology, places: Sequence[Place], allowed: frozenset[int]) -> GeneratorPlace:
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
    shared = f"the instances use all {len(topology.cores)} cores, so the generator takes time from them"
    return GeneratorPlace(tuple(sorted(allowed)), False, f"{shared}; leave a core free for it")


@contextmanager
def pinned(place: GeneratorPlace) -> Iterator[None]:
    """Keep this process on the core that is its own, if there is one; afterwards it may run where it did before."""
    if not place.is_own:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, place.cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
