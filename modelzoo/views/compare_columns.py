"""The tables of a comparison, as columns of text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from modelzoo import stats
from modelzoo.comparison.compare import Comparison
from modelzoo.comparison.estimate import Row
from modelzoo.comparison.machines import AssumedCores, Cost, Extrapolation, Rates, RowRates
from modelzoo.document import Column, Rows, Tone
from modelzoo.formatting import MISSING, counted, significant
from modelzoo.frozen import replace
from modelzoo.results.refusals import Metric
from modelzoo.stats import Basis, Outcome
from modelzoo.views.intervals import interval, ratio, within
from modelzoo.views.results_table import OUTCOME_TONE
from modelzoo.views.speed import UNPROVEN, outcome_text, reason

Priced = TypeVar("Priced", RowRates, Cost)
NOTHING = "~"
"""Shown in place of a ratio if the sides cannot be compared."""
ASSUMED = "*"
"""Marks a number that was not measured, but extrapolated."""
_MEGABYTE = 1e6
MOST_VALUES = 3
"""The most values of a condition that are listed."""


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
        return f"{significant(value.value / _MEGABYTE)} MB {within(value)}"
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
    verdicts = [(each.alone_outcome, False, each.is_unproven) if each else NO_VERDICT for each in found.rows]
    return [*columns, cheaper, _cost_verdicts(verdicts)] if priced else columns


NO_VERDICT = (None, False, False)


def cost_verdict(outcome: Outcome | None, is_assumed: bool, is_unproven: bool) -> str:
    """A verdict on cost, and whether it is assumed, and on sides that are not proven."""
    if outcome is None:
        return MISSING
    unproven = UNPROVEN if is_unproven and outcome is not Outcome.AMBIGUOUS else ""
    return f"{outcome}{' (assumed)' if is_assumed else ''}{unproven}"


def _cost_verdicts(found: Sequence[tuple[Outcome | None, bool, bool]]) -> Column:
    """Verdicts, and whether they are assumed, and on sides that are not proven."""
    cells = [cost_verdict(*each) for each in found]
    tones = tuple(Tone.PLAIN if outcome is None else OUTCOME_TONE[outcome] for outcome, _, _ in found)
    return Column("verdict on cost", tuple(cells), tones=tones)


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
    verdicts = [(each.outcome, each.is_assumed, each.is_unproven) for each in costs]
    return [*columns, _cost_verdicts(verdicts)] if any(outcome for outcome, _, _ in verdicts) else columns


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
