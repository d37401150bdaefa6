"""Which kernels and operators took the time, setting by setting: tables of audits and of profiles. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.document import Block, Column, Details, Table, Text, lines
from modelzoo.formatting import MISSING
from modelzoo.records.evidence import Evidence, TimeShare
from modelzoo.records.profile import LayerRow, OperatorRow, Profile, Shape
from modelzoo.results.summary import SummaryRow
from modelzoo.views.differences import short_names


def passes_text(evidence: Evidence) -> str:
    """``2 audited passes``."""
    return f"{evidence.iterations} audited pass{'es' if evidence.iterations != 1 else ''}"


def evidence_of(each: SummaryRow) -> Evidence | None:
    """Return the evidence of the first process of a setting that was audited in full."""
    return next((report.observed.evidence for report in each.reports if report.observed.evidence is not None), None)


def profile_of(each: SummaryRow) -> Profile | None:
    """Return the profile of the first process of a setting that has one."""
    return next((report.observed.profile for report in each.reports if report.observed.profile is not None), None)


def kernel_details(shown: Sequence[SummaryRow]) -> list[Block]:
    """Return the tables of the kernels of each setting of one workload that was audited."""
    blocks: list[Block] = []
    for name, each in zip(short_names(shown), shown):
        evidence = evidence_of(each)
        if evidence is not None:
            tables = tuple(evidence_tables(evidence))
            notes = (lines(*problems(evidence)),) if problems(evidence) else ()
            blocks.append(Details(f"Kernels of {name}, {passes_text(evidence)}", (*tables, *notes)))
    return blocks


def operator_details(shown: Sequence[SummaryRow]) -> list[Block]:
    """Return the profile of each setting of one workload that has one."""
    blocks: list[Block] = []
    for name, each in zip(short_names(shown), shown):
        profile = profile_of(each)
        if profile is not None:
            tables = tuple(profile_tables(profile))
            blocks.append(Details(f"Operators of {name}, {profile.iterations} profiled passes", tables))
    return blocks


def evidence_tables(evidence: Evidence, operators: int = 12) -> list[Table]:
    """Return tables of the time by kernel, by precision, by class of operators and by operator.

    Args:
        evidence: what the audit found.
        operators: the number of operators to list; the others are summed up in one line.
    """
    unattributed = f"unattributed: {_percent(evidence.unattributed_share)} of the time"
    if evidence.reference_share:
        kernels = ", ".join(evidence.reference_kernels)
        unattributed += f"; reference kernels ({kernels}): {_percent(evidence.reference_share)}"
    passes = max(evidence.iterations, 1)
    used = evidence.blas and any(evidence.blas.split(" ")[0] in row.name for row in evidence.by_implementation)
    blas = f"BLAS: {evidence.blas}" if used else ""
    tables = [
        _time_table("Kernels, by implementation", evidence.by_implementation, passes, note=blas),
        _time_table("By compute precision", evidence.by_precision, passes, note=unattributed),
        _class_table(evidence, passes),
        _time_table("By operator", evidence.by_operator, passes, limit=operators),
    ]
    return [table for table in tables if table.rows or table.note]


def problems(evidence: Evidence) -> list[str]:
    """What the audit could not do, and how much of the kernel log could not be read."""
    unread = evidence.coverage.unread
    return [*evidence.problems, *([f"{unread} lines of oneDNN's output could not be read"] if unread else [])]


def _time_table(title: str, rows: Sequence[TimeShare], passes: int, limit: int | None = None, note: str = "") -> Table:
    shown = list(rows if limit is None else rows[:limit])
    rest = rows[len(shown) :]
    if rest:
        seconds, share = sum(row.seconds for row in rest), sum(row.share for row in rest)
        shown.append(TimeShare(f"{len(rest)} others", seconds, share, sum(row.count for row in rest)))
    columns = (
        Column("", tuple(row.name for row in shown)),
        Column("ms per pass", tuple(_ms(row.seconds / passes) for row in shown), is_number=True),
        Column("share", tuple(_percent(row.share) for row in shown), is_number=True),
        Column("calls", tuple(_count(row.count, passes) for row in shown), is_number=True),
    )
    return Table(title, columns, Text(note) if note else None)


def _class_table(evidence: Evidence, passes: int) -> Table:
    classes, reduced = evidence.classes, "bf16" if evidence.requested == "fp32" else evidence.requested
    canaries = (
        f"{each.canary_error:.1e} {each.canary_level}" if each.canary_error is not None else MISSING for each in classes
    )
    columns = (
        Column("", tuple(str(each.operator_class) for each in classes)),
        Column("ms per pass", tuple(_ms(each.seconds / passes) for each in classes), is_number=True),
        Column(f"in {reduced}", tuple(_percent(each.bf16_share) for each in classes), is_number=True),
        Column("precision", tuple(", ".join(each.precisions) for each in classes)),
        Column("canary", tuple(canaries), is_number=True),
        Column("decided by", tuple(", ".join(map(str, each.decided_by)) for each in classes)),
    )
    return Table("Products", columns)


def profile_tables(profile: Profile, limit: int = 25) -> list[Table]:
    """Return tables of the time by operator and, if known, by layer, with at most ``limit`` lines each."""
    passes = max(profile.iterations, 1)
    missing = profile.flops.missing if profile.flops is not None else ()
    notes = [*profile.problems, *([f"operations not counted for {', '.join(missing)}"] if missing else [])]
    by_operator = _operator_table(profile.operators[:limit], passes, "; ".join(notes))
    return [by_operator, _layer_table(profile.layers[:limit], passes)] if profile.layers else [by_operator]


def _operator_table(rows: Sequence[OperatorRow], passes: int, note: str) -> Table:
    columns = (
        Column("operator", tuple(row.name for row in rows)),
        Column("shapes", tuple(shapes_text(row.shapes) for row in rows)),
        Column("ms per pass", tuple(_ms(row.seconds / passes) for row in rows), is_number=True),
        Column("share", tuple(_percent(row.share) for row in rows), is_number=True),
        Column("calls", tuple(_count(row.count, passes) for row in rows), is_number=True),
        Column("GFLOP/s", tuple(_number(row.gflops_per_second) for row in rows), is_number=True),
        Column("GB/s", tuple(_number(row.gigabytes_per_second) for row in rows), is_number=True),
        Column("FLOP/byte", tuple(_number(row.intensity) for row in rows), is_number=True),
        Column("kernel", tuple(row.kernel for row in rows)),
        Column("precision", tuple(row.precision for row in rows)),
    )
    return Table("By operator and shapes", columns, Text(note) if note else None)


def _layer_table(layers: Sequence[LayerRow], passes: int) -> Table:
    columns = (
        Column("layer", tuple(layer.path for layer in layers)),
        Column("kind", tuple(layer.kind for layer in layers)),
        Column("own ms", tuple(_ms(layer.own_seconds / passes) for layer in layers), is_number=True),
        Column("ms per pass", tuple(_ms(layer.seconds / passes) for layer in layers), is_number=True),
        Column("share", tuple(_percent(layer.share) for layer in layers), is_number=True),
        Column("calls", tuple(_count(layer.count, passes) for layer in layers), is_number=True),
        Column("GFLOP/s", tuple(map(_gflops, layers)), is_number=True),
    )
    return Table("By layer", columns)


def _gflops(layer: LayerRow) -> str:
    return _number(layer.flop / layer.seconds / 1e9 if layer.flop and layer.seconds > 0 else None)


def shapes_text(shapes: Sequence[Shape]) -> str:
    """Return shapes as ``1×64×56×56, 64×64×3×3``; after three tensors ``…``. Numbers, which have none, are left out."""
    tensors = [shape for shape in shapes if shape]
    shown = ["×".join(map(str, shape)) for shape in tensors[:3]]
    return ", ".join(shown) + (" …" if len(tensors) > 3 else "")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}"


def _count(count: int, passes: int) -> str:
    return f"{count / passes:g}"
