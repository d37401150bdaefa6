"""What ``--details`` adds for each row: its other numbers, its processes, the proof, and every warning. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from modelzoo import stats
from modelzoo.formatting import DIGEST_DIGITS, general, operations, seconds, seconds_together, significant
from modelzoo.records.accelerator import Accelerator, AcceleratorUse, Phase, Reading
from modelzoo.records.run import Run
from modelzoo.results.summary import Spans, SummaryRow, spans_of
from modelzoo.views import proof
from modelzoo.views.differences import merged
from modelzoo.views.generation import between_text, phase_lines, read_text
from modelzoo.views.judgement import validity_detail, validity_text
from modelzoo.views.proof import agreement_text
from modelzoo.views.results_table import interval, rate
from modelzoo.views.speed import outcome_text, outlook_text, reason


def detail_lines(row: SummaryRow) -> list[str]:
    """Return the details of one row, a line for each kind."""
    return [*_times(row), *_evidence(row), *_warnings(row)]


def _times(row: SummaryRow) -> Iterator[str]:
    if row.latency:
        calls = len(row.samples) // max(1, row.processes)
        throughput = f", {rate(row)} {row.unit}/s (batch size ÷ mean latency)" if row.throughput else ""
        yield f"latency {interval(row.latency)}{throughput}; {row.processes} × {calls} samples"
    yield from _first_answer(row)
    percentiles = stats.percentiles(row.samples)
    if len(percentiles) > 1:
        yield "all samples: " + ", ".join(f"{name} {seconds(value)}" for name, value in percentiles.items())
    if row.generation is not None:
        yield between_text(row.generation)
        if row.generation.read is not None:
            yield read_text(row.generation.read, row.setting.device)
    medians = [statistics.median(run.steady) for run in row.runs if run.steady]
    if len(medians) > 1:
        yield f"medians of the processes: {seconds_together(medians)}"
    yield from accelerator_lines(row.runs)
    if row.speed:
        outlook = row.speed.verdict.outlook
        yield f"{outcome_text(row.speed)}: {reason(row.speed)}" + (f"; {outlook_text(outlook)}" if outlook else "")
    if row.peak_memory:
        yield f"peak memory of a process {row.peak_memory / 2**30:.2f} GiB"
    yield from _weights(row)


def _weights(row: SummaryRow) -> Iterator[str]:
    """Their size, and what a static recipe took the ranges from."""
    size = weight_size(row)
    if size is not None:
        yield f"weights {size}"
    if row.first is not None and row.first.calibration_digest is not None:
        yield f"ranges from other inputs of the workload, SHA-256 {row.first.calibration_digest[:DIGEST_DIGITS]}"


def weight_size(row: SummaryRow) -> str | None:
    """The size of the weights as they are stored; ``None`` if it is not known and nothing is quantized."""
    if row.weight_bytes is not None:
        return f"{row.weight_bytes / 2**20:.1f} MiB"
    return "UNKNOWN" if row.first is not None and row.setting.precision == "int8" else None


def _first_answer(row: SummaryRow) -> Iterator[str]:
    """The time to the first output; two times, if some processes found their code compiled in the cache."""
    found = []
    if row.cold_start is not None:
        found.append(seconds(row.cold_start) + (", compiling included" if row.compile_seconds is not None else ""))
    if row.warm_start is not None:
        found.append(f"{seconds(row.warm_start)} with compiled code from the cache")
    if found:
        yield f"first answer after the weights were loaded: {'; '.join(found)}"


def _evidence(row: SummaryRow) -> Iterator[str]:
    said = proof.sentence(row.proof)
    if said is not None:
        yield str(said)
    if row.generation is not None:
        yield from phase_lines(row.generation)
    if row.proof.canary is not None:
        yield f"canary {proof.canaries(row.proof)}: {row.proof.canary.summary}"
    if row.agreement:
        yield f"outputs compared with torch in fp32: {agreement_text([row.agreement])}"
    if row.judged:
        detail = validity_detail(row.judged)
        yield f"accuracy check: {validity_text(row.judged)}" + (f" ({detail})" if detail else "")
    ceiling = ceiling_text(row)
    if ceiling:
        yield ceiling


def _warnings(row: SummaryRow) -> Iterator[str]:
    for found in row.warnings:
        several = f" (in {found.processes} of {found.checked} processes)" if found.processes < found.checked else ""
        message, _ = merged([(row, found.warning)])
        yield f"{found.warning.code}: {message}{several}"


def ceiling_text(row: SummaryRow) -> str:
    """How close a setting came to the machine's measured peak; empty if no operations were counted.

    Operations are counted in one process only, so the first report that has them is used.
    """
    report = next((each for each in row.reports if each.observed.flops is not None), None)
    if report is None or report.observed.flops is None:
        problem = next((each.observed.flops_problem for each in row.reports if each.observed.flops_problem), "")
        return f"operations were not counted: {problem}" if problem else ""
    if not report.observed.flops.total:
        return ""
    counted = f"{operations(report.observed.flops.total)} per batch"
    if report.observed.flops.missing:
        return f"{counted}, without those of {', '.join(report.observed.flops.missing[:3])}, which are not known"
    if report.provenance.machine.emulator:
        return counted
    bound = report.bound
    if bound is None:
        device = report.setting.device
        command, whose = ("", "this machine's") if device == "cpu" else (f" --device {device}", f"{device}'s")
        return f"{counted}; run 'modelzoo doctor{command}' once to compare it with {whose} peak"
    text = f"{counted}, {_visible(bound.gflops)} GFLOP/s"
    if bound.share_of_ceiling is not None:
        whose = "this machine's" if report.accelerator is None else f"{report.accelerator.device.name}'s"
        text += f", {_visible(100 * bound.share_of_ceiling)} % of {whose} measured {bound.precision} peak"
    # What the arithmetic and the memory allow does not bind a call that spends its time launching kernels.
    launching = row.spans is not None and row.spans.bound_by_launching
    return text + (f", {bound.binding.value}-bound" if bound.binding and not launching else "")


def _visible(value: float) -> str:
    """``53``; numbers below 1 to one significant digit."""
    return f"{value:.0f}" if value >= 1 else general(value, 1)


LAUNCH_HINT = "use --mode compile or graph, or a larger --batch"


def accelerator_text(device: Accelerator) -> str:
    """``cuda:0: NVIDIA H100, compute capability 9.0, 80 GiB, driver 550.54, CUDA 12.8``."""
    parts = [
        device.name,
        f"compute capability {device.capability}" if device.capability else "",
        f"{device.memory / 2**30:.0f} GiB" if device.memory else "",
        f"driver {device.driver}" if device.driver else "",
        device.runtime or "",
    ]
    return f"{device.kind}:{device.index}: " + ", ".join(part for part in parts if part)


def lacking(device: Accelerator) -> list[str]:
    """What torch cannot tell of the device, a sentence for each."""
    meaning = {
        "timed events": "no time on the device: its events tell no time, so there are only latency and issue time",
        "memory figures": "no peak memory of the device: torch does not count it",
    }
    return [meaning.get(each, f"no {each}") for each in device.lacks]


def spans_text(spans: Spans) -> str:
    """One sentence on issue and device time, and what binds the call."""
    verb = "issued it, waiting for copies," if spans.waited else "issued it"
    issue = f"the host {verb} in {seconds(spans.issue)}"
    if spans.device is None:
        return f"{issue}; the device's events tell no time"
    said = f"{issue}, the device took {seconds(spans.device)}"
    return f"{said}: launch-bound; {LAUNCH_HINT}" if spans.bound_by_launching else said


def accelerator_lines(runs: Sequence[Run]) -> Iterator[str]:
    """The details of the processes of one setting on an accelerator, a line for each kind."""
    reports = [run.report for run in runs if run.report is not None and run.report.accelerator is not None]
    uses = [report.accelerator for report in reports if report.accelerator is not None]
    if not uses:
        return
    first = uses[0]
    yield accelerator_text(first.device)
    yield from lacking(first.device)
    spans = spans_of(runs)
    if spans is not None:
        yield spans_text(spans)
    peaks = [use.peak_memory for use in uses if use.peak_memory is not None]
    if peaks:
        yield f"peak memory on the device {max(peaks) / 2**30:.2f} GiB"
    yield from _copies(uses)
    yield from _sensors(uses)


def _copies(uses: Sequence[AcceleratorUse]) -> Iterator[str]:
    found = [use.copies for use in uses if use.copies is not None]
    if found:
        there = statistics.median(each.to_device for each in found)
        back = statistics.median(each.to_host for each in found)
        included = "included in the latency" if found[0].included else "not in the latency (--include-copies)"
        yield f"copying the inputs to the device {seconds(there)}, the outputs back {seconds(back)}, {included}"


def _sensors(uses: Sequence[AcceleratorUse]) -> Iterator[str]:
    for problem in dict.fromkeys(problem for use in uses for problem in use.problems):
        yield f"no sensors: {problem}"
    first = uses[0]
    if first.locked_mhz is not None:
        yield f"clocks locked at {first.locked_mhz} MHz"
    phases = [(phase, [each for use in uses for each in use.readings if each.phase is phase]) for phase in Phase]
    said = [f"{phase} {text}" for phase, readings in phases if (text := _readings(readings))]
    if said:
        yield f"{first.sensors}: " + "; ".join(said)
    energies = [use.joules_per_call for use in uses if use.joules_per_call is not None]
    if energies:
        yield f"energy of one forward batch {significant(statistics.median(energies))} J"


def _readings(readings: Sequence[Reading]) -> str:
    """``1410 to 1980 MHz, 310 W, 45 °C``."""
    parts = [
        _range([each.mhz for each in readings], "MHz"),
        _range([each.watts for each in readings], "W"),
        _range([each.celsius for each in readings], "°C"),
    ]
    reasons = dict.fromkeys(reason for each in readings for reason in each.throttled)
    parts += [f"throttled by {', '.join(reasons)}"] if reasons else []
    return ", ".join(part for part in parts if part)


def _range(values: Sequence[float | None], unit: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = f"{min(known):.0f}", f"{max(known):.0f}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
