"""Which kernels and operators took the time, setting by setting: tables of audits and of profiles. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelzoo.document import Block, Column, Table, Text, lines
from modelzoo.formatting import MISSING, number, share
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import Evidence, NotReplayed, Product, ProofSource, Subnormals
from modelzoo.records.profile import Profile
from modelzoo.records.run_report import DECODE, PREFILL
from modelzoo.results.summary import SummaryRow
from modelzoo.views.products import kernel_text, layers_text, shapes_text


def passes_text(evidence: Evidence, new_tokens: int | None = None) -> str:
    """``2 audited passes``, or what a generation of so many tokens consists of."""
    if new_tokens is not None:
        steps = "1 step" if new_tokens == 2 else f"{new_tokens - 1} steps"
        return f"a prefill and {steps} of decoding"
    return f"{evidence.iterations} audited pass{'es' if evidence.iterations != 1 else ''}"


def evidence_of(each: SummaryRow) -> Evidence | None:
    """Return the evidence of the first process of a setting that was audited in full."""
    return next((report.observed.evidence for report in each.reports if report.observed.evidence is not None), None)


def kernel_parts(each: SummaryRow, name: str, products: int | None = None) -> Iterator[tuple[str, tuple[Block, ...]]]:
    """Yield the tables of the kernels of a setting and of each phase of a generation, as far as audited, with titles.

    Args:
        each: the setting.
        name: what it is called.
        products: the number of products to list; by default all.
    """
    evidence, made = evidence_of(each), each.generation
    phases = [phase for phase in made.phases if phase.evidence is not None] if made is not None else []
    if evidence is not None:
        tokens = made.new_tokens if made is not None and phases else None
        yield f"{name}: kernels of {passes_text(evidence, tokens)}", evidence_blocks(evidence, products)
    words = {PREFILL: "a prefill", DECODE: "one step of decoding"}
    for phase in phases:
        if phase.evidence is not None:
            yield f"{name}: kernels of {words.get(phase.name, phase.name)}", evidence_blocks(phase.evidence, products)


def operator_parts(each: SummaryRow, name: str) -> Iterator[tuple[str, tuple[Block, ...]]]:
    """Yield the tables of the profile of the first process of a setting that has one, with a title."""
    for profile in [found for report in each.reports if (found := report.observed.profile) is not None][:1]:
        yield (
            f"{name}: operators, {profile.iterations} passes profiled after the timing",
            tuple(profile_tables(profile)),
        )


def evidence_blocks(evidence: Evidence, products: int | None = None) -> tuple[Block, ...]:
    """Return what ``evidence_tables`` returns, what the audit could not do, and what of the kernel log is not read."""
    unread = evidence.coverage.unread
    count = [f"{unread} lines of oneDNN's output could not be read"] if unread else []
    said = [*evidence.problems, *count, *(f"could not be read: {line}" for line in evidence.unread_lines)]
    return (*evidence_tables(evidence, products=products), *([lines(*said)] if said else []))


def evidence_tables(evidence: Evidence, operators: int = 12, products: int | None = None) -> list[Table]:
    """Return tables of the time by kernel, by precision, by class of operators, by product and by operator.

    Args:
        evidence: what the audit found.
        products: the number of products to list; by default all.
        operators: the number of operators to list; the others are summed up in one line.
    """
    unattributed = f"unattributed: {share(evidence.unattributed_share)} of the time"
    if evidence.reference_share:
        kernels = ", ".join(evidence.reference_kernels)
        unattributed += f"; reference kernels ({kernels}): {share(evidence.reference_share)}"
    passes = max(evidence.iterations, 1)
    used = evidence.blas and any(evidence.blas.split(" ")[0] in row.name for row in evidence.by_implementation)
    blas = f"BLAS: {evidence.blas}" if used else ""
    tables = [
        _time_table("Kernels, by implementation", evidence.by_implementation, passes, note=blas),
        _time_table("By compute precision", evidence.by_precision, passes, note=unattributed),
        _class_table(evidence, passes),
        *filter(None, [product_table(evidence, products)]),
        _time_table("By operator", evidence.by_operator, passes, limit=operators),
    ]
    return [table for table in tables if table.rows or table.note]


def product_table(evidence: Evidence, limit: int | None = None) -> Table | None:
    """Return the table of the distinct products, the longest first, with what each showed itself; ``None`` without.

    Args:
        evidence: what the audit found.
        limit: the number of products to list; by default all.
    """
    products = sorted(evidence.products, key=lambda each: -(each.share or 0.0))
    shown = products[:limit]
    rest = products[len(shown) :]
    columns = (
        Column("layer", tuple(layers_text(each) for each in shown)),
        Column("shapes", tuple(shapes_text(each.shapes) for each in shown)),
        Column("calls", tuple(str(each.count) for each in shown), is_number=True),
        Column("share", tuple(share(each.share) for each in shown), is_number=True),
        Column("kernel", tuple(kernel_text(each) for each in shown)),
        Column("precision", tuple(each.precision for each in shown)),
        Column("error", tuple(number(each.error, ".1e") for each in shown), is_number=True),
        Column("known by", tuple(_known_by(each) for each in shown)),
    )
    note = [f"{len(rest)} more products took {share(sum(each.share or 0.0 for each in rest))}"] if rest else []
    if evidence.replay_seconds is not None:
        note.append(f"error: of the product called again after the pass, against fp64; {evidence.replay_seconds:.1f} s")
    return Table("Individual products", columns, Text("; ".join(note)) if note else None) if products else None


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


def _time_table(title: str, rows: Sequence[TimeShare], passes: int, limit: int | None = None, note: str = "") -> Table:
    shown = list(rows if limit is None else rows[:limit])
    rest = rows[len(shown) :]
    if rest:
        seconds, part = sum(row.seconds for row in rest), sum(row.share for row in rest)
        shown.append(TimeShare(f"{len(rest)} others", seconds, part, sum(row.count for row in rest)))
    columns = (
        Column("", tuple(row.name for row in shown)),
        Column("ms per pass", tuple(_ms(row.seconds / passes) for row in shown), is_number=True),
        Column("share", tuple(share(row.share) for row in shown), is_number=True),
        Column("calls", tuple(_count(row.count, passes) for row in shown), is_number=True),
    )
    return Table(title, columns, Text(note) if note else None)


def _class_table(evidence: Evidence, passes: int) -> Table:
    classes, reduced = evidence.classes, "bf16" if evidence.requested == "fp32" else evidence.requested
    errors = []
    for each in classes:  # the largest of the products of a class; the canary's, if any of them showed none
        own = (one for one in evidence.products if one.operator_class is each.operator_class and one.error is not None)
        largest = max(own, key=lambda one: one.error or 0.0, default=None)
        if each.is_replayed and largest is not None:
            errors.append(f"{largest.error:.1e} {largest.shown}")
        elif each.canary_error is None:
            errors.append(MISSING)
        else:
            errors.append(f"{each.canary_error:.1e} {each.canary_level}{' (canary)' if evidence.products else ''}")
    columns = (
        Column("", tuple(str(each.operator_class) for each in classes)),
        Column("ms per pass", tuple(_ms(each.seconds / passes) for each in classes), is_number=True),
        Column(f"in {reduced}", tuple(share(each.bf16_share) for each in classes), is_number=True),
        Column("precision", tuple(", ".join(each.precisions) for each in classes)),
        Column("largest error" if evidence.products else "canary", tuple(errors), is_number=True),
        Column("decided by", tuple(", ".join(map(str, each.decided_by)) for each in classes)),
    )
    return Table("Products", columns)


def profile_tables(profile: Profile, limit: int = 25) -> list[Table]:
    """Return tables of the time by operator and, if known, by layer, with at most ``limit`` lines each."""
    passes = max(profile.iterations, 1)
    missing = profile.flops.missing if profile.flops is not None else ()
    notes = [*profile.problems, *([f"operations not counted for {', '.join(missing)}"] if missing else [])]
    rows, layers = profile.operators[:limit], profile.layers[:limit]
    by_operator = (
        Column("operator", tuple(row.name for row in rows)),
        Column("shapes", tuple(shapes_text(row.shapes) for row in rows)),
        Column("ms per pass", tuple(_ms(row.seconds / passes) for row in rows), is_number=True),
        Column("share", tuple(share(row.share) for row in rows), is_number=True),
        Column("calls", tuple(_count(row.count, passes) for row in rows), is_number=True),
        Column("GFLOP/s", tuple(number(row.gflops_per_second, ".1f") for row in rows), is_number=True),
        Column("GB/s", tuple(number(row.gigabytes_per_second, ".1f") for row in rows), is_number=True),
        Column("FLOP/byte", tuple(number(row.intensity, ".1f") for row in rows), is_number=True),
        Column("kernel", tuple(row.kernel for row in rows)),
        Column("precision", tuple(row.precision for row in rows)),
    )
    tables = [Table("By operator and shapes", by_operator, Text("; ".join(notes)) if notes else None)]
    if layers:
        rates = [each.flop / each.seconds / 1e9 if each.flop and each.seconds > 0 else None for each in layers]
        by_layer = (
            Column("layer", tuple(each.path for each in layers)),
            Column("kind", tuple(each.kind for each in layers)),
            Column("own ms", tuple(_ms(each.own_seconds / passes) for each in layers), is_number=True),
            Column("ms per pass", tuple(_ms(each.seconds / passes) for each in layers), is_number=True),
            Column("share", tuple(share(each.share) for each in layers), is_number=True),
            Column("calls", tuple(_count(each.count, passes) for each in layers), is_number=True),
            Column("GFLOP/s", tuple(number(each, ".1f") for each in rates), is_number=True),
        )
        tables.append(Table("By layer", by_layer))
    return tables


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _count(count: int, passes: int) -> str:
    return f"{count / passes:g}"
