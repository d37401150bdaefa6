"""The tables and the file of a classifier's judgement."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from modelzoo.validity.agreement import Guess
from modelzoo.validity.outcome import Job, Table

SHOWN = 10
"""Pictures whose five classes are shown in the table; all of them are in the CSV file."""


def write(path: Path, guesses: Sequence[Guess], names: Sequence[str]) -> str:
    """All pictures' five classes, one row a rank."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("picture", "label", "rank", "fp32", "fp32_probability", "tested", "tested_probability"))
        for g in guesses:
            label = "" if g.label is None else names[g.label]
            for rank, pair in enumerate(zip(*g.top, *g.probabilities), start=1):
                row = (names[pair[0]], f"{pair[2]:.6f}", names[pair[1]], f"{pair[3]:.6f}")
                writer.writerow((g.name, label, rank, *row))
    return str(path)


def _named(g: Guess, side: int, names: Sequence[str]) -> str:
    if not g.finite[side]:
        return "NaN or Inf"
    return "\n".join(f"{100 * p:5.1f} % {names[i]}" for i, p in zip(g.top[side], g.probabilities[side]))


def top5_table(guesses: Sequence[Guess], names: Sequence[str], job: Job, file: str) -> Table:
    """The first pictures' five classes, both sides beside each other, one line a class."""
    rows = []
    for g in guesses[:SHOWN]:
        label = "" if g.label is None else f"\n({names[g.label]})"
        rows.append((g.name + label, _named(g, 0, names), _named(g, 1, names)))
    note = "" if len(guesses) <= SHOWN else f"the first {SHOWN} of {len(guesses)} pictures; all of them: {file}"
    return Table("Five most likely classes", ("picture", job.reference.name, job.tested.name), tuple(rows), note)


def set_table(figures: Mapping[str, float], labelled: bool, job: Job) -> Table:
    """The figures over the set."""

    def percent(name: str) -> str:
        return f"{100 * figures[name]:.2f} %" if name in figures else "–"

    def number(name: str) -> str:
        return f"{figures[name]:.3g}" if name in figures else "–"

    rows = []
    if labelled:
        rows += [
            (title, percent(f"{n}_reference"), percent(f"{n}_tested"))
            for title, n in (("top-1 accuracy", "top1"), ("top-5 accuracy", "top5"))
        ]
    rows += [
        ("top-1 agreement", "", percent("top1_agreement")),
        ("top-5 agreement (classes in common)", "", percent("top5_agreement")),
        ("flips (of them near ties)", "", f"{figures['flips']:.0f} ({figures['near_ties']:.0f})"),
        ("KL divergence, nats: mean, max", "", f"{number('kl_mean')}, {number('kl_max')}"),
        (
            "change of a probability: mean, max of the largest",
            "",
            f"{number('probability_drift_mean')}, {number('probability_drift_max')}",
        ),
        (
            "relative error of the logits: mean, max",
            "",
            f"{number('logit_error_mean')}, {number('logit_error_max')}",
        ),
    ]
    return Table("Over the set", ("", job.reference.name, job.tested.name), tuple(rows))


def flip_tables(guesses: Sequence[Guess], names: Sequence[str]) -> tuple[Table, ...]:
    """The largest flips with both candidates and their margin; no table where there are none."""
    flips = [g for g in guesses if all(g.finite) and not g.agrees]
    if not flips:
        return ()
    rows = tuple(
        (
            g.name,
            "" if g.label is None else names[g.label],
            f"{names[g.top[0][0]]} ({100 * g.probabilities[0][0]:.1f} %)",
            f"{names[g.top[1][0]]} ({100 * g.probabilities[1][0]:.1f} %)",
            f"{g.margin:.3f}" + (" near tie" if g.tie else ""),
        )
        for g in sorted(flips, key=lambda g: -g.margin)[:20]
    )
    note = "margin: fp32's logit of its winner minus that of the other; near tie: within one bf16 step"
    return (Table("Flips", ("picture", "class", "fp32", "tested", "margin"), rows, note),)
