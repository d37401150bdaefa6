"""Stored results for programs: one row per workload and setting, as CSV and JSON. Pure.

docs/report.md describes the fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import msgspec

from modelzoo import stats
from modelzoo.document import Column
from modelzoo.document.delimited import csv_text
from modelzoo.formatting import shown_json
from modelzoo.records.codec import encode_json
from modelzoo.records.evidence import Evidence, Product, ProofVerdict
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import Outcome
from modelzoo.version import __version__
from modelzoo.views.compare_export import interval_columns, number

FORMAT = "modelzoo-report/1.1"


class ReportRow(msgspec.Struct, frozen=True):
    """One workload under one setting.

    Attributes:
        result: the name of the result.
        workload: the workload's name.
        setting: label of the setting as it was run.
        is_baseline: whether the workload's other settings are compared with this one.
        batch: items per forward pass; 0 if nothing ran.
        processes: number of processes that were timed.
        failed: number of processes that failed.
        latency: seconds of one forward batch, or of one whole generation, with the interval within the session.
        first_token: time to the first token in seconds (TTFT) of a language model; ``None`` for other models.
        per_token: time per output token in seconds (TPOT).
        output_rate: new tokens per second of whole generations.
        gb_per_second: 10⁹ bytes per second that decoding reads.
        bandwidth_share: what that is of the measured bandwidth of a copy.
        p99: 99th percentile of all samples in seconds, if there are enough of them.
        peak_memory: of the largest process, in bytes; ``None`` if it is not known.
        speedup: compared with the baseline.
        outcome: of that comparison.
        is_unproven: whether it is not proven that both ran in their precision, so that the outcome does not stand by
            itself; ``compare`` refuses such a pair.
        precision: what the kernels show.
        wrong: the products whose outputs no precision explains, with layers, shapes, kernels and errors.
        accuracy: the verdict of the accuracy check.
        errors: why processes failed.
    """

    result: str
    workload: str
    setting: str
    is_baseline: bool
    batch: int
    processes: int
    failed: int
    latency: Optional[stats.Interval]
    first_token: Optional[stats.Interval]
    per_token: Optional[stats.Interval]
    output_rate: Optional[stats.Interval]
    gb_per_second: Optional[float]
    bandwidth_share: Optional[float]
    p99: Optional[float]
    peak_memory: Optional[int]
    speedup: Optional[stats.Interval]
    outcome: Optional[Outcome]
    is_unproven: bool
    precision: Optional[ProofVerdict]
    wrong: tuple[Product, ...]
    accuracy: Optional[ValidityVerdict]
    errors: tuple[str, ...]


class Report(msgspec.Struct, frozen=True):
    """What ``modelzoo report --format json`` writes."""

    format: str
    version: str
    rows: tuple[ReportRow, ...]


def report_row(result: str, row: SummaryRow) -> ReportRow:
    """Return what programs read of a row."""
    made = row.generation
    read = made.read if made is not None else None
    return ReportRow(
        result=result,
        workload=row.workload,
        setting=row.label,
        is_baseline=row.is_baseline,
        batch=row.batch,
        processes=row.processes,
        failed=row.failed,
        latency=row.latency,
        first_token=made.first_token if made is not None else None,
        per_token=made.per_token if made is not None else None,
        output_rate=made.output_rate if made is not None else None,
        gb_per_second=read.gigabytes_per_second.value if read is not None else None,
        bandwidth_share=read.share if read is not None else None,
        p99=stats.percentiles(row.samples).get("p99") if row.samples else None,
        peak_memory=row.peak_memory or None,
        speedup=row.speed.ratio if row.speed is not None else None,
        outcome=row.speed.verdict.outcome if row.speed is not None else None,
        is_unproven=row.speed is not None and row.speed.is_unproven,
        precision=row.proof.verdict,
        wrong=row.proof.ground.wrong if isinstance(row.proof.ground, Evidence) else (),
        accuracy=row.judged.verdict if row.judged is not None else None,
        errors=row.errors,
    )


def json_text(rows: Sequence[ReportRow]) -> str:
    """Return the rows as JSON."""
    return shown_json(encode_json(Report(FORMAT, __version__, tuple(rows))).decode()) + "\n"


def csv_export(rows: Sequence[ReportRow]) -> str:
    """Return one line per row, with seconds, bytes and ratios in full precision."""
    columns = {
        "result": [row.result for row in rows],
        "workload": [row.workload for row in rows],
        "setting": [row.setting for row in rows],
        "is_baseline": [str(row.is_baseline).lower() for row in rows],
        "batch": [str(row.batch) for row in rows],
        "processes": [str(row.processes) for row in rows],
        "failed": [str(row.failed) for row in rows],
        **interval_columns("latency", [row.latency for row in rows]),
        **interval_columns("first_token", [row.first_token for row in rows]),
        **interval_columns("per_token", [row.per_token for row in rows]),
        **interval_columns("output_rate", [row.output_rate for row in rows]),
        "gb_per_second": [number(row.gb_per_second) for row in rows],
        "bandwidth_share": [number(row.bandwidth_share) for row in rows],
        "p99": [number(row.p99) for row in rows],
        "peak_memory": [str(row.peak_memory or "") for row in rows],
        **interval_columns("speedup", [row.speedup for row in rows]),
        "outcome": [str(row.outcome or "") for row in rows],
        "is_unproven": [str(row.is_unproven).lower() for row in rows],
        "precision": [str(row.precision or "") for row in rows],
        "accuracy": [str(row.accuracy or "") for row in rows],
        "errors": ["; ".join(row.errors) for row in rows],
    }
    return csv_text([Column(title, tuple(cells)) for title, cells in columns.items()])
