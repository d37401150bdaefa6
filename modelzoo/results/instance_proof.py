"""Whether instances ran as was planned: the same kernels, on their own CPUs, with their memory there. Pure."""

from __future__ import annotations

from modelzoo.records.run import Result
from modelzoo.records.throughput import InstanceRun, Throughput
from modelzoo.results import throughput
from modelzoo.results.throughput import Row


def kernels_sentence(result: Result, row: Row) -> str:
    """Say whether every instance ran the kernels of the one that was audited in full."""
    found = throughput.of(result)
    report = throughput.context(result, row.configuration.group)
    instances = [each for run in throughput.runs_of(found, row.index) for each in run.instances if each.error is None]
    if not instances:
        return ""
    if report is None or report.observed.kernels is None:
        return "it is not known which kernels the instances ran"
    wanted, verdict = report.observed.kernels.sha256, report.observed.canary_verdict
    unknown = [each for each in instances if each.kernels is None]
    others = [each for each in instances if each.kernels not in (None, wanted) or each.canary_verdict != verdict]
    if others:
        numbers = ", ".join(_cpus(each) for each in others[:4])
        return f"{len(others)} of {len(instances)} instances ran other kernels than the audited one ({numbers})"
    if unknown:
        return f"the kernels of {len(unknown)} of {len(instances)} instances are not known"
    return f"the same kernels ran in all {len(instances)} instances"


def placement_sentence(found: Throughput, row: Row) -> str:
    """Say whether every instance ran on its CPUs and had its memory on their node."""
    instances = [each for run in throughput.runs_of(found, row.index) for each in run.instances if each.error is None]
    if not instances:
        return ""
    wrong = [each for each in instances if each.placement is None or each.placement.cpus != each.place.cpus]
    if wrong:
        return f"{len(wrong)} of {len(instances)} instances did not run on the CPUs that they were given"
    unproven = [each for each in instances if each.placement is not None and not each.placement.is_proven]
    if not unproven:
        return "every instance ran on its own cores of one NUMA node, with its memory there (proven by numa_maps)"
    placement = unproven[0].placement
    assert placement is not None
    share = placement.local_share
    reason = placement.problem or (f"{share:.0%} of its memory was on its node" if share is not None else "unknown")
    if placement.problem is None and not placement.nodes:
        reason = "the system does not say which NUMA nodes the CPUs belong to"
    elif placement.problem is None and not placement.memory:
        reason = "/proc/self/numa_maps names no node"
    return f"placement unproven for {len(unproven)} of {len(instances)} instances: {reason}"


def _cpus(each: InstanceRun) -> str:
    return f"CPUs {'+'.join(map(str, each.place.cpus[:4]))}{'…' if len(each.place.cpus) > 4 else ''}"
