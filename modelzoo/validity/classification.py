"""Judge a classifier: agreement, accuracy, drift of the probabilities, flips and their margins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from modelzoo.validity import classification_report as report
from modelzoo.validity import explain, imagenet, verdict
from modelzoo.validity.agreement import Guess, accuracy, guess, share, top5_overlap
from modelzoo.validity.ahead import ahead, batches, padded, threads
from modelzoo.validity.items import Item, builtin_items, sampled
from modelzoo.validity.outcome import Check, Job, Progress, Side, Validity, ValidityRequest, no_progress
from modelzoo.validity.rounding import LayerError, layer_errors, probe_size
from modelzoo.validity.task import Classification
from modelzoo.validity.thresholds import hold
from modelzoo.validity.verdict import Evidence
from modelzoo.workload.images import large_pictures_allowed

CROPS = 32
"""Crops in the built-in set."""
SMALLEST_CROP = 0.5
PROBE = 4
"""Pictures whose layers are compared."""


@dataclass(frozen=True)
class _Set:
    """What the classifier was run on: the pictures, whether their classes are known, the class names."""

    items: list[Item]
    labelled: bool
    names: list[str]


def judge(job: Job, progress: Progress = no_progress) -> Validity:
    """Judge ``job.tested`` against ``job.reference``; see ``modelzoo.validity.judge``."""
    task, request = job.task, job.request
    chosen = _chosen(task, request)
    guesses: list[Guess] = []
    notes: set[str] = set()
    running = _Running(chosen.labelled)
    with large_pictures_allowed():
        layers = _layers(job, chosen.items)
        prepared = ahead(chosen.items, lambda item: _prepared(item, task), request.batch, threads())
        for group in batches(prepared, request.batch):
            args = task.arguments(padded([tensor for _, tensor, _ in group], request.batch))
            right, ours = (_logits(side, task, args, len(group)) for side in (job.reference, job.tested))
            for index, (item, _, said) in enumerate(group):
                guesses.append(guess(item.name, right[index], ours[index], item.label, job.ties))
                running.add(guesses[-1])
                notes.update(said)
            progress(len(guesses), len(chosen.items), running.words())
    request.output.mkdir(parents=True, exist_ok=True)
    files = [report.write(request.output / f"{job.workload}_top5.csv", guesses, chosen.names)]
    files += explain.explained(layers, job)
    return verdict.concluded(job, _evidence(job, chosen, guesses, layers, sorted(notes), files))


def _chosen(task: Classification, request: ValidityRequest) -> _Set:
    names = list(task.labels())
    if request.data is None:
        count = CROPS if request.limit is None else min(CROPS, request.limit)
        return _Set(builtin_items(count, request.seed, SMALLEST_CROP), False, names)
    items, labelled = imagenet.read(request.data, names, task.wnids())
    return _Set(sampled(items, request.limit, request.seed), labelled, names)


def _layers(job: Job, items: Sequence[Item]) -> tuple[LayerError, ...]:
    size = probe_size(job.tested, job.request.batch, PROBE)
    tensors = [_prepared(item, job.task)[1] for item in items[:size]]
    args = job.task.arguments(padded(tensors, size))
    return layer_errors(job.reference, job.tested, args, job.task.layers, job.task.scores)


def _prepared(item: Item, task: Classification) -> tuple[Item, Any, tuple[str, ...]]:
    picture = item.read()
    return item, task.preprocess(picture.image), picture.notes


def _logits(side: Side, task: Classification, args: tuple[Any, ...], count: int) -> Any:
    """Logits [count, C] as a numpy array of doubles."""
    import torch

    with torch.no_grad(), side.active():
        output = task.scores(side.call(*args))
    return output.detach()[:count].double().cpu().numpy()


class _Running:
    """The running metric, in words, at a cost that does not grow with the set."""

    def __init__(self, labelled: bool) -> None:
        self.labelled = labelled
        self.total, self.agreed, self.right = 0, 0, [0, 0]

    def add(self, one: Guess) -> None:
        self.total += 1
        self.agreed += one.agrees
        for side in (0, 1):
            self.right[side] += one.label is not None and one.label in one.top[side][:1]

    def words(self) -> str:
        if self.labelled:
            return " | ".join(f"{100 * right / self.total:.1f}" for right in self.right) + " % top-1"
        return f"{100 * self.agreed / self.total:.1f} % agreement"


def _evidence(
    job: Job,
    chosen: _Set,
    guesses: list[Guess],
    layers: tuple[LayerError, ...],
    notes: list[str],
    files: list[str],
) -> Evidence:
    request, labelled, count = job.request, chosen.labelled, len(guesses)
    figures = _figures(guesses, labelled)
    checks = [verdict.finite_check(sum(not g.finite[1] for g in guesses), count, layers)]
    values: tuple[float | None, float | None]
    if request.weights_are_random:
        checks.append(verdict.tensor_check(layers, request.tolerance))
        metric, values = "tensor_error", (None, checks[-1].seen)
    else:
        in_common = any(set(g.top[0]) & set(g.top[1]) for g in guesses)
        checks += [verdict.common_check(in_common), *_task_checks(job, figures, count, labelled)]
        checks += verdict.layer_checks(layers, request.tolerance)
        metric, values = "top1_agreement", (1.0, figures["top1_agreement"])
        if labelled:
            metric, values = "top1", (figures["top1_reference"], figures["top1_tested"])
    scope, counts = _scope(count, labelled, request)
    sound = all(g.finite[0] for g in guesses)
    tables = [
        report.top5_table(guesses, chosen.names, job, files[0]),
        report.set_table(figures, labelled, job),
        *report.flip_tables(guesses, chosen.names),
        *explain.tables(layers, request),
    ]
    return Evidence(
        "classification",
        metric,
        values[0],
        values[1],
        checks,
        "picture",
        count,
        scope,
        "" if sound else "the fp32 reference itself gives NaN or Inf",
        tables,
        counts,
        figures,
        notes,
        files,
    )


def _scope(count: int, labelled: bool, request: ValidityRequest) -> tuple[str, dict[str, int]]:
    if request.data is None:
        return f"{count} crops of 1 photograph: agreement only", {"crops": count, "photographs": 1}
    what = "labelled pictures" if labelled else "pictures without known classes: agreement only"
    return f"{count} {what}", {"pictures": count}


def _figures(guesses: Sequence[Guess], labelled: bool) -> dict[str, float]:
    """Every figure over the set; means over the pictures, probabilities and shares from 0 to 1."""
    sound = [g for g in guesses if all(g.finite)]
    figures = {
        "top1_agreement": share([g.agrees for g in guesses]),
        "top1_agreement_or_tie": share([g.agrees or g.tie for g in guesses]),
        "top5_agreement": sum(top5_overlap(g) for g in guesses) / len(guesses),
        "flips": float(sum(not g.agrees for g in guesses)),
        "near_ties": float(sum(g.tie and not g.agrees for g in guesses)),
    }
    for name, values in (
        ("kl", [g.kl for g in sound]),
        ("probability_drift", [g.drift for g in sound]),
        ("logit_error", [g.spread for g in sound]),
    ):
        figures[f"{name}_mean"] = sum(values) / len(values) if values else math.nan
        figures[f"{name}_max"] = max(values, default=math.nan)
    if labelled:
        for side, name in enumerate(("reference", "tested")):
            figures[f"top1_{name}"] = accuracy(guesses, side, 1)
            figures[f"top5_{name}"] = accuracy(guesses, side, 5)
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def _task_checks(job: Job, figures: dict[str, float], count: int, labelled: bool) -> list[Check]:
    tolerance = job.request.tolerance
    kl = hold("kl", figures.get("kl_mean"), tolerance)
    if not labelled:
        allowance = verdict.resolution(1.0, count)
        return [hold("top1_agreement", figures["top1_agreement_or_tie"], tolerance, *allowance), kl]
    right = figures["top1_reference"]
    ratio = figures["top1_tested"] / right if right else None
    published = job.task.published.get("top1", 0.0) / 100
    deviation = math.sqrt(published * (1 - published)) if published else 0.0
    return [
        hold("accuracy", ratio, tolerance, *verdict.resolution(right, count)),
        kl,
        *verdict.published_check(published, right, deviation, count, job.request),
    ]
