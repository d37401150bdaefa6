"""A comparison for programs: CSV, JSON and JUnit's XML. Pure.

docs/compare.md describes the fields. Unbounded ends of intervals are empty in CSV and ``null`` in JSON.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional
from xml.etree import ElementTree

import msgspec

from modelzoo import stats
from modelzoo.comparison.compare import Comparison, Gate, StageRow
from modelzoo.comparison.conditions import Conditions
from modelzoo.comparison.explanations import Explanation
from modelzoo.comparison.machines import Cost, Rates, RowRates
from modelzoo.comparison.model import Row, Side
from modelzoo.document import Column
from modelzoo.document.delimited import csv_text
from modelzoo.formatting import printable, shown_json
from modelzoo.records.codec import encode, encode_json
from modelzoo.results.refusals import Metric, Obstacle
from modelzoo.stats import Outcome
from modelzoo.version import __version__
from modelzoo.views.compare import cores_text, extrapolation_text, notes
from modelzoo.views.compare_columns import values_text
from modelzoo.views.results_table import ratio
from modelzoo.views.speed import basis_text, outcome_text, reason, refusal

FORMAT = "modelzoo-comparison/1.0"
UNITS = {**dict.fromkeys(Metric, "s"), Metric.THROUGHPUT: "items/s", Metric.MEMORY: "bytes"}

VARIES = "the same for both in each row"
"""Value of what both sides have in common in each row, but not in all rows (weights, for example)."""
Json = dict[str, Any]
Judged = Sequence[tuple[Comparison, Gate]]
"""The comparisons of one call, and what became of their rows."""


class SideSummary(msgspec.Struct, frozen=True):
    """One side: its name, and the file and the beginning of each of its sessions."""

    name: str
    paths: tuple[str, ...]
    created: tuple[str, ...]


class Obstruction(msgspec.Struct, frozen=True):
    """Why the two sides of a row are not comparable, in one sentence."""

    obstacle: Obstacle
    text: str


class RowSummary(msgspec.Struct, frozen=True):
    """A row without the samples.

    Attributes:
        workload: the workload's name.
        label: the baseline's setting.
        other_label: the other side's.
        base: the baseline's level in the unit of the metric.
        other: the other side's.
        base_sessions: number of its sessions in this row.
        other_sessions: likewise.
        base_processes: number of processes of these sessions.
        other_processes: likewise.
        ratio: how many times better the other side is.
        p_value: two-sided, not corrected for the other rows.
        outcome: corrected for all comparable rows.
        reason: of the outcome.
        basis: where the variance between sessions comes from.
        basis_text: the same in words, with its value.
        refused: what makes the sides not comparable.
        allowed: what was let through.
        failures: the conditions of ``--fail-on`` that it meets.
    """

    workload: str
    label: str
    other_label: str
    base: Optional[stats.Interval]
    other: Optional[stats.Interval]
    base_sessions: int
    other_sessions: int
    base_processes: int
    other_processes: int
    ratio: Optional[stats.Interval]
    p_value: Optional[float]
    outcome: Outcome
    reason: str
    basis: Optional[str]
    basis_text: str
    refused: tuple[Obstruction, ...]
    allowed: tuple[Obstruction, ...]
    failures: tuple[str, ...]


class ComparisonSummary(msgspec.Struct, frozen=True):
    """A comparison without the samples; see ``model.Comparison``."""

    metric: Metric
    unit: str
    base: SideSummary
    other: SideSummary
    same_machine: bool
    rows: tuple[RowSummary, ...]
    geometric_mean: Optional[stats.Interval]
    conditions: Json
    explanations: tuple[Explanation, ...]
    rates: tuple[Json, ...]
    costs: tuple[Json, ...]
    stages: tuple[StageRow, ...]
    notes: tuple[str, ...]
    fail_on: tuple[str, ...]
    exit_code: int


class Comparisons(msgspec.Struct, frozen=True):
    """What ``modelzoo compare --format json`` writes."""

    format: str
    version: str
    comparisons: tuple[ComparisonSummary, ...]


def json_text(judged: Judged) -> str:
    """Return the comparisons as JSON."""
    found = Comparisons(FORMAT, __version__, tuple(_comparison(*each) for each in judged))
    return shown_json(encode_json(found).decode()) + "\n"


def _comparison(found: Comparison, gate: Gate) -> ComparisonSummary:
    return ComparisonSummary(
        metric=found.metric,
        unit=UNITS[found.metric],
        base=_side(found.base),
        other=_side(found.other),
        same_machine=found.same_machine,
        rows=_rows(found, gate),
        geometric_mean=found.mean,
        conditions=_conditions(found.conditions),
        explanations=found.explanations,
        rates=tuple(map(_row_rates, found.rates)),
        costs=tuple(map(_cost, found.costs)),
        stages=found.stages,
        notes=tuple(notes(found)),
        fail_on=tuple(map(str, gate.conditions)),
        exit_code=gate.exit_code,
    )


def _conditions(found: Conditions) -> Json:
    """Conditions with their values as texts."""
    shared = [(name, values_text(values) if values else VARIES) for name, values in found.shared]
    differing = [
        {**encode(each), "base": values_text(each.base), "other": values_text(each.other)} for each in found.differing
    ]
    return {"shared": shared, "differing": differing}


def _row_rates(found: RowRates) -> Json:
    return {**encode(found), "base": _rates(found.base), "other": _rates(found.other)}


def _rates(found: Rates) -> Json:
    texts = {"extrapolated": extrapolation_text(found.extrapolated), "assumed": cores_text(found.assumed)}
    return {**encode(found), **texts}


def _cost(found: Cost) -> Json:
    base, other = map(extrapolation_text, (found.base_extrapolated, found.other_extrapolated))
    return {**encode(found), "base_extrapolated": base, "other_extrapolated": other}


def _side(side: Side) -> SideSummary:
    paths = tuple(stored.path for stored in side.results)
    return SideSummary(side.name, paths, tuple(stored.result.created for stored in side.results))


def _rows(found: Comparison, gate: Gate) -> tuple[RowSummary, ...]:
    return tuple(_row(row, tuple(map(str, failures))) for row, failures in zip(found.rows, gate.failures))


def _row(row: Row, failures: tuple[str, ...]) -> RowSummary:
    found = row.speed.found
    return RowSummary(
        workload=row.workload,
        label=row.label,
        other_label=row.other_label,
        base=row.base_value,
        other=row.other_value,
        base_sessions=len(row.base.sessions) if row.base is not None else 0,
        other_sessions=len(row.other.sessions) if row.other is not None else 0,
        base_processes=sum(map(len, row.base.sessions)) if row.base is not None else 0,
        other_processes=sum(map(len, row.other.sessions)) if row.other is not None else 0,
        ratio=row.ratio,
        p_value=found.p_value if found is not None else None,
        outcome=row.outcome,
        reason=reason(row.speed),
        basis=str(found.basis) if found is not None else None,
        basis_text=basis_text(found) if found is not None else "",
        refused=tuple(Obstruction(each.obstacle, refusal(each)) for each in row.speed.refused),
        allowed=tuple(Obstruction(each.obstacle, refusal(each)) for each in row.speed.allowed),
        failures=failures,
    )


def csv_export(judged: Judged) -> str:
    """Return one line per row of each comparison; values are in the unit of the metric, in full precision."""
    rows = [(found, row) for found, gate in judged for row in _rows(found, gate)]
    columns = {
        "base": [found.base.name for found, _ in rows],
        "other": [found.other.name for found, _ in rows],
        "workload": [row.workload for _, row in rows],
        "setting": [row.label for _, row in rows],
        "other_setting": [row.other_label for _, row in rows],
        "metric": [str(found.metric) for found, _ in rows],
        "unit": [UNITS[found.metric] for found, _ in rows],
        **interval_columns("base", [row.base for _, row in rows]),
        **interval_columns("other", [row.other for _, row in rows]),
        **interval_columns("ratio", [row.ratio for _, row in rows]),
        "p_value": [number(row.p_value) for _, row in rows],
        "outcome": [str(row.outcome) for _, row in rows],
        "reason": [row.reason for _, row in rows],
        "basis": [row.basis or "" for _, row in rows],
        "basis_text": [row.basis_text for _, row in rows],
        "base_sessions": [str(row.base_sessions) for _, row in rows],
        "other_sessions": [str(row.other_sessions) for _, row in rows],
        "base_processes": [str(row.base_processes) for _, row in rows],
        "other_processes": [str(row.other_processes) for _, row in rows],
        "allowed": [", ".join(str(each.obstacle) for each in row.allowed) for _, row in rows],
        "failures": [", ".join(row.failures) for _, row in rows],
    }
    return csv_text([Column(title, tuple(cells)) for title, cells in columns.items()])


def interval_columns(name: str, values: Sequence[Optional[stats.Interval]]) -> dict[str, list[str]]:
    """Return intervals as three columns."""
    return {
        f"{name}_value": [number(each.value if each is not None else None) for each in values],
        f"{name}_low": [number(each.low if each is not None else None) for each in values],
        f"{name}_high": [number(each.high if each is not None else None) for each in values],
    }


def number(value: Optional[float]) -> str:
    """Return a number in full precision; empty if there is none, or if it is not finite."""
    return "" if value is None or not math.isfinite(value) else repr(value)


def junit(judged: Judged) -> str:
    """Return the XML that CI systems read: a test suite for each comparison, a test case for each of its rows.

    A row that meets a condition of ``--fail-on`` is a failure. One that is not comparable and was not to fail is
    skipped.
    """
    root = ElementTree.Element("testsuites", name="modelzoo compare")
    for found, gate in judged:
        skipped = [
            row.outcome is Outcome.NOT_COMPARABLE and not failures for row, failures in zip(found.rows, gate.failures)
        ]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=printable(f"{found.other.name} compared with {found.base.name}"),
            tests=str(len(found.rows)),
            failures=str(sum(map(bool, gate.failures))),
            errors="0",
            skipped=str(sum(skipped)),
        )
        for row, failures, is_skipped in zip(found.rows, map(list, gate.failures), skipped):
            case = ElementTree.SubElement(
                suite, "testcase", classname=printable(row.workload), name=printable(row.setting)
            )
            said = printable(_sentence(row))
            for condition in failures[:1]:  # the schema allows one failure per case
                text = f"{', '.join(map(str, failures))}: {said}"
                ElementTree.SubElement(case, "failure", type=condition.name, message=text).text = text
            if is_skipped:
                ElementTree.SubElement(case, "skipped", message=said)
            ElementTree.SubElement(case, "system-out").text = f"{printable(row.name)}: {said}"
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _sentence(row: Row) -> str:
    shown = f" {ratio(row.ratio)}" if row.ratio is not None else ""
    allowed = "".join(f"; allowed: {refusal(each)}" for each in row.speed.allowed)
    return f"{outcome_text(row.speed)}{shown}: {reason(row.speed)}{allowed}"
