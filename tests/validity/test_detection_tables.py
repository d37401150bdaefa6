"""The tables of a detector's judgement."""

from __future__ import annotations

from modelzoo.records.partial import DetectedPicture, MatchedPair, Matches, UnmatchedObject
from modelzoo.validity import TaskContext, ValidityRequest
from modelzoo.validity.detection_figures import CategoryAp
from modelzoo.validity.detection_tables import SHOWN, category_tables, changes_tables, pictures_table, summary_table

CONTEXT = TaskContext("toy", ValidityRequest(), tested_name="bf16")
STILL = MatchedPair(0, 0, 1, 0.9, 0.8, 0.95, (0, 0, 0, 0))
MOVED = MatchedPair(1, 1, 2, 0.7, 0.7, 0.6, (0.2, 0, 0.2, 0))
LOST, NEW = UnmatchedObject(2, 7, 0.55), UnmatchedObject(3, 1, 0.65)
PICTURE = DetectedPicture(0, "a.jpg", None, Matches((STILL, MOVED), (LOST,), (NEW,)), 100, 90, True, True)
EMPTY = DetectedPicture(1, "b.jpg", None, Matches(), 5, 5, True, True)
COUNTS = {"detection_agreement": 0.5, "matched": 2.0, "lost": 1.0, "new": 1.0, "moved": 1.0}


def test_objects_are_counted_by_picture() -> None:
    """In common, lost, new and moved; a picture without pairs has no IoU."""
    table = pictures_table([PICTURE, EMPTY], CONTEXT)
    assert table.rows[0] == ("a.jpg", "3 (100)", "3 (90)", "2", "1", "1", "1", "0.600", "0.100")
    assert table.rows[1][-2:] == ("–", "–")
    assert f"the first {SHOWN} of 13 pictures" in pictures_table([EMPTY] * 13, CONTEXT).note


def test_changes_name_class_and_scores() -> None:
    """Lost, new, then moved; a class without a name keeps its number; no table without changes."""
    (table,) = changes_tables([PICTURE], {1: "person", 2: "dog"})
    assert table.rows == (
        ("a.jpg", "lost", "class 7", "0.550", "–", "–"),
        ("a.jpg", "new", "person", "–", "0.650", "–"),
        ("a.jpg", "moved", "dog", "0.700", "0.700", "0.600"),
    )
    assert changes_tables([EMPTY], {}) == ()


def test_ap_is_shown_if_there_are_annotations() -> None:
    """Sizes that the data set does not hold are dashes."""
    assert [row[0] for row in summary_table(COUNTS, CONTEXT).rows] == ["objects in common", "objects"]
    sizes = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")
    figures = {f"box_{name}_{side}": 0.5 for name in sizes for side in ("reference", "tested")}
    figures |= {"box_ap_small_reference": -1.0, "box_ap_tested": 0.25}
    rows = {row[0]: row[1:] for row in summary_table({**COUNTS, **figures}, CONTEXT).rows}
    assert rows["box AP"] == ("0.500", "0.250", "-0.250")
    assert rows["box AP small"] == ("–", "–", "–")
    assert not any(name.startswith("mask") for name in rows)


def test_categories_whose_ap_fell_are_listed() -> None:
    """In the given order, by name; no table if none fell."""
    found = [CategoryAp(18, 12, 0.75, 0.25), CategoryAp(99, 1, 0.5, 0.4), CategoryAp(1, 80, 0.5, 0.5)]
    (table,) = category_tables([*found, CategoryAp(2, 3, 0.1, 0.2)], {18: "dog"}, "box", CONTEXT)
    assert table.title == "Box AP by category"
    assert table.rows == (
        ("dog", "12", "0.750", "0.250", "-0.500"),
        ("category 99", "1", "0.500", "0.400", "-0.100"),
    )
    assert table.note == "fell in 2 of 4 categories, rose in 1"
    assert category_tables(found[2:], {}, "box", CONTEXT) == ()
