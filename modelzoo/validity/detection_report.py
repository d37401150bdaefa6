"""The tables of a detector's judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelzoo.validity.coco import AP_NAMES
from modelzoo.validity.matching import Matched
from modelzoo.validity.outcome import Job, Table

SHOWN = 12
"""Rows of the tables by picture and of the changes."""
AP_TITLES = dict(zip(AP_NAMES, ("AP", "AP50", "AP75", "AP small", "AP medium", "AP large")))


def pictures_table(
    names: Sequence[str],
    matched: Sequence[Matched],
    found: Sequence[tuple[int, int]],
    job: Job,
) -> Table:
    """One row a picture: objects of both sides, in common, lost, new, moved, worst IoU, largest score change."""
    rows = []
    for name, m, raw in list(zip(names, matched, found))[:SHOWN]:
        rows.append(
            (
                name,
                f"{len(m.pairs) + len(m.lost)} ({raw[0]})",
                f"{len(m.pairs) + len(m.new)} ({raw[1]})",
                str(len(m.pairs)),
                str(len(m.lost)),
                str(len(m.new)),
                str(sum(pair.moved for pair in m.pairs)),
                f"{min(pair.iou for pair in m.pairs):.3f}" if m.pairs else "–",
                f"{max(abs(pair.score_change) for pair in m.pairs):.3f}" if m.pairs else "–",
            )
        )
    columns = (
        "picture",
        job.reference.name,
        job.tested.name,
        "in common",
        "lost",
        "new",
        "moved",
        "worst IoU",
        "score change",
    )
    note = "in parentheses: all boxes after NMS, whatever their score"
    if len(names) > SHOWN:
        note = f"the first {SHOWN} of {len(names)} pictures; {note}"
    return Table("Objects", columns, tuple(rows), note)


def changes_table(changes: Sequence[tuple[str, ...]]) -> tuple[Table, ...]:
    """Lost, new and moved objects; no table where nothing changed."""
    if not changes:
        return ()
    note = f"the first {SHOWN} of {len(changes)}" if len(changes) > SHOWN else ""
    columns = ("picture", "what", "class", "fp32 score", "tested score", "IoU")
    return (Table("What changed", columns, tuple(changes[:SHOWN]), note),)


def set_table(figures: Mapping[str, float], annotated: bool, job: Job) -> Table:
    """The figures over the set, and AP of both sides with the difference where there are annotations."""
    rows: list[tuple[str, ...]] = []
    for word in (("box", "mask") if job.task.masks else ("box",)) if annotated else ():
        for name in AP_NAMES:
            first, second = figures[f"{word}_{name}_reference"], figures[f"{word}_{name}_tested"]
            known = first >= 0 and second >= 0  # COCOeval gives −1 where the set holds nothing of that size
            texts = (f"{first:.3f}", f"{second:.3f}", f"{second - first:+.3f}") if known else ("–", "–", "–")
            rows.append((f"{word} {AP_TITLES[name]}", *texts))
    rows.append(("objects in common", "", f"{100 * figures['detection_agreement']:.1f} %", ""))
    counts = "{matched:.0f} in common, {lost:.0f} lost, {new:.0f} new, {moved:.0f} moved".format(**figures)
    rows.append(("objects", "", counts, ""))
    if "box_iou_mean" in figures:
        drift = f"{figures['score_drift_median']:.4f}, {figures['score_drift_max']:.4f}"
        rows.append(("IoU of matched boxes, mean", "", f"{figures['box_iou_mean']:.4f}", ""))
        rows.append(("change of a score: median, max", "", drift, ""))
    return Table("Over the set", ("", job.reference.name, job.tested.name, "difference"), tuple(rows))
