"""A trained detector judged: AP as measured, planted faults, pictures, masks through a toy model."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from validity import toys
from validity.conftest import hidden
from validity.toys import Make, Run, judge

from modelzoo.records.partial import PictureNote
from modelzoo.validity import Detection, Predictor, ValidityRequest, average_precision


@pytest.fixture(autouse=True)
def _few_candidates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with lower scores take seconds in NMS, and so do a thousand draws; neither changes a verdict here."""
    if "detector" in request.fixturenames and request.node.get_closest_marker("slow") is None:
        module = sys.modules[request.getfixturevalue("detector").task.preprocess.__module__]
        monkeypatch.setattr(module, "SCORE", 0.1)
        monkeypatch.setattr(average_precision, "DRAWS", 200)


@pytest.fixture
def run(against: Run, detector: Any) -> Run:
    """Judge a predictor beside the trained detector."""
    return partial(against, detector, layers=False, pictures=0)


@pytest.mark.slow
def test_the_whole_sample_set(run: Run, detector: Any, autocast: Make) -> None:
    """AP .345 and AP50 .507 in fp32, .347 and .507 in bf16; 79 pictures are too few to show a loss of 1 %."""
    judged = run(autocast(detector.model), data=str(detector.data))
    assert judged.reference == pytest.approx(0.345, abs=0.0015)
    assert judged.tested == pytest.approx(0.347, abs=0.003)
    assert judged.figures["box_ap50_reference"] == pytest.approx(0.507, abs=0.0015)
    assert judged.figures["box_ap50_tested"] == pytest.approx(0.507, abs=0.004)
    assert (judged.verdict, judged.metric, judged.counts["pictures"]) == ("INCONCLUSIVE", "box_ap", 79)
    assert judged.reason is not None and judged.reason.more_items


def test_a_sample_of_annotated_pictures(run: Run, detector: Any, recorder: Any) -> None:
    """12 pictures: INCONCLUSIVE, with AP by size and pictures of two of them."""
    judged = run(data=str(detector.data / "instances_val2017.json"), limit=12, pictures=2)
    assert (judged.verdict, judged.exit_code) == ("INCONCLUSIVE", 2)
    assert 0.2 < judged.figures["box_ap_reference"] < 0.6
    assert "box_ap_small_reference" in judged.figures
    assert [each.metric for each in judged.changes] == ["box_ap", "detection_agreement"]
    assert judged.changes[0].change == pytest.approx((judged.tested or 0) - (judged.reference or 0))
    assert judged.deciding_change == judged.changes[0]
    assert len(recorder.pictures) == 2
    drawn = recorder.pictures[0].detections
    assert Path(drawn.source.path).is_file()
    assert len(drawn.tested.boxes) == len(drawn.tested.names) >= len(drawn.matches.pairs)


def test_the_builtin_set_says_how_small_it_is(run: Run) -> None:
    """Without data: 8 crops of one photograph."""
    judged = run(layers=True)
    assert (judged.verdict, judged.exit_code) == ("NUMERIC ONLY", 0)
    assert (judged.items, judged.item, judged.labelled) == (8, "crop", False)
    assert judged.figures["matched"] >= 8


def test_a_certain_fault_shows_on_the_builtin_set(run: Run, detector: Any, predictor: Make) -> None:
    """Eight crops cannot show that accuracy is kept, but boxes that all move by a third of their width are a fault."""

    def call(x: Any) -> Any:
        boxes, scores = detector.model(x)
        return boxes + torch.tensor([0.3, 0.0, 0.0, 0.0]), scores

    judged = run(predictor(detector.model, "bf16", via=call))
    assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)


@pytest.mark.parametrize("fault", ["shift", "colours", "nan", "nothing"])
def test_planted_faults_are_not_valid(run: Run, detector: Any, predictor: Make, fault: str) -> None:
    """A shifted box decoder, BGR for RGB, a NaN among the boxes, and no detections at all."""

    def call(x: Any) -> Any:
        boxes, scores = detector.model(x[:, [2, 1, 0]] if fault == "colours" else x)
        if fault == "shift":
            boxes = boxes + torch.tensor([0.3, 0.0, 0.0, 0.0])
        elif fault == "nan":
            boxes = boxes.clone()
            boxes[0, 0, 0] = torch.nan
        elif fault == "nothing":
            scores = scores - 100
        return boxes, scores

    limit = 4 if fault in ("nan", "nothing") else 24
    judged = run(predictor(detector.model, "bf16", via=call), data=str(detector.data), limit=limit)
    assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)
    expected = {"shift": "box_bias", "colours": "detection_agreement", "nan": "finite", "nothing": "in_common"}
    assert expected[fault] in toys.failed(judged)


def test_a_reference_that_detects_nothing_cannot_judge(detector: Any, predictor: Make) -> None:
    """fp32 itself finds no object: exit code 2."""

    def call(x: Any) -> Any:
        boxes, scores = detector.model(x)
        return boxes, scores - 100

    blind, request = predictor(detector.model, via=call), ValidityRequest(limit=4, pictures=0)
    judged = judge("ssdlite", detector.task, *hidden(blind, predictor(detector.model, "bf16", via=call)), request)
    assert (judged.verdict, judged.exit_code) == ("CANNOT JUDGE", 2)


@pytest.mark.parametrize(("shift", "code"), [(0.0, 2), (30.0, 1)])
def test_masks_reach_the_mask_ap(tmp_path: Path, recorder: Any, shift: float, code: int) -> None:
    """A toy with perfect masks has mask AP 1, also on a picture that was reduced; shifted masks are NOT VALID."""
    toys.write_annotations(tmp_path, [(400, 400), (2800, 2000), (600, 300), *((200, 200),) * 21])
    task = Detection(
        preprocess=lambda picture: picture,
        categories=lambda: {1: (1, "square"), 2: (2, "quadrangle")},
        detections=toys.squares,
        masks=True,
    )
    reference = Predictor("fp32", lambda pictures: [0.0] * len(pictures))
    tested = Predictor("bf16", lambda pictures: [shift] * len(pictures), "bf16")
    judged = judge("toy", task, reference, tested, ValidityRequest(data=str(tmp_path), batch=2), exhibit=recorder)
    assert judged.exit_code == code
    assert judged.figures["mask_ap_reference"] == pytest.approx(1, abs=0.01)
    assert judged.figures["box_ap_reference"] == pytest.approx(1, abs=0.01)
    if code == 1:
        assert judged.figures["mask_ap_tested"] < 0.99
    assert PictureNote.REDUCED in judged.notes
    assert [each.detections.tested.mask_size for each in recorder.pictures[:3]] == [(400, 400), (952, 1333), (300, 600)]
