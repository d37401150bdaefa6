"""The judges that the four workloads declare: they depend on the workload's options."""

from __future__ import annotations

from typing import Any

import pytest

from modelzoo.validity import Answers, Classification, Detection
from modelzoo.workload.discovery import find_workload, load_workload


def declared(name: str, **options: Any) -> Any:
    """What a workload's judge returns for these options."""
    workload = load_workload(find_workload(name))
    return workload.judge(workload.option_values(options))


@pytest.mark.parametrize(("size", "f1"), [("base", 88.2), ("large", 93.15)])
def test_bert_is_compared_with_the_published_quality_of_its_size(size: str, f1: float) -> None:
    """BERT-large must not pass for as good as BERT-base."""
    assert declared("bert", size=size).published["f1"] == f1


@pytest.mark.parametrize(("sequence", "stride"), [(384, 128), (512, 128), (192, 64), (48, 16), (16, 5)])
def test_bert_is_judged_in_windows_of_its_sequence_length(sequence: int, stride: int) -> None:
    """What is judged is what is timed; the shared part of two windows shrinks with them."""
    task = declared("bert", sequence=sequence)
    assert (task.max_length, task.stride) == (sequence, stride)
    assert bool(task.published) is (sequence >= 384)


def test_maskrcnn_has_published_quality_at_800_pixels_only() -> None:
    """Other sizes are not compared with it."""
    assert declared("maskrcnn").published == {"box_ap": 37.9, "mask_ap": 34.6}
    assert declared("maskrcnn", **{"min-size": 400}).published == {}


def test_every_workload_declares_its_kind_of_task() -> None:
    """With the published quality of its checkpoint at the default options."""
    kinds = {"resnet50": Classification, "ssd": Detection, "maskrcnn": Detection, "bert": Answers}
    for name, kind in kinds.items():
        task = declared(name)
        assert task.published
    assert declared("maskrcnn").masks
    assert not declared("ssd").masks
