"""One answered question, and the tables and the file of a judgement of answers."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelzoo.validity.outcome import Job, Table
from modelzoo.validity.spans import Span
from modelzoo.validity.squad import Question

SHOWN = 40
"""Questions in the table; all of them are in the CSV file."""
COLUMNS = (
    *("id", "question", "fp32", "fp32_probability", "fp32_f1"),
    *("tested", "tested_probability", "tested_f1", "margin"),
)


@dataclass(frozen=True)
class Answered:
    """One question under both sides.

    Attributes:
        spans: the answers of (reference, tested).
        exact: their exact match, f1: their F1, from 0 to 1.
        kept: F1 of the tested answer with the reference's as gold.
        margin: reference's score of its own span minus that of the tested's span, in logits.
        tie: whether the margin is within one bf16 step of both logits.
        drift: largest change of a start or end logit. error: relative error of the logits.
        finite: (reference, tested) free of NaN and Inf.
    """

    question: Question
    spans: tuple[Span, Span]
    exact: tuple[float, float]
    f1: tuple[float, float]
    kept: float
    margin: float
    tie: bool
    drift: float
    error: float
    finite: tuple[bool, bool]

    @property
    def same(self) -> bool:
        """Whether both sides give the same text (never where one is not finite)."""
        return all(self.finite) and self.spans[0].text == self.spans[1].text


def write(path: Path, done: Sequence[Answered]) -> str:
    """All answers of both sides with their scores, one row a question."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for a in done:
            cells = [
                cell for span, f1 in zip(a.spans, a.f1) for cell in (span.text, f"{span.probability:.4f}", f"{f1:.4f}")
            ]
            writer.writerow((a.question.id, a.question.question, *cells, f"{a.margin:.4f}"))
    return str(path)


def answers_table(done: Sequence[Answered], job: Job, file: str) -> Table:
    """The answers with their probabilities, the changed ones first."""

    def said(a: Answered, side: int) -> str:
        if not a.finite[side]:
            return "NaN or Inf"
        span = a.spans[side]
        return f"{span.text or '(no answer)'} ({100 * span.probability:.0f} %)"

    def changed(a: Answered) -> str:
        if a.same:
            return "same"
        return f"changed, margin {a.margin:.3f}" + (" (near tie)" if a.tie else "")

    chosen = sorted(done, key=lambda a: a.same)[:SHOWN]
    rows = tuple(
        (
            a.question.question,
            a.question.answers[0] if a.question.answers else "(none)",
            said(a, 0),
            said(a, 1),
            f"{100 * a.f1[0]:.0f} | {100 * a.f1[1]:.0f}",
            changed(a),
        )
        for a in chosen
    )
    note = ""
    if len(done) > SHOWN:
        note = f"{len(chosen)} of {len(done)}, the changed ones first; all of them: {file}"
    columns = ("question", "expected", job.reference.name, job.tested.name, "F1", "")
    return Table("Answers", columns, rows, note)


def set_table(figures: Mapping[str, float], job: Job) -> Table:
    """The figures over the set."""

    def pair(name: str) -> tuple[str, str, str]:
        first, second = 100 * figures[f"{name}_reference"], 100 * figures[f"{name}_tested"]
        return f"{first:.2f}", f"{second:.2f}", f"{second - first:+.2f}"

    rows = [("exact match", *pair("em")), ("F1", *pair("f1"))]
    rows.append(("identical answers", "", f"{100 * figures['identical_answers']:.1f} %", ""))
    rows.append(("F1 of the answers with fp32's as gold", "", f"{100 * figures['answer_agreement']:.1f}", ""))
    if "logit_drift_mean" in figures:
        drift = f"{figures['logit_drift_mean']:.3g}, {figures['logit_drift_max']:.3g}"
        rows.append(("largest change of a start or end logit: mean, max", "", drift, ""))
        error = f"{figures['logit_error_mean']:.3g}, {figures['logit_error_max']:.3g}"
        rows.append(("relative error of the logits: mean, max", "", error, ""))
    return Table("Over the set", ("", job.reference.name, job.tested.name, "difference"), tuple(rows))
