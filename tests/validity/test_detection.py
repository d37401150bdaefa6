"""A detector judged: what its output becomes, which objects match, AP and agreement, planted faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as rle
from validity import toys
from validity.toys import bind, judge

from modelzoo.records.partial import MatchedPair, Matches, PictureNote, Row, UnmatchedObject
from modelzoo.validity import Detection, Predictor, ValidityRequest, average_precision, detection_figures
from modelzoo.validity.detection import coco_detections, drawn_detections
from modelzoo.validity.detection_figures import Detections, iou, match
from modelzoo.validity.judging import compare, conclude
from modelzoo.workload.inputs import Picture

# pycocotools triggers it in numpy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
TASK = Detection(lambda picture: picture, lambda: {1: (1, "square"), 2: (2, "quadrangle")}, masks=True)
PICTURE = Picture(Image.new("RGB", (100, 50)), (200, 100))
ROWS = [(None, PICTURE)]


def output(first: tuple[float, ...] = (0, 0, 9, 9), scores: tuple[float, ...] = (0.3, 0.8)) -> list[dict[str, Any]]:
    """Two detections in one picture."""
    masks = torch.zeros(2, 1, 50, 100)
    masks[:, :, 10:20, 30:60] = 0.9
    boxes = torch.tensor([first, (30, 10, 60, 20)])
    return [{"boxes": boxes, "scores": torch.tensor(scores), "labels": torch.tensor([1, 2]), "masks": masks}]


def test_boxes_and_masks_come_in_pixels_of_the_original() -> None:
    """A picture read at half its size: boxes are doubled, masks scaled, the best score comes first."""
    (found,) = TASK.predictions(output(), ROWS)
    assert (found.finite, found.labels.tolist(), found.boxes[0].tolist()) == (True, [2, 1], [60, 20, 120, 40])
    record = coco_detections(found, PICTURE.size, {1: 11, 2: 12})
    assert record.categories == (12, 11)
    assert record.boxes[:4] == (60, 20, 60, 20)
    mask = rle.decode({"size": list(record.mask_size), "counts": record.masks[0]})
    assert mask.shape == (100, 200)
    assert mask[20:40, 60:120].all()
    assert mask.sum() == 20 * 60
    assert coco_detections(found, PICTURE.size, {1: 5}).categories == (5,), "an annotation file may have fewer classes"


def test_drawn_boxes_come_in_pixels_of_the_picture_as_read() -> None:
    """With the names of their classes, the masks at the size that was read, and no more than were asked for."""
    (found,) = TASK.predictions(output(), ROWS)
    drawn = drawn_detections(found, PICTURE, {2: "dog"}, 1)
    assert drawn.boxes == ((30, 10, 60, 20),)
    assert (drawn.names, drawn.mask_size, len(drawn.masks)) == (("dog",), (50, 100), 1)
    assert drawn_detections(found, PICTURE, {}, 2).names == ("class 2", "class 1")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_reach_no_record(value: float) -> None:
    """The output counts as not finite; COCO's detections leave the box out, drawings have an empty one."""
    (found,) = TASK.predictions(output((0, 0, value, 9), (0.9, 0.8)), ROWS)
    assert not found.finite
    assert coco_detections(found, PICTURE.size, {1: 1, 2: 2}).categories == (2,)
    assert drawn_detections(found, PICTURE, {}, 2).boxes[0] == (0, 0, 0, 0)


BOXES = st.lists(
    st.tuples(st.floats(0, 90), st.floats(0, 90), st.floats(1, 50), st.floats(1, 50)).map(
        lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
    ),
    max_size=8,
)


def detected(boxes: list[Any], scores: list[float], labels: list[int] | None = None) -> Detections:
    places = np.array(boxes, dtype="float64").reshape(-1, 4)
    return Detections(places, np.array(scores), np.array(labels or [1] * len(scores)))


@given(BOXES, BOXES)
def test_every_strong_detection_is_matched_lost_or_new_once(first: list[Any], second: list[Any]) -> None:
    """By the IoU of torchvision.ops.box_iou; nothing is lost, new or moved between a set and itself."""
    from torchvision.ops import box_iou

    tensors = [torch.tensor(x, dtype=torch.float64).reshape(-1, 4) for x in (first, second)]
    assert np.allclose(iou(first, second), box_iou(*tensors).numpy())
    a, b = detected(first, [0.9] * len(first)), detected(second, [0.8] * len(second))
    matched, alone = match(a, b, 0.5), match(a, a, 0.5)
    assert sorted([p.reference_row for p in matched.pairs] + [u.row for u in matched.lost]) == list(range(len(first)))
    assert sorted([p.tested_row for p in matched.pairs] + [u.row for u in matched.new]) == list(range(len(second)))
    assert (len(alone.pairs), alone.lost, alone.new) == (len(first), (), ())
    assert not any(pair.moved for pair in alone.pairs)


def test_another_class_is_lost_and_new_but_a_score_that_crosses_the_threshold_is_not() -> None:
    """0.51 that became 0.49 is the same object; one that fell under half of the threshold is lost."""
    box = [(0, 0, 10, 10)]
    matched = match(detected(box, [0.9], [1]), detected(box, [0.9], [2]), 0.5)
    assert matched.pairs == ()
    assert [(each.row, each.label, each.score) for each in (*matched.lost, *matched.new)] == [(0, 1, 0.9), (0, 2, 0.9)]
    kept = match(detected(box, [0.51]), detected(box, [0.49]), 0.5)
    assert (len(kept.pairs), kept.lost, kept.new) == (1, (), ())
    assert kept.pairs[0].score_change == pytest.approx(-0.02)
    assert match(detected(box, [0.51]), detected(box, [0.2]), 0.5).lost[0].row == 0


def pair(label: int, iou: float = 0.98) -> MatchedPair:
    return MatchedPair(0, 0, label, 0.9, 0.9, iou, (0, 0, 0, 0))


def picture(index: int, pairs: Sequence[MatchedPair], lost: int = 0, new: int = 0) -> Row:
    """A picture with these objects in common, and dogs that one model alone detected."""
    unmatched = UnmatchedObject(0, 1, 0.8)
    matches = Matches(tuple(pairs), (unmatched,) * lost, (unmatched,) * new)
    return detection_figures.row(index, f"{index}.jpg", matches, {1: "dog", 2: "cat"})


def test_objects_count_for_their_class_and_for_the_agreement() -> None:
    """Matched ones with their IoU, unmatched ones with 0; an unknown label gets its number."""
    first, second = picture(0, [pair(1, 0.9), pair(2, 1.0)], lost=1), picture(1, [pair(5)])
    assert first.classes == {"dog": (1.0, pytest.approx(0.45)), "cat": (1.0, 1.0)}
    assert second.classes == {"class 5": (1.0, 0.98)}
    change = Detection.metrics[0].change([picture(0, [pair(1)]), picture(1, [pair(1)] * 2, new=1)])
    assert (change.metric, change.reference, change.tested) == ("detection_agreement", 1.0, 0.75)
    assert (change.items, change.worse, change.better) == (2, 1, 0)


def test_boxes_and_masks_have_an_ap_by_category(tmp_path: Path) -> None:
    """Two categories with one object per picture; both shapes change by what the figures say."""
    declaration, reference, tested, request = toys.detection(tmp_path, 6)
    task = bind("toy", declaration, tested, request)
    validity = conclude(task, compare(task, reference, tested))
    assert [each.metric for each in validity.changes] == ["box_ap", "mask_ap", "detection_agreement"]
    assert validity.deciding_change == validity.changes[0]
    for change in validity.changes[:2]:
        assert change.reference == validity.figures[f"{change.metric}_reference"]
        assert change.tested == validity.figures[f"{change.metric}_tested"]
        assert change.low < change.change < change.high
    losses = validity.shown.categories
    assert [each.shape for each in losses] == ["box", "mask"]
    assert {(each.name, each.objects) for loss in losses for each in loss.worst} == {("square", 6), ("quadrangle", 6)}
    assert all((loss.categories, loss.fell, loss.rose) == (2, 2, 0) for loss in losses)


Change = Callable[[dict[str, Any]], dict[str, Any]]


def finds(precision: str = "fp32", shift: float = 0.0, change: Change = lambda each: each) -> Predictor:
    """A model that finds the squares of the toy, shifted by so many pixels or changed."""

    def call(pictures: Any) -> Any:
        sizes = [(each.height, each.width) for each in pictures]
        return [change(each) for each in toys.squares([shift] * len(pictures), sizes)]

    return Predictor(call, precision)


def not_a_number(found: dict[str, Any]) -> dict[str, Any]:
    found["boxes"][0, 0] = torch.nan
    return found


def nothing(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "scores": found["scores"] * 0}


@pytest.mark.parametrize(("change", "check"), [(not_a_number, "finite"), (nothing, "in_common")])
def test_nan_and_nothing_are_not_valid_and_no_reference(change: Change, check: str, tmp_path: Path) -> None:
    """A NaN among the boxes, and no detections at all: exit code 1, and 2 if fp32 itself has them."""
    toys.write_annotations(tmp_path, [(200, 160)] * 2)
    request = ValidityRequest(data=str(tmp_path), pictures=0)
    judged = judge("toy", TASK, finds(), finds("bf16", change=change), request)
    assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)
    assert check in toys.failed(judged)
    judged = judge("toy", TASK, finds(change=change), finds("bf16", change=change), request)
    assert (judged.verdict, judged.exit_code) == ("CANNOT JUDGE", 2)


def test_the_builtin_set_shows_certain_faults_alone(tmp_path: Path) -> None:
    """Without data there are 8 crops of one photograph: boxes that all move away are a fault."""
    task, reference, *_ = toys.detection(tmp_path, 1)
    request = ValidityRequest(batch=2, pictures=0)
    judged = judge("toy", task, reference, reference, request)
    assert (judged.verdict, judged.exit_code) == ("NUMERIC ONLY", 0)
    assert (judged.items, judged.item, judged.labelled, judged.figures["matched"]) == (8, "crop", False, 16)
    judged = judge("toy", TASK, finds(), finds("bf16", shift=30.0), request)
    assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)


@pytest.mark.parametrize(("shift", "code"), [(0.0, 2), (5.0, 1)])
def test_masks_reach_the_mask_ap(shift: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy with perfect masks has mask AP 1, also on a picture that was reduced; shifted masks are NOT VALID."""
    monkeypatch.setattr(average_precision, "DRAWS", 200)
    toys.write_annotations(tmp_path, [(400, 400), (2800, 2000), (600, 300), *((200, 200),) * 21])
    recorder, request = toys.Recorder(), ValidityRequest(data=str(tmp_path), batch=2, pictures=3)
    judged = judge("toy", TASK, finds(), finds("bf16", shift=shift), request, exhibit=recorder)
    assert judged.exit_code == code
    assert judged.figures["mask_ap_reference"] == pytest.approx(1, abs=0.01)
    assert judged.figures["box_ap_reference"] == pytest.approx(1, abs=0.01)
    assert ("box_bias" in toys.failed(judged)) == (judged.figures["mask_ap_tested"] < 0.99) == (code == 1)
    assert PictureNote.REDUCED in judged.notes
    sizes = [each.detections.tested.mask_size for each in recorder.exhibits if each.detections is not None]
    assert sizes == [(400, 400), (952, 1333), (300, 600)]
