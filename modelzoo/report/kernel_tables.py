"""Tables of kernels and operator profiles, for the terminal (rich)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelzoo.records.evidence import Evidence, TimeShare
from modelzoo.records.profile import LayerRow, OperatorRow, Profile, Shape

if TYPE_CHECKING:
    from rich.table import Table


def _table(title: str, *columns: str, caption: str | None = None) -> Table:
    """A table whose first column is text; the others are right-aligned numbers."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left", box=None)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold")
    return table


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
    blas = f"BLAS: {evidence.blas}" if used else None
    return [
        _time_table("Kernels, by implementation", evidence.by_implementation, passes, caption=blas),
        _time_table("By compute precision", evidence.by_precision, passes, caption=unattributed),
        _class_table(evidence, passes),
        _time_table("By operator", evidence.by_operator, passes, limit=operators),
    ]


def _time_table(
    title: str, rows: Sequence[TimeShare], passes: int, limit: int | None = None, caption: str | None = None
) -> Table:
    table = _table(title, "", "ms per pass", "share", "calls", caption=caption)
    shown = rows if limit is None else rows[:limit]
    for row in shown:
        table.add_row(row.name, _ms(row.seconds / passes), _percent(row.share), _count(row.count, passes))
    rest = rows[len(shown) :]
    if rest:
        seconds, share = sum(row.seconds for row in rest), sum(row.share for row in rest)
        calls = _count(sum(row.count for row in rest), passes)
        table.add_row(f"{len(rest)} others", _ms(seconds / passes), _percent(share), calls)
    return table


def _class_table(evidence: Evidence, passes: int) -> Table:
    table = _table("Products", "", "ms per pass", "in bf16", "precision", "canary", "decided by")
    for each in evidence.classes:
        canary = f"{each.canary_error:.1e} {each.canary_level}" if each.canary_error is not None else "–"
        table.add_row(
            each.operator_class,
            _ms(each.seconds / passes),
            _percent(each.bf16_share),
            ", ".join(each.precisions),
            canary,
            ", ".join(each.decided_by),
        )
    return table


def profile_tables(profile: Profile, limit: int = 25) -> list[Table]:
    """Return tables of the time by operator and, if known, by layer, with at most ``limit`` lines each."""
    passes = max(profile.iterations, 1)
    columns = ("ms per pass", "share", "calls", "GFLOP/s", "GB/s", "FLOP/byte", "kernel", "precision")
    caption = "; ".join(profile.problems) or None
    by_operator = _table("By operator and shapes", "operator", "shapes", *columns, caption=caption)
    for index in (1, -2, -1):
        by_operator.columns[index].justify = "left"
    for row in profile.operators[:limit]:
        by_operator.add_row(row.name, shapes_text(row.shapes), *_operator_cells(row, passes))
    return [by_operator, _layer_table(profile.layers[:limit], passes)] if profile.layers else [by_operator]


def _layer_table(layers: Sequence[LayerRow], passes: int) -> Table:
    table = _table("By layer", "layer", "kind", "own ms", "ms per pass", "share", "calls", "GFLOP/s")
    table.columns[1].justify = "left"
    for layer in layers:
        speed = layer.flop / layer.seconds / 1e9 if layer.flop and layer.seconds > 0 else None
        table.add_row(
            layer.path,
            layer.kind,
            _ms(layer.own_seconds / passes),
            _ms(layer.seconds / passes),
            _percent(layer.share),
            _count(layer.count, passes),
            _number(speed),
        )
    return table


def _operator_cells(row: OperatorRow, passes: int) -> list[str]:
    return [
        _ms(row.seconds / passes),
        _percent(row.share),
        _count(row.count, passes),
        _number(row.gflops_per_second),
        _number(row.gigabytes_per_second),
        _number(row.intensity),
        row.kernel,
        row.precision,
    ]


def shapes_text(shapes: Sequence[Shape]) -> str:
    """Return shapes as ``1×64×56×56, 64×64×3×3``; after three tensors ``…``."""
    shown = ["×".join(map(str, shape)) for shape in shapes[:3]]
    return ", ".join(shown) + (" …" if len(shapes) > 3 else "")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _count(count: int, passes: int) -> str:
    return f"{count / passes:g}"
