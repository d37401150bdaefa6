"""Drawn detections: colours at the boxes, labels inside the picture, changes marked."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageColor

from modelzoo.frozen import replace
from modelzoo.records.exhibits import DetectionPicture, DrawnDetections, PictureSource
from modelzoo.records.partial import MatchedPair, Matches, UnmatchedObject
from modelzoo.views import exhibits as drawing

NAMES = {1: "person", 2: "dog", 9: "car"}
NOTHING = Matches()
Row = tuple[tuple[float, float, float, float], float, int]


def detected(*rows: Row) -> DrawnDetections:
    """Detections from (box, score, label)."""
    return DrawnDetections(
        boxes=tuple(box for box, _, _ in rows),
        scores=tuple(score for _, score, _ in rows),
        labels=tuple(label for _, _, label in rows),
        names=tuple(NAMES[label] for _, _, label in rows),
    )


def picture(reference: DrawnDetections, tested: DrawnDetections, matches: Matches = NOTHING) -> DetectionPicture:
    return DetectionPicture(PictureSource(), (100, 100), reference, tested, matches, 0.5, "fp32", "bf16")


def pair(row: int, iou: float) -> MatchedPair:
    """The detections of rank ``row`` in both models, with boxes of this overlap."""
    return MatchedPair(row, row, 1, 0.9, 0.9, iou, (0, 0, 0, 0))


def fraction_of(image: Image.Image, colour: str) -> float:
    """Fraction of pixels within 40 of ``colour`` in every channel."""
    pixels = np.asarray(image, dtype="int64")
    return float((np.abs(pixels - np.array(ImageColor.getrgb(colour))).max(axis=2) < 40).mean())


def test_boxes_and_labels_are_drawn_above_the_threshold() -> None:
    """One box above the threshold, one below it; small pictures are enlarged."""
    black = Image.new("RGB", (200, 100), "black")
    tested = detected(((20, 20, 80, 80), 0.9, 1), ((100, 20, 180, 80), 0.2, 2))
    drawn = drawing.draw_detections(black, picture(detected(), tested))
    assert drawn.size == (drawing.SHORTEST, drawing.SHORTEST // 2 + drawing.BARS // 2)
    assert fraction_of(drawn, drawing.PALETTE[1]) > 0.005
    assert fraction_of(drawn, drawing.PALETTE[2]) == 0


# pycocotools triggers the warning in numpy 2.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_masks_lie_on_the_object() -> None:
    """The masked half is tinted, the other is not."""
    from pycocotools import mask as rle

    white = Image.new("RGB", (100, 100), "white")
    mask = np.zeros((100, 100), dtype="uint8", order="F")
    mask[:, :50] = 1
    counts = rle.encode(mask)["counts"].decode("ascii")
    tested = replace(detected(((0, 0, 50, 100), 0.9, 1)), masks=(counts,), mask_size=(100, 100))
    drawn = np.asarray(drawing.draw_detections(white, picture(detected(), tested)))
    tinted, plain = drawn[700, 200], drawn[700, 800]
    assert tuple(plain) == (255, 255, 255)
    assert tuple(tinted) != (255, 255, 255)


def test_a_comparison_marks_lost_new_and_moved() -> None:
    """Lost only on the left, new only on the right, moved on both."""
    black = Image.new("RGB", (400, 300), "black")
    common, moved = (10, 60, 90, 140), (120, 60, 200, 140)
    reference = detected((common, 0.9, 1), (moved, 0.9, 1), ((220, 60, 300, 140), 0.9, 1))
    tested = detected((common, 0.9, 1), ((132, 60, 212, 140), 0.9, 1), ((300, 180, 380, 260), 0.9, 2))
    lost, new = UnmatchedObject(2, 1, 0.9), UnmatchedObject(2, 2, 0.9)
    matches = Matches((pair(0, 1.0), pair(1, 0.74)), (lost,), (new,))
    sheet = drawing.draw_comparison(black, picture(reference, tested, matches))
    middle = sheet.size[0] // 2
    left, right = sheet.crop((0, 40, middle, 700)), sheet.crop((middle, 40, sheet.size[0], 700))
    for colour, on_left, on_right in (
        (drawing.LOST, True, False),
        (drawing.NEW, False, True),
        (drawing.MOVED, True, True),
        (drawing.COMMON, True, True),
    ):
        assert (fraction_of(left, colour) > 0) is on_left
        assert (fraction_of(right, colour) > 0) is on_right


@pytest.mark.parametrize(
    "tested", [detected(), detected(((5, 5, 5, 5), 0.9, 1), ((-50, -20, 900, 80), 0.9, 9), ((0, 0, 0, 0), 0.9, 2))]
)
def test_no_detections_and_boxes_at_the_edge_are_drawn(tested: DrawnDetections) -> None:
    """No detections, empty boxes, and one that leaves the picture raise nothing."""
    black = Image.new("RGB", (300, 30), "black")
    matches = Matches(new=tuple(UnmatchedObject(row, 1, 0.9) for row in range(len(tested.boxes))))
    assert drawing.draw_detections(black, picture(detected(), tested)).size == (960, 96 + drawing.BARS // 2)
    assert drawing.draw_comparison(black, picture(detected(), tested, matches)).size == (2 * 960, 96 + drawing.BARS)
