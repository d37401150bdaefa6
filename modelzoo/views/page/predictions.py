"""What a judgement of predictions found: verdict, changes with their intervals, checks, pictures. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from modelzoo.document import Block, Column, Details, Lines, Picture, Pictures, Table, Text, Tone, lines, named
from modelzoo.formatting import MISSING, significant
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.records.validity import ClassChange, MetricChange, Validity
from modelzoo.views.judgement import check_table, reason_text, resolution_text, scope_text
from modelzoo.views.validity import tables

PICTURE_BYTES = 600_000
"""Bytes of all pictures of a page together, so that the page stays below 2 MB: base64 adds a third."""


def blocks(result: Result, entry: ValidityEntry, pictures: int) -> list[Block]:
    """Return the judgement of one setting.

    Args:
        result: that contains it.
        entry: the judgement.
        pictures: show at most that many pictures.
    """
    label = result.label(entry.group)
    if entry.report is None:
        return [lines(f"The predictions of {label} could not be judged: {entry.error or 'no reason is known'}")]
    judged = entry.report.validity
    found: list[Block] = [_verdict(label, judged)]
    if judged.changes:
        found.append(_changes(judged))
    if judged.classes is not None and judged.classes.worst:
        found.append(_classes(judged, judged.classes.worst))
    found.append(check_table(judged))
    found += [Details(table.caption, (table,)) for table in tables(judged)]
    if entry.thumbnails and pictures:
        found.append(_pictures(entry, pictures))
    if entry.files:
        found.append(Details(f"{len(entry.files)} files were written", (lines(*entry.files),)))
    return found


def pictures_each(results: list[Result]) -> int:
    """Return how many pictures each judgement may show so that all of them together stay below ``PICTURE_BYTES``."""
    sizes = [[len(each.jpeg) for each in entry.thumbnails] for result in results for entry in result.validity]
    most = max(map(len, sizes), default=0)
    while most and sum(sum(each[:most]) for each in sizes) > PICTURE_BYTES:
        most -= 1
    return most


def _verdict(label: str, judged: Validity) -> Lines:
    said = [
        (label, str(judged.verdict)),
        (
            "metric",
            f"{judged.metric}: {_value(judged.reference)} in {judged.reference_name}, "
            f"{_value(judged.tested)} in {judged.tested_name}",
        ),
        ("judged on", scope_text(judged)),
    ]
    more = (("reason", reason_text(judged)), ("this can show", resolution_text(judged)))
    said += [(name, text) for name, text in more if text]
    return named(said)


def _changes(judged: Validity) -> Table:
    changes = judged.changes
    return Table(
        f"How each metric changed from {judged.reference_name} to {judged.tested_name}, with its 95 % interval",
        (
            Column("metric", tuple(each.metric for each in changes)),
            Column(judged.reference_name, tuple(_value(each.reference) for each in changes), True),
            Column(judged.tested_name, tuple(_value(each.tested) for each in changes), True),
            Column("change", tuple(map(_change, changes)), True),
            Column("smallest loss it shows", tuple(_value(each.detectable_loss) for each in changes), True),
            Column("worse", tuple(_count(each.worse) for each in changes), True),
            Column("better", tuple(_count(each.better) for each in changes), True),
            Column("items", tuple(str(each.items) for each in changes), True),
        ),
    )


def _classes(judged: Validity, classes: Sequence[ClassChange]) -> Table:
    return Table(
        "The classes with the largest losses",
        (
            Column("class", tuple(each.name for each in classes)),
            Column("items", tuple(str(each.items) for each in classes), True),
            Column(judged.reference_name, tuple(_value(each.reference) for each in classes), True),
            Column(judged.tested_name, tuple(_value(each.tested) for each in classes), True),
            Column("p", tuple(_p_value(each) for each in classes), True),
            Column(
                "",
                tuple("BROKEN" if each.broken else "" for each in classes),
                tones=tuple(Tone.BAD if each.broken else Tone.PLAIN for each in classes),
            ),
        ),
        Text("p: of a loss beyond the threshold, corrected for the number of classes"),
    )


def _pictures(entry: ValidityEntry, limit: int) -> Pictures:
    chosen = entry.thumbnails[:limit]
    items = tuple(Picture(each.name, base64.b64encode(each.jpeg).decode("ascii")) for each in chosen)
    count = (
        f"{len(chosen)} of {len(entry.thumbnails)} stored pictures"
        if len(chosen) < len(entry.thumbnails)
        else ("The stored pictures")
    )
    return Pictures(Text(f"{count}: what the reference (left) and the setting under test (right) detected"), items)


def _change(found: MetricChange) -> str:
    return f"{found.change:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def _value(value: float | None) -> str:
    if value is None:
        return MISSING
    return significant(value) if value == 0 or abs(value) >= 1e-4 else f"{value:.1e}"


def _count(value: int | None) -> str:
    return MISSING if value is None else str(value)


def _p_value(found: ClassChange) -> str:
    return MISSING if found.p_value is None else f"{found.p_value:.2g}"
