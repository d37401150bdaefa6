"""Judge a classifier: top-5 side by side, agreement, accuracy, drift of the probabilities, flips."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modelzoo.validity import explain, imagenet, pictures, verdict
from modelzoo.validity.agreement import Guess, accuracy, guess, share, top5_overlap
from modelzoo.validity.ahead import ahead, batches, padded
from modelzoo.validity.outcome import Check, Progress, Side, Table, Validity, ValidityRequest, no_progress
from modelzoo.validity.pictures import Item
from modelzoo.validity.rounding import LayerError, layer_errors, probe_size
from modelzoo.validity.task import Classification
from modelzoo.validity.thresholds import hold

CROPS = 32
"""Crops in the built-in set."""
SMALLEST_CROP = 0.5
SHOWN = 10
"""Pictures whose five classes are shown in the table; all of them are in the CSV file."""
PROBE = 4
"""Pictures whose layers are compared."""


def judge(
    workload: str,
    task: Classification,
    reference: Side,
    tested: Side,
    request: ValidityRequest,
    progress: Progress = no_progress,
) -> Validity:
    """Judge ``tested`` against ``reference``; see ``modelzoo.validity.judge``."""
    names = list(task.labels())
    items, labelled = _items(task, names, request)
    guesses: list[Guess] = []
    notes: set[str] = set()
    with pictures.large_pictures_allowed():
        size = probe_size(tested, request.batch, PROBE)
        args = task.arguments(padded([_prepared(item, task)[1] for item in items[:size]], size))
        layers = layer_errors(reference, tested, args, task.layers, task.scores)
        prepared = ahead(items, lambda item: _prepared(item, task), depth=2 * request.batch)
        for group in batches(prepared, request.batch):
            args = task.arguments(padded([tensor for _, tensor, _ in group], request.batch))
            right, ours = (_logits(side, task, args, len(group)) for side in (reference, tested))
            for index, (item, _, said) in enumerate(group):
                ties = tested.precision == "bf16"
                guesses.append(guess(item.name, right[index], ours[index], item.label, ties))
                notes.update(said)
            progress(len(guesses), len(items), _running(guesses, labelled))
    request.output.mkdir(parents=True, exist_ok=True)
    files = [_write(request.output / f"{workload}_top5.csv", guesses, names)]
    if request.explain:
        files += explain.explained(layers, request, workload, tested.name)
    return _validity(
        workload, task, guesses, layers, names, labelled, sorted(notes), files, request, reference, tested
    )


def _items(task: Classification, names: Sequence[str], request: ValidityRequest) -> tuple[list[Item], bool]:
    if request.data is None:
        count = CROPS if request.limit is None else min(CROPS, request.limit)
        return pictures.builtin(count, request.seed, SMALLEST_CROP), False
    items, labelled = imagenet.read(request.data, names, task.wnids())
    return pictures.sampled(items, request.limit, request.seed), labelled


def _prepared(item: Item, task: Classification) -> tuple[Item, Any, tuple[str, ...]]:
    picture = item.read()
    return item, task.preprocess(picture.image), picture.notes


def _logits(side: Side, task: Classification, args: tuple[Any, ...], count: int) -> Any:
    """Logits [count, C] as a numpy array of doubles."""
    import torch

    with torch.no_grad(), side.active():
        output = task.scores(side.call(*args))
    return output.detach()[:count].double().cpu().numpy()


def _running(guesses: Sequence[Guess], labelled: bool) -> str:
    if labelled:
        return f"top-1 {100 * accuracy(guesses, 0, 1):.1f} | {100 * accuracy(guesses, 1, 1):.1f} %"
    return f"agreement {100 * share([g.agrees for g in guesses]):.1f} %"


def _validity(
    workload: str,
    task: Classification,
    guesses: list[Guess],
    layers: tuple[LayerError, ...],
    names: list[str],
    labelled: bool,
    notes: list[str],
    files: list[str],
    request: ValidityRequest,
    reference: Side,
    tested: Side,
) -> Validity:
    count = len(guesses)
    figures = _figures(guesses, labelled)
    checks = [verdict.finite_check(sum(not g.finite[1] for g in guesses), count, layers)]
    values: tuple[float | None, float | None]
    if request.weights_are_random:
        checks.append(verdict.tensor_check(layers, request.tolerance))
        metric, values = "tensor_error", (None, checks[-1].seen)
    else:
        in_common = any(set(g.top[0]) & set(g.top[1]) for g in guesses)
        checks += [verdict.common_check(in_common), *_task_checks(task, figures, count, labelled, request)]
        checks += verdict.layer_checks(layers, request.tolerance)
        metric = "top1" if labelled else "top1_agreement"
        right = figures["top1_reference"] if labelled else 1.0
        values = (right, figures["top1_tested"] if labelled else figures["top1_agreement"])
    broken = ""
    if not all(g.finite[0] for g in guesses):
        broken = "the fp32 reference itself gives NaN or Inf"
    word, code, reason = verdict.conclude(checks, count, "picture", broken, request.weights_are_random)
    scope, counts = _scope(count, labelled, request)
    return Validity(
        workload, "classification", metric, *values, word, code, scope, reason, tuple(checks),
        (_top5_table(guesses, names, reference, tested, files[0]), _set_table(figures, labelled, reference, tested))
        + _flip_tables(guesses, names) + explain.tables(layers, request),
        counts, figures, tuple(notes), tuple(files), reference.name, tested.name, request.data is None,
    )  # fmt: skip


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


def _task_checks(
    task: Classification, figures: dict[str, float], count: int, labelled: bool, request: ValidityRequest
) -> list[Check]:
    kl = hold("kl", figures.get("kl_mean"), request.tolerance)
    if not labelled:
        allowance, why = verdict.resolution(1.0, count)
        seen = figures["top1_agreement_or_tie"]
        return [hold("top1_agreement", seen, request.tolerance, allowance, why), kl]
    right = figures["top1_reference"]
    allowance, why = verdict.resolution(right, count)
    ratio = figures["top1_tested"] / right if right else None
    published = task.published.get("top1", 0.0) / 100
    deviation = math.sqrt(published * (1 - published)) if published else 0.0
    return [
        hold("accuracy", ratio, request.tolerance, allowance, why),
        kl,
        *verdict.published_check(published, right, deviation, count, request),
    ]


def _write(path: Path, guesses: Sequence[Guess], names: Sequence[str]) -> str:
    """All pictures' five classes, one row a rank."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ("picture", "label", "rank", "fp32", "fp32_probability", "tested", "tested_probability")
        )
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


def _top5_table(guesses: Sequence[Guess], names: Sequence[str], right: Side, ours: Side, file: str) -> Table:
    rows = []
    for g in guesses[:SHOWN]:
        label = "" if g.label is None else f"\n({names[g.label]})"
        rows.append((g.name + label, _named(g, 0, names), _named(g, 1, names)))
    note = (
        "" if len(guesses) <= SHOWN else f"the first {SHOWN} of {len(guesses)} pictures; all of them: {file}"
    )
    return Table("Five most likely classes", ("picture", right.name, ours.name), tuple(rows), note)


def _set_table(figures: dict[str, float], labelled: bool, right: Side, ours: Side) -> Table:
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
    return Table("Over the set", ("", right.name, ours.name), tuple(rows))


def _flip_tables(guesses: Sequence[Guess], names: Sequence[str]) -> tuple[Table, ...]:
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
    note = "margin: the fp32 logit of its winner minus that of the other; a near tie is within one bf16 step of it"
    return (Table("Flips", ("picture", "class", "fp32", "tested", "margin"), rows, note),)
