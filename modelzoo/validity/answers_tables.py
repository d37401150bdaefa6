"""The tables and the CSV rows of a judgement of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelzoo.records.partial import AnsweredQuestion, ScoredAnswer
from modelzoo.records.validity import Table
from modelzoo.validity.protocol import TaskContext

SHOWN = 40
"""Questions in the table; the CSV file holds all of them."""
CSV_COLUMNS = (
    *("id", "question", "fp32", "fp32_probability", "fp32_f1"),
    *("tested", "tested_probability", "tested_f1", "margin"),
)


def csv_rows(questions: Sequence[AnsweredQuestion]) -> tuple[tuple[str, ...], ...]:
    """Both answers to each question with their scores, one row per question."""
    rows = []
    for q in questions:
        cells = [
            cell
            for answer in (q.reference, q.tested)
            for cell in (answer.text, f"{answer.probability:.4f}", f"{answer.f1:.4f}")
        ]
        rows.append((q.id, q.question, *cells, "nan" if q.margin is None else f"{q.margin:.4f}"))
    return tuple(rows)


def answers_table(questions: Sequence[AnsweredQuestion], context: TaskContext) -> Table:
    """The answers with their probabilities, changed ones first."""

    def shown(answer: ScoredAnswer) -> str:
        if not answer.finite:
            return "NaN or Inf"
        return f"{answer.text or '(no answer)'} ({100 * answer.probability:.0f} %)"

    def change(q: AnsweredQuestion) -> str:
        if q.same:
            return "same"
        margin = "nan" if q.margin is None else f"{q.margin:.3f}"
        return f"changed, margin {margin}" + (" (near tie)" if q.near_tie else "")

    chosen = sorted(questions, key=lambda q: q.same)[:SHOWN]
    rows = tuple(
        (
            q.question,
            "(none)" if q.expected is None else q.expected,
            shown(q.reference),
            shown(q.tested),
            f"{100 * q.reference.f1:.0f} | {100 * q.tested.f1:.0f}",
            change(q),
        )
        for q in chosen
    )
    note = ""
    if len(questions) > SHOWN:
        file = f"{context.workload}_answers.csv"
        note = f"{len(chosen)} of {len(questions)}, changed ones first; all of them: {file}"
    columns = ("question", "expected", context.reference_name, context.tested_name, "F1", "")
    return Table("Answers", columns, rows, note)


def summary_table(figures: Mapping[str, float], context: TaskContext) -> Table:
    """The figures over the data set."""

    def both(name: str) -> tuple[str, str, str]:
        first, second = 100 * figures[f"{name}_reference"], 100 * figures[f"{name}_tested"]
        return f"{first:.2f}", f"{second:.2f}", f"{second - first:+.2f}"

    rows = [("exact match", *both("em")), ("F1", *both("f1"))]
    rows.append(("identical answers", "", f"{100 * figures['identical_answers']:.1f} %", ""))
    rows.append(("F1 of the answers with fp32's as gold", "", f"{100 * figures['answer_agreement']:.1f}", ""))
    if "logit_drift_mean" in figures:
        change = f"{figures['logit_drift_mean']:.3g}, {figures['logit_drift_max']:.3g}"
        rows.append(("largest change of a start or end logit: mean, max", "", change, ""))
        error = f"{figures['logit_error_mean']:.3g}, {figures['logit_error_max']:.3g}"
        rows.append(("relative error of the logits: mean, max", "", error, ""))
    return Table("Over the set", ("", context.reference_name, context.tested_name, "difference"), tuple(rows))
