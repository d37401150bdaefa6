"""Judge a detector: objects matched between both sides, AP by pycocotools, pictures of what changed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from modelzoo.validity import coco, drawing, explain, matching, pictures, verdict
from modelzoo.validity.ahead import ahead, batches, padded
from modelzoo.validity.detection_report import changes_table, pictures_table, set_table
from modelzoo.validity.matching import Found, Matched
from modelzoo.validity.outcome import Check, Progress, Side, Validity, ValidityRequest, no_progress
from modelzoo.validity.pictures import Item, Picture
from modelzoo.validity.rounding import LayerError, all_finite, layer_errors, probe_size
from modelzoo.validity.task import Detection
from modelzoo.validity.thresholds import hold

CROPS = 8
"""Crops in the built-in set: a detector takes seconds a picture."""
SMALLEST_CROP = 0.6
PROBE, PROBE_MASKED = 4, 2
"""Pictures whose layers are compared; fewer where there are masks, whose models take seconds a picture."""
MASKED_SIDE = 1333
"""Pixels of the longer side to which pictures are reduced for models with masks: torchvision's detectors
see no more of it, and 100 masks of a camera's picture would take gigabytes."""
SCORES = 300
"""Scores a picture that stand for the output when it is compared number by number."""
AP_DEVIATION = 1 / 3
"""Standard deviation of AP from picture to picture, for the margin around the published AP."""


@dataclass
class _Tally:
    """What is kept of the set while it runs: matches and COCO results, no pictures."""

    names: list[str]
    matched: list[Matched]
    changes: list[tuple[str, ...]]
    results: tuple[dict[str, list[dict[str, Any]]], dict[str, list[dict[str, Any]]]]
    image_ids: list[int]
    finite: list[tuple[bool, bool]]
    found: list[tuple[int, int]]
    notes: set[str]
    files: list[str]


def judge(
    workload: str,
    task: Detection,
    reference: Side,
    tested: Side,
    request: ValidityRequest,
    progress: Progress = no_progress,
) -> Validity:
    """Judge ``tested`` against ``reference``; see ``modelzoo.validity.judge``."""
    categories = task.categories()
    names = {label: name for label, (_, name) in categories.items()}
    annotations = None
    if request.data is None:
        items = pictures.builtin(min(CROPS, request.limit or CROPS), request.seed, SMALLEST_CROP)
    else:
        items, annotations = coco.read(request.data, categories)
        items = pictures.sampled(items, request.limit, request.seed)
    tally = _Tally([], [], [], ({"bbox": [], "segm": []}, {"bbox": [], "segm": []}), [], [], [], set(), [])
    with pictures.large_pictures_allowed():
        size = probe_size(tested, request.batch, PROBE_MASKED if task.masks else PROBE)
        probe = padded([_prepared(item, task) for item in items[:size]], size)
        args = task.arguments([tensor for _, _, tensor in probe])
        layers = layer_errors(reference, tested, args, task.layers, _scores(task, probe))
        prepared = ahead(items, lambda item: _prepared(item, task), depth=2 * request.batch)
        for group in batches(prepared, request.batch):
            tensors = [tensor for _, _, tensor in group]
            args = task.arguments(padded(tensors, request.batch))
            seen = padded([picture for _, picture, _ in group], request.batch)
            right, ours = (_run(side, task, args, seen) for side in (reference, tested))
            for (item, picture, _), *sides in zip(group, right, ours):
                _add(tally, task, item, picture, (sides[0], sides[1]), annotations, names, request, workload,
                     (reference.name, tested.name))  # fmt: skip
            agreed = matching.agreement(tally.matched)
            progress(len(tally.names), len(items), f"objects in common {100 * agreed:.1f} %")
    if request.explain:
        tally.files += explain.explained(layers, request, workload, tested.name)
    return _validity(workload, task, tally, layers, annotations, request, reference, tested)


def _prepared(item: Item, task: Detection) -> tuple[Item, Picture, Any]:
    picture = item.read()
    if task.masks and max(picture.image.size) > MASKED_SIDE:
        picture.image.thumbnail((MASKED_SIDE, MASKED_SIDE))
        note = f"reduced to {MASKED_SIDE} pixels, as the model does"
        picture = dataclasses.replace(picture, notes=(*picture.notes, note))
    return item, picture, task.preprocess(picture.image)


def _scores(task: Detection, group: Sequence[tuple[Item, Picture, Any]]) -> Callable[[Any], Any]:
    """The scores of each picture, best first, filled up with 0: [pictures, SCORES]."""

    def scores(output: Any) -> Any:
        import torch

        sizes = [picture.image.size[::-1] for _, picture, _ in group]
        filled = torch.zeros(len(sizes), SCORES)
        for row, found in zip(filled, task.detections(output, sizes)):
            best = found["scores"].detach().float().cpu().sort(descending=True).values[:SCORES]
            row[: len(best)] = best
        return filled

    return scores


def _run(side: Side, task: Detection, args: tuple[Any, ...], seen: Sequence[Picture]) -> list[Found]:
    """Detections in pixels of the original pictures, best first."""
    import torch

    sizes = [picture.image.size[::-1] for picture in seen]
    with torch.no_grad(), side.active():
        output = side.call(*args)
        finite = all_finite(output)
        detections = task.detections(output, sizes)
    return [_found(d, picture, task.shown, finite) for d, picture in zip(detections, seen)]


def _found(detections: Mapping[str, Any], picture: Picture, shown: float, finite: bool) -> Found:
    import numpy as np
    import torch

    scores = detections["scores"].detach().float().cpu()
    boxes = detections["boxes"].detach().float().cpu().reshape(-1, 4)
    finite = finite and bool(torch.isfinite(scores).all()) and bool(torch.isfinite(boxes).all())
    order = scores.argsort(descending=True)
    factors = np.array([o / s for o, s in zip(picture.size, picture.image.size)] * 2)
    masks = None
    if "masks" in detections:
        heat = detections["masks"].detach()
        heat = heat[:, 0] if heat.dim() == 4 else heat
        masks = [(heat[i] > 0.5).cpu().numpy() for i in order.tolist()]
    labels = detections["labels"].detach().cpu()
    return Found(boxes[order].double().numpy() * factors, scores[order].double().numpy(), labels[order].numpy(),
                 masks, finite)  # fmt: skip


def _add(
    tally: _Tally,
    task: Detection,
    item: Item,
    picture: Picture,
    sides: tuple[Found, Found],
    annotations: coco.Annotations | None,
    names: Mapping[int, str],
    request: ValidityRequest,
    workload: str,
    titles: tuple[str, str],
) -> None:
    """Match, remember and draw one picture."""
    matched = matching.match(*sides, task.shown)
    tally.names.append(item.name)
    tally.matched.append(matched)
    tally.finite.append((sides[0].finite, sides[1].finite))
    tally.found.append((len(sides[0].scores), len(sides[1].scores)))
    tally.notes.update(picture.notes)
    tally.changes += _changes(item.name, sides, matched, names)
    if annotations is not None and item.image_id is not None:
        tally.image_ids.append(item.image_id)
        for found, results in zip(sides, tally.results):
            for kind, more in _results(found, item.image_id, picture.size, annotations.category_of).items():
                results[kind] += more
    if len(tally.names) <= request.pictures:
        tally.files += _draw(item, picture, sides, matched, names, task, request, workload, titles)


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


def _results(
    found: Found, image_id: int, size: tuple[int, int], category_of: Mapping[int, int]
) -> dict[str, list[dict[str, Any]]]:
    """COCO results of one picture, boxes as x, y, width, height; masks as RLE at the original size."""
    boxes, masks = [], []
    for row in range(len(found.scores)):
        label = int(found.labels[row])
        if label not in category_of:
            continue
        shared = {"image_id": image_id, "category_id": category_of[label], "score": float(found.scores[row])}
        x0, y0, x1, y1 = (float(v) for v in found.boxes[row])
        boxes.append({**shared, "bbox": [x0, y0, x1 - x0, y1 - y0]})
        if found.masks is not None:
            masks.append({**shared, "segmentation": _encoded(found.masks[row], size)})
    return {"bbox": boxes, "segm": masks}


def _encoded(mask: Any, size: tuple[int, int]) -> Any:
    import numpy as np
    from PIL import Image
    from pycocotools import mask as rle

    mask = np.asarray(mask, dtype="uint8")
    if mask.shape[::-1] != size:
        mask = np.asarray(Image.fromarray(mask).resize(size, Image.Resampling.NEAREST))
    return rle.encode(np.asfortranarray(mask))


def _draw(
    item: Item,
    picture: Picture,
    sides: tuple[Found, Found],
    matched: Matched,
    names: Mapping[int, str],
    task: Detection,
    request: ValidityRequest,
    workload: str,
    titles: tuple[str, str],
) -> list[str]:
    """Write the tested side's picture and the comparison; boxes are put back to the decoded size first."""
    import numpy as np

    factors = np.array([s / o for o, s in zip(picture.size, picture.image.size)] * 2)
    first, second = (dataclasses.replace(f, boxes=f.boxes * factors) for f in sides)
    stem = re.sub(r"[^\w.-]+", "_", item.name.rsplit(".", 1)[0])
    folder = request.output / f"{workload}_pictures"
    return [
        drawing.save(drawing.drawn(picture.image, second, names, task.shown), folder / f"{stem}.jpg"),
        drawing.save(
            drawing.compared(picture.image, (first, second), matched, names, titles),
            folder / f"{stem}_compared.jpg",
        ),
    ]


def _validity(
    workload: str,
    task: Detection,
    tally: _Tally,
    layers: tuple[LayerError, ...],
    annotations: coco.Annotations | None,
    request: ValidityRequest,
    reference: Side,
    tested: Side,
) -> Validity:
    count = len(tally.names)
    figures = _figures(tally, annotations, task)
    checks = [verdict.finite_check(sum(not f[1] for f in tally.finite), count, layers)]
    broken = ""
    values: tuple[float | None, float | None]
    if request.weights_are_random:
        checks.append(verdict.tensor_check(layers, request.tolerance))
        metric, values = "tensor_error", (None, checks[-1].seen)
    else:
        checks.append(verdict.common_check(any(m.pairs for m in tally.matched)))
        checks += _task_checks(task, figures, tally, annotations is not None, request)
        checks += verdict.layer_checks(layers, request.tolerance)
        metric = "detection_agreement" if annotations is None else "box_ap"
        values = (1.0, figures["detection_agreement"])
        if annotations is not None:
            values = (figures["box_ap_reference"], figures["box_ap_tested"])
        if not sum(len(m.pairs) + len(m.lost) for m in tally.matched):
            broken = f"the fp32 reference itself detects nothing with a score of {task.shown} or more"
    if not all(f[0] for f in tally.finite):
        broken = "the fp32 reference itself gives NaN or Inf"
    word, code, reason = verdict.conclude(checks, count, "picture", broken, request.weights_are_random)
    scope = f"{count} pictures" + ("" if annotations else " without annotations: agreement only")
    counts = {"pictures": count}
    if request.data is None:
        scope, counts = f"{count} crops of 1 photograph: agreement only", {"crops": count, "photographs": 1}
    counts["objects"] = sum(m.total for m in tally.matched)
    tables = (
        pictures_table(tally.names, tally.matched, tally.found, reference.name, tested.name),
        *changes_table(tally.changes),
        set_table(figures, annotations is not None, task.masks, reference.name, tested.name),
        *explain.tables(layers, request),
    )
    return Validity(
        workload, "detection", metric, *values, word, code, scope, reason, tuple(checks), tables, counts, figures,
        tuple(sorted(tally.notes)), tuple(tally.files), reference.name, tested.name, request.data is None,
    )  # fmt: skip


def _figures(tally: _Tally, annotations: coco.Annotations | None, task: Detection) -> dict[str, float]:
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
        figures["score_drift_median"], figures["score_drift_max"] = (
            float(np.median(changes)),
            float(changes.max()),
        )
    if annotations is not None:
        for side, results in zip(("reference", "tested"), tally.results):
            for kind, word in (("bbox", "box"), ("segm", "mask")):
                if kind == "bbox" or task.masks:
                    values = coco.average_precision(annotations, tally.image_ids, results[kind], kind)
                    figures.update({f"{word}_{name}_{side}": value for name, value in values.items()})
    return figures


def _task_checks(
    task: Detection, figures: Mapping[str, float], tally: _Tally, annotated: bool, request: ValidityRequest
) -> list[Check]:
    tolerance, count = request.tolerance, len(tally.names)
    total = sum(m.total for m in tally.matched)
    checks = []
    if annotated:
        for name, limit in (("box_ap", "accuracy"), ("mask_ap", "mask_ap")):
            right = figures.get(f"{name}_reference")
            if right is not None:
                ratio = figures[f"{name}_tested"] / right if right > 0 else None
                checks.append(hold(limit, ratio, tolerance, *verdict.resolution(right, count)))
        published, ap = task.published.get("box_ap", 0.0) / 100, figures["box_ap_reference"]
        checks += verdict.published_check(published, ap, AP_DEVIATION, count, request)
    less_one = (1 / total, f"less one object of {total}") if total else (0.0, "")
    return [
        *checks,
        hold("detection_agreement", figures["detection_agreement"], tolerance, *less_one),
        hold("box_iou", figures.get("box_iou_mean"), tolerance),
        hold("box_bias", figures.get("box_bias"), tolerance),
        hold("score_drift", figures.get("score_drift_median"), tolerance),
    ]
