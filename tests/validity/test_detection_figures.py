"""The figures of a detector's judgement: agreement and AP, their changes, and losses by class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from validity import toys
from validity.toys import bind

from modelzoo.records.exhibits import ShownObjects
from modelzoo.records.partial import MatchedPair, Matches, Row, UnmatchedObject
from modelzoo.validity import Detection, detection_figures
from modelzoo.validity.judging import compare, conclude

NAMES = {1: "dog", 2: "cat"}


def pair(label: int, iou: float = 0.98) -> MatchedPair:
    return MatchedPair(0, 0, label, 0.9, 0.9, iou, (0, 0, 0, 0))


def picture(index: int, pairs: Sequence[MatchedPair], lost: int = 0, new: int = 0, label: int = 1) -> Row:
    """A picture with these objects in common, and others of the class ``label`` that one model alone detected."""
    unmatched = UnmatchedObject(0, label, 0.8)
    matches = Matches(tuple(pairs), (unmatched,) * lost, (unmatched,) * new)
    return detection_figures.row(index, f"{index}.jpg", matches, NAMES)


def test_a_class_is_compared_picture_by_picture() -> None:
    """Matched objects count with their IoU, unmatched ones with 0; an unknown label gets its number."""
    first, second = picture(0, [pair(1, 0.9), pair(2, 1.0)], lost=1), picture(1, [pair(5)])
    assert first.classes == {"dog": (1.0, pytest.approx(0.45)), "cat": (1.0, 1.0)}
    assert second.classes == {"class 5": (1.0, 0.98)}


def test_the_agreement_changes_by_objects() -> None:
    """3 of 4 objects in common: two pictures that differ, with sizes 1 and 3."""
    change = Detection.metrics[0].change([picture(0, [pair(1)]), picture(1, [pair(1)] * 2, new=1)])
    assert change is not None
    assert (change.metric, change.reference, change.tested) == ("detection_agreement", 1.0, 0.75)
    assert (change.items, change.worse, change.better) == (2, 1, 0)


def test_boxes_and_masks_have_an_ap_by_category(tmp_path: Path) -> None:
    """Two categories with one object per picture; both shapes change by what the figures say."""
    task = bind("toy", *toys.detection(tmp_path, 6))
    _, reference, tested, _ = toys.detection(tmp_path / "again", 6)
    result = compare(task, reference, tested)
    validity = conclude(task, result)
    assert [each.metric for each in validity.changes] == ["box_ap", "mask_ap", "detection_agreement"]
    for change in validity.changes[:2]:
        assert change.reference == validity.figures[f"{change.metric}_reference"]
        assert change.tested == validity.figures[f"{change.metric}_tested"]
        assert change.low < change.change < change.high
    assert isinstance(validity.shown, ShownObjects)
    losses = validity.shown.categories
    assert [each.shape for each in losses] == ["box", "mask"]
    assert {(each.name, each.objects) for loss in losses for each in loss.worst} == {("square", 6), ("quadrangle", 6)}
    assert all((loss.categories, loss.fell, loss.rose) == (2, 2, 0) for loss in losses)
