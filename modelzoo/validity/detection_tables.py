"""The tables of a detector's judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelzoo.records.partial import DetectedPicture
from modelzoo.records.validity import Table
from modelzoo.validity.average_precision import AP_NAMES
from modelzoo.validity.detection_figures import CategoryAp
from modelzoo.validity.protocol import TaskContext

SHOWN = 12
"""Rows of the tables of pictures and of changes."""
AP_TITLES = dict(zip(AP_NAMES, ("AP", "AP50", "AP75", "AP small", "AP medium", "AP large")))


def pictures_table(pictures: Sequence[DetectedPicture], context: TaskContext) -> Table:
    """One row per picture: objects of both models, in common, lost, new, moved, worst IoU, largest score change."""
    rows = []
    for p in pictures[:SHOWN]:
        pairs, lost, new = p.matches.pairs, p.matches.lost, p.matches.new
        rows.append(
            (
                p.name,
                f"{len(pairs) + len(lost)} ({p.reference_boxes})",
                f"{len(pairs) + len(new)} ({p.tested_boxes})",
                str(len(pairs)),
                str(len(lost)),
                str(len(new)),
                str(sum(pair.moved for pair in pairs)),
                f"{min(pair.iou for pair in pairs):.3f}" if pairs else "–",
                f"{max(abs(pair.score_change) for pair in pairs):.3f}" if pairs else "–",
            )
        )
    found = (context.reference_name, context.tested_name)
    columns = ("picture", *found, "in common", "lost", "new", "moved", "worst IoU", "score change")
    note = "in parentheses: all boxes after NMS, whatever their score"
    if len(pictures) > SHOWN:
        note = f"the first {SHOWN} of {len(pictures)} pictures; {note}"
    return Table("Objects", columns, tuple(rows), note)


def changes_tables(pictures: Sequence[DetectedPicture], names: Mapping[int, str]) -> tuple[Table, ...]:
    """Lost, new and moved objects; no table if nothing changed."""
    changes = [row for picture in pictures for row in _changes(picture, names)]
    if not changes:
        return ()
    note = f"the first {SHOWN} of {len(changes)}" if len(changes) > SHOWN else ""
    columns = ("picture", "what", "class", "fp32 score", "tested score", "IoU")
    return (Table("What changed", columns, tuple(changes[:SHOWN]), note),)


def _changes(picture: DetectedPicture, names: Mapping[int, str]) -> list[tuple[str, ...]]:
    def class_of(label: int) -> str:
        return names.get(label, f"class {label}")

    matches = picture.matches
    rows: list[tuple[str, ...]] = []
    rows += [(picture.name, "lost", class_of(each.label), f"{each.score:.3f}", "–", "–") for each in matches.lost]
    rows += [(picture.name, "new", class_of(each.label), "–", f"{each.score:.3f}", "–") for each in matches.new]
    for pair in matches.pairs:
        if pair.moved:
            scores = f"{pair.reference_score:.3f}", f"{pair.tested_score:.3f}"
            rows.append((picture.name, "moved", class_of(pair.label), *scores, f"{pair.iou:.3f}"))
    return rows


def category_tables(
    found: Sequence[CategoryAp], names: Mapping[int, str], shape: str, context: TaskContext
) -> tuple[Table, ...]:
    """The categories whose AP fell most; no table if none fell.

    Args:
        found: largest loss first.
        names: by category of the annotation file.
        shape: ``box`` or ``mask``.
    """
    fell = [each for each in found if each.tested < each.reference]
    if not fell:
        return ()
    rows = tuple(
        (
            names.get(each.category, f"category {each.category}"),
            str(each.objects),
            f"{each.reference:.3f}",
            f"{each.tested:.3f}",
            f"{each.tested - each.reference:+.3f}",
        )
        for each in fell[:SHOWN]
    )
    note = f"fell in {len(fell)} of {len(found)} categories, rose in {sum(c.tested > c.reference for c in found)}"
    columns = ("category", "objects", context.reference_name, context.tested_name, "difference")
    return (Table(f"{shape.capitalize()} AP by category", columns, rows, note),)


def summary_table(figures: Mapping[str, float], context: TaskContext) -> Table:
    """The figures over the data set, with AP of both models and its difference if there are annotations."""
    rows: list[tuple[str, ...]] = []
    for word in ("box", "mask"):
        for name in AP_NAMES:
            if f"{word}_{name}_reference" not in figures:
                continue
            first, second = figures[f"{word}_{name}_reference"], figures[f"{word}_{name}_tested"]
            known = first >= 0 and second >= 0  # COCOeval gives −1 if the data set holds nothing of that size
            texts = (f"{first:.3f}", f"{second:.3f}", f"{second - first:+.3f}") if known else ("–", "–", "–")
            rows.append((f"{word} {AP_TITLES[name]}", *texts))
    rows.append(("objects in common", "", f"{100 * figures['detection_agreement']:.1f} %", ""))
    counts = "{matched:.0f} in common, {lost:.0f} lost, {new:.0f} new, {moved:.0f} moved".format(**figures)
    rows.append(("objects", "", counts, ""))
    if "box_iou_mean" in figures:
        drift = f"{figures['score_drift_median']:.4f}, {figures['score_drift_max']:.4f}"
        rows.append(("IoU of matched boxes, mean", "", f"{figures['box_iou_mean']:.4f}", ""))
        rows.append(("change of a score: median, max", "", drift, ""))
    return Table("Over the set", ("", context.reference_name, context.tested_name, "difference"), tuple(rows))
