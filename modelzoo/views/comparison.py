"""What is said of a comparison: its headline, its tables as columns, its notes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from modelzoo import stats
from modelzoo.comparison.compare import Comparison, Gate, is_complete, share_sessions
from modelzoo.comparison.estimate import Row, StoredResult
from modelzoo.comparison.machines import AssumedCores, Cost, Extrapolation, Rates, RowRates
from modelzoo.document import Column, Line, Lines, Rows, Tone, first_line
from modelzoo.formatting import MISSING, counted, significant
from modelzoo.frozen import replace
from modelzoo.results.refusals import Metric, Obstacle, SideSetting
from modelzoo.stats import Basis, Doubt, Outcome, Ratio, Verdict
from modelzoo.views import throughput
from modelzoo.views.judgement import reason_text, scope_text, validity_text
from modelzoo.views.speed import (
    UNPROVEN,
    interval,
    is_qualified,
    outcome_text,
    ratio,
    reason,
    refusal,
    several,
    subject,
    verdict_reason,
    within,
)
from modelzoo.views.tables import OUTCOME_TONE

Priced = TypeVar("Priced", RowRates, Cost)
NOTHING = "~"
"""Shown in place of a ratio if the sides cannot be compared."""
ASSUMED = "*"
"""Marks a number that was not measured, but extrapolated."""
MOST_VALUES = 3
"""The most values of a condition that are listed."""
_TONES = {
    **dict.fromkeys((Outcome.SLOWER, Outcome.MORE), Tone.WORSE),
    **dict.fromkeys((Outcome.AMBIGUOUS, Outcome.NOT_COMPARABLE), Tone.OPEN),
    **dict.fromkeys((Outcome.FASTER, Outcome.LESS), Tone.BETTER),
}
"""Of the headline, by the first of these outcomes that a row has."""
COSTS = {
    Outcome.CHEAPER: "{1} is cheaper than {0}",
    Outcome.DEARER: "{1} is dearer than {0}",
    Outcome.SAME: "{1} and {0} cost the same",
    Outcome.AMBIGUOUS: "no significant difference in cost between {1} and {0}",
}


def row_columns(comparison: Comparison, marks: Mapping[int, str]) -> list[Column]:
    """Return the table of verdicts, one row per workload and setting, and the geometric mean as the last.

    Args:
        comparison: at least one row.
        marks: of footnotes, by the index of the row.
    """
    rows, metric = comparison.rows, comparison.metric
    cells: list[tuple[str, ...]] = []
    tones = [OUTCOME_TONE[row.outcome] for row in rows]
    for index, row in enumerate(rows):
        is_named = not index or rows[index - 1].workload != row.workload
        is_assumed = row.speed.found is not None and row.speed.found.basis is Basis.ASSUMED
        verdict = " ".join(
            filter(None, (outcome_text(row.speed), "(assumed)" if is_assumed else "", marks.get(index, "")))
        )
        values = (value_text(each, metric) for each in (row.base_value, row.other_value))
        compared = ratio(row.ratio) if row.ratio is not None else NOTHING
        cells.append((row.workload if is_named else "", row.setting, *values, compared, verdict))
    if comparison.mean is not None and sum(row.ratio is not None for row in rows) > 1:
        cells.append(("geometric mean", "", "", "", ratio(comparison.mean), ""))
        tones.append(Tone.PLAIN)
    titles = ("workload", "setting", comparison.base.name, comparison.other.name, "ratio", "verdict")
    workloads, settings, *numbers, verdicts = map(Column, titles, zip(*cells))
    return [
        workloads,
        settings,
        *(replace(each, is_number=True) for each in numbers),
        replace(verdicts, tones=tuple(tones)),
    ]


def value_text(value: stats.Interval | None, metric: Metric) -> str:
    """A level with the relative half width of its own interval, in a suitable unit."""
    if value is None:
        return MISSING
    if metric is Metric.THROUGHPUT:
        return f"{significant(value.value)}/s {within(value)}"
    if metric is Metric.MEMORY:
        return f"{significant(value.value / 1e6)} MB {within(value)}"
    return interval(value)


def difference_columns(comparison: Comparison) -> list[Column]:
    """Return what differs between the sides, the most decisive first."""
    of = Rows(comparison.conditions.differing)
    concerns = of.text("concerns", lambda each: ", ".join(each.rows) or "all rows")
    return [
        of.text("", lambda each: each.name),
        of.text(comparison.base.name, lambda each: values_text(each.base)),
        of.text(comparison.other.name, lambda each: values_text(each.other)),
        *([concerns] if any(each.rows for each in of.rows) else []),
    ]


def values_text(values: Sequence[str]) -> str:
    """The values of a condition, the first ones if there are many: inputs may be others in every process."""
    more = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
    return f"{', '.join(values[:MOST_VALUES])}{more}" or "unknown"


def stage_columns(comparison: Comparison) -> list[Column]:
    """Return the stages of all rows that have any: seconds on both sides, and their ratio; no verdicts."""
    rows = [comparison.rows[each.row] for each in comparison.stages]
    of, named = Rows(comparison.stages), Rows(zip(rows, (None, *rows)))
    return [
        named.text("workload", lambda pair: pair[0].workload if pair[0] is not pair[1] else ""),
        named.text("setting", lambda pair: pair[0].setting if pair[0] is not pair[1] else ""),
        of.text("stage", lambda each: each.name),
        of.number(comparison.base.name, lambda each: interval(each.base)),
        of.number(comparison.other.name, lambda each: interval(each.other)),
        of.number("ratio", lambda each: ratio(each.ratio) if each.ratio else NOTHING),
    ]


def rate_columns(rates: Sequence[RowRates], names: tuple[str, str]) -> list[Column]:
    """Return the throughput per machine, physical core and vCPU of both sides; ``*`` marks what was not measured."""
    of, base, other = Rows(rates), Rows(each.base for each in rates), Rows(each.other for each in rates)
    levels: tuple[tuple[str, Callable[[Rates], str]], ...] = (
        ("machine", lambda each: _level(each.machine, each.extrapolated)),
        ("core", lambda each: _level(each.core, each.extrapolated or each.assumed)),
        ("vCPU", lambda each: _level(each.vcpu, each.extrapolated)),
    )
    return [
        *_settings(of),
        of.text("unit", lambda each: f"{each.unit}/s"),
        *(
            side.number(f"{name} per {level}", text)
            for level, text in levels
            for side, name in zip((base, other), names)
        ),
    ]


def _settings(of: Rows[Priced]) -> list[Column]:
    """What each row is of."""
    return [of.text("workload", lambda each: each.workload), of.text("setting", lambda each: each.label)]


def _level(value: stats.Interval | None, assumed: Extrapolation | AssumedCores | None, currency: str = "") -> str:
    unit = f" {currency}" if currency else ""
    return MISSING if value is None else f"{significant(value.value, 3)}{unit} {within(value)}{_mark(assumed)}"


def _mark(assumed: Extrapolation | AssumedCores | None) -> str:
    return f" {ASSUMED}" if assumed is not None else ""


def alone_columns(rows: Sequence[Row], costs: Sequence[Cost]) -> list[Column]:
    """Return the ratios of the sessions alone, with their verdicts, also in money if there are some on that."""
    of, alone = Rows(rows), Rows(row.alone for row in rows if row.alone is not None)
    priced = {(each.workload, each.label): each for each in costs if each.alone is not None}
    columns = [
        of.text("workload", lambda row: row.workload),
        of.text("setting", lambda row: row.setting),
        alone.number("ratio", lambda each: ratio(each.ratio) if each.ratio else NOTHING),
        alone.text(
            "verdict",
            lambda each: outcome_text(each) if each.ratio else f"none: {reason(each)}",
            lambda each: OUTCOME_TONE[each.verdict.outcome],
        ),
    ]
    found = Rows(priced.get((row.workload, row.setting)) for row in rows)
    cheaper = found.number("times cheaper", lambda each: ratio(each.alone) if each else NOTHING)
    verdicts = found.text(
        "verdict on cost",
        lambda each: cost_verdict(each.alone_outcome, False, each.is_unproven) if each else None,
        lambda each: OUTCOME_TONE.get(each.alone_outcome if each else None, Tone.PLAIN),
    )
    return [*columns, cheaper, verdicts] if priced else columns


def cost_verdict(outcome: Outcome | None, is_assumed: bool, is_unproven: bool) -> str:
    """A verdict on cost, and whether it is assumed, and on sides that are not proven."""
    if outcome is None:
        return MISSING
    unproven = UNPROVEN if is_unproven and outcome is not Outcome.AMBIGUOUS else ""
    return f"{outcome}{' (assumed)' if is_assumed else ''}{unproven}"


def cost_columns(costs: Sequence[Cost], names: tuple[str, str]) -> list[Column]:
    """Return the cost of a million items on both sides, with verdicts if there are any; ``*`` marks what was not
    measured."""
    of = Rows(costs)
    columns = [
        *_settings(of),
        of.number(names[0], lambda each: _level(each.base, each.base_extrapolated, each.base_price.currency)),
        of.number(names[1], lambda each: _level(each.other, each.other_extrapolated, each.other_price.currency)),
        of.number(
            "times cheaper",
            lambda each: ratio(each.ratio) + _mark(each.base_extrapolated or each.other_extrapolated),
        ),
    ]
    verdicts = of.text(
        "verdict on cost",
        lambda each: cost_verdict(each.outcome, each.is_assumed, each.is_unproven),
        lambda each: OUTCOME_TONE.get(each.outcome, Tone.PLAIN),
    )
    return [*columns, verdicts] if any(each.outcome for each in costs) else columns


def extrapolation_text(found: Extrapolation | None) -> str:
    """What is assumed because a run did not use the whole machine; empty if it did."""
    if found is None:
        return ""
    if isinstance(found, str):
        return f"ran on {found}; the machine is assumed to have no other such device"
    return (
        f"used {found.used:g} of {found.cores} cores; other processes on the idle cores are assumed to be as fast, "
        "although they would share caches, memory bandwidth and power"
    )


def cores_text(found: AssumedCores | None) -> str:
    """What is assumed of a machine's physical cores; empty if their number is known."""
    if found is None:
        return ""
    return (
        f"{counted(found.vcpus, 'vCPU')} per physical core, as usual for {found.architecture}; "
        "the virtual machine does not show it"
    )


def accuracy(side: SideSetting, judged: Sequence[StoredResult] = ()) -> str:
    """What the judgement of a setting says, or why none of those in ``judged`` is one of it."""
    entry = side.validity
    if entry is not None and entry.report is not None:
        found = entry.report.validity
        return "; ".join(filter(None, (validity_text(entry), reason_text(found), scope_text(found))))
    if entry is not None:
        return f"could not be judged: {entry.error}"
    if side.requested == side.requested.reference():
        return "fp32 in eager mode is what other settings are judged against"
    if judged:
        beside = ", ".join(each.path for each in judged)
        return f"not judged by {beside}: another workload or setting, other weights, another machine or another torch"
    return "not judged; name a result of 'modelzoo validate' beside it: NAME=throughput.json,validate.json"


def headline(comparison: Comparison) -> Lines:
    """Return how many rows are faster or slower, and what that rests on."""
    base, other, rows = comparison.base.name, comparison.other.name, comparison.rows
    compared = [row for row in rows if row.ratio is not None]
    against = [each for row in rows for each in (*row.speed.refused, *row.speed.allowed)]
    wrong = [each for each in against if each.obstacle is Obstacle.WRONG]
    if wrong and compared:
        return first_line(refusal(wrong[0]), Tone.BAD)
    if not compared:
        whys = Counter(text for row in rows for text in _notes_of(row, ()))
        said = f"{other} is not comparable with {base}" + "".join(f": {text}" for text, _ in whys.most_common(1))
        said += "".join(f"; {text}" for text in _unfinished(comparison))
        return first_line(said, Tone.BAD)
    if len(rows) == 1:
        clauses = []
        for cost in comparison.costs:
            if cost.outcome is not None:
                unproven = UNPROVEN if cost.is_unproven and cost.outcome is not Outcome.AMBIGUOUS else ""
                clauses.append(f"{COSTS[cost.outcome].format(base, other)}: {ratio(cost.ratio)}{unproven}")
        unproven = UNPROVEN if is_qualified(rows[0].speed) else ""
        clauses.append(f"{subject(base, other, rows[0].outcome)}{_shown_ratio(rows[0])}{unproven}")
        said = f"{rows[0].name}: {'; '.join(clauses)}"
    else:
        said = several(base, other, [row.speed for row in rows], "rows")
    if comparison.mean is not None and len(compared) > 1:
        said += f"; geometric mean {ratio(comparison.mean)}"
    if any(each.basis is Basis.ASSUMED for each in ratios_by_name(comparison).values()):
        said += "; too few sessions, so how much they differ is ASSUMED"
    alone = rows[0].alone if len(rows) == 1 else None
    if alone is not None and alone.ratio is not None:
        said += f"; in these sessions alone {outcome_text(alone)}, {ratio(alone.ratio)}"
        in_cost = [f" and in cost {each.alone_outcome}, {ratio(each.alone)}" for each in comparison.costs if each.alone]
        said += "".join(in_cost)
    said += "".join(f"; accuracy of {each}" for each in throughput.not_valid(rows[0]))
    outcomes = {row.outcome for row in rows}
    return first_line(said, next((tone for each, tone in _TONES.items() if each in outcomes), Tone.SAME))


def footnotes(comparison: Comparison) -> tuple[list[Line], dict[int, str]]:
    """Return the footnotes, each with its mark, and the marks of each row; equal notes are one."""
    numbers: dict[str, int] = {}
    marks: dict[int, str] = {}
    by_chance = [row.speed.verdict for row in comparison.rows if row.speed.verdict.doubt is Doubt.CHANCE]
    for index, row in enumerate(comparison.rows):
        texts = _notes_of(row, by_chance)
        for text in texts:
            numbers.setdefault(text, len(numbers) + 1)
        marks[index] = " ".join(f"[{numbers[text]}]" for text in texts)
    return [Line(text, mark=f"[{number}]") for text, number in numbers.items()], marks


def _notes_of(row: Row, by_chance: Sequence[Verdict]) -> list[str]:
    """Why a row has no clear verdict, and what was let through.

    Args:
        row: it. What its verdict rests on stands in the legend.
        by_chance: the verdicts of all rows that may differ by chance, for which one sentence is enough.
    """
    verdict, whys = row.speed.verdict, [refusal(each) for each in row.speed.refused]
    if row.outcome is Outcome.AMBIGUOUS:
        alike = sorted(by_chance, key=lambda each: each.p_value or 0.0) if verdict in by_chance else [verdict]
        whys = [verdict_reason(alike[0], alike[-1].p_value or 0.0)]
    return [*whys, *(f"allowed: {refusal(each)}" for each in row.speed.allowed)]


def ratios_by_name(comparison: Comparison) -> dict[str, Ratio]:
    """The ratios by the names of their rows."""
    return {row.name: row.speed.found for row in comparison.rows if row.speed.found is not None}


def notes(comparison: Comparison) -> list[str]:
    """What the numbers do not say by themselves."""
    if any(each.basis is Basis.ROUNDS for each in ratios_by_name(comparison).values()):
        return []  # one session has both sides
    if comparison.same_machine:
        found = [
            "Baseline and candidate ran on machines that do not differ in what decides speed (processor, cores, "
            "caches, memory, frequency limits, CPU limits); stored results do not tell two such machines apart."
        ]
    else:
        found = [
            "The verdicts are about these two machines, not about two types of machine: those could only be compared "
            "with several machines of each type."
        ]
    if share_sessions(comparison.base, comparison.other):
        found.append(
            "Some sessions belong to both baseline and candidate. Settings of one session ran in the same rounds, and "
            "'modelzoo report' compares them round by round, more precisely than this."
        )
    return [*found, *(f"{text}." for text in _unfinished(comparison))]


def _unfinished(comparison: Comparison) -> Iterator[str]:
    """Which results are not those of whole calls."""
    for side in (comparison.base, comparison.other):
        partial = [stored.path for stored in side.results if not is_complete(stored.result)]
        if partial:
            yield f"{side.name}: stored before the call had ended: {', '.join(partial)}"


def correction(count: int) -> str:
    """Say for how many comparisons the verdicts are corrected; empty if there is one."""
    if count == 1:
        return ""
    return f" The verdicts are corrected for {count} comparisons (Holm), the intervals are not."


def gate_lines(comparison: Comparison, gate: Gate) -> list[str]:
    """Return which rows fail, and what passed although nothing is certain."""
    judged = list(zip(comparison.rows, gate.failures))
    found = [f"FAILED {each}: {row.name}{_shown_ratio(row)}" for row, conditions in judged for each in conditions]
    if not found:
        found = [f"passed: no row meets {', '.join(map(str, gate.conditions))}"]
    for outcome in (Outcome.AMBIGUOUS, Outcome.NOT_COMPARABLE):
        passed = [row.name for row, conditions in judged if row.outcome is outcome and not conditions]
        if passed:
            found.append(f"{len(passed)} of {len(judged)} rows passed {outcome}: {', '.join(passed)}")
    return found


def _shown_ratio(row: Row) -> str:
    return f", ratio {ratio(row.ratio)}" if row.ratio is not None else f", {reason(row.speed)}"
