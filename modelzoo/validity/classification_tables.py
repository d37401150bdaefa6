"""The tables and the CSV rows of a classifier's judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelzoo.records.partial import ClassifiedPicture, TopClasses
from modelzoo.records.validity import Table
from modelzoo.validity.protocol import TaskContext

SHOWN = 10
"""Pictures whose five classes are in the table; the CSV file holds all of them."""
CHANGED_SHOWN = 20
CSV_COLUMNS = ("picture", "label", "rank", "fp32", "fp32_probability", "tested", "tested_probability")


def csv_rows(pictures: Sequence[ClassifiedPicture], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The five classes of each picture, one row per rank."""
    rows = []
    for p in pictures:
        label = "" if p.label is None else names[p.label]
        ranked = zip(p.reference.classes, p.reference.probabilities, p.tested.classes, p.tested.probabilities)
        for rank, (first, first_probability, second, second_probability) in enumerate(ranked, start=1):
            values = (names[first], f"{first_probability:.6f}", names[second], f"{second_probability:.6f}")
            rows.append((p.name, label, str(rank), *values))
    return tuple(rows)


def _listed(top: TopClasses, names: Sequence[str]) -> str:
    if not top.finite:
        return "NaN or Inf"
    return "\n".join(f"{100 * p:5.1f} % {names[i]}" for i, p in zip(top.classes, top.probabilities))


def top5_table(pictures: Sequence[ClassifiedPicture], names: Sequence[str], context: TaskContext) -> Table:
    """The five classes of the first pictures by both models, one line per class."""
    rows = []
    for p in pictures[:SHOWN]:
        label = "" if p.label is None else f"\n({names[p.label]})"
        rows.append((p.name + label, _listed(p.reference, names), _listed(p.tested, names)))
    note = ""
    if len(pictures) > SHOWN:
        note = f"the first {SHOWN} of {len(pictures)} pictures; all of them: {context.workload}_top5.csv"
    columns = ("picture", context.reference_name, context.tested_name)
    return Table("Five most likely classes", columns, tuple(rows), note)


def summary_table(figures: Mapping[str, float], labelled: bool, context: TaskContext) -> Table:
    """The figures over the data set."""

    def percent(name: str) -> str:
        return f"{100 * figures[name]:.2f} %" if name in figures else "–"

    def number(name: str) -> str:
        return f"{figures[name]:.3g}" if name in figures else "–"

    def mean_and_max(name: str) -> str:
        return f"{number(f'{name}_mean')}, {number(f'{name}_max')}"

    rows = []
    if labelled:
        rows += [
            (title, percent(f"{name}_reference"), percent(f"{name}_tested"))
            for title, name in (("top-1 accuracy", "top1"), ("top-5 accuracy", "top5"))
        ]
    rows += [
        ("top-1 agreement", "", percent("top1_agreement")),
        ("top-5 agreement (classes in common)", "", percent("top5_agreement")),
        ("flips (of them near ties)", "", f"{figures['flips']:.0f} ({figures['near_ties']:.0f})"),
        ("KL divergence, nats: mean, max", "", mean_and_max("kl")),
        ("largest change of a probability: mean, max", "", mean_and_max("probability_drift")),
        ("relative error of the logits: mean, max", "", mean_and_max("logit_error")),
    ]
    return Table("Over the set", ("", context.reference_name, context.tested_name), tuple(rows))


def changed_tables(pictures: Sequence[ClassifiedPicture], names: Sequence[str]) -> tuple[Table, ...]:
    """The pictures whose first class changed, largest margin first; no table if none did."""
    changed = [p for p in pictures if p.finite and not p.agrees]
    if not changed:
        return ()

    def first(top: TopClasses) -> str:
        return f"{names[top.classes[0]]} ({100 * top.probabilities[0]:.1f} %)"

    rows = tuple(
        (
            p.name,
            "" if p.label is None else names[p.label],
            first(p.reference),
            first(p.tested),
            f"{p.margin:.3f}" + (" near tie" if p.near_tie else ""),
        )
        for p in sorted(changed, key=lambda p: -p.margin)[:CHANGED_SHOWN]
    )
    note = "margin: fp32's logit of its first class minus that of the other; near tie: within one rounding step"
    return (Table("Flips", ("picture", "class", "fp32", "tested", "margin"), rows, note),)
