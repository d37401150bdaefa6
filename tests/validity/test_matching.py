"""Matching of detections: IoU against torchvision, and what counts as lost, new and moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.validity.detection_figures import Detections, iou, match


def found(boxes: list[Any], scores: list[float], labels: list[int] | None = None) -> Detections:
    return Detections(
        np.array(boxes, dtype="float64").reshape(-1, 4), np.array(scores), np.array(labels or [1] * len(scores))
    )


BOXES = st.lists(
    st.tuples(st.floats(0, 90), st.floats(0, 90), st.floats(1, 50), st.floats(1, 50)).map(
        lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
    ),
    max_size=8,
)


@given(BOXES, BOXES)
def test_iou_is_torchvisions(first: list[Any], second: list[Any]) -> None:
    """The same figures as torchvision.ops.box_iou."""
    from torchvision.ops import box_iou

    tensors = [torch.tensor(x, dtype=torch.float64).reshape(-1, 4) for x in (first, second)]
    assert np.allclose(iou(first, second), box_iou(*tensors).numpy())


@given(BOXES, st.data())
def test_detections_match_themselves(boxes: list[Any], data: st.DataObject) -> None:
    """Nothing is lost, new or moved between a set and itself."""
    scores = [data.draw(st.floats(0.5, 1)) for _ in boxes]
    labels = [data.draw(st.integers(1, 3)) for _ in boxes]
    one = found(boxes, scores, labels)
    matched = match(one, one, 0.5)
    assert (len(matched.pairs), matched.lost, matched.new) == (len(boxes), (), ())
    assert not any(pair.moved for pair in matched.pairs)


@given(BOXES, BOXES)
def test_every_strong_detection_is_matched_lost_or_new_once(first: list[Any], second: list[Any]) -> None:
    """Rows are used once, and none is forgotten."""
    a, b = found(first, [0.9] * len(first)), found(second, [0.8] * len(second))
    matched = match(a, b, 0.5)
    assert sorted([p.reference_row for p in matched.pairs] + [u.row for u in matched.lost]) == list(range(len(first)))
    assert sorted([p.tested_row for p in matched.pairs] + [u.row for u in matched.new]) == list(range(len(second)))


def test_another_class_is_lost_and_new() -> None:
    """A box whose class changed is no common object."""
    box = [(0, 0, 10, 10)]
    matched = match(found(box, [0.9], [1]), found(box, [0.9], [2]), 0.5)
    assert matched.pairs == ()
    assert [(each.row, each.label, each.score) for each in matched.lost] == [(0, 1, 0.9)]
    assert [(each.row, each.label, each.score) for each in matched.new] == [(0, 2, 0.9)]


def test_a_score_that_only_crosses_the_threshold_loses_nothing() -> None:
    """0.51 that became 0.49 is the same object; one that fell under half of the threshold is lost."""
    box = [(0, 0, 10, 10)]
    kept = match(found(box, [0.51]), found(box, [0.49]), 0.5)
    assert (len(kept.pairs), kept.lost, kept.new) == (1, (), ())
    assert kept.pairs[0].score_change == pytest.approx(-0.02)
    assert match(found(box, [0.51]), found(box, [0.2]), 0.5).lost[0].row == 0
