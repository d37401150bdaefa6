"""What ``--details`` adds for each row: its other numbers, its processes, the proof, and every warning. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from modelzoo import stats
from modelzoo.formatting import seconds, significant, time_unit
from modelzoo.results.summary import SummaryRow
from modelzoo.views import proof
from modelzoo.views.accelerators import accelerator_lines
from modelzoo.views.agreement import agreement_text
from modelzoo.views.conditions import merged
from modelzoo.views.judgement import validity_detail, validity_text
from modelzoo.views.results_table import interval
from modelzoo.views.speed import outlook_text, reason


def detail_lines(row: SummaryRow) -> list[str]:
    """Return the details of one row, a line for each kind."""
    return [*_times(row), *_evidence(row), *_warnings(row)]


def _times(row: SummaryRow) -> Iterator[str]:
    if row.latency:
        calls = len(row.samples) // max(1, row.processes)
        throughput = f", {significant(row.throughput)} {row.unit}/s" if row.throughput else ""
        yield f"latency {interval(row.latency)}{throughput}; {row.processes} × {calls} samples"
    if row.cold_start is not None:
        compiling = "" if row.compile_seconds is None else f", compiling took {seconds(row.compile_seconds)}"
        yield f"first call {seconds(row.cold_start)}{compiling}"
    percentiles = stats.percentiles(row.samples)
    if len(percentiles) > 1:
        yield "all samples: " + ", ".join(f"{name} {seconds(value)}" for name, value in percentiles.items())
    medians = [statistics.median(run.steady) for run in row.runs if run.steady]
    if len(medians) > 1:
        yield f"medians of the processes: {_in_one_unit(medians)}"
    yield from accelerator_lines(row.runs)
    if row.speed:
        outlook = row.speed.verdict.outlook
        yield f"{row.speed.verdict.outcome}: {reason(row.speed)}" + (f"; {outlook_text(outlook)}" if outlook else "")
    if row.peak_memory:
        yield f"peak memory of a process {row.peak_memory / 2**30:.2f} GiB"


def _in_one_unit(values: Sequence[float]) -> str:
    """Times in the unit of the largest: ``62.0, 59.2, 74.6 ms``."""
    unit, factor = time_unit(max(values))
    return ", ".join(significant(factor * value, 3) for value in values) + f" {unit}"


def _evidence(row: SummaryRow) -> Iterator[str]:
    said = proof.sentence(row.proof)
    if said is not None:
        yield str(said)
    if row.proof.canary is not None:
        yield f"canary {proof.canaries(row.proof)}: {row.proof.canary.summary}"
    if row.agreement:
        yield f"outputs compared with torch in fp32: {agreement_text([row.agreement])}"
    if row.judged:
        detail = validity_detail(row.judged)
        yield f"predictions {validity_text(row.judged)}" + (f" ({detail})" if detail else "")
    ceiling = ceiling_text(row)
    if ceiling:
        yield ceiling


def _warnings(row: SummaryRow) -> Iterator[str]:
    for found in row.warnings:
        several = f" (in {found.processes} of {found.checked} processes)" if found.processes < found.checked else ""
        message, _ = merged([(row, found.warning)])
        yield f"{found.warning.code}: {message}{several}"


def ceiling_text(row: SummaryRow) -> str:
    """How close a setting came to the machine's measured ceiling; empty if no operations were counted.

    Operations are counted in one process only, so the first report that has them is used.
    """
    report = next((each for each in row.reports if each.observed.flops is not None), None)
    if report is None or report.observed.flops is None:
        problem = next((each.observed.flops_problem for each in row.reports if each.observed.flops_problem), "")
        return f"operations were not counted: {problem}" if problem else ""
    if not report.observed.flops.total:
        return ""
    counted = f"{report.observed.flops.total / 1e9:.1f} GFLOP per batch"
    if report.provenance.machine.emulator:
        return counted
    bound = report.bound
    if bound is None:
        device = report.setting.device
        command, whose = ("", "this machine's") if device == "cpu" else (f" --device {device}", f"{device}'s")
        return f"{counted}; run 'modelzoo doctor{command}' once to compare it with {whose} ceiling"
    text = f"{counted}, {bound.gflops:.0f} GFLOP/s"
    if bound.share_of_ceiling is not None:
        whose = "this machine's" if report.accelerator is None else f"{report.accelerator.device.name}'s"
        text += f", {bound.share_of_ceiling:.0%} of {whose} measured {bound.precision} ceiling"
    return text + (f", bound by {bound.bound_by.value}" if bound.bound_by else "")
