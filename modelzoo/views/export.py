"""Results and comparisons for programs: CSV, JSON and JUnit's XML. Pure.

Every field of a row has a name and what gets it; CSV has the same fields, an interval as three columns. Unbounded ends
of intervals are empty in CSV and ``null`` in JSON. docs/compare.md and docs/report.md describe the formats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from modelzoo import __version__, stats
from modelzoo.comparison.compare import Comparison, Gate
from modelzoo.comparison.estimate import Row, Side
from modelzoo.comparison.machines import Cost, Rates
from modelzoo.document.written import csv_lines
from modelzoo.formatting import printable, shown_json
from modelzoo.records.codec import encode, encode_json
from modelzoo.records.evidence import Evidence
from modelzoo.results.refusals import Metric, SideSetting
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import Outcome
from modelzoo.views.comparison import cores_text, extrapolation_text, notes, values_text
from modelzoo.views.speed import basis_text, outcome_text, ratio, reason, refusal

FORMAT, REPORT_FORMAT = "modelzoo-comparison/1.0", "modelzoo-report/1.1"
UNITS = {**dict.fromkeys(Metric, "s"), Metric.THROUGHPUT: "items/s", Metric.MEMORY: "bytes"}
VARIES = "the same for both in each row"
"""Value of what both sides have in common in each row, but not in all rows (weights, for example)."""
INTERVALS = ("base", "other", "ratio", "latency", "first_token", "per_token", "output_rate", "speedup")
Json = dict[str, Any]
Judged = Sequence[tuple[Comparison, Gate]]
"""The comparisons of one call, and what became of their rows."""


def _sessions(side: SideSetting | None) -> list[int]:
    """The number of processes of each session."""
    return list(map(len, side.sessions)) if side is not None else []


COMPARED: dict[str, Callable[[Row], Any]] = {
    "workload": attrgetter("workload"),
    "label": attrgetter("label"),  # the baseline's setting
    "other_label": attrgetter("other_label"),
    "base": attrgetter("base_value"),  # the baseline's level in the unit of the metric
    "other": attrgetter("other_value"),
    "base_sessions": lambda row: len(_sessions(row.base)),
    "other_sessions": lambda row: len(_sessions(row.other)),
    "base_processes": lambda row: sum(_sessions(row.base)),  # of these sessions together
    "other_processes": lambda row: sum(_sessions(row.other)),
    "ratio": attrgetter("ratio"),  # how many times better the other side is
    "p_value": lambda row: row.speed.found and row.speed.found.p_value,  # two-sided, not corrected for the other rows
    "outcome": lambda row: str(row.outcome),  # corrected for all comparable rows
    "reason": lambda row: reason(row.speed),
    # The ratio of the sessions alone, if they are of one day, and its verdict.
    "alone": lambda row: row.alone and row.alone.ratio,
    "alone_outcome": lambda row: row.alone and str(row.alone.verdict.outcome),
    # Where the variance between sessions comes from.
    "basis": lambda row: row.speed.found and str(row.speed.found.basis),
    "basis_text": lambda row: basis_text(row.speed.found) if row.speed.found is not None else "",
    "refused": lambda row: [{"obstacle": each.obstacle, "text": refusal(each)} for each in row.speed.refused],
    "allowed": lambda row: [{"obstacle": each.obstacle, "text": refusal(each)} for each in row.speed.allowed],
}
"""The fields of a row of a comparison; after them come the conditions of ``--fail-on`` that it meets, ``failures``."""
_COMPARED_CSV = (
    *("base", "other", "ratio", "p_value", "outcome", "reason", "basis", "basis_text"),
    *("base_sessions", "other_sessions", "base_processes", "other_processes", "allowed", "failures"),
)
REPORTED: dict[str, Callable[[SummaryRow], Any]] = {
    "workload": attrgetter("workload"),
    "setting": attrgetter("label"),  # as it was run
    "is_baseline": attrgetter("is_baseline"),
    "batch": attrgetter("batch"),  # 0 if nothing ran
    "processes": attrgetter("processes"),
    "failed": attrgetter("failed"),
    "latency": attrgetter("latency"),  # of one forward batch, or of one whole generation, in seconds
    "first_token": lambda row: row.generation and row.generation.first_token,  # seconds (TTFT)
    "per_token": lambda row: row.generation and row.generation.per_token,  # seconds (TPOT)
    "output_rate": lambda row: row.generation and row.generation.output_rate,  # new tokens per second
    "gb_per_second": lambda row: (
        row.generation and row.generation.read and row.generation.read.gigabytes_per_second.value
    ),
    "bandwidth_share": lambda row: row.generation and row.generation.read and row.generation.read.share,
    "p99": lambda row: stats.percentiles(row.samples).get("p99") if row.samples else None,  # of all samples
    "peak_memory": lambda row: row.peak_memory or None,  # of the largest process, in bytes
    "speedup": lambda row: row.speed and row.speed.ratio,  # over the baseline
    "outcome": lambda row: row.speed and row.speed.verdict.outcome,
    # Not proven that both ran in their precision, so that the outcome does not stand by itself.
    "is_unproven": lambda row: row.speed is not None and row.speed.is_unproven,
    "precision": lambda row: row.proof.verdict,
    "wrong": lambda row: row.proof.ground.wrong if isinstance(row.proof.ground, Evidence) else (),
    "accuracy": lambda row: row.judged and row.judged.verdict,
    "errors": attrgetter("errors"),
}
"""The fields of one workload under one setting; before them comes the name of the ``result``."""


def report(rows: Sequence[tuple[str, SummaryRow]], form: str) -> str:
    """Return the rows of some results, each with the name of its result, as ``csv`` or ``json``."""
    made = [{"result": name, **{field: get(row) for field, get in REPORTED.items()}} for name, row in rows]
    if form == "json":
        return _json({"format": REPORT_FORMAT, "version": __version__, "rows": made})
    fields = ["result", *(field for field in REPORTED if field != "wrong")]
    lines = [_cells(fields, {**each, "errors": "; ".join(each["errors"])}).values() for each in made]
    return csv_lines([_cells(fields, {}), *lines])


def comparisons_json(judged: Judged) -> str:
    """Return the comparisons as JSON."""
    return _json({"format": FORMAT, "version": __version__, "comparisons": [_comparison(*each) for each in judged]})


def _json(content: Json) -> str:
    return shown_json(encode_json(content).decode()) + "\n"


def _comparison(found: Comparison, gate: Gate) -> Json:
    shared = [(name, values_text(values) if values else VARIES) for name, values in found.conditions.shared]
    differing = [
        {**encode(each), "base": values_text(each.base), "other": values_text(each.other)}
        for each in found.conditions.differing
    ]

    def side(each: Side) -> Json:
        created = [stored.result.created for stored in each.results]
        return {"name": each.name, "paths": [stored.path for stored in each.results], "created": created}

    def rates(each: Rates) -> Json:
        texts = {"extrapolated": extrapolation_text(each.extrapolated), "assumed": cores_text(each.assumed)}
        return {**encode(each), **texts}

    def cost(each: Cost) -> Json:
        base, other = map(extrapolation_text, (each.base_extrapolated, each.other_extrapolated))
        return {**encode(each), "base_extrapolated": base, "other_extrapolated": other}

    return {
        "metric": found.metric,
        "unit": UNITS[found.metric],
        "base": side(found.base),
        "other": side(found.other),
        "same_machine": found.same_machine,
        "rows": _rows(found, gate),
        "geometric_mean": found.mean,
        "conditions": {"shared": shared, "differing": differing},
        "explanations": found.explanations,
        "rates": [{**encode(each), "base": rates(each.base), "other": rates(each.other)} for each in found.rates],
        "costs": list(map(cost, found.costs)),
        "stages": found.stages,
        "notes": notes(found),
        "fail_on": list(map(str, gate.conditions)),
        "exit_code": gate.exit_code,
    }


def _rows(found: Comparison, gate: Gate) -> list[Json]:
    return [
        {**{field: get(row) for field, get in COMPARED.items()}, "failures": list(map(str, failures))}
        for row, failures in zip(found.rows, gate.failures)
    ]


def comparisons_csv(judged: Judged) -> str:
    """Return one line per row of each comparison; values are in the unit of the metric, in full precision."""
    named = ("base", "other", "workload", "setting", "other_setting", "metric", "unit")
    lines = []
    for found, gate in judged:
        for row in _rows(found, gate):
            texts = {
                "allowed": ", ".join(str(each["obstacle"]) for each in row["allowed"]),
                "failures": ", ".join(row["failures"]),
            }
            settings = (row["workload"], row["label"], row["other_label"], str(found.metric), UNITS[found.metric])
            values = _cells(_COMPARED_CSV, {**row, **texts}).values()
            lines.append((found.base.name, found.other.name, *settings, *values))
    return csv_lines([(*named, *_cells(_COMPARED_CSV, {})), *lines])


def _cells(fields: Sequence[str], row: Mapping[str, Any]) -> dict[str, str]:
    cells = {}
    for field in fields:
        value = row.get(field)
        if field in INTERVALS:
            cells.update({f"{field}_{end}": _cell(getattr(value, end, None)) for end in ("value", "low", "high")})
        else:
            cells[field] = _cell(value)
    return cells


def _cell(value: object) -> str:
    """A value in full precision; empty if there is none, or if it is not finite."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)


def junit(judged: Judged) -> str:
    """Return the XML that CI systems read: a test suite for each comparison, a test case for each of its rows.

    A row that meets a condition of ``--fail-on`` is a failure. One that is not comparable and was not to fail is
    skipped.
    """
    from xml.etree import ElementTree  # only this format needs it, and every `report` would wait for it

    root = ElementTree.Element("testsuites", name="modelzoo compare")
    for found, gate in judged:
        suite = ElementTree.SubElement(root, "testsuite")
        skipped = 0
        for row, failures in zip(found.rows, gate.failures):
            names = {"classname": printable(row.workload), "name": printable(row.setting)}
            case = ElementTree.SubElement(suite, "testcase", names)
            shown = f" {ratio(row.ratio)}" if row.ratio is not None else ""
            allowed = "".join(f"; allowed: {refusal(each)}" for each in row.speed.allowed)
            said = printable(f"{outcome_text(row.speed)}{shown}: {reason(row.speed)}{allowed}")
            if failures:  # the schema allows one failure per case
                text = f"{', '.join(map(str, failures))}: {said}"
                ElementTree.SubElement(case, "failure", type=failures[0].name, message=text).text = text
            elif row.outcome is Outcome.NOT_COMPARABLE:
                ElementTree.SubElement(case, "skipped", message=said)
                skipped += 1
            ElementTree.SubElement(case, "system-out").text = f"{printable(row.name)}: {said}"
        suite.set("name", printable(f"{found.other.name} compared with {found.base.name}"))
        counts = {"tests": len(found.rows), "failures": sum(map(bool, gate.failures)), "errors": 0, "skipped": skipped}
        for name, count in counts.items():
            suite.set(name, str(count))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"
