"""What is said of accelerators: which one ran, the three spans of a call, its clocks, and what it lacks. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Optional

from modelzoo.formatting import seconds, significant
from modelzoo.records.accelerator import Accelerator, AcceleratorUse, Phase, Reading
from modelzoo.records.run import Run
from modelzoo.results.spans import Spans, spans_of

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
    issue = f"the host issued it in {seconds(spans.issue)}"
    if spans.device is None:
        return f"{issue}; the device's events tell no time"
    said = f"{issue}, the device took {seconds(spans.device)}"
    return f"{said}: bound by launching; {LAUNCH_HINT}" if spans.bound_by_launching else said


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


def _range(values: Sequence[Optional[float]], unit: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = f"{min(known):.0f}", f"{max(known):.0f}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
