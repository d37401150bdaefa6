"""Trained networks judged on their sample sets: fp32 has the quality that was measured, and bf16 is no fault."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from places import ROOT
from validity.toys import autocast, judge, predictor

from modelzoo.frozen import replace
from modelzoo.records.validity import ReasonKind
from modelzoo.validity import Answers, Task, Validity, ValidityRequest
from modelzoo.workload import discovery

pytestmark = pytest.mark.slow


def of_workload(name: str) -> tuple[Any, Any, Path]:
    """The declaration of a workload in ``tests/workloads``, its task, and its weights."""
    loaded = discovery.load_workload(ROOT / "tests" / "workloads" / name)
    task = loaded.judge({})
    return loaded, task, sys.modules[task.preprocess.__module__].WEIGHTS


def judged(task: Task, model: Any, data: Path, **request: Any) -> Validity:
    """The judgement of the model in bf16."""
    sides, asked = (predictor(model), autocast(model)), ValidityRequest(data=str(data), batch=4, pictures=0, **request)
    if task.name == "detection":  # whose layers take longer than a dozen pictures
        sides = replace(sides[0], model=None), replace(sides[1], model=None)
    return judge("trained", task, *sides, asked)


def test_a_classifier_has_its_accuracy(shared: Path) -> None:
    """About 90 % top-1 on the 100 pictures, 98 % agreement or more: too few to show a loss of 1 %."""
    loaded, task, weights = of_workload("efficientnet_lite0")
    model = loaded.build({})
    model.load_state_dict(torch.load(weights, weights_only=True))
    found = judged(task, model, shared / "data" / "imagenet")
    assert found.reference == pytest.approx(0.90, abs=0.02)
    assert found.figures["top1_agreement"] >= 0.98
    assert (found.verdict, found.exit_code, found.metric) == ("INCONCLUSIVE", 2, "top1")
    assert (found.reason.kind, found.reason.required) == (ReasonKind.UNDECIDED_CHECKS, None)
    assert found.reason.more_items
    tolerant = judged(task, model, shared / "data" / "imagenet", tolerance={"accuracy": 0.9, "kl": 0.1})
    assert (tolerant.verdict, tolerant.exit_code) == ("VALID", 0)


def test_a_detector_has_its_ap(shared: Path) -> None:
    """AP .345 and AP50 .507 in fp32, .347 and .507 in bf16; 79 pictures are too few to show a loss of 1 %."""
    loaded, task, weights = of_workload("ssdlite")
    found = judged(task, loaded.load({}, weights), shared / "data" / "coco")
    assert found.reference == pytest.approx(0.345, abs=0.0015)
    assert found.tested == pytest.approx(0.347, abs=0.003)
    assert found.figures["box_ap50_reference"] == pytest.approx(0.507, abs=0.0015)
    assert found.figures["box_ap50_tested"] == pytest.approx(0.507, abs=0.004)
    assert (found.verdict, found.metric, found.counts["pictures"]) == ("INCONCLUSIVE", "box_ap", 79)
    assert found.reason is not None and found.reason.more_items


def test_bert_has_its_f1(shared: Path, tmp_path: Path) -> None:
    """F1 63.3 in fp32 and 62.4 or so in bf16 on the first 150 questions: too few to show a loss of 1 %."""
    from transformers import AutoTokenizer

    weights = shared / "weights" / "bert" / "minilm-l6-squad"
    stored = json.loads((shared / "data" / "squad" / "xquad.en.json").read_text())
    left = 150
    for article in stored["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = paragraph["qas"][:left]
            left -= len(paragraph["qas"])
    path = tmp_path / "first.json"
    path.write_text(json.dumps(stored))
    tokenizer = AutoTokenizer.from_pretrained(weights)
    model = discovery.load_workload(discovery.find_workload("bert")).load({}, weights).eval()  # type: ignore[misc]
    found = judged(Answers(tokenizer=lambda _: tokenizer), model, path, model_path=str(weights))
    assert found.counts["questions"] == 150
    assert found.reference == pytest.approx(0.633, abs=0.01)
    assert found.tested == pytest.approx(0.624, abs=0.015)
    assert (found.verdict, found.exit_code, found.metric) == ("INCONCLUSIVE", 2, "f1")
