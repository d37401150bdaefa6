"""Where the generator of ``modelzoo load`` runs, and how a quota stopped it and the instances, in words. Pure."""

from __future__ import annotations

from modelzoo.formatting import counted, cpus, seconds, significant
from modelzoo.records.load import GeneratorPlace, Load
from modelzoo.records.machine import Throttling


def where(place: GeneratorPlace, load: Load) -> str:
    """Where the generator runs; if it has no core of its own, or no time of the quota, why, and what helps."""
    first = f" (niceness {place.nice}, so that it does not wait for them)" if place.nice < 0 else ""
    fewer = f"{_fewer(load, 'leave a core free for it')}{first}"
    if not place.is_own:
        cores = f"the instances use all {len(load.topology.cores)} cores, so the generator takes time from them"
        return f"{cores}{fewer}"
    own = f"on {cpus(place.cpus)}, which no instance uses"
    if place.has_quota:
        return own
    quota = f"the instances may use up the whole quota of {load.topology.quota:g} CPUs"
    return f"{own}, but it sleeps between events, because {quota}{fewer}"


def _fewer(load: Load, advice: str) -> str:
    """``advice`` with the option that follows it; empty if a single instance has a single core."""
    plan = load.plan
    if plan.instances > 1 and plan.cores_per_instance <= plan.instances:
        return f"; {advice}: --instances {plan.instances - 1} --cores-per-instance {plan.cores_per_instance}"
    if plan.cores_per_instance > 1:
        count = f"--instances {plan.instances} " if plan.instances > 1 else ""
        return f"; {advice}: {count}--cores-per-instance {plan.cores_per_instance - 1}"
    return ""


def throttling(load: Load) -> str | None:
    """Say that the quota stopped the instances, or the generator, while requests were timed; ``None`` if it did not."""
    found = [run.throttling for run in load.runs if run.throttling is not None and run.throttling.periods]
    if not found:
        return None
    periods, total = sum(each.periods for each in found), sum(each.seconds for each in found)
    runs = f"in {len(found)} of {len(load.runs)} runs" if len(load.runs) > 1 else "in the run"
    quota = "the quota" if load.topology.quota is None else f"the quota of {load.topology.quota:g} CPUs"
    said = f"{quota} was used up {counted(periods, 'time')} {runs}, and CPUs stopped for"
    fewer = _fewer(load, "give the instances less")
    return f"throttling: {said} {seconds(total)} in all, which is part of the latencies{fewer}"


def stopped(found: Throttling) -> str:
    """``0.36 s in 12 periods``."""
    return f"{significant(found.seconds, 2)} s in {counted(found.periods, 'period')}"
