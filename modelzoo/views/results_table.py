"""The table of a call, one row per workload and setting, as narrow as what it says allows.

If the same two settings of every workload are compared, it has one row per workload. What all rows share stands above
it. A column that says the same of every row, or that the lines around the table repeat, is left out if the table would
be too wide.
"""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo import formatting, stats
from modelzoo.document import Column, Table, Text, Tone
from modelzoo.formatting import MISSING
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results.speed import Speed
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import Outcome
from modelzoo.views import differences, proof
from modelzoo.views.differences import UNKNOWN
from modelzoo.views.intervals import interval, ratio, rounded_value
from modelzoo.views.speed import is_qualified, outcome_text

OUTCOME_TONE = {
    Outcome.FASTER: Tone.BETTER,
    Outcome.LESS: Tone.BETTER,
    Outcome.CHEAPER: Tone.BETTER,
    Outcome.SLOWER: Tone.WORSE,
    Outcome.MORE: Tone.WORSE,
    Outcome.DEARER: Tone.WORSE,
    Outcome.SAME: Tone.SAME,
    Outcome.AMBIGUOUS: Tone.OPEN,
    Outcome.NOT_COMPARABLE: Tone.BAD,
}
VALIDITY_TONE = {
    ValidityVerdict.VALID: Tone.BETTER,
    ValidityVerdict.NOT_VALID: Tone.BAD,
    ValidityVerdict.INCONCLUSIVE: Tone.OPEN,
    ValidityVerdict.CANNOT_JUDGE: Tone.OPEN,
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
    caption = ", ".join(differences.shared(shown))
    return Table(caption, tuple(columns), Text(note) if compared > 1 else None, is_brief=True)


def _pair_columns(rows: Sequence[SummaryRow], base: str, other: str) -> list[Column]:
    """A row for each workload, with its two settings side by side."""
    groups = differences.by_workload(rows)
    # A setting that never began has no row.
    sides = [[*each, None][:2] for each in groups.values()]
    found = [Column("model", tuple(groups))]
    # What differs between workloads, but not between the two settings of any.
    described = differences.texts(rows)
    for name in differences.varied(rows):
        values: dict[str, set[str]] = {workload: set() for workload in groups}
        for row, each in zip(rows, described):
            values[row.workload] |= {each.get(name, UNKNOWN)} - {UNKNOWN}
        if all(len(each) <= 1 for each in values.values()):
            found.append(Column(name, tuple(next(iter(each), MISSING) for each in values.values())))
    for place, name in enumerate((base, other)):
        own = [side[place] for side in sides]
        tones = tuple(_latency_tone(row) if row else Tone.BAD for row in own)
        cells = tuple(_latency(row) if row else MISSING for row in own)
        found.append(Column(name, cells, True, tones=tones, meaning=None if place else _timed(rows)))
    tails = tuple(_p99(rows) for rows in groups.values())
    found.append(Column(f"p99 {base}, {other}", tails, True, order=0))
    speeds = [row.speed if row else None for _, row in sides]
    found.append(Column("speedup [95 % CI]", tuple(ratio(speed.ratio) if speed else MISSING for speed in speeds), True))
    words = tuple(outcome_text(speed) if speed else MISSING for speed in speeds)
    found.append(Column("verdict", words, tones=tuple(map(_outcome_tone, speeds))))
    # One cell per workload: what its settings have in common, or one after the other.
    places = {name: [index for index, row in enumerate(rows) if row.workload == name] for name in groups}
    for column in _evidence_columns(rows):
        said = (
            dict.fromkeys(column.cells[each] for each in own if column.cells[each] != MISSING)
            for own in places.values()
        )
        backwards = ([column.tone(each) for each in own[::-1]] for own in places.values())
        worst = (next((tone for tone in each if tone is not Tone.PLAIN), Tone.PLAIN) for each in backwards)
        cells = tuple(", ".join(each) or MISSING for each in said)
        found.append(replace(column, cells=cells, tones=tuple(worst)))
    return [each for each in found if set(each.cells) != {MISSING}]


def _time_columns(rows: Sequence[SummaryRow]) -> list[Column]:
    tones = tuple(map(_latency_tone, rows))
    found = [Column("latency", tuple(map(_latency, rows)), True, tones=tones, meaning=_timed(rows))]
    spans = [row.spans for row in rows]
    if any(spans):
        found.append(Column("issue", tuple(formatting.seconds(each.issue if each else None) for each in spans), True))
        device = tuple(formatting.seconds(each.device if each else None) for each in spans)
        found.append(Column("device time", device, True))
    # For one batch size, the latency says the same.
    units = {row.unit for row in rows if row.unit}
    title = f"{units.pop()}/s" if len(units) == 1 else "items/s"
    order, mean = None if _batches(rows) != 1 else 0, Text(f"{title}: batch size ÷ mean latency")
    cells = (rounded_value(row.throughput) if row.throughput is not None else MISSING for row in rows)
    return [*found, Column(title, tuple(cells), True, order, meaning=mean)]


def _batches(rows: Sequence[SummaryRow]) -> int:
    """Number of different batch sizes."""
    return len({row.batch for row in rows if row.batch})


def _speed_columns(rows: Sequence[SummaryRow], baseline: str = "") -> list[Column]:
    """The speedup and the verdict, that of a baseline being ``baseline``; none if nothing is compared."""
    if not any(row.speed for row in rows):
        return []
    compared = "speedup" if _batches(rows) <= 1 else "speedup per item"
    words = tuple(outcome_text(row.speed) if row.speed else baseline if row.is_baseline else "" for row in rows)
    return [
        Column(compared, tuple(ratio(row.speed.ratio) if row.speed else "" for row in rows), True),
        Column("verdict", words, tones=tuple(_outcome_tone(row.speed) for row in rows)),
    ]


def _evidence_columns(rows: Sequence[SummaryRow]) -> list[Column]:
    """What the audit shows unless all rows are proven, and what is known of outputs and predictions."""
    found = []
    if not all(row.is_proven for row in rows):
        tones = tuple(Tone.PLAIN if row.is_proven else Tone.BAD for row in rows)
        found.append(Column("ran in", tuple(map(ran_in, rows)), order=2, tones=tones))
    if any(row.agreement for row in rows):
        tones = tuple(Tone.BAD if row.agreement and row.agreement.is_same is False else Tone.PLAIN for row in rows)
        error = Text("output error: mean error ÷ mean |output| against torch in fp32")
        found.append(Column("output error", tuple(map(output_error, rows)), True, 1, tones, error))
    judged = [row.judged.verdict if row.judged else None for row in rows]
    if any(judged):
        words = tuple(each.value if each else MISSING for each in judged)
        tones = tuple(VALIDITY_TONE.get(each, Tone.PLAIN) if each else Tone.PLAIN for each in judged)
        found.append(Column("accuracy", words, order=1, tones=tones))
    return found


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


def _timed(rows: Sequence[SummaryRow]) -> Text:
    timed = dict.fromkeys(timed_unit(row) for row in rows) or {FORWARD: None}
    of = ", or of ".join(timed)
    return Text(f"latency of {of}: geometric mean of the processes' medians, with its 95 % interval")


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


def output_error(row: SummaryRow) -> str:
    """Mean error ÷ mean |output| against torch in fp32."""
    worst = row.agreement.worst if row.agreement is not None else None
    if worst is None:
        return MISSING
    return "not finite" if worst.relative is None else f"{worst.relative:.1e}"


def _latency(row: SummaryRow) -> str:
    return interval(row.latency) if row.latency else "failed" if row.errors else "not timed"


def _p99(rows: Sequence[SummaryRow]) -> str:
    """Of all samples of each of two settings; not known if either has too few."""
    found = [stats.percentiles(row.samples).get("p99") for row in rows if row.samples]
    known = [each for each in found if each is not None]
    return formatting.seconds_together(known) if len(known) == 2 else MISSING


def _outcome_tone(speed: Speed | None) -> Tone:
    if speed is None:
        return Tone.PLAIN
    return Tone.OPEN if is_qualified(speed) else OUTCOME_TONE[speed.verdict.outcome]


def _latency_tone(row: SummaryRow) -> Tone:
    return Tone.PLAIN if row.latency else Tone.BAD
