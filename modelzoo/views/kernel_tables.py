"""Which kernels and operators took the time, setting by setting: tables of audits and of profiles; what a product is
called, and what is wrong with it. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from modelzoo.document import Block, Column, Rows, Table, lines
from modelzoo.formatting import counted, number, share, significant
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import ClassVerdict, Evidence, NotReplayed, Product, ProofSource, Subnormals
from modelzoo.records.profile import LayerRow, OperatorRow, Profile, Shape
from modelzoo.records.run_report import DECODE, PREFILL
from modelzoo.results.summary import SummaryRow

_MOST_OPERATORS, _MOST_PROFILED = 12, 25
"""Operators of an audit that are listed, the others being summed up; operators, and layers, of a profile."""
Timed = TypeVar("Timed", TimeShare, OperatorRow, LayerRow)


def evidence_of(each: SummaryRow) -> Evidence | None:
    """Return the evidence of the first process of a setting that was audited in full."""
    return next((report.observed.evidence for report in each.reports if report.observed.evidence is not None), None)


def kernel_parts(each: SummaryRow, name: str, products: int | None = None) -> Iterator[tuple[str, Sequence[Block]]]:
    """Yield the tables of the kernels of a setting and of each phase of a generation, as far as audited, with titles.

    Args:
        each: the setting.
        name: what it is called.
        products: the number of products to list; by default all.
    """
    evidence, made = evidence_of(each), each.generation
    phases = [(each.name, each.evidence) for each in (made.phases if made is not None else ()) if each.evidence]
    if evidence is not None:
        passes = f"{evidence.iterations} audited pass{'es' if evidence.iterations != 1 else ''}"
        if made is not None and phases:
            passes = f"a prefill and {made.new_tokens - 1} step{'s' if made.new_tokens != 2 else ''} of decoding"
        yield f"{name}: kernels of {passes}", evidence_blocks(evidence, products)
    words = {PREFILL: "a prefill", DECODE: "one step of decoding"}
    for phase, found in phases:
        yield f"{name}: kernels of {words.get(phase, phase)}", evidence_blocks(found, products)


def operator_parts(each: SummaryRow, name: str) -> Iterator[tuple[str, Sequence[Block]]]:
    """Yield the tables of the profile of the first process of a setting that has one, with a title."""
    for profile in [found for report in each.reports if (found := report.observed.profile) is not None][:1]:
        yield f"{name}: operators, {profile.iterations} passes profiled after the timing", profile_tables(profile)


def evidence_blocks(evidence: Evidence, products: int | None = None) -> list[Block]:
    """Return tables of the time by kernel, by precision, by class of operators, by product and by operator.

    What the audit could not do stands below them, and what of the kernel log is not read.

    Args:
        evidence: what the audit found.
        products: the number of products to list; by default all.
    """
    unattributed = f"unattributed: {share(evidence.unattributed_share)} of the time"
    if evidence.reference_share:
        kernels = ", ".join(evidence.reference_kernels)
        unattributed += f"; reference kernels ({kernels}): {share(evidence.reference_share)}"
    used = evidence.blas and any(evidence.blas.split(" ")[0] in row.name for row in evidence.by_implementation)
    blas = f"BLAS: {evidence.blas}" if used else ""
    rest = evidence.by_operator[_MOST_OPERATORS:]
    others = TimeShare(
        f"{len(rest)} others",
        sum(row.seconds for row in rest),
        sum(row.share for row in rest),
        sum(row.count for row in rest),
    )
    operators = (*evidence.by_operator[:_MOST_OPERATORS], *([others] if rest else []))
    tables = (
        _time_table("Kernels, by implementation", evidence, evidence.by_implementation, blas),
        _time_table("By compute precision", evidence, evidence.by_precision, unattributed),
        _class_table(evidence),
        product_table(evidence, products),
        _time_table("By operator", evidence, operators),
    )
    unread = evidence.coverage.unread
    counted_lines = [f"{unread} lines of oneDNN's output could not be read"] if unread else []
    said = lines(*evidence.problems, *counted_lines, *(f"could not be read: {line}" for line in evidence.unread_lines))
    return [*(table for table in tables if table.rows or table.note), said]


def product_table(evidence: Evidence, limit: int | None = None) -> Table:
    """Return the table of the distinct products, the longest first, with what each showed itself.

    Args:
        evidence: what the audit found.
        limit: the number of products to list; by default all.
    """
    products = sorted(evidence.products, key=lambda each: -(each.share or 0.0))
    of = Rows(products[:limit])
    columns = (
        of.text("layer", layers_text),
        of.text("shapes", lambda each: shapes_text(each.shapes)),
        of.number("calls", lambda each: each.count),
        of.number("share", lambda each: share(each.share)),
        of.text("kernel", kernel_text),
        of.text("precision", lambda each: each.precision),
        of.number("error", lambda each: number(each.error, ".1e")),
        of.text("known by", _known_by),
    )
    rest, note = products[len(of.rows) :], []
    if rest:
        note.append(f"{len(rest)} more products took {share(sum(each.share or 0.0 for each in rest))}")
    if products and evidence.replay_seconds is not None:
        note.append(f"error: of the product called again after the pass, against fp64; {evidence.replay_seconds:.1f} s")
    return Table("Individual products", columns, "; ".join(note))


_SOURCES = {ProofSource.BOTH: "error and log", ProofSource.REPLAY: "error"}
_WHY = {
    NotReplayed.BUDGET: "the time for replays was used up",
    NotReplayed.NO_REFERENCE: "the operator is not known",
    NotReplayed.NOT_FLOATING: "packed or integer operands",
    NotReplayed.OTHER_KERNELS: "other kernels ran",
    NotReplayed.FAILED: "it raised an error",
    NotReplayed.NOT_FINITE: "no output is finite",
}
_SUBNORMALS = {
    Subnormals.FLUSHED: "bf16 instructions (subnormal products are 0)",
    Subnormals.IN_FP32: "no bf16 instruction (subnormal products are kept)",
    Subnormals.KEPT: "bf16 instructions are not shown (subnormal products are kept)",
    Subnormals.MIXED: "bf16 instructions in part (some subnormal products are 0)",
}


def _known_by(product: Product) -> str:
    """``error and log``; ``kernel log, not replayed: other kernels ran``; that log and error disagree."""
    said = _SOURCES.get(product.known_by, str(product.known_by))
    if product.subnormals is not None:
        found = _SUBNORMALS[product.subnormals]
        said = found if product.known_by is ProofSource.PROBE else f"{said}; {found}"
    if product.disagrees:
        said = f"{said}; the log names {product.logged}, the error shows {product.shown}"
    if product.not_replayed is None:
        return said
    if product.known_by is ProofSource.BOTH:
        said = "canary and log"
    detail = f" ({product.detail})" if product.detail else ""
    return f"{said}, not replayed: {_WHY[product.not_replayed]}{detail}"


def _time_table(title: str, evidence: Evidence, rows: Sequence[TimeShare], note: str = "") -> Table:
    of = Rows(rows)
    return Table(title, (of.text("", lambda row: row.name), *_times(of, evidence.iterations)), note)


def _class_table(evidence: Evidence) -> Table:
    reduced = "bf16" if evidence.requested == "fp32" else evidence.requested

    def error(each: ClassVerdict) -> str | None:
        """The largest of the products of a class; the canary's, if any of them showed none."""
        own = (one for one in evidence.products if one.operator_class is each.operator_class and one.error is not None)
        largest = max(own, key=lambda one: one.error or 0.0, default=None)
        if each.is_replayed and largest is not None:
            return f"{largest.error:.1e} {largest.shown}"
        if each.canary_error is None:
            return None
        return f"{each.canary_error:.1e} {each.canary_level}{' (canary)' if evidence.products else ''}"

    of = Rows(evidence.classes)
    columns = (
        of.text("", lambda each: each.operator_class),
        of.number("ms per pass", lambda each: _ms(each.seconds, evidence.iterations)),
        of.number(f"in {reduced}", lambda each: share(each.bf16_share)),
        of.text("precision", lambda each: ", ".join(each.precisions)),
        of.number("largest error" if evidence.products else "canary", error),
        of.text("decided by", lambda each: ", ".join(map(str, each.decided_by))),
    )
    return Table("Products", columns)


def profile_tables(profile: Profile) -> list[Table]:
    """Return tables of the time by operator and, if known, by layer."""
    missing = profile.flops.missing if profile.flops is not None else ()
    notes = [*profile.problems, *([f"operations not counted for {', '.join(missing)}"] if missing else [])]
    of, layers = Rows(profile.operators[:_MOST_PROFILED]), Rows(profile.layers[:_MOST_PROFILED])
    by_operator = (
        of.text("operator", lambda row: row.name),
        of.text("shapes", lambda row: shapes_text(row.shapes)),
        *_times(of, profile.iterations),
        of.number("GFLOP/s", lambda row: number(row.gflops_per_second, ".1f")),
        of.number("GB/s", lambda row: number(row.gigabytes_per_second, ".1f")),
        of.number("FLOP/byte", lambda row: number(row.intensity, ".1f")),
        of.text("kernel", lambda row: row.kernel),
        of.text("precision", lambda row: row.precision),
    )
    by_layer = (
        layers.text("layer", lambda row: row.path),
        layers.text("kind", lambda row: row.kind),
        layers.number("own ms", lambda row: _ms(row.own_seconds, profile.iterations)),
        *_times(layers, profile.iterations),
        layers.number(
            "GFLOP/s", lambda row: f"{row.flop / row.seconds / 1e9:.1f}" if row.flop and row.seconds else None
        ),
    )
    tables = [Table("By operator and shapes", by_operator, "; ".join(notes))]
    return [*tables, Table("By layer", by_layer)] if layers.rows else tables


def _times(of: Rows[Timed], passes: int) -> list[Column]:
    return [
        of.number("ms per pass", lambda row: _ms(row.seconds, passes)),
        of.number("share", lambda row: share(row.share)),
        of.number("calls", lambda row: f"{row.count / max(passes, 1):g}"),
    ]


def _ms(seconds: float, passes: int) -> str:
    return f"{seconds / max(passes, 1) * 1e3:.3f}"


def layers_text(product: Product) -> str:
    """``layer1.0.conv1``; of several ``layer1.0.conv1 and 2 more``; the operator, if none is known to call it."""
    if not product.layers:
        return product.operator
    others = len(product.layers) - 1
    return product.layers[0] + (f" and {others} more" if others else "")


def shapes_text(shapes: Sequence[Shape]) -> str:
    """Return shapes as ``1×64×56×56, 64×64×3×3``; after three tensors ``…``. Numbers, which have none, are left out."""
    tensors = [shape for shape in shapes if shape]
    shown = ["×".join(map(str, shape)) for shape in tensors[:3]]
    return ", ".join(shown) + (" …" if len(tensors) > 3 else "")


def kernel_text(product: Product) -> str:
    """The kernels that the logs name."""
    if product.kernels is None:
        return "no kernel log"
    # oneDNN's names begin with the kind of product, which the shapes show.
    names = (re.sub("^oneDNN [a-z_]+ ", "oneDNN ", each) for each in product.kernels)
    return ", ".join(dict.fromkeys(names)) or "named by no log"


def wrong_text(evidence: Evidence) -> str:
    """The products whose outputs no precision explains, with what is known of the worst one."""
    if not evidence.wrong:
        return "it is not recorded of which products"
    worst = max(evidence.wrong, key=lambda each: each.wrong.excess or math.inf if each.wrong is not None else 0.0)
    more = len(evidence.wrong) - 1
    also = f"; likewise {counted(more, 'more product')}" if more else ""
    name = f"{worst.operator} in {layers_text(worst)}" if worst.layers else worst.operator
    shapes, kernel = shapes_text(worst.shapes), kernel_text(worst)
    return f"{name} ({worst.operands}, {shapes}; kernel: {kernel}): {fault_text(worst)}{also}"


def fault_text(product: Product) -> str:
    """What is wrong with the outputs of a product."""
    wrong = product.wrong
    if wrong is None:
        return ""
    if wrong.fault == "other row":
        return f"a NaN in one row of its left operand spoils {wrong.outputs} of {wrong.compared} rows of the output"
    of = f"{wrong.outputs:,} of {wrong.compared:,} outputs"
    if wrong.fault == "not finite":
        return f"{of} are not finite where the exact ones are, or the reverse"
    excess = (
        "without bound" if wrong.excess is None else f"{significant(wrong.excess, 2)} times as far as rounding explains"
    )
    error = "" if product.error is None else f"; error {product.error:.1e}"
    return f"{of} are off, up to {excess}{error}"
