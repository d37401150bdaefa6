"""Judge a question-answering model: EM and F1 by SQuAD's rules, identical answers, drift of the logits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from modelzoo.validity import answers_report as report
from modelzoo.validity import explain, squad, verdict
from modelzoo.validity.agreement import bf16_step, share
from modelzoo.validity.ahead import ahead, batches, padded
from modelzoo.validity.answers_report import Answered
from modelzoo.validity.items import sampled
from modelzoo.validity.outcome import Check, Job, Progress, Validity, no_progress
from modelzoo.validity.rounding import LayerError, layer_errors, probe_size
from modelzoo.validity.spans import FIELDS, Span, Windows, best, score_of, windows
from modelzoo.validity.squad import Question
from modelzoo.validity.task import Answers
from modelzoo.validity.thresholds import hold
from modelzoo.validity.verdict import Evidence

PROBE = 4
"""Windows whose layers are compared."""


def judge(job: Job, progress: Progress = no_progress) -> Validity:
    """Judge ``job.tested`` against ``job.reference``; see ``modelzoo.validity.judge``."""
    task, request = job.task, job.request
    questions = squad.read(request.data or squad.BUILTIN)
    v2 = any(not question.answers for question in questions)
    questions = sampled(questions, request.limit, request.seed)
    tokenizer = task.tokenizer(request.model_path)
    layers = _layers(job, questions, tokenizer)
    done: list[Answered] = []
    sums = [0.0, 0.0]
    # One thread: a fast tokenizer's padding and truncation are state that threads must not share.
    prepared = ahead(questions, lambda question: windows(question, tokenizer, task), request.batch, workers=1)
    for made, right, ours in _logits(job, prepared):
        done.append(_answered(made, right, ours, task, v2, job.ties))
        sums = [total + f1 for total, f1 in zip(sums, done[-1].f1)]
        progress(len(done), len(questions), "F1 " + " | ".join(f"{100 * s / len(done):.1f}" for s in sums))
    request.output.mkdir(parents=True, exist_ok=True)
    files = [report.write(request.output / f"{job.workload}_answers.csv", done)]
    files += explain.explained(layers, job)
    return verdict.concluded(job, _evidence(job, done, layers, files))


def _layers(job: Job, questions: Sequence[Question], tokenizer: Any) -> tuple[LayerError, ...]:
    task = job.task
    size = probe_size(job.tested, job.request.batch, PROBE)
    rows = [row for question in questions[:size] for row in _rows(windows(question, tokenizer, task))]
    args = _arguments(task, rows[:size], size)
    return layer_errors(job.reference, job.tested, args, task.layers, lambda output: _both(task, output))


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


def _logits(job: Job, prepared: Iterator[Windows]) -> Iterator[tuple[Windows, Any, Any]]:
    """Run both sides over all windows in full batches; yield each question with its logits [2, W, L]."""
    import numpy as np
    import torch

    task, batch = job.task, job.request.batch
    waiting: list[Windows] = []
    held: tuple[list[Any], list[Any]] = ([], [])

    def rows() -> Iterator[dict[str, Any]]:
        for made in prepared:
            waiting.append(made)
            yield from _rows(made)

    for group in batches(rows(), batch):
        args = _arguments(task, group, batch)
        for side, logits in zip((job.reference, job.tested), held):
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
        exact, f1 = ((scores[0][k], scores[1][k]) for k in (0, 1))
        pair = (spans[0], spans[1])
        return Answered(made.question, pair, exact, f1, 0.0, math.nan, False, math.nan, math.nan, finite)
    first, second = best(made, right, task, v2), best(made, ours, task, v2)
    scored = (squad.scores(first.text, gold), squad.scores(second.text, gold))
    margin = first.score - score_of(second, right)
    tie = ties and margin <= 2 * bf16_step(first.score / 2)
    real = made.fields["attention_mask"].astype(bool)
    expected, seen = right[:, real], ours[:, real]
    size = float(np.linalg.norm(expected))
    error = float(np.linalg.norm(seen - expected)) / size if size else 0.0
    drift = float(np.abs(seen - expected).max())
    kept = squad.f1(second.text, first.text)
    exact, f1 = ((scored[0][k], scored[1][k]) for k in (0, 1))
    return Answered(made.question, (first, second), exact, f1, kept, margin, tie, drift, error, finite)


def _evidence(job: Job, done: list[Answered], layers: tuple[LayerError, ...], files: list[str]) -> Evidence:
    request, count = job.request, len(done)
    figures = _figures(done)
    checks = [verdict.finite_check(sum(not a.finite[1] for a in done), count, layers)]
    values: tuple[float | None, float | None]
    if request.weights_are_random:
        checks.append(verdict.tensor_check(layers, request.tolerance))
        metric, values = "tensor_error", (None, checks[-1].seen)
    else:
        checks.append(verdict.common_check(any(a.kept > 0 for a in done)))
        checks += _task_checks(job, figures, done)
        checks += verdict.layer_checks(layers, request.tolerance)
        metric, values = "f1", (figures["f1_reference"], figures["f1_tested"])
    sound = all(a.finite[0] for a in done)
    scope = f"{count} questions"
    if request.data is None:
        paragraphs = len({a.question.context for a in done})
        scope = f"{count} questions on {paragraphs} paragraphs written for the suite"
    tables = [
        report.answers_table(done, job, files[0]),
        report.set_table(figures, job),
        *explain.tables(layers, request),
    ]
    return Evidence(
        "answers",
        metric,
        values[0],
        values[1],
        checks,
        "question",
        count,
        scope,
        "" if sound else "the fp32 reference itself gives NaN or Inf",
        tables,
        {"questions": count},
        figures,
        (),
        files,
    )


def _figures(done: Sequence[Answered]) -> dict[str, float]:
    """EM and F1 in shares of 1 for both sides, and how the answers and logits moved."""
    figures = {
        f"{name}_{word}": sum(getattr(a, attribute)[side] for a in done) / len(done)
        for name, attribute in (("em", "exact"), ("f1", "f1"))
        for side, word in enumerate(("reference", "tested"))
    }
    figures["identical_answers"] = share([a.same for a in done])
    figures["answer_agreement"] = sum(a.kept for a in done) / len(done)
    for name, values in (("logit_drift", [a.drift for a in done]), ("logit_error", [a.error for a in done])):
        sound = [value for value in values if math.isfinite(value)]
        if sound:
            figures[f"{name}_mean"], figures[f"{name}_max"] = sum(sound) / len(sound), max(sound)
    return figures


def _task_checks(job: Job, figures: dict[str, float], done: Sequence[Answered]) -> list[Check]:
    count, right = len(done), figures["f1_reference"]
    ratio = figures["f1_tested"] / right if right else None
    deviation = math.sqrt(sum((a.f1[0] - right) ** 2 for a in done) / count)
    published = job.task.published.get("f1", 0.0) / 100
    return [
        hold("accuracy", ratio, job.request.tolerance, *verdict.resolution(right, count)),
        *verdict.published_check(published, right, deviation, count, job.request),
        hold(
            "answer_agreement",
            figures["answer_agreement"],
            job.request.tolerance,
            *verdict.resolution(1.0, count),
        ),
    ]
