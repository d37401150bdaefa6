"""Results of ``modelzoo throughput`` that were never measured: instances of a simulated speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from example_machine import SERVER
from planted import topology
from proven_results import proven

from modelzoo.frozen import replace
from modelzoo.records.machine import NodeMemory, Placement
from modelzoo.records.race import (
    Configuration,
    ConfigurationRun,
    InstancePlace,
    InstanceRun,
    Smt,
    Stage,
    StageKind,
    Throughput,
)
from modelzoo.records.run import Result, SettingRequest
from modelzoo.records.serving import LatencyBound, Window
from modelzoo.results.counting import count
from modelzoo.serve.places import plan
from modelzoo.setting import Setting
from modelzoo.stats.race import Choice

CREATED = "2026-01-01T00:00:00+00:00"
FOUR = topology(4)


def series(seconds: float, batches: int, start: float = 0.0) -> Window:
    """An instance whose batches all take the same time, back to back."""
    edges = [start + seconds * number for number in range(batches + 1)]
    return Window(tuple(edges[:-1]), tuple(edges[1:]))


def configuration(instances: int, cores: int = 1, batch: int = 1) -> Configuration:
    """So many instances on a machine with four cores."""
    return Configuration(0, instances, cores, batch, Smt.OFF, plan(FOUR, instances, cores))


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
    window, counted = (None, ((),) * len(found)) if died else count(found)
    instances = [
        InstanceRun(
            place,
            batches=len(one.ended),
            counted=len(counted[position]),
            latencies=counted[position],
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


def served(
    rates: Sequence[float],
    created: str = CREATED,
    *,
    batches: Sequence[int] = (1,),
    counts: Sequence[int] = (1, 4),
    bound: LatencyBound | None = None,
    is_confirmed: bool = True,
    runs: Mapping[str, Any] | None = None,
    **changes: object,
) -> Result:
    """A complete result: of instances of two cores with each batch; the most with the last batch serve the most."""
    own = [
        Configuration(group, count, 2, batch, Smt.OFF, plan(topology(SERVER.cores), count, 2))
        for group, batch in enumerate(batches)
        for count in counts
    ]
    best, found = len(own) - 1, []

    def seconds(each: Configuration, rate: float) -> list[float]:
        return [each.instances * each.batch / rate] * each.instances

    for number in range(2):
        shares = [1.0 if index == best else 0.25 for index in range(len(own))]
        found += [
            ran(index, each, number, seconds(each, share * rates[0]))
            for index, (each, share) in enumerate(zip(own, shares))
        ]
    more: dict[str, object] = {"is_complete": True}
    if is_confirmed:
        again = [(number, seconds(own[best], rate)) for number, rate in enumerate(rates, 2)]
        found += [ran(best, own[best], number, each, duration=100.0) for number, each in again]
        more |= {"stages": (Stage(StageKind.CONFIRMATION, (best,), len(rates), None, 2),), "choice": Choice(best, best)}
    made = result(own, found, bound, **{**more, **changes})
    settings = [Setting(batch=batch, threads=1) for batch in batches]
    reports = []
    for group, each in enumerate(settings):
        what = {"machine": SERVER, "inputs_digest": str(each.batch), "timing": None, **(runs or {})}
        reports.append(replace(proven(0.1, setting=each, **what), group=group))
    requested = tuple(SettingRequest("toy", each) for each in settings)
    return replace(made, created=created, requested=requested, runs=tuple(reports))
