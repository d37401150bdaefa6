"""What ``--details`` adds for each row: its other numbers, its processes, the proof, and every warning. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from modelzoo.formatting import seconds, significant
from modelzoo.views.accelerators import accelerator_lines
from modelzoo.views.differences import ShownRow
from modelzoo.views.results_table import interval
from modelzoo.views.speed import outlook_text, reason


def detail_lines(each: ShownRow) -> list[str]:
    """Return the details of one row, a line for each kind."""
    return [*_times(each), *_evidence(each), *_warnings(each)]


def _times(each: ShownRow) -> Iterator[str]:
    row = each.row
    if row.latency:
        calls = row.samples // max(1, row.processes)
        throughput = f", {significant(row.throughput)} {row.unit}/s" if row.throughput else ""
        yield f"latency {interval(row.latency)}{throughput}; {row.processes} × {calls} samples"
    if row.cold_start is not None:
        compiling = "" if row.compile_seconds is None else f", compiling took {seconds(row.compile_seconds)}"
        yield f"first call {seconds(row.cold_start)}{compiling}"
    if len(row.percentiles) > 1:
        yield "all samples: " + ", ".join(f"{name} {seconds(value)}" for name, value in row.percentiles.items())
    medians = [statistics.median(run.steady) for run in each.runs if run.steady]
    if len(medians) > 1:
        yield f"medians of the processes: {_in_one_unit(medians)}"
    yield from accelerator_lines(each.runs)
    if row.speed:
        outlook = row.speed.verdict.outlook
        yield f"{row.speed.verdict.outcome}: {reason(row.speed)}" + (f"; {outlook_text(outlook)}" if outlook else "")
    if row.peak_memory:
        yield f"peak memory of a process {row.peak_memory / 2**30:.2f} GiB"


def _in_one_unit(values: Sequence[float]) -> str:
    """Times in the unit of the largest: ``62.0, 59.2, 74.6 ms``."""
    unit = seconds(max(values)).rpartition(" ")[2]
    factor = {"s": 1.0, "ms": 1e3, "µs": 1e6}[unit]
    return ", ".join(significant(factor * value, 3) for value in values) + f" {unit}"


def _evidence(each: ShownRow) -> Iterator[str]:
    row = each.row
    if row.proof:
        yield row.proof
    if row.canary:
        yield f"canary {row.canary}" + (f": {row.canary_summary}" if row.canary_summary else "")
    if row.agreement:
        yield f"outputs compared with torch in fp32: {row.agreement.summary}"
    if row.valid:
        yield f"predictions {row.valid}" + (f" ({row.valid_detail})" if row.valid_detail else "")
    if row.limit:
        yield row.limit


def _warnings(each: ShownRow) -> Iterator[str]:
    for warning in each.row.warnings:
        yield f"{warning.code}: {warning.message}"
