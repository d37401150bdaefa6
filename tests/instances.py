"""Results of ``modelzoo throughput`` that were never measured: instances of a simulated speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from example_machine import SERVER
from topologies import topology

from modelzoo.frozen import replace
from modelzoo.records.machine import NodeMemory, Placement
from modelzoo.records.run import Result, SettingRequest
from modelzoo.records.serving import LatencyBound, Window
from modelzoo.records.throughput import Configuration, ConfigurationRun, InstancePlace, InstanceRun, Smt, Throughput
from modelzoo.results.counting import count
from modelzoo.serve.places import plan
from modelzoo.setting import Setting

CREATED = "2026-01-01T00:00:00+00:00"
FOUR = topology(4)


def series(seconds: float, batches: int, start: float = 0.0) -> Window:
    """An instance whose batches all take the same time, back to back."""
    edges = [start + seconds * number for number in range(batches + 1)]
    return Window(tuple(edges[:-1]), tuple(edges[1:]))


def configuration(instances: int, cores: int = 1, batch: int = 1, group: int = 0) -> Configuration:
    """So many instances on a machine with four cores."""
    return Configuration(group, instances, cores, batch, Smt.OFF, plan(FOUR, instances, cores))


def placement(place: InstancePlace, elsewhere: int = 0) -> Placement:
    """The memory of an instance on its own node, with ``elsewhere`` bytes on another one."""
    memory = (NodeMemory(place.node, 1_000_000 - elsewhere, 500_000), NodeMemory(place.node + 1, elsewhere, 0))
    return Placement(place.cpus, (place.node,), memory, preferred_node=place.node)


def ran(
    index: int,
    own: Configuration,
    number: int,
    seconds: Sequence[float],
    *,
    duration: float = 10.0,
    errors: Mapping[int, str] | None = None,
) -> ConfigurationRun:
    """A round in which each instance's batches took so long, and some of them died."""
    died = errors or {}
    found = [series(each, int(duration / each) + 1) for each in seconds]
    counted = None if died else count(found)
    instances = [
        InstanceRun(
            place,
            batches=len(one.ended),
            counted=0 if counted is None else counted.counts[position],
            latencies=() if counted is None else counted.latencies[position],
            start=1e-4 * position,
            memory=1_500_000,
            peak_memory=2_000_000,
            placement=placement(place),
            kernels="k" * 64,
            error=died.get(position),
            error_kind="WorkerError" if position in died else None,
        )
        for position, (place, one) in enumerate(zip(own.places, found))
    ]
    window = None if counted is None else counted.seconds
    return ConfigurationRun(index, number, CREATED, CREATED, tuple(instances), window, duration)


def result(
    configurations: Sequence[Configuration],
    runs: Sequence[ConfigurationRun],
    bound: LatencyBound | None = None,
    **changes: object,
) -> Result:
    """A result with these rounds."""
    groups = 1 + max(each.group for each in configurations)
    requested = tuple(SettingRequest("toy", Setting(batch=1, threads=group + 1)) for group in range(groups))
    found = Throughput("toy", "rows", SERVER, FOUR, tuple(configurations), 2, tuple(runs), bound=bound)
    stored = replace(found, **changes)  # type: ignore[arg-type]
    return Result(("modelzoo", "throughput", "toy"), CREATED, requested, payload=stored)
