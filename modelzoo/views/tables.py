"""The tables of a call: its settings, the stages of their pipelines, and the tokens of language models. Pure.

The table of the settings has one row per workload and setting, and is as narrow as what it says allows. If the same two
settings of every workload are compared, it has one row per workload. What all rows share stands above it. A column that
says the same of every row, or that the lines around the table repeat, is left out if the table would be too wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from modelzoo import formatting, stats
from modelzoo.document import Column, Figure, Rows, Section, Table, Tone, known, named
from modelzoo.formatting import MISSING, apart, counted, seconds, share, significant
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.timing import SYNCHRONIZED, Place
from modelzoo.results.parts import SUM_TOLERANCE, DecodingRead, GenerationLevels, PipelineLevels
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import Outcome
from modelzoo.views import differences, proof
from modelzoo.views.differences import UNKNOWN, full_names
from modelzoo.views.judgement import VALIDITY_TONE
from modelzoo.views.speed import interval, is_qualified, outcome_text, rate, ratio, rounded_value

OUTCOME_TONE: dict[Outcome | None, Tone] = {
    **dict.fromkeys((Outcome.FASTER, Outcome.LESS, Outcome.CHEAPER), Tone.BETTER),
    **dict.fromkeys((Outcome.SLOWER, Outcome.MORE, Outcome.DEARER), Tone.WORSE),
    Outcome.SAME: Tone.SAME,
    Outcome.AMBIGUOUS: Tone.OPEN,
    Outcome.NOT_COMPARABLE: Tone.BAD,
}
PROOF = {
    ProofVerdict.WRONG_RESULTS: "WRONG {}",
    ProofVerdict.FP32: "{}",
    ProofVerdict.NOT_FP32: "NOT {}",
    ProofVerdict.ACTIVE: "{}",
    ProofVerdict.PARTLY: "partly {}",
    ProofVerdict.NOT_ACTIVE: "NOT {}",
}
"""What really ran, by the verdict of the audit, as a template for the precision that was asked for."""
FORWARD = "one forward batch"
"""What is timed without stages."""


def table(shown: Sequence[SummaryRow]) -> Table:
    """Return the table; its caption is what all rows share."""
    names = differences.pair_names(shown)
    is_plain = all(_batches(rows) <= 1 for rows in differences.by_workload(shown).values())
    if names is not None and not any(row.spans or row.agreement for row in shown) and is_plain:
        return _table(shown, _pair_columns(shown, *names))
    first = [*_name_columns(shown), *_time_columns(shown)]
    return _table(shown, [*first, *_speed_columns(shown), *_evidence_columns(shown)])


def page_table(shown: Sequence[SummaryRow]) -> Table:
    """Return the table of a page, where the names and the verdict come first: a phone shows them without scrolling."""
    first = [*_name_columns(shown, is_once=False), *_speed_columns(shown, baseline="baseline")[::-1]]
    return _table(shown, [*first, *_time_columns(shown), *_evidence_columns(shown)])


def _table(shown: Sequence[SummaryRow], columns: Sequence[Column]) -> Table:
    compared = sum(row.speed is not None and row.speed.ratio is not None for row in shown)
    note = f"The verdicts are corrected for {compared} comparisons, the intervals of the speedups are not."
    return Table(", ".join(differences.shared(shown)), columns, note if compared > 1 else "", is_brief=True)


def _pair_columns(rows: Sequence[SummaryRow], base: str, other: str) -> list[Column]:
    """A row for each workload, with its two settings side by side."""
    groups = differences.by_workload(rows)
    # A setting that never began has no row.
    of: Rows[tuple[SummaryRow, SummaryRow | None]] = Rows((own[0], (*own, None)[1]) for own in groups.values())
    found = [of.text("model", lambda each: each[0].workload)]
    # What differs between workloads, but not between the two settings of any.
    described = differences.texts(rows)
    for name in differences.varied(rows):
        values: dict[str, set[str]] = {workload: set() for workload in groups}
        for row, each in zip(rows, described):
            values[row.workload] |= {each.get(name, UNKNOWN)} - {UNKNOWN}
        if all(len(each) <= 1 for each in values.values()):
            found.append(Column(name, tuple(next(iter(each), MISSING) for each in values.values())))
    timed = _timed(rows)
    found += [
        of.number(base, lambda each: _latency(each[0]), lambda each: _latency_tone(each[0]), meaning=timed),
        of.number(other, lambda each: _latency(each[1]), lambda each: _latency_tone(each[1])),
        of.number(f"p99 {base}, {other}", _p99, order=0),
        of.number("speedup [95 % CI]", lambda each: ratio(each[1].speed.ratio) if each[1] and each[1].speed else None),
        of.text("verdict", lambda each: _verdict(each[1]) or None, lambda each: _outcome_tone(each[1])),
    ]
    # One cell per workload: what its settings have in common, or one after the other.
    places = [[index for index, row in enumerate(rows) if row.workload == name] for name in groups]
    for column in _evidence_columns(rows):
        said = (dict.fromkeys(column.cells[each] for each in own if column.cells[each] != MISSING) for own in places)
        backwards = ([column.tone(each) for each in own[::-1]] for own in places)
        worst = (next((tone for tone in each if tone is not Tone.PLAIN), Tone.PLAIN) for each in backwards)
        cells = tuple(", ".join(each) or MISSING for each in said)
        found.append(replace(column, cells=cells, tones=tuple(worst)))
    return known(*found)


def _time_columns(rows: Sequence[SummaryRow]) -> list[Column]:
    of, units, batches = Rows(rows), {row.unit for row in rows if row.unit}, _batches(rows)
    title = f"{units.pop()}/s" if len(units) == 1 else "items/s"
    spans = known(
        of.number("issue", lambda row: formatting.seconds(row.spans.issue) if row.spans else None),
        of.number("device time", lambda row: formatting.seconds(row.spans.device) if row.spans else None),
    )
    return [
        of.number("latency", _latency, _latency_tone, meaning=_timed(rows)),
        *spans,
        of.number(
            title,
            lambda row: rounded_value(row.throughput) if row.throughput is not None else None,
            order=None if batches != 1 else 0,  # for one batch size, the latency says the same
            meaning=f"{title}: batch size ÷ mean latency",
        ),
    ]


def _batches(rows: Sequence[SummaryRow]) -> int:
    """Number of different batch sizes."""
    return len({row.batch for row in rows if row.batch})


def _speed_columns(rows: Sequence[SummaryRow], baseline: str = "") -> list[Column]:
    """The speedup and the verdict, that of a baseline being ``baseline``; none if nothing is compared."""
    if not any(row.speed for row in rows):
        return []
    of, title = Rows(rows), "speedup" if _batches(rows) <= 1 else "speedup per item"
    return [
        of.number(title, lambda row: ratio(row.speed.ratio) if row.speed else ""),
        of.text("verdict", lambda row: _verdict(row) or (baseline if row.is_baseline else ""), _outcome_tone),
    ]


def _evidence_columns(rows: Sequence[SummaryRow]) -> list[Column]:
    """What the audit shows unless all rows are proven, and what is known of outputs and predictions."""
    of, error = Rows(rows), "output error: mean error ÷ mean |output| against torch in fp32"

    def fails(row: SummaryRow) -> Tone:
        return Tone.BAD if row.agreement and row.agreement.is_same is False else Tone.PLAIN

    def judged(row: SummaryRow) -> Tone:
        return VALIDITY_TONE.get(row.judged.verdict, Tone.PLAIN) if row.judged else Tone.PLAIN

    ran = of.text("ran in", ran_in, lambda row: Tone.PLAIN if row.is_proven else Tone.BAD, order=2)
    return [
        *([] if all(row.is_proven for row in rows) else [ran]),
        *known(
            of.number("output error", output_error, fails, order=1, meaning=error),
            of.text("accuracy", lambda row: row.judged.verdict if row.judged else None, judged, order=1),
        ),
    ]


def _name_columns(shown: Sequence[SummaryRow], *, is_once: bool = True) -> list[Column]:
    """The workload, named in its first row only if ``is_once``, and what differs between the settings."""
    names = [each.workload for each in shown]
    found = []
    if len(set(names)) > 1:
        is_named = [not (is_once and before == name) for before, name in zip(["", *names], names)]
        found.append(Column("workload", tuple(name if said else "" for said, name in zip(is_named, names))))
    texts = differences.texts(shown)
    for name in differences.varied(shown):
        cells = [values.get(name, UNKNOWN) or MISSING for values in texts]
        found.append(Column(name, tuple(cells), is_number=all(cell.isdigit() or cell == MISSING for cell in cells)))
    return found


def _timed(rows: Sequence[SummaryRow]) -> str:
    of = ", or of ".join(dict.fromkeys(map(timed_unit, rows))) or FORWARD
    return f"latency of {of}: geometric mean of the processes' medians, with its 95 % interval"


# Cells


def timed_unit(row: SummaryRow) -> str:
    """What the latency of a row is the time of."""
    if row.generation is not None:
        return f"one generation of {row.generation.new_tokens} tokens"
    return "one batch through all stages" if row.setting.stages else FORWARD


def ran_in(row: SummaryRow) -> str:
    """The precision that the audit found, in a word or two; without an audit, what the canary showed."""
    if row.proof.verdict is None:
        return f"canary: {proof.canaries(row.proof)}" if row.proof.canaries else MISSING
    return PROOF.get(row.proof.verdict, "unknown").format(row.setting.precision)


def output_error(row: SummaryRow) -> str | None:
    """Mean error ÷ mean |output| against torch in fp32."""
    worst = row.agreement.worst if row.agreement is not None else None
    if worst is None:
        return None
    return "not finite" if worst.relative is None else f"{worst.relative:.1e}"


def _latency(row: SummaryRow | None) -> str | None:
    if row is None:
        return None
    return interval(row.latency) if row.latency else "failed" if row.errors else "not timed"


def _latency_tone(row: SummaryRow | None) -> Tone:
    return Tone.PLAIN if row and row.latency else Tone.BAD


def _p99(rows: Sequence[SummaryRow | None]) -> str | None:
    """Of all samples of each of two settings; not known if either has too few."""
    found = [stats.percentiles(row.samples).get("p99") for row in rows if row and row.samples]
    known = [each for each in found if each is not None]
    return formatting.seconds_together(known) if len(known) == 2 else None


def _verdict(row: SummaryRow | None) -> str:
    return outcome_text(row.speed) if row and row.speed else ""


def _outcome_tone(row: SummaryRow | None) -> Tone:
    if row is None or row.speed is None:
        return Tone.PLAIN
    return Tone.OPEN if is_qualified(row.speed) else OUTCOME_TONE[row.speed.verdict.outcome]


STAGES = (
    "stages of the pipeline: time per batch, the geometric mean of the processes' medians with its 95 % interval; "
    "share of the sum of the stages (in the row of that sum: of the end-to-end time)"
)
"""What the columns mean."""


def stage_section(found: Sequence[PipelineLevels], names: Sequence[str], *figures: Figure) -> Section:
    """The stages of pipelines with these names, and what they show, as a part of a document."""
    said = named((name, text) for name, each in zip(names, found) for text in stage_sentences(each))
    return Section("Stages", (Table("Stages", stage_columns(found), STAGES), said, *figures))


def stage_columns(found: Sequence[PipelineLevels]) -> list[Column]:
    """One row per stage, then their sum and the end-to-end time."""
    rows: list[tuple[str, ...]] = []
    several = [len(set(names)) > 1 for names in zip(*((each.workload, each.label) for each in found))]
    for each in found:
        names = [name if shown else "" for name, shown in zip((each.workload, each.label), several)]
        for stage, level in each.stages.items():
            place = each.device if stage.place is Place.DEVICE else str(stage.place)
            rows.append((*names, stage.name, place, interval(level), share(each.share(stage))))
            names = ["", ""]
        rows.append(("", "", "sum of the stages", "", seconds(each.sum), share(each.sum / each.end_to_end.value)))
        rows.append(("", "", "end to end", "", interval(each.end_to_end), ""))
    titles = ("workload", "setting", "stage", "on", "time", "share")
    return known(*(Column(title, cells, title in titles[-2:]) for title, cells in zip(titles, zip(*rows))))


def stage_sentences(each: PipelineLevels) -> list[str]:
    """The bottleneck, whether the stages add up, of the levels and within each pass, and what timing them costs."""
    slowest = max(each.stages, key=each.share)
    device = "the device (here the CPU)" if each.device == "cpu" else f"{each.device}, gaps between kernels included,"
    rest = sum(each.share(stage) for stage in each.stages if stage.place is Place.HOST)
    said = [
        f"bottleneck: {slowest.name}, {share(each.share(slowest))} of the stages' time; the stages on {device} take "
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
        what = "timestamps between the stages change"
        if each.other_series == SYNCHRONIZED:  # on a CPU, there is nothing to synchronize
            what = "a synchronization after each stage changes"
        said.append(f"{what} the end-to-end time by {percent}")
    return said


TOKENS = "Tokens"


def token_table(shown: Sequence[SummaryRow]) -> Table:
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
    note = f"{' or '.join(made)}; {meanings}; tok/s: of the whole batch"
    if any(each.read for *_, each in of.rows):
        note += "; reads: weights and cache ÷ TPOT, and their share of the bandwidth of a copy"
    return Table(TOKENS, columns, note)


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
