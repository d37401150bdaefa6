"""Judge a question-answering model: the answers beside each other, EM and F1 by SQuAD's rules, drift."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelzoo.validity import explain, squad, verdict
from modelzoo.validity.agreement import bf16_step, share
from modelzoo.validity.ahead import ahead, batches, padded
from modelzoo.validity.outcome import Check, Progress, Side, Table, Validity, ValidityRequest, no_progress
from modelzoo.validity.pictures import sampled
from modelzoo.validity.rounding import LayerError, layer_errors, probe_size
from modelzoo.validity.spans import FIELDS, Span, Windows, best, score_of, windows
from modelzoo.validity.squad import Question
from modelzoo.validity.task import Answers
from modelzoo.validity.thresholds import hold

PROBE = 4
"""Windows whose layers are compared."""
SHOWN = 40
"""Questions in the table; all of them are in the CSV file."""


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


def judge(
    workload: str,
    task: Answers,
    reference: Side,
    tested: Side,
    request: ValidityRequest,
    progress: Progress = no_progress,
) -> Validity:
    """Judge ``tested`` against ``reference``; see ``modelzoo.validity.judge``."""
    questions = squad.read(request.data or squad.BUILTIN)
    v2 = any(not question.answers for question in questions)
    questions = sampled(questions, request.limit, request.seed)
    tokenizer = task.tokenizer(request.model_path)
    size = probe_size(tested, request.batch, PROBE)
    first = [row for question in questions[:size] for row in _rows(windows(question, tokenizer, task))]
    layers = layer_errors(
        reference,
        tested,
        _arguments(task, first[:size], size),
        task.layers,
        lambda output: _both(task, output),
    )
    done: list[Answered] = []
    # One thread: a fast tokenizer's padding and truncation are state that threads must not share.
    prepared = ahead(
        questions, lambda question: windows(question, tokenizer, task), 4 * request.batch, workers=1
    )
    for made, right, ours in _logits(prepared, task, reference, tested, request.batch):
        done.append(_answered(made, right, ours, task, v2, tested.precision == "bf16"))
        progress(
            len(done),
            len(questions),
            f"F1 {100 * _mean(done, 'f1', 0):.1f} | {100 * _mean(done, 'f1', 1):.1f}",
        )
    request.output.mkdir(parents=True, exist_ok=True)
    files = [_write(request.output / f"{workload}_answers.csv", done)]
    if request.explain:
        files += explain.explained(layers, request, workload, tested.name)
    return _validity(workload, task, done, layers, files, request, reference, tested)


def _rows(made: Windows) -> list[dict[str, Any]]:
    """The windows of a question one by one."""
    return [{name: made.fields[name][w] for name in FIELDS} for w in range(len(made.offsets))]


def _arguments(task: Answers, rows: Sequence[dict[str, Any]], size: int) -> tuple[Any, ...]:
    import numpy as np
    import torch

    full = padded(list(rows), size)
    return task.arguments({name: torch.from_numpy(np.stack([row[name] for row in full])) for name in FIELDS})


def _both(task: Answers, output: Any) -> Any:
    """Start and end logits as one tensor [2, N, L]."""
    import torch

    return torch.stack([logits.float() for logits in task.logits(output)])


def _logits(
    prepared: Iterator[Windows], task: Answers, reference: Side, tested: Side, batch: int
) -> Iterator[tuple[Windows, Any, Any]]:
    """Run both sides over all windows in full batches; yield each question with its logits [2, W, L]."""
    import numpy as np
    import torch

    waiting: list[Windows] = []
    held: tuple[list[Any], list[Any]] = ([], [])

    def rows() -> Iterator[dict[str, Any]]:
        for made in prepared:
            waiting.append(made)
            yield from _rows(made)

    for group in batches(rows(), batch):
        args = _arguments(task, group, batch)
        for side, logits in zip((reference, tested), held):
            with torch.no_grad(), side.active():
                output = _both(task, side.call(*args))
            logits += list(output.detach()[:, : len(group)].double().cpu().numpy().transpose(1, 0, 2))
        while waiting and len(waiting[0].offsets) <= len(held[0]):
            made = waiting.pop(0)
            count = len(made.offsets)
            right, ours = (np.stack(logits[:count]).transpose(1, 0, 2) for logits in held)
            for logits in held:
                del logits[:count]
            yield made, right, ours


def _answered(made: Windows, right: Any, ours: Any, task: Answers, v2: bool, ties: bool) -> Answered:
    import numpy as np

    finite = (bool(np.isfinite(right).all()), bool(np.isfinite(ours).all()))
    gold = made.question.answers
    if not all(finite):
        nothing = Span("", -1, 0, 0, math.nan, 0.0)
        spans = [best(made, x, task, v2) if good else nothing for x, good in zip((right, ours), finite)]
        scores = [squad.scores(span.text, gold) if good else (0.0, 0.0) for span, good in zip(spans, finite)]
        return Answered(
            made.question, (spans[0], spans[1]), (scores[0][0], scores[1][0]), (scores[0][1], scores[1][1]),
            0.0, math.nan, False, math.nan, math.nan, finite,
        )  # fmt: skip
    first, second = best(made, right, task, v2), best(made, ours, task, v2)
    scored = (squad.scores(first.text, gold), squad.scores(second.text, gold))
    margin = first.score - score_of(second, right)
    tie = ties and margin <= 2 * bf16_step(first.score / 2)
    real = made.fields["attention_mask"].astype(bool)
    expected, seen = right[:, real], ours[:, real]
    size = float(np.linalg.norm(expected))
    error = float(np.linalg.norm(seen - expected)) / size if size else 0.0
    return Answered(
        made.question, (first, second), (scored[0][0], scored[1][0]), (scored[0][1], scored[1][1]),
        squad.f1(second.text, first.text), margin, tie, float(np.abs(seen - expected).max()), error, finite,
    )  # fmt: skip


def _mean(done: Sequence[Answered], name: str, side: int) -> float:
    return sum(getattr(answered, name)[side] for answered in done) / len(done)


def _validity(
    workload: str,
    task: Answers,
    done: list[Answered],
    layers: tuple[LayerError, ...],
    files: list[str],
    request: ValidityRequest,
    reference: Side,
    tested: Side,
) -> Validity:
    count = len(done)
    figures = _figures(done)
    checks = [verdict.finite_check(sum(not a.finite[1] for a in done), count, layers)]
    values: tuple[float | None, float | None]
    if request.weights_are_random:
        checks.append(verdict.tensor_check(layers, request.tolerance))
        metric = "tensor_error"
        values = (None, checks[-1].seen)
    else:
        checks.append(verdict.common_check(any(a.kept > 0 for a in done)))
        checks += _task_checks(task, figures, done, request)
        checks += verdict.layer_checks(layers, request.tolerance)
        metric = "f1"
        values = (figures["f1_reference"], figures["f1_tested"])
    broken = ""
    if not all(a.finite[0] for a in done):
        broken = "the fp32 reference itself gives NaN or Inf"
    word, code, reason = verdict.conclude(checks, count, "question", broken, request.weights_are_random)
    scope = f"{count} questions"
    if request.data is None:
        paragraphs = len({a.question.context for a in done})
        scope = f"{count} questions on {paragraphs} paragraphs written for the suite"
    tables = (_answers_table(done, reference, tested, files[0]), _set_table(figures, reference, tested))
    return Validity(
        workload, "answers", metric, *values, word, code, scope, reason, tuple(checks),
        (*tables, *explain.tables(layers, request)), {"questions": count}, figures, (), tuple(files),
        reference.name, tested.name, request.data is None,
    )  # fmt: skip


def _figures(done: Sequence[Answered]) -> dict[str, float]:
    """EM and F1 in shares of 1 for both sides, and how the answers and logits moved."""
    figures = {
        f"{name}_{word}": _mean(done, attribute, side)
        for name, attribute in (("em", "exact"), ("f1", "f1"))
        for side, word in enumerate(("reference", "tested"))
    }
    figures["identical_answers"] = share([all(a.finite) and a.spans[0].text == a.spans[1].text for a in done])
    figures["answer_agreement"] = sum(a.kept for a in done) / len(done)
    for name, values in (("logit_drift", [a.drift for a in done]), ("logit_error", [a.error for a in done])):
        sound = [value for value in values if math.isfinite(value)]
        if sound:
            figures[f"{name}_mean"], figures[f"{name}_max"] = sum(sound) / len(sound), max(sound)
    return figures


def _task_checks(
    task: Answers, figures: dict[str, float], done: Sequence[Answered], request: ValidityRequest
) -> list[Check]:
    count, right = len(done), figures["f1_reference"]
    ratio = figures["f1_tested"] / right if right else None
    deviation = math.sqrt(sum((a.f1[0] - right) ** 2 for a in done) / count)
    published = task.published.get("f1", 0.0) / 100
    return [
        hold("accuracy", ratio, request.tolerance, *verdict.resolution(right, count)),
        *verdict.published_check(published, right, deviation, count, request),
        hold(
            "answer_agreement",
            figures["answer_agreement"],
            request.tolerance,
            *verdict.resolution(1.0, count),
        ),
    ]


def _write(path: Path, done: Sequence[Answered]) -> str:
    columns = (
        "id",
        "question",
        "fp32",
        "fp32_probability",
        "fp32_f1",
        "tested",
        "tested_probability",
        "tested_f1",
    )
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow((*columns, "margin"))
        for a in done:
            cells = [
                cell
                for span, f1 in zip(a.spans, a.f1)
                for cell in (span.text, f"{span.probability:.4f}", f"{f1:.4f}")
            ]
            writer.writerow((a.question.id, a.question.question, *cells, f"{a.margin:.4f}"))
    return str(path)


def _answers_table(done: Sequence[Answered], reference: Side, tested: Side, file: str) -> Table:
    """Changed answers first."""

    def said(a: Answered, side: int) -> str:
        if not a.finite[side]:
            return "NaN or Inf"
        span = a.spans[side]
        return f"{span.text or '(no answer)'} ({100 * span.probability:.0f} %)"

    def changed(a: Answered) -> str:
        if all(a.finite) and a.spans[0].text == a.spans[1].text:
            return "same"
        return f"changed, margin {a.margin:.3f}" + (" (near tie)" if a.tie else "")

    chosen = sorted(done, key=lambda a: all(a.finite) and a.spans[0].text == a.spans[1].text)[:SHOWN]
    rows = tuple(
        (a.question.question, a.question.answers[0] if a.question.answers else "(none)", said(a, 0), said(a, 1),
         f"{100 * a.f1[0]:.0f} | {100 * a.f1[1]:.0f}", changed(a))
        for a in chosen
    )  # fmt: skip
    note = (
        f"{len(chosen)} of {len(done)}, the changed ones first; all of them: {file}"
        if len(done) > SHOWN
        else ""
    )
    columns = ("question", "expected", reference.name, tested.name, "F1", "")
    return Table("Answers", columns, rows, note)


def _set_table(figures: dict[str, float], reference: Side, tested: Side) -> Table:
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
    return Table("Over the set", ("", reference.name, tested.name, "difference"), tuple(rows))
