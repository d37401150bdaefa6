"""The outputs of an engine are compared with torch's: by mean errors, and detections by class and box."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from modelzoo.engines.export.source import flatten
from modelzoo.engines.export.store import Batch
from modelzoo.engines.protocol import RawOutputs
from modelzoo.measure import observing
from modelzoo.measure.observing import matched_detections, output_agreement, output_errors
from modelzoo.records.workload import Conversion, Export

ONES = np.ones((2, 3), dtype=np.float32)


@pytest.mark.parametrize(
    ("expected", "found", "relative"),
    [
        (2 * ONES, 2 * ONES + np.float32([[1.2, 0, 0], [0, 0, 0]]), 0.1),
        (np.array([3, 5]), np.array([3, 6]), 1 / 8),
        (ONES > 2, ONES > 2, 0),
        (ONES[:0], ONES[:0], 0),
        # Logits of classes that are not used; an infinity that the other lacks cannot be compared.
        (np.float32([1, -np.inf, 3, np.nan]), np.float32([1.5, -np.inf, 3.5, np.nan]), 0.25),
        (np.float32([-np.inf]), np.float32([-np.inf]), 0),
        (np.float32([1, -np.inf]), np.float32([1, np.inf]), None),
        (np.float32([1, -np.inf]), np.float32([1, -1e9]), None),
        (np.float32([1, np.nan]), np.float32([1, 0]), None),
        (ONES, ONES * np.nan, None),
        (ONES, ONES * -np.inf, None),
        (ONES, ONES[:1], None),
        (ONES, ONES[:, :, None], None),
        (ONES[:0], ONES[:1], None),
        (0 * ONES, ONES, None),
    ],
)
def test_errors_are_relative_to_the_mean_output(expected: Any, found: Any, relative: float | None) -> None:
    """Means over all values; NaN, Inf or another shape have no error, and are not the same."""
    (error,) = output_errors(["0"], [expected], [found])
    assert error.relative == (relative if relative is None else pytest.approx(relative))
    assert error.is_within(1.0) == (relative is not None)


def test_the_largest_error_and_the_number_of_values_are_there_too() -> None:
    """An array that is missing has none."""
    (error,) = output_errors(["0"], [2 * ONES], [2 * ONES + np.float32([[1.2, 0, 0], [0, 0, 0]])])
    assert (error.elements, error.mean_output, error.max_error) == (6, 2.0, pytest.approx(1.2))
    (error,) = output_errors(["0"], [ONES], [])
    assert (error.relative, error.is_within(1.0)) == (None, False)


def test_small_errors_are_not_lost() -> None:
    """One step of fp32 in a few of a million values."""
    expected = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    found = expected.copy()
    found[:10] = np.nextafter(found[:10], np.float32(10))
    (error,) = output_errors(["0"], [expected], [found])
    assert error.relative is not None
    assert 0 < error.relative < 1e-11


def picture(count: int) -> dict[str, Any]:
    """Detections with masks, well apart from each other."""
    corners = 100.0 * np.arange(count, dtype=np.float32)[:, None] + np.array([0, 0, 50, 40], dtype=np.float32)
    scores = np.linspace(0.9, 0.1, count, dtype=np.float32)
    masks = np.full((count, 1, 8, 9), 0.5, dtype=np.float32)
    return {"boxes": corners, "labels": np.arange(count) % 3, "scores": scores, "masks": masks}


def test_detections_match_whatever_their_order() -> None:
    """Rounding may swap detections of nearly equal scores; pictures have masks of different sizes."""
    first, second = picture(5), picture(3)
    second["masks"] = second["masks"][..., :4]
    order = [1, 0, 2, 4, 3]
    found = matched_detections([first, second], [{key: each[order] for key, each in first.items()}, second])
    assert (found.expected, found.found, found.matched, found.share) == (8, 8, 8, 1.0)
    assert {each.name: each.relative for each in found.errors} == {"boxes": 0.0, "scores": 0.0, "masks": 0.0}
    assert {each.name: each.elements for each in found.errors}["masks"] == 5 * 8 * 9 + 3 * 8 * 4


def test_another_class_or_a_moved_box_is_no_match() -> None:
    """Nor is a detection that only one side has."""
    moved = picture(4)
    moved["labels"][0] += 1
    moved["boxes"][1] += np.array([5, 0, 5, 0], dtype=np.float32)
    found = matched_detections([picture(4)], [{key: each[:3] for key, each in moved.items()}])
    assert (found.expected, found.found, found.matched) == (4, 3, 1)
    assert found.share == pytest.approx(1 / 6)


def test_values_of_matched_detections_are_compared() -> None:
    """A head whose weights are off by 1 % keeps all boxes, which rounding moves a little, but not the scores."""
    other = picture(4)
    other["scores"] *= np.float32(1.01)
    other["boxes"] *= np.float32(1 + 1e-6)
    found = matched_detections([picture(4)], [other])
    errors = {each.name: each.relative for each in found.errors}
    assert found.share == 1.0
    assert errors["scores"] == pytest.approx(0.01, rel=1e-3)
    assert errors["boxes"] == pytest.approx(1e-6, rel=0.5)
    assert matched_detections([picture(0)], [picture(0)]).share == 1.0, "there is nothing to match"


def test_an_export_without_heads_is_compared_by_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the engine returns fewer: what is missing is an error; the detections of a detector are arrays too."""
    structure, arrays = flatten([picture(4)])
    monkeypatch.setattr(observing, "read_batch", lambda export: Batch((), structure, structure))
    outputs = {"plain": RawOutputs(tuple(arrays))}
    monkeypatch.setattr(observing, "read_expected", lambda export, side="plain": outputs.get(side, RawOutputs(())))
    found = output_agreement(Export("", "", Conversion("", ""), "", ""), RawOutputs(tuple(arrays[:-1])), "fp32")
    assert [each.name for each in found.outputs] == list(structure.names())
    assert [each.mean_error for each in found.outputs] == [*[0.0] * (len(arrays) - 1), None]
    assert found.detections is None


@pytest.mark.parametrize(
    ("expected", "found", "is_same"),
    [
        ((ONES,), (ONES,), True),
        ({"logits": ONES, "hidden": ONES}, {"logits": ONES, "hidden": 1.01 * ONES}, False),
        ([picture(4)], [picture(4)], True),
        ([picture(4)], [picture(3)], False),
        # A picture without detections shows nothing.
        ([picture(0)], [picture(0)], False),
    ],
)
def test_a_compiled_model_is_compared_with_its_eager_module(expected: Any, found: Any, is_same: bool) -> None:
    """By every array of the output; a detector by its detections, because its raw heads cannot be observed."""
    structure, arrays = flatten(expected)
    outputs = RawOutputs(tuple(flatten(found)[1]), structure=structure, expected=tuple(arrays))
    agreement = output_agreement(None, outputs, "fp32")
    assert agreement.is_same is is_same
    assert (agreement.detections is not None) == isinstance(expected, list)
