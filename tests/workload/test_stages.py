"""Stages that workloads declare: what they compute, and declarations that contradict themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from places import ROOT

from modelzoo.errors import UsageError
from modelzoo.workload import InputRequest, ModelOutput, Stage, Stages
from modelzoo.workload.discovery import load_workload


def request_of(name: str, batch: int, **options: str) -> tuple[Any, InputRequest]:
    """A standard workload, and a request for its own inputs."""
    work = load_workload(ROOT / name)
    return work, InputRequest(batch, 3, None, work.option_values(options))


@pytest.mark.parametrize(("name", "options"), [("resnet50", {}), ("bert", {"sequence": "48"})])
def test_the_model_gets_the_inputs_that_are_timed_without_stages(name: str, options: dict[str, str]) -> None:
    """The stages before the model make the tensors of ``Workload.inputs``, bit for bit, and name the same items."""
    work, request = request_of(name, 3, **options)
    whole, stages = work.inputs(request), work.stages(request)
    assert stages.items == whole.items
    made = stages.model_input().args
    assert len(made) == len(whole.args)
    assert all(torch.equal(mine, other) for mine, other in zip(made, whole.args))


def test_the_best_classes_come_first() -> None:
    """ResNet50's last stage names the five most probable classes of each picture."""
    work, request = request_of("resnet50", 1)
    logits = torch.zeros(2, 1000)
    logits[0, 281], logits[1, 7] = 9.0, 9.0
    (last,) = work.stages(request).after
    rows = last.call(ModelOutput(logits))
    assert [(len(row), row[0][0]) for row in rows] == [(5, "tabby"), (5, "cock")]
    assert rows[0][0][1] == pytest.approx(float(logits[0].softmax(0)[281]))


def test_the_answer_is_the_text_of_the_best_span() -> None:
    """BERT's last stage finds the tokens with the highest logits in the passage, of each question of a batch."""
    work, request = request_of("bert", 2, sequence="48")
    stages = work.stages(request)
    made = stages.model_input()
    start, end = torch.zeros(2, 48), torch.zeros(2, 48)
    start[0, 30], end[0, 31], start[1, 40], end[1, 40] = 9.0, 9.0, 9.0, 9.0
    (last,) = stages.after
    answers = last.call(ModelOutput((start, end), made.context))
    passages = [passage for _, passage, _ in stages.source]
    assert all(answer and answer in passage for answer, passage in zip(answers, passages))
    assert answers[0].count(" ") <= 1


def nothing(value: Any) -> Any:
    """A stage that changes nothing."""
    return value


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stage("latency", nothing), "cannot be called 'latency'"),
        (lambda: Stage(" ", nothing), "cannot be called ' '"),
        (lambda: Stage("decode", nothing, "gpu"), "cannot be on 'gpu': write host or device"),
        (lambda: Stages(None, (), ()), "need one before the model"),
        (lambda: Stages(None, (), (Stage("a", nothing),), (Stage("a", nothing),)), "two stages are called 'a'"),
        (lambda: Stages(5, (), (Stage("a", nothing),)).model_input(), "stage 'a' returned int"),
    ],
)
def test_declarations_that_cannot_be_timed_are_refused(make: Any, message: str) -> None:
    """One line that says what to write instead."""
    with pytest.raises(UsageError, match=message):
        make()
