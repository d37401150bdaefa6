"""What ``--details`` adds for each row: its other numbers, its processes, the proof, every warning, and where a
difference in speed comes from: the operations that changed, with the kernels that ran. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from modelzoo import stats
from modelzoo.comparison.explanations import EVERYTHING_ELSE, Explanation, Part, explained
from modelzoo.document import Lines, Rows, Section, Table, known, lines, named
from modelzoo.formatting import (
    DIGEST_DIGITS,
    MISSING,
    Merged,
    general,
    operations,
    seconds,
    seconds_together,
    share,
    significant,
)
from modelzoo.records.equipment import Accelerator, Reading
from modelzoo.records.run import Run
from modelzoo.results.summary import SummaryRow, spans_of
from modelzoo.setting import launchers
from modelzoo.stats import Outcome
from modelzoo.views import proof
from modelzoo.views.differences import by_workload, merged, short_names
from modelzoo.views.judgement import validity_detail, validity_text
from modelzoo.views.proof import agreement_text
from modelzoo.views.speed import interval, outcome_text, outlook_text, reason, rounded_value
from modelzoo.views.tables import measure_first, phase_lines, read_text


def detail_lines(row: SummaryRow) -> list[str]:
    """Return the details of one row, a line for each kind: its times, its proof, its conditions."""
    return [*_times(row), *_evidence(row)]


def _times(row: SummaryRow) -> Iterator[str]:
    if row.latency:
        rate = f", {rounded_value(row.throughput)} {row.unit}/s (batch size ÷ mean latency)" if row.throughput else ""
        calls = len(row.samples) // max(1, row.processes)
        yield f"latency {interval(row.latency)}{rate}; {row.processes} × {calls} samples"
    # Two times, if some processes found their code compiled in the cache.
    starts = []
    if row.cold_start is not None:
        starts.append(seconds(row.cold_start) + (", compiling included" if row.compile_seconds is not None else ""))
    if row.warm_start is not None:
        starts.append(f"{seconds(row.warm_start)} with compiled code from the cache")
    if starts:
        yield f"first answer after the weights were loaded: {'; '.join(starts)}"
    percentiles = stats.percentiles(row.samples)
    if len(percentiles) > 1:
        yield f"all samples: {percentiles_text(percentiles)}"
    if row.generation is not None:
        yield f"time between two tokens, of all samples: {percentiles_text(row.generation.between)}"
        if row.generation.read is not None:
            yield read_text(row.generation.read, row.setting.device)
    medians = [statistics.median(run.steady) for run in row.runs if run.steady]
    if len(medians) > 1:
        yield f"medians of the processes: {seconds_together(medians)}"
    yield from accelerator_lines(row.runs)
    if row.speed:
        outlook = row.speed.verdict.outlook
        yield f"{outcome_text(row.speed)}: {reason(row.speed)}{f'; {outlook_text(outlook)}' if outlook else ''}"
    if row.peak_memory:
        yield f"peak memory of a process {row.peak_memory / 2**30:.2f} GiB"
    size = weight_size(row)
    if size is not None:
        yield f"weights {size}"
    if row.first is not None and row.first.calibration_digest is not None:
        yield f"ranges from other inputs of the workload, SHA-256 {row.first.calibration_digest[:DIGEST_DIGITS]}"


def percentiles_text(found: Mapping[str, float]) -> str:
    """``p50 40.80 ms, p90 42.84 ms``."""
    return ", ".join(f"{name} {seconds(value)}" for name, value in found.items())


def weight_size(row: SummaryRow) -> str | None:
    """The size of the weights as they are stored; ``None`` if it is not known and nothing is quantized."""
    if row.weight_bytes is not None:
        return f"{row.weight_bytes / 2**20:.1f} MiB"
    return "UNKNOWN" if row.first is not None and row.setting.precision == "int8" else None


def _evidence(row: SummaryRow) -> Iterator[str]:
    said = proof.sentence(row.proof)
    if said is not None:
        yield said
    if row.generation is not None:
        yield from phase_lines(row.generation)
    if row.proof.canary is not None:
        yield f"canary {proof.canaries(row.proof)}: {row.proof.canary.summary}"
    if row.agreement:
        yield f"outputs compared with torch in fp32: {agreement_text([row.agreement])}"
    if row.judged:
        detail = validity_detail(row.judged)
        yield f"accuracy check: {validity_text(row.judged)}{f' ({detail})' if detail else ''}"
    if ceiling := ceiling_text(row):
        yield ceiling
    for found in row.warnings:
        several = f" (in {found.processes} of {found.checked} processes)" if found.processes < found.checked else ""
        message, _ = merged([(row, found.warning)])
        yield f"{found.warning.code}: {message}{several}"


def ceiling_text(row: SummaryRow) -> str:
    """How close a setting came to the machine's measured peak; empty if no operations were counted.

    Operations are counted in one process only, so the first report that has them is used.
    """
    report, flops = next(((each, found) for each in row.reports if (found := each.observed.flops)), (None, None))
    if report is None or flops is None:
        problem = next((each.observed.flops_problem for each in row.reports if each.observed.flops_problem), "")
        return f"operations were not counted: {problem}" if problem else ""
    if not flops.total:
        return ""
    counted = f"{operations(flops.total)} per batch"
    if flops.missing:
        return f"{counted}, without those of {', '.join(flops.missing[:3])}, which are not known"
    bound = report.bound
    if report.provenance.machine.emulator or (bound is None and report.ceilings is not None):
        return counted  # of instances, whose table has a column for it
    if bound is None:
        return f"{counted}; {measure_first(report.setting.device, 'peak')}"
    text = f"{counted}, {_visible(bound.gflops)} GFLOP/s"
    if bound.share_of_ceiling is not None:
        whose = "this machine's" if report.accelerator is None else f"{report.accelerator.device.name}'s"
        text += f", {_visible(100 * bound.share_of_ceiling)} % of {whose} measured {bound.precision} peak"
    # What the arithmetic and the memory allow does not bind a call that spends its time launching kernels.
    launching = row.spans is not None and row.spans.bound_by_launching
    return text + (f", {bound.binding}-bound" if bound.binding and not launching else "")


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
    return f"{device.kind}:{device.index}: {', '.join(filter(None, parts))}"


def lacking(device: Accelerator) -> list[str]:
    """What torch cannot tell of the device, a sentence for each."""
    meaning = {
        "timed events": "no time on the device: its events tell no time, so there are only latency and issue time",
        "memory figures": "no peak memory of the device: torch does not count it",
    }
    return [meaning.get(each, f"no {each}") for each in device.lacks]


def accelerator_lines(runs: Sequence[Run]) -> Iterator[str]:
    """The details of the processes of one setting on an accelerator, a line for each kind."""
    uses = [run.report.accelerator for run in runs if run.report is not None and run.report.accelerator is not None]
    if not uses:
        return
    first = uses[0]
    yield accelerator_text(first.device)
    yield from lacking(first.device)
    spans = spans_of(runs)
    if spans is not None:
        waited = ", waiting for copies," if spans.waited else ""
        took = "the device's events tell no time"
        device = took if spans.device is None else f"the device took {seconds(spans.device)}"
        launching = f": launch-bound; {LAUNCH_HINT}" if spans.bound_by_launching else ""
        yield f"the host issued it{waited} in {seconds(spans.issue)}, {device}{launching}"
    peaks = [use.peak_memory for use in uses if use.peak_memory is not None]
    if peaks:
        yield f"peak memory on the device {max(peaks) / 2**30:.2f} GiB"
    copies = [use.copies for use in uses if use.copies is not None]
    if copies:
        there, back = (statistics.median(each) for each in zip(*((each.to_device, each.to_host) for each in copies)))
        included = "included in the latency" if copies[0].included else "not in the latency (--include-copies)"
        yield f"copying the inputs to the device {seconds(there)}, the outputs back {seconds(back)}, {included}"
    for problem in dict.fromkeys(problem for use in uses for problem in use.problems):
        yield f"no sensors: {problem}"
    if first.locked_mhz is not None:
        yield f"clocks locked at {first.locked_mhz} MHz"
    phases = [
        (phase, [each for use in uses for each in use.readings if each.phase == phase])
        for phase in ("before", "warm-up", "steady", "after")
    ]
    said = [f"{phase} {text}" for phase, readings in phases if (text := _readings(readings))]
    if said:
        yield f"{first.sensors}: " + "; ".join(said)
    energies = [use.joules_per_call for use in uses if use.joules_per_call is not None]
    if energies:
        yield f"energy of one forward batch {significant(statistics.median(energies))} J"


def _readings(readings: Sequence[Reading]) -> str:
    """``1410 to 1980 MHz, 310 W, 45 °C``."""
    parts = []
    for unit, name in (("MHz", "mhz"), ("W", "watts"), ("°C", "celsius")):
        known = [value for each in readings if (value := getattr(each, name)) is not None]
        parts += [f"{Merged(known):.0f} {unit}"] if known else []
    reasons = dict.fromkeys(reason for each in readings for reason in each.throttled)
    return ", ".join([*parts, *([f"throttled by {', '.join(reasons)}"] if reasons else [])])


NAMED_PARTS = 3
"""A sentence names up to this many operations."""
NAMED_SHARE = 0.1
"""Operations that changed by less than this fraction of the difference are not in a sentence."""
NAMED_ROWS = 4
"""Rows that are explained without ``--details``."""


def explanations(shown: Sequence[SummaryRow]) -> Iterator[tuple[SummaryRow, tuple[str, str], Explanation]]:
    """Yield the rows of a call that are faster or slower than their baselines, both names, and what explains it."""
    for workload, rows in by_workload(shown).items():
        names = short_names(rows)
        for base_name, base in [(name, row) for name, row in zip(names, rows) if row.is_baseline]:
            for name, row in zip(names, rows):
                if row.speed is not None and row.speed.verdict.outcome in (Outcome.FASTER, Outcome.SLOWER):
                    found = explained(workload, name, base.reports, row.reports)
                    if found is not None:
                        yield row, (base_name, name), found


def brief_explanations(shown: Sequence[SummaryRow]) -> Lines:
    """Return a sentence for each row that is slower, or that another release, image or engine made faster.

    That another precision or mode is faster is what it is used for; its operations are details.
    """
    several, software = len(by_workload(shown)) > 1, (*launchers(), "engine")
    bases = {row.workload: row.setting for row in shown if row.is_baseline}
    said = [
        (f"{row.workload} {name}" if several else name, explanation_sentence(found))
        for row, (_, name), found in explanations(shown)
        if (row.speed is not None and row.speed.verdict.outcome is Outcome.SLOWER)
        or any(getattr(row.setting, field) != getattr(bases[row.workload], field) for field in software)
    ]
    more = [(f"{len(said) - NAMED_ROWS} more", "--details")] if len(said) > NAMED_ROWS else []
    return named([*said[:NAMED_ROWS], *more], title="Operations that changed most")


def explanation_sentence(found: Explanation) -> str:
    """The operations that changed most, the largest change first, with the kernels of both sides.

    ``audited passes +312.0 ms, timed +298.1 ms; linear: kernels +310.2 ms (brg_matmul:avx10_1_512 → ref:any)``
    """
    change, timed = found.other - found.base, found.other_timed - found.base_timed
    intro = f"{found.source} passes {signed(change)}, timed {signed(timed)}"
    if change * timed <= 0:
        return f"{intro}: they do not explain the difference"
    parts = [
        part
        for part in found.parts
        if part.name != EVERYTHING_ELSE and abs(part.change) >= NAMED_SHARE * abs(change) and part.change
    ][:NAMED_PARTS]
    if not parts:
        return f"{intro}; no operation changed by {share(NAMED_SHARE, 0)} of that"
    said = [intro]
    for part in parts:
        same = " (same kernels)" if part.base_kernels else ""
        kernels = same if part.base_kernels == part.other_kernels else f" ({_kernels(part)})"
        said.append(f"{part.name} {signed(part.change)}{kernels}")
    return "; ".join(said)


def explanation(found: Explanation, names: tuple[str, str], *, is_decided: bool = True) -> Section:
    """Return the operations of both sides as a table, the largest change first, and what their sum explains.

    That is how much longer or shorter the audited or profiled passes were than the timed ones.

    Args:
        found: the explanation.
        names: of the baseline and of the other side.
        is_decided: whether there is a significant difference, so that there is something to explain.
    """
    row = f"{found.workload} {found.label}"
    title = f"Where the difference of {row} comes from" if is_decided else f"Operations of {row} on both sides"
    said = []
    for name, passed, timed, count in (
        (names[0], found.base, found.base_timed, found.base_passes),
        (names[1], found.other, found.other_timed, found.other_passes),
    ):
        passes = f"{count} {found.source} pass{'es' if count > 1 else ''} of {seconds(passed)}"
        slower = f"{share(abs(passed / timed - 1), 0)} {'more' if passed >= timed else 'less'}"
        said.append(f"{name}: {passes}, {slower} than the timed ones ({seconds(timed)} as measured)")
    change, timed = found.other - found.base, found.other_timed - found.base_timed
    part = f"They differ by {signed(change)} "
    if change * timed > 0:
        part = f"{part[:-1]}, {share(change / timed, 0)} of the timed difference ({signed(timed)}). "
    else:
        part += f"and the timed ones by {signed(timed)}, so they do not explain the timed difference. "
    text = f"{said[0]}; {said[1]}. {part if is_decided else ''}A single operation's time has no interval."
    of = Rows((*found.parts, Part("sum", found.base, found.other)))
    columns = known(
        of.text("operation", lambda part: part.name),
        of.number(names[0], lambda part: seconds(part.base)),
        of.number(names[1], lambda part: seconds(part.other)),
        of.number("change", lambda part: signed(part.change)),
        of.text("kernels", _kernels),
    )
    return Section(title, (lines(text), Table(title, columns, wraps=True)))


def signed(value: float) -> str:
    """A time with its sign. Less than a nanosecond is what rounding leaves of a sum."""
    rounded = round(value, 9)
    return f"{'+' if rounded >= 0 else '−'}{seconds(abs(rounded))}"


def _kernels(part: Part) -> str:
    """The kernels of an operation; of both sides if they differ."""
    here, there = (", ".join(each) or MISSING for each in (part.base_kernels, part.other_kernels))
    if here == there:
        return "" if here == MISSING else here
    return f"{here} → {there}"
