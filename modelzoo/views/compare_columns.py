"""The tables of a comparison, as columns of text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from modelzoo import stats
from modelzoo.comparison.compare import Comparison
from modelzoo.comparison.machines import AssumedCores, Cost, Extrapolation, OneDevice, Price, Rates, RowRates
from modelzoo.comparison.model import Row
from modelzoo.document import Column, Tone
from modelzoo.formatting import MISSING, counted, significant
from modelzoo.frozen import replace
from modelzoo.results.refusals import Metric
from modelzoo.stats import Basis, Outcome
from modelzoo.views.intervals import interval, ratio, within
from modelzoo.views.results_table import OUTCOME_TONE
from modelzoo.views.speed import UNPROVEN, outcome_text, reason

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
    found = comparison.conditions.differing
    columns = [
        Column("", tuple(each.name for each in found)),
        Column(comparison.base.name, tuple(values_text(each.base) for each in found)),
        Column(comparison.other.name, tuple(values_text(each.other) for each in found)),
    ]
    if any(each.rows for each in found):
        columns.append(Column("concerns", tuple(", ".join(each.rows) or "all rows" for each in found)))
    return columns


def values_text(values: Sequence[str]) -> str:
    """The values of a condition, the first ones if there are many: inputs may be others in every process."""
    more = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
    return f"{', '.join(values[:MOST_VALUES])}{more}" or "unknown"


def stage_columns(comparison: Comparison) -> list[Column]:
    """Return the stages of all rows that have any: seconds on both sides, and their ratio; no verdicts."""
    stages = comparison.stages
    rows = [comparison.rows[each.row] for each in stages]
    first = [index == 0 or stages[index - 1].row != each.row for index, each in enumerate(stages)]
    return [
        Column("workload", tuple(row.workload if new else "" for row, new in zip(rows, first))),
        Column("setting", tuple(row.setting if new else "" for row, new in zip(rows, first))),
        Column("stage", tuple(each.name for each in stages)),
        Column(comparison.base.name, tuple(interval(each.base) for each in stages), is_number=True),
        Column(comparison.other.name, tuple(interval(each.other) for each in stages), is_number=True),
        Column("ratio", tuple(ratio(each.ratio) if each.ratio else NOTHING for each in stages), is_number=True),
    ]


def rate_columns(rates: Sequence[RowRates], names: tuple[str, str]) -> list[Column]:
    """Return the throughput per machine, physical core and vCPU of both sides; ``*`` marks what was not measured."""
    columns = [
        Column("workload", tuple(each.workload for each in rates)),
        Column("setting", tuple(each.label for each in rates)),
        Column("unit", tuple(f"{each.unit}/s" for each in rates)),
    ]
    sides = ([each.base for each in rates], [each.other for each in rates])
    levels: tuple[tuple[str, Callable[[Rates], str]], ...] = (
        ("machine", lambda each: _rate(each.machine, each.extrapolated is not None)),
        ("core", lambda each: _rate(each.core, (each.extrapolated or each.assumed) is not None)),
        ("vCPU", lambda each: _rate(each.vcpu, each.extrapolated is not None)),
    )
    for level, text in levels:
        for side, name in zip(sides, names):
            columns.append(Column(f"{name} per {level}", tuple(map(text, side)), is_number=True))
    return columns


def _rate(value: stats.Interval | None, is_assumed: bool) -> str:
    if value is None:
        return MISSING
    return f"{significant(value.value, 3)} {within(value)}{_mark(is_assumed)}"


def _mark(is_assumed: bool) -> str:
    return f" {ASSUMED}" if is_assumed else ""


def alone_columns(rows: Sequence[Row], costs: Sequence[Cost]) -> list[Column]:
    """Return the ratios of the sessions alone, with their verdicts, also in money if there are some on that."""
    speeds = [row.alone for row in rows if row.alone is not None]
    priced = {(each.workload, each.label): each for each in costs if each.alone is not None}
    columns = [
        Column("workload", tuple(row.workload for row in rows)),
        Column("setting", tuple(row.setting for row in rows)),
        Column("ratio", tuple(ratio(each.ratio) if each.ratio else NOTHING for each in speeds), is_number=True),
        Column(
            "verdict",
            tuple(outcome_text(each) if each.ratio else f"none: {reason(each)}" for each in speeds),
            tones=tuple(OUTCOME_TONE[each.verdict.outcome] for each in speeds),
        ),
    ]
    if priced:
        found = [priced.get((row.workload, row.setting)) for row in rows]
        columns += [
            Column("times cheaper", tuple(ratio(each.alone) if each else NOTHING for each in found), is_number=True),
            _cost_verdicts([(each.alone_outcome, False, each.is_unproven) if each else NO_VERDICT for each in found]),
        ]
    return columns


NO_VERDICT = (None, False, False)


def _cost_verdicts(found: Sequence[tuple[Outcome | None, bool, bool]]) -> Column:
    """Verdicts, and whether they are assumed, and on sides that are not proven."""
    cells = [
        f"{outcome or MISSING}{' (assumed)' if outcome and assumed else ''}"
        f"{UNPROVEN if unproven and outcome not in (None, Outcome.AMBIGUOUS) else ''}"
        for outcome, assumed, unproven in found
    ]
    tones = tuple(Tone.PLAIN if outcome is None else OUTCOME_TONE[outcome] for outcome, _, _ in found)
    return Column("verdict on cost", tuple(cells), tones=tones)


def cost_columns(costs: Sequence[Cost], names: tuple[str, str]) -> list[Column]:
    """Return the cost of a million items on both sides, with verdicts if there are any; ``*`` marks what was not
    measured."""
    base = [_cost(each.base, each.base_price, each.base_extrapolated) for each in costs]
    other = [_cost(each.other, each.other_price, each.other_extrapolated) for each in costs]
    marks = (_mark((each.base_extrapolated or each.other_extrapolated) is not None) for each in costs)
    columns = [
        Column("workload", tuple(each.workload for each in costs)),
        Column("setting", tuple(each.label for each in costs)),
        Column(names[0], tuple(base), is_number=True),
        Column(names[1], tuple(other), is_number=True),
        Column("times cheaper", tuple(ratio(each.ratio) + mark for each, mark in zip(costs, marks)), is_number=True),
    ]
    verdicts = [(each.outcome, each.is_assumed, each.is_unproven) for each in costs]
    return [*columns, _cost_verdicts(verdicts)] if any(outcome for outcome, _, _ in verdicts) else columns


def _cost(value: stats.Interval, price: Price, extrapolated: Extrapolation | None) -> str:
    currency = f" {price.currency}" if price.currency else ""
    return f"{significant(value.value, 3)}{currency} {within(value)}{_mark(extrapolated is not None)}"


def extrapolation_text(found: Extrapolation | None) -> str:
    """What is assumed because a run did not use the whole machine; empty if it did."""
    if found is None:
        return ""
    if isinstance(found, OneDevice):
        return f"ran on {found.device}; the machine is assumed to have no other such device"
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
