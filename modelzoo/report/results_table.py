"""The table of a call, one row per workload and setting: as narrow as what it says allows.

What all rows share stands above it. A column that says the same of every row, or that the sentences below the table
repeat, is left out if the table would be too wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from modelzoo import formatting, stats
from modelzoo.formatting import MISSING
from modelzoo.records.evidence import ProofVerdict
from modelzoo.report import differences
from modelzoo.report.differences import UNKNOWN, ShownRow
from modelzoo.report.table import Column
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import SpeedVerdict

VERDICT_STYLE = {
    SpeedVerdict.FASTER: "green",
    SpeedVerdict.SLOWER: "red",
    SpeedVerdict.SAME: "cyan",
    SpeedVerdict.AMBIGUOUS: "yellow",
    SpeedVerdict.REFUSED: "bold red",
}
PROOF = {
    ProofVerdict.FP32: "{}",
    ProofVerdict.NOT_FP32: "NOT {}",
    ProofVerdict.ACTIVE: "{}",
    ProofVerdict.PARTLY: "partly {}",
    ProofVerdict.NOT_ACTIVE: "NOT {}",
}
"""What really ran, by the verdict of the audit, as a template for the precision that was asked for."""
FORWARD = "one forward batch"
"""What is timed without stages."""


def columns(shown: Sequence[ShownRow]) -> list[Column]:
    """Return all columns that have something to say about these rows."""
    rows = [each.row for each in shown]
    found = _name_columns(shown)
    found.append(Column("latency", tuple(map(_latency, rows)), True, styles=tuple(map(_latency_style, rows))))
    spans = [row.spans for row in rows]
    if any(spans):
        found.append(Column("issue", tuple(formatting.seconds(each.issue if each else None) for each in spans), True))
        device = tuple(formatting.seconds(each.device if each else None) for each in spans)
        found.append(Column("device time", device, True))
    if any(row.adjusted for row in rows):
        found.append(_column("adjusted", rows, lambda row: interval(row.adjusted), order=3))
    batches = {row.batch for row in rows if row.batch}
    units = {row.unit for row in rows if row.unit}
    title = f"{units.pop()}/s" if len(units) == 1 else "items/s"
    # For one batch size, the latency says the same.
    order = 0 if len(batches) == 1 else None
    found.append(_column(title, rows, _throughput, order))
    if any(row.verdict for row in rows):
        compared = "speedup" if len(batches) <= 1 else f"speedup in {title}"
        found.append(_column(compared, rows, lambda row: ratio(row.speedup) if row.verdict else ""))
        verdicts = [row.verdict.outcome if row.verdict else None for row in rows]
        styles = tuple(VERDICT_STYLE[each] if each else "" for each in verdicts)
        found.append(Column("verdict", tuple(str(each or "") for each in verdicts), styles=styles))
    if not all(is_proven(row) for row in rows):
        styles = tuple("" if is_proven(row) else "bold red" for row in rows)
        found.append(Column("ran in", tuple(map(ran_in, rows)), order=2, styles=styles))
    if any(row.agreement for row in rows):
        styles = tuple("bold red" if row.agreement and row.agreement.is_same is False else "" for row in rows)
        found.append(Column("output error", tuple(map(output_error, rows)), True, order=1, styles=styles))
    if any(row.valid for row in rows):
        found.append(Column("predictions", tuple(row.valid.partition(":")[0] or MISSING for row in rows), order=1))
    return found


def _name_columns(shown: Sequence[ShownRow]) -> list[Column]:
    """The workload, named in its first row only, and what differs between the settings."""
    names = [each.row.workload for each in shown]
    found = []
    if len(set(names)) > 1:
        first = tuple("" if index and names[index - 1] == name else name for index, name in enumerate(names))
        found.append(Column("workload", first))
    texts = differences.texts(shown)
    for name in differences.varied(shown):
        cells = [values.get(name, UNKNOWN) or MISSING for values in texts]
        found.append(Column(name, tuple(cells), is_number=all(cell.isdigit() or cell == MISSING for cell in cells)))
    return found


def _column(
    title: str, rows: Sequence[SummaryRow], text: Callable[[SummaryRow], str], order: int | None = None
) -> Column:
    return Column(title, tuple(map(text, rows)), True, order)


def caption(found: Sequence[Column], shown: Sequence[ShownRow] = ()) -> str:
    """Return what the columns mean, as far as their titles do not say it.

    Args:
        found: the columns.
        shown: the rows, which say whether the model alone was timed or a pipeline.
    """
    cells = {column.title.partition(" ")[0]: column.cells for column in found}
    timed = dict.fromkeys(timed_unit(each.row) for each in shown) or {FORWARD: None}
    said = [f"latency of {', or of '.join(timed)}: geometric mean of the processes' medians, with its 95 % interval"]
    said += ["adjusted: the latency at this machine's usual speed"] if "adjusted" in cells else []
    said += ["output error: mean error ÷ mean |output| against torch in fp32"] if "output" in cells else []
    compared = sum("×" in cell for cell in cells.get("speedup", ()))
    if compared > 1:
        said.append(f"the verdicts are corrected for {compared} comparisons, the intervals of the speedups are not")
    return "; ".join(said)


# Cells


def timed_unit(row: SummaryRow) -> str:
    """What the latency of a row is the time of."""
    if row.in_flight is None:
        return FORWARD
    if row.in_flight == 1:
        return "one batch through all stages"
    return f"one finished batch with {row.in_flight} in flight"


def interval(found: stats.Interval | None) -> str:
    """``56.1 ms ±1.3 %``, rounded as the interval allows; of the interval the larger side if the two differ."""
    return MISSING if found is None else formatting.seconds_within(found.value, found.half_width)


def ratio(found: stats.Interval | None) -> str:
    """``0.62× [0.60, 0.64]``."""
    return MISSING if found is None else formatting.ratio(found.value, found.low, found.high)


def ran_in(row: SummaryRow) -> str:
    """The precision that the audit found, in a word or two; without an audit, what the canary showed."""
    if row.proof_verdict is None:
        return f"canary: {row.canary}" if row.canary else MISSING
    return PROOF.get(row.proof_verdict, "unknown").format(row.precision)


def output_error(row: SummaryRow) -> str:
    """Mean error ÷ mean |output| against torch in fp32."""
    worst = row.agreement.worst if row.agreement is not None else None
    if worst is None:
        return MISSING
    return "not finite" if worst.relative is None else f"{worst.relative:.1e}"


def is_proven(row: SummaryRow) -> bool:
    """Whether the audit found the precision that was asked for."""
    return row.proof_verdict is (ProofVerdict.FP32 if row.precision == "fp32" else ProofVerdict.ACTIVE)


def _latency(row: SummaryRow) -> str:
    return interval(row.latency) if row.latency else "failed" if row.errors else "not timed"


def _throughput(row: SummaryRow) -> str:
    """Rounded as the interval of the latency allows."""
    if row.throughput is None or row.latency is None:
        return MISSING
    return formatting.rounded(row.throughput, row.throughput * row.latency.half_width)


def _latency_style(row: SummaryRow) -> str:
    return "" if row.latency else "red"
