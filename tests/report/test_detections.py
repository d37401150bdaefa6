"""Drawn detections: colours where the boxes are, labels inside the picture, changes marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageColor

from modelzoo.report import detections as drawing
from modelzoo.validity.matching import Found, match

NAMES = {1: "person", 2: "dog"}


def found(*rows: tuple[tuple[float, float, float, float], float, int], masks: list[np.ndarray] | None = None) -> Found:
    boxes, scores, labels = zip(*rows) if rows else ((), (), ())
    return Found(np.array(boxes, dtype="float64").reshape(-1, 4), np.array(scores), np.array(labels), masks)


def share_of(image: Image.Image, colour: str) -> float:
    """Share of pixels within 40 of ``colour`` in every channel."""
    pixels = np.asarray(image, dtype="int64")
    return float((np.abs(pixels - np.array(ImageColor.getrgb(colour))).max(axis=2) < 40).mean())


def test_boxes_and_labels_are_drawn_for_what_is_shown() -> None:
    """One box over the threshold, one under it; small pictures are enlarged."""
    picture = Image.new("RGB", (200, 100), "black")
    drawn = drawing.drawn(picture, found(((20, 20, 80, 80), 0.9, 1), ((100, 20, 180, 80), 0.2, 2)), NAMES, 0.5)
    assert max(drawn.size) == drawing.SHORTEST
    assert share_of(drawn, drawing.PALETTE[1]) > 0.01
    assert share_of(drawn, drawing.PALETTE[2]) == 0


def test_masks_lie_on_the_object() -> None:
    """The masked half is tinted, the other is not."""
    picture = Image.new("RGB", (100, 100), "white")
    mask = np.zeros((100, 100), dtype=bool)
    mask[:, :50] = True
    drawn = np.asarray(drawing.drawn(picture, found(((0, 0, 50, 100), 0.9, 1), masks=[mask]), NAMES, 0.5))
    tinted, plain = drawn[700, 200], drawn[700, 800]
    assert tuple(plain) == (255, 255, 255)
    assert tuple(tinted) != (255, 255, 255)


def test_a_comparison_marks_lost_new_and_moved() -> None:
    """Lost only on the left, new only on the right, moved on both."""
    picture = Image.new("RGB", (400, 300), "black")
    right = found(((10, 60, 90, 140), 0.9, 1), ((120, 60, 200, 140), 0.9, 1), ((220, 60, 300, 140), 0.9, 1))
    ours = found(((10, 60, 90, 140), 0.9, 1), ((132, 60, 212, 140), 0.9, 1), ((300, 180, 380, 260), 0.9, 2))
    sheet = drawing.compared(picture, (right, ours), match(right, ours, 0.5), NAMES, ("fp32", "bf16"))
    middle = sheet.size[0] // 2
    left, second = sheet.crop((0, 40, middle, 700)), sheet.crop((middle, 40, sheet.size[0], 700))
    for colour, on_left, on_right in (
        (drawing.LOST, True, False),
        (drawing.NEW, False, True),
        (drawing.MOVED, True, True),
        (drawing.COMMON, True, True),
    ):
        assert (share_of(left, colour) > 0) is on_left
        assert (share_of(second, colour) > 0) is on_right


def test_nothing_found_and_boxes_at_the_edge_are_drawn(tmp_path: Path) -> None:
    """No detections, an empty box, and one that leaves the picture raise nothing."""
    picture = Image.new("RGB", (300, 30), "black")
    for one in (found(), found(((5, 5, 5, 5), 0.9, 1), ((-50, -20, 900, 80), 0.9, 9))):
        assert Path(drawing.save(drawing.drawn(picture, one, NAMES, 0.5), tmp_path / "deep" / "a.jpg")).is_file()


def test_labels_do_not_cover_each_other() -> None:
    """Ten objects at one place: ten labels apart."""
    size = (960, 960)
    placed: list[tuple[float, float, float, float]] = []
    for _ in range(10):
        place = drawing._free((400, 400, 500, 500), 120, 20, size, placed)
        assert not any(drawing._overlap(place, other) for other in placed)
        assert place[0] >= 0 and place[2] <= size[0] and place[1] >= 0 and place[3] <= size[1]
        placed.append(place)
