"""The outputs of an engine are compared with torch's: by mean errors, and detections by class and box."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from modelzoo.engines.export.source import flatten
from modelzoo.engines.export.store import Batch
from modelzoo.engines.protocol import RawOutputs
from modelzoo.measure import observing
from modelzoo.measure.observing import matched_detections, output_agreement, output_error, output_errors
from modelzoo.records.workload import Conversion, Export, MatchedDetections, OutputAgreement

RANDOM = np.random.default_rng(0)
ONES = np.ones((2, 3), dtype=np.float32)


def test_errors_are_relative_to_the_mean_output() -> None:
    """Means over all values; the largest error and the number of values are there too."""
    found = ONES.copy()
    found[0, 0] += 0.6
    error = output_error("0", 2 * ONES, 2 * found)
    assert (error.elements, error.mean_output) == (6, 2.0)
    assert error.mean_error == pytest.approx(0.2)
    assert error.max_error == pytest.approx(1.2)
    assert error.relative == pytest.approx(0.1)


def test_small_errors_are_not_lost() -> None:
    """One step of fp32 in a few of a million values."""
    expected = RANDOM.normal(size=1_000_000).astype(np.float32)
    found = expected.copy()
    found[:10] = np.nextafter(found[:10], np.float32(10))
    error = output_error("0", expected, found)
    assert error.relative is not None
    assert 0 < error.relative < 1e-11


@pytest.mark.parametrize(
    "found",
    [ONES * np.nan, ONES * np.inf, ONES[:1], ONES[:, :, None], None],
    ids=["nan", "inf", "fewer rows", "another dimension", "missing"],
)
def test_what_cannot_be_compared_has_no_error(found: Any) -> None:
    """NaN, Inf, another shape, or no output at all: none of them is equal."""
    (error,) = output_errors(["0"], [ONES], [] if found is None else [found])
    assert (error.relative, error.is_within(1.0)) == (None, False)


def test_an_infinity_that_both_have_is_no_error() -> None:
    """Logits of classes that are not used; one that the other lacks cannot be compared."""
    expected = np.array([1.0, -np.inf, 3.0, np.nan], dtype="float32")
    assert output_error("x", expected, expected + np.float32(0.5)).mean_error == 0.5
    assert output_error("x", expected[1:2], expected[1:2]).relative == 0
    for place, value in ((1, np.inf), (1, -1e9), (3, 0.0), (0, -np.inf)):
        other = expected.copy()
        other[place] = value
        assert output_error("x", expected, other).mean_error is None


def test_numbers_and_empty_arrays_can_be_compared() -> None:
    """Classes as integers; a picture without detections."""
    assert output_error("0", np.array([3, 5]), np.array([3, 6])).relative == pytest.approx(1 / 8)
    assert output_error("0", ONES[:0], ONES[:0]).relative == 0
    assert output_error("0", ONES[:0], ONES[:1]).relative is None
    assert output_error("0", 0 * ONES, ONES).relative is None
    assert output_error("0", ONES > 2, ONES > 2).relative == 0


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
    assert found.share == 1.0
    errors = {each.name: each.relative for each in found.errors}
    assert errors["scores"] == pytest.approx(0.01, rel=1e-3)
    assert errors["boxes"] == pytest.approx(1e-6, rel=0.5)


def test_no_detections_on_either_side_agree() -> None:
    """There is nothing to match; on one side only, nothing matches."""
    found = matched_detections([picture(0)], [picture(0)])
    assert (found.share, found.errors) == (1.0, ())
    assert matched_detections([picture(0)], [picture(2)]).share == 0.0


def compiled(expected: Any, found: Any) -> OutputAgreement:
    """How far what a compiled model returns is from what its eager module does."""
    structure, arrays = flatten(expected)
    outputs = RawOutputs(tuple(flatten(found)[1]), structure=structure, expected=tuple(arrays))
    return output_agreement(None, outputs, "fp32")


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


def test_a_compiled_model_is_compared_with_its_eager_module() -> None:
    """By every array of the output."""
    found = compiled({"logits": ONES, "hidden": ONES}, {"logits": ONES, "hidden": 1.01 * ONES})
    assert [each.name for each in found.outputs] == ["logits", "hidden"]
    assert found.is_same is False
    assert compiled((ONES,), (ONES,)).is_same


def test_a_compiled_detector_is_compared_by_its_detections() -> None:
    """Its raw heads cannot be observed; a picture without detections shows nothing."""
    assert compiled([picture(4)], [picture(4)]).is_same
    assert compiled([picture(4)], [picture(3)]).is_same is False
    found = compiled([picture(0)], [picture(0)])
    assert found.is_same is False
    assert (found.worst, found.detections) == (None, MatchedDetections(0, 0, 0))
