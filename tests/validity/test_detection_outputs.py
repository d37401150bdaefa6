"""From a detector's output to records: scales, run-length encodings, and values that are not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pycocotools import mask as rle

from modelzoo.validity import Detection
from modelzoo.validity.detection import coco_detections, drawn_detections
from modelzoo.workload.inputs import Picture

# pycocotools triggers it in numpy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
TASK = Detection(preprocess=lambda picture: picture, categories=dict, masks=True)
PICTURE = Picture("a", Image.new("RGB", (100, 50)), (200, 100))
ROWS = [(None, PICTURE)]


def output(*boxes: tuple[float, ...], scores: tuple[float, ...]) -> list[dict[str, Any]]:
    masks = torch.zeros(len(boxes), 1, 50, 100)
    masks[:, :, 10:20, 30:60] = 0.9
    labels = torch.arange(1, len(boxes) + 1)
    return [{"boxes": torch.tensor(boxes), "scores": torch.tensor(scores), "labels": labels, "masks": masks}]


def test_boxes_and_masks_come_in_pixels_of_the_original() -> None:
    """A picture read at half its size: boxes are doubled, masks scaled, the best score comes first."""
    (found,) = TASK.predictions(output((0, 0, 9, 9), (30, 10, 60, 20), scores=(0.3, 0.8)), ROWS)
    assert found.finite
    assert found.labels.tolist() == [2, 1]
    assert found.boxes[0].tolist() == [60, 20, 120, 40]
    record = coco_detections(found, PICTURE.size, {1: 11, 2: 12})
    assert record.categories == (12, 11)
    assert record.boxes[:4] == (60, 20, 60, 20)
    mask = rle.decode({"size": list(record.mask_size), "counts": record.masks[0]})
    assert mask.shape == (100, 200)
    assert mask[20:40, 60:120].all()
    assert mask.sum() == 20 * 60


def test_drawn_boxes_come_in_pixels_of_the_picture_as_read() -> None:
    """With the names of their classes, the masks at the size that was read, and no more than were asked for."""
    (found,) = TASK.predictions(output((0, 0, 9, 9), (30, 10, 60, 20), scores=(0.3, 0.8)), ROWS)
    drawn = drawn_detections(found, PICTURE, {2: "dog"}, 1)
    assert drawn.boxes == ((30, 10, 60, 20),)
    assert (drawn.names, drawn.mask_size, len(drawn.masks)) == (("dog",), (50, 100), 1)
    assert drawn_detections(found, PICTURE, {}, 2).names == ("class 2", "class 1")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_reach_no_record(value: float) -> None:
    """The output counts as not finite; COCO's detections leave the box out, drawings have an empty one."""
    boxes = output((0, 0, value, 9), (30, 10, 60, 20), scores=(0.9, 0.8))
    (found,) = TASK.predictions(boxes, ROWS)
    assert not found.finite
    assert coco_detections(found, PICTURE.size, {1: 1, 2: 2}).categories == (2,)
    assert drawn_detections(found, PICTURE, {}, 2).boxes[0] == (0, 0, 0, 0)


def test_classes_without_a_category_are_left_out() -> None:
    """An annotation file may have fewer classes than the model."""
    (found,) = TASK.predictions(output((0, 0, 9, 9), (30, 10, 60, 20), scores=(0.3, 0.8)), ROWS)
    assert coco_detections(found, PICTURE.size, {1: 5}).categories == (5,)


def test_scores_are_compared_sorted_and_padded() -> None:
    """Each picture gives a row of the same length, best first."""
    scores = TASK.output_tensor(output((0, 0, 9, 9), (30, 10, 60, 20), scores=(0.3, 0.8)), ROWS)
    assert np.allclose(scores[0, :3].numpy(), [0.8, 0.3, 0.0])
