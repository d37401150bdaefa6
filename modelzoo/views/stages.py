"""The stages of pipelines, and the tokens of language models, as tables and in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from modelzoo.document import Column, Figure, Rows, Section, Table, known, named
from modelzoo.formatting import MISSING, apart, counted, seconds, share, significant
from modelzoo.records.timing import SYNCHRONIZED, Place
from modelzoo.results.parts import SUM_TOLERANCE, DecodingRead, GenerationLevels, PipelineLevels
from modelzoo.results.summary import SummaryRow
from modelzoo.views import proof
from modelzoo.views.differences import full_names
from modelzoo.views.intervals import interval, rate, rounded_value

END_TO_END, SUM = "end to end", "sum of the stages"
CPU = "cpu"
CAPTION = (
    "stages of the pipeline: time per batch, the geometric mean of the processes' medians with its 95 % interval; "
    "share of the sum of the stages (in the row of that sum: of the end-to-end time)"
)
"""What the columns mean."""


def section(found: Sequence[PipelineLevels], names: Sequence[str], *figures: Figure) -> Section:
    """The stages of pipelines with these names, and what they show, as a part of a document."""
    said = named((name, text) for name, each in zip(names, found) for text in sentences(each))
    return Section("Stages", (Table("Stages", columns(found), CAPTION), said, *figures))


def columns(found: Sequence[PipelineLevels]) -> list[Column]:
    """One row per stage, then their sum and the end-to-end time."""
    rows: list[tuple[str, ...]] = []
    several = [len(set(names)) > 1 for names in zip(*((each.workload, each.label) for each in found))]
    for each in found:
        names = [name if shown else "" for name, shown in zip((each.workload, each.label), several)]
        for level in each.stages:
            place = each.device if level.stage.place is Place.DEVICE else str(level.stage.place)
            rows.append((*names, level.stage.name, place, interval(level.seconds), share(level.share)))
            names = ["", ""]
        rows.append(("", "", SUM, "", seconds(each.sum), share(each.sum / each.end_to_end.value)))
        rows.append(("", "", END_TO_END, "", interval(each.end_to_end), ""))
    titles = ("workload", "setting", "stage", "on", "time", "share")
    return known(*(Column(title, cells, title in titles[-2:]) for title, cells in zip(titles, zip(*rows))))


def sentences(each: PipelineLevels) -> list[str]:
    """The bottleneck, whether the stages add up, of the levels and within each pass, and what timing them costs."""
    slowest = max(each.stages, key=lambda level: level.seconds.value)
    device = "the device (here the CPU)" if each.device == CPU else f"{each.device}, gaps between kernels included,"
    rest = sum(level.share for level in each.stages if level.stage.place is Place.HOST)
    said = [
        f"bottleneck: {slowest.stage.name}, {share(slowest.share)} of the stages' time; the stages on {device} take "
        f"{share(each.device_share)} of the time, those on the host {share(rest)}"
    ]
    levels = f"the stages add up to {share(each.sum / each.end_to_end.value)} of the end-to-end time"
    if each.adds_up:
        said.append(levels)
    elif abs(each.within_passes - 1) > SUM_TOLERANCE:
        nearest = 1 + math.copysign(SUM_TOLERANCE, each.within_passes - 1)
        within, _ = apart(each.within_passes, nearest, digits=1, show=share)
        said.append(
            f"the stages add up to {within} of the end-to-end time of a pass, which is more than "
            f"{share(SUM_TOLERANCE, 0)} off: some work is in no stage, or a stage is declared in the wrong place"
        )
    else:
        said.append(
            f"{levels}, although to {share(each.within_passes)} within each pass: the times scatter too much for "
            "medians to add up; measure longer"
        )
    cost = each.timing_cost
    if cost is not None:
        low, value, high = (100 * (bound - 1) for bound in (cost.low, cost.value, cost.high))
        percent = f"{value:+.1f} %" + (f" [{low:+.1f}, {high:+.1f}]" if cost.half_width < 1 else "")
        # On a CPU, there is nothing to synchronize.
        is_synchronized = each.other_series == SYNCHRONIZED
        what = "a synchronization after each stage changes"
        what = what if is_synchronized else "timestamps between the stages change"
        said.append(f"{what} the end-to-end time by {percent}")
    return said


TOKENS = "Tokens"
READS = "reads: weights and cache ÷ TPOT, and their share of the bandwidth of a copy"


def tokens(shown: Sequence[SummaryRow]) -> Table:
    """One row for each setting that generates tokens; none of them, no rows."""
    names = full_names(shown, with_workload=False)
    of = Rows((row.workload, name, row.generation) for row, name in zip(shown, names) if row.generation is not None)
    several = len({workload for workload, *_ in of.rows}) > 1
    columns = known(
        of.text("workload", lambda row: row[0] if several else None),
        of.text("setting", lambda row: row[1]),
        of.number("TTFT", lambda row: interval(row[2].first_token)),
        of.number("TPOT", lambda row: interval(row[2].per_token)),
        of.number("prefill tok/s", lambda row: rate(row[2].prefill_rate)),
        of.number("decode tok/s", lambda row: rate(row[2].decode_rate)),
        of.number("output tok/s", lambda row: rate(row[2].output_rate)),
        of.number("reads GB/s", lambda row: _read(row[2])),
    )
    made = dict.fromkeys(
        f"prompt of {counted(each.prompt_tokens, 'token')}, {each.new_tokens} new ones, batch {each.batch}"
        for *_, each in of.rows
    )
    meanings = "TTFT: time to the first token, with the prefill; TPOT: mean time of each other token"
    reads = f"; {READS}" if any(each.read for *_, each in of.rows) else ""
    return Table(TOKENS, columns, f"{' or '.join(made)}; {meanings}; tok/s: of the whole batch{reads}")


def _read(found: GenerationLevels) -> str:
    """``12.6 (61 %)``: what decoding reads, and its share of the bandwidth."""
    if found.read is None:
        return MISSING
    reached, part = found.read.gigabytes_per_second, found.read.share
    return rounded_value(reached) + ("" if part is None else f" ({share(part, 0)})")


def read_text(found: DecodingRead, device: str) -> str:
    """What a step reads, and how that compares with what a copy moves."""
    reached = significant(found.gigabytes_per_second.value, 3)
    weights, cache = f"{found.found.weights / 1e6:.0f} MB of weights", f"{found.found.cache / 1e6:.1f} MB of cache"
    said = f"a step of decoding reads {weights} and {cache} at least: {reached} GB/s"
    if found.bandwidth is None or found.share is None:
        return f"{said}; {measure_first(device, 'bandwidth')}"
    copied = significant(found.bandwidth, 3)
    return f"{said}, {share(found.share, 0)} of the {copied} GB/s that a copy reads and writes here"


def measure_first(device: str, limit: str) -> str:
    """What has to be measured before a speed can be compared with a limit of the device."""
    command, whose = ("", "this machine's") if device == "cpu" else (f" --device {device}", f"{device}'s")
    return f"run 'modelzoo doctor{command}' once to compare it with {whose} {limit}"


def phase_lines(found: GenerationLevels) -> Iterator[str]:
    """What proves the precision of each phase, and how close the prefill came to the peak."""
    for phase in found.phases:
        if phase.evidence is not None:
            yield f"{phase.name}: {proof.audit(phase.evidence)}"
        elif phase.evidence_problem:
            yield f"{phase.name}: {phase.evidence_problem}"
    if found.prefill_gflops is not None:
        reached = found.prefill_gflops.value
        said = f"prefill: {significant(reached, 3)} GFLOP/s"
        yield said + (f", {share(reached / found.prefill_peak, 0)} of the measured peak" if found.prefill_peak else "")
