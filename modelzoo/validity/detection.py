"""Judge a detector: objects matched between both sides, AP by pycocotools, pictures of what changed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modelzoo.report import detections as drawing
from modelzoo.validity import coco, detecting, explain, matching, verdict
from modelzoo.validity import detection_report as report
from modelzoo.validity.ahead import ahead, batches, padded, threads
from modelzoo.validity.items import Item, builtin_items, sampled
from modelzoo.validity.matching import Found, Matched
from modelzoo.validity.outcome import Check, Job, Progress, Validity, no_progress
from modelzoo.validity.rounding import OUTPUT, LayerError, layer_errors, probe_size
from modelzoo.validity.task import Detection
from modelzoo.validity.thresholds import hold
from modelzoo.validity.verdict import Evidence
from modelzoo.workload.images import Picture, large_pictures_allowed

CROPS = 8
"""Crops in the built-in set: a detector takes seconds a picture."""
SMALLEST_CROP = 0.6
PROBE, PROBE_MASKED = 4, 2
"""Pictures whose layers are compared; fewer where there are masks, whose models take seconds a picture."""
MASKED_SIDE = 1333
"""Pixels of the longer side to which pictures are reduced for models with masks: torchvision's detectors
see no more of it, and 100 masks of a camera's picture would take gigabytes."""
AP_DEVIATION = 1 / 3
"""Standard deviation of AP from picture to picture, for the margin around the published AP."""


@dataclass(frozen=True)
class _Set:
    """What the detector is run on: the pictures, the annotations where there are some, the class names."""

    items: list[Item]
    annotations: coco.Annotations | None
    names: Mapping[int, str]


@dataclass
class _Tally:
    """What is kept of the set while it runs: matches and COCO results by side, no pictures."""

    names: list[str] = field(default_factory=list)
    matched: list[Matched] = field(default_factory=list)
    changes: list[tuple[str, ...]] = field(default_factory=list)
    results: tuple[dict[str, list[dict[str, Any]]], ...] = field(default_factory=lambda: (_kinds(), _kinds()))
    image_ids: list[int] = field(default_factory=list)
    finite: list[tuple[bool, bool]] = field(default_factory=list)
    found: list[tuple[int, int]] = field(default_factory=list)
    notes: set[str] = field(default_factory=set)
    files: list[str] = field(default_factory=list)
    common: int = 0
    total: int = 0


def _kinds() -> dict[str, list[dict[str, Any]]]:
    return {"bbox": [], "segm": []}


def judge(job: Job, progress: Progress = no_progress) -> Validity:
    """Judge ``job.tested`` against ``job.reference``; see ``modelzoo.validity.judge``."""
    task, batch = job.task, job.request.batch
    chosen = _chosen(job)
    tally = _Tally()
    with large_pictures_allowed():
        layers = _layers(job, chosen.items)
        prepared = ahead(chosen.items, lambda item: _prepared(item, task), batch, threads())
        for group in batches(prepared, batch):
            args = task.arguments(padded([tensor for _, _, tensor in group], batch))
            seen = padded([picture for _, picture, _ in group], batch)
            right, ours = (detecting.run(side, task, args, seen) for side in (job.reference, job.tested))
            for (item, picture, _), first, second in zip(group, right, ours):
                _add(tally, job, chosen, item, picture, (first, second))
            agreed = f"{100 * tally.common / max(tally.total, 1):.1f} % of the objects in common"
            progress(len(tally.names), len(chosen.items), agreed)
    tally.files += explain.explained(layers, job)
    return verdict.concluded(job, _evidence(job, chosen, tally, layers))


def _chosen(job: Job) -> _Set:
    request, categories = job.request, job.task.categories()
    names = {label: name for label, (_, name) in categories.items()}
    if request.data is None:
        return _Set(builtin_items(min(CROPS, request.limit or CROPS), request.seed, SMALLEST_CROP), None, names)
    items, annotations = coco.read(request.data, categories)
    return _Set(sampled(items, request.limit, request.seed), annotations, names)


def _layers(job: Job, items: Sequence[Item]) -> tuple[LayerError, ...]:
    task = job.task
    size = probe_size(job.tested, job.request.batch, PROBE_MASKED if task.masks else PROBE)
    probe = padded([_prepared(item, task) for item in items[:size]], size)
    args = task.arguments([tensor for _, _, tensor in probe])
    scores = detecting.best_scores(task, [picture for _, picture, _ in probe])
    layers = layer_errors(job.reference, job.tested, args, task.layers, scores)
    # The scores stand for the layers only where those cannot be seen: which boxes survive NMS is the
    # business of the matching.
    return tuple(layer for layer in layers if layer.name != OUTPUT) or layers


def _prepared(item: Item, task: Detection) -> tuple[Item, Picture, Any]:
    picture = item.read()
    if task.masks and max(picture.image.size) > MASKED_SIDE:
        picture.image.thumbnail((MASKED_SIDE, MASKED_SIDE))
        note = f"reduced to {MASKED_SIDE} pixels, as the model does"
        picture = dataclasses.replace(picture, notes=(*picture.notes, note))
    return item, picture, task.preprocess(picture.image)


def _add(tally: _Tally, job: Job, chosen: _Set, item: Item, picture: Picture, sides: tuple[Found, Found]) -> None:
    """Match, remember and draw one picture."""
    matched = matching.match(*sides, job.task.shown)
    tally.names.append(item.name)
    tally.matched.append(matched)
    tally.common += len(matched.pairs)
    tally.total += matched.total
    tally.finite.append((sides[0].finite, sides[1].finite))
    tally.found.append((len(sides[0].scores), len(sides[1].scores)))
    tally.notes.update(picture.notes)
    tally.changes += _changes(item.name, sides, matched, chosen.names)
    if chosen.annotations is not None and item.image_id is not None:
        tally.image_ids.append(item.image_id)
        for found, results in zip(sides, tally.results):
            more = detecting.coco_results(found, item.image_id, picture.size, chosen.annotations.category_of)
            for kind, rows in more.items():
                results[kind] += rows
    if len(tally.names) <= job.request.pictures:
        tally.files += _draw(job, chosen, item, picture, sides, matched)


def _changes(
    name: str, sides: tuple[Found, Found], matched: Matched, names: Mapping[int, str]
) -> list[tuple[str, ...]]:
    """Lost, new and moved objects as rows: picture, what, class, fp32 score, tested score, IoU."""

    def class_of(side: int, row: int) -> str:
        label = int(sides[side].labels[row])
        return names.get(label, f"class {label}")

    rows: list[tuple[str, ...]] = []
    rows += [(name, "lost", class_of(0, i), f"{sides[0].scores[i]:.3f}", "–", "–") for i in matched.lost]
    rows += [(name, "new", class_of(1, i), "–", f"{sides[1].scores[i]:.3f}", "–") for i in matched.new]
    for p in matched.pairs:
        if p.moved:
            scores = f"{sides[0].scores[p.reference]:.3f}", f"{sides[1].scores[p.tested]:.3f}"
            rows.append((name, "moved", class_of(0, p.reference), *scores, f"{p.iou:.3f}"))
    return rows


def _draw(
    job: Job, chosen: _Set, item: Item, picture: Picture, sides: tuple[Found, Found], matched: Matched
) -> list[str]:
    """Write the tested side's picture and the comparison; boxes are put back to the decoded size first."""
    import numpy as np

    factors = np.array([s / o for o, s in zip(picture.size, picture.image.size)] * 2)
    first, second = (dataclasses.replace(f, boxes=f.boxes * factors) for f in sides)
    stem = re.sub(r"[^\w.-]+", "_", item.name.rsplit(".", 1)[0])
    folder = job.request.output / f"{job.workload}_pictures"
    single = drawing.drawn(picture.image, second, chosen.names, job.task.shown)
    titles = (job.reference.name, job.tested.name)
    both = drawing.compared(picture.image, (first, second), matched, chosen.names, titles)
    return [
        drawing.save(single, folder / f"{stem}.jpg"),
        drawing.save(both, folder / f"{stem}_compared.jpg"),
    ]


def _evidence(job: Job, chosen: _Set, tally: _Tally, layers: tuple[LayerError, ...]) -> Evidence:
    request, count, annotated = job.request, len(tally.names), chosen.annotations is not None
    figures = _figures(tally, chosen.annotations, job.task.masks)
    checks = [verdict.finite_check(sum(not f[1] for f in tally.finite), count, layers)]
    broken = ""
    values: tuple[float | None, float | None]
    if request.weights_are_random:
        checks.append(verdict.tensor_check(layers, request.tolerance))
        metric, values = "tensor_error", (None, checks[-1].seen)
    else:
        checks.append(verdict.common_check(tally.common > 0))
        checks += _task_checks(job, figures, tally, annotated)
        checks += verdict.layer_checks(layers, request.tolerance)
        metric, values = "detection_agreement", (1.0, figures["detection_agreement"])
        if annotated:
            metric, values = "box_ap", (figures["box_ap_reference"], figures["box_ap_tested"])
        if tally.common + figures["lost"] == 0:
            broken = f"the fp32 reference itself detects nothing with a score of {job.task.shown} or more"
    if not all(f[0] for f in tally.finite):
        broken = "the fp32 reference itself gives NaN or Inf"
    scope = f"{count} pictures" + ("" if annotated else " without annotations: agreement only")
    counts = {"pictures": count}
    if request.data is None:
        scope, counts = f"{count} crops of 1 photograph: agreement only", {"crops": count, "photographs": 1}
    tables = [
        report.pictures_table(tally.names, tally.matched, tally.found, job),
        *report.changes_table(tally.changes),
        report.set_table(figures, annotated, job),
        *explain.tables(layers, request),
    ]
    return Evidence(
        "detection",
        metric,
        values[0],
        values[1],
        checks,
        "picture",
        count,
        scope,
        broken,
        tables,
        {**counts, "objects": tally.total},
        figures,
        sorted(tally.notes),
        tally.files,
    )


def _figures(tally: _Tally, annotations: coco.Annotations | None, masks: bool) -> dict[str, float]:
    import numpy as np

    pairs = [pair for m in tally.matched for pair in m.pairs]
    figures = {
        "detection_agreement": matching.agreement(tally.matched),
        "lost": float(sum(len(m.lost) for m in tally.matched)),
        "new": float(sum(len(m.new) for m in tally.matched)),
        "moved": float(sum(pair.moved for pair in pairs)),
        "matched": float(len(pairs)),
    }
    if pairs:
        changes = np.abs([pair.score_change for pair in pairs])
        figures["box_iou_mean"] = float(np.mean([pair.iou for pair in pairs]))
        figures["box_bias"] = matching.bias(tally.matched)
        figures["score_drift_median"] = float(np.median(changes))
        figures["score_drift_max"] = float(changes.max())
    if annotations is not None:
        for side, results in zip(("reference", "tested"), tally.results):
            for kind, word in (("bbox", "box"), ("segm", "mask")):
                if kind == "bbox" or masks:
                    values = coco.average_precision(annotations, tally.image_ids, results[kind], kind)
                    figures.update({f"{word}_{name}_{side}": value for name, value in values.items()})
    return figures


def _task_checks(job: Job, figures: Mapping[str, float], tally: _Tally, annotated: bool) -> list[Check]:
    tolerance, count = job.request.tolerance, len(tally.names)
    total = sum(m.total for m in tally.matched)
    checks = []
    if annotated:
        for name, limit in (("box_ap", "accuracy"), ("mask_ap", "mask_ap")):
            right = figures.get(f"{name}_reference")
            if right is not None:
                ratio = figures[f"{name}_tested"] / right if right > 0 else None
                checks.append(hold(limit, ratio, tolerance, *verdict.resolution(right, count)))
        published, ap = job.task.published.get("box_ap", 0.0) / 100, figures["box_ap_reference"]
        checks += verdict.published_check(published, ap, AP_DEVIATION, count, job.request)
    less_one = (1 / total, f"less one object of {total}") if total else (0.0, "")
    return [
        *checks,
        hold("detection_agreement", figures["detection_agreement"], tolerance, *less_one),
        hold("box_iou", figures.get("box_iou_mean"), tolerance),
        hold("box_bias", figures.get("box_bias"), tolerance),
        hold("score_drift", figures.get("score_drift_median"), tolerance),
    ]
