"""A trained question-answering model judged: F1 as measured, planted faults, long contexts, SQuAD 2.0."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from validity import toys
from validity.toys import Make, Run, judge

from modelzoo.frozen import replace
from modelzoo.records.exhibits import ShownAnswers
from modelzoo.records.partial import AnsweredQuestion, ScoredAnswer
from modelzoo.records.validity import ReasonKind
from modelzoo.validity import Answers, Predictor, squad
from modelzoo.validity.answers import row


@pytest.fixture
def run(against: Run, reader: Any) -> Run:
    """Judge a predictor beside the trained reader."""
    return partial(against, reader, model_path=str(reader.path))


@pytest.mark.slow
def test_the_sample_questions(run: Run, reader: Any, autocast: Make, tmp_path: Path) -> None:
    """F1 63.3 in fp32 and 62.4 or so in bf16 on the first 150 questions: too few to show a loss of 1 %."""
    stored = json.loads(reader.data.read_text())
    left = 150
    for article in stored["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = paragraph["qas"][:left]
            left -= len(paragraph["qas"])
    path = tmp_path / "first.json"
    path.write_text(json.dumps(stored))
    task = Answers(tokenizer=lambda _: reader.tokenizer)
    judged = run(autocast(reader.model), task, data=str(path))
    assert judged.counts["questions"] == 150
    assert judged.reference == pytest.approx(0.633, abs=0.01)
    assert judged.tested == pytest.approx(0.624, abs=0.015)
    assert (judged.verdict, judged.exit_code, judged.metric) == ("INCONCLUSIVE", 2, "f1")


def test_passages_are_drawn_and_not_questions() -> None:
    """The 42 questions on 8 passages are as few as 8."""
    task, reference, tested, request = toys.answers()
    judged = judge("bert", task, reference, tested, replace(request, data=str(squad.BUILTIN)))
    assert (judged.counts["passages"], judged.verdict) == (8, "INCONCLUSIVE")
    assert judged.reason is not None
    assert (judged.reason.kind, judged.reason.required) == (ReasonKind.FEW_CLUSTERS, 20)
    assert (judged.cluster, judged.clusters) == ("passage", 8)
    assert judged.reason.more_items


def test_the_builtin_questions(run: Run, recorder: Any) -> None:
    """A sample of them: numbers only, nearly all answered correctly."""
    judged = run(limit=8)
    assert (judged.verdict, judged.exit_code) == ("NUMERIC ONLY", 0)
    assert judged.reference is not None
    assert judged.reference > 0.7
    assert (judged.small, judged.items, judged.item) == (True, 8, "question")
    assert len(recorder.rows("answers.csv")) == 8
    assert isinstance(judged.shown, ShownAnswers)
    assert len(judged.shown.questions) == 8
    assert [(each.metric, each.items) for each in judged.changes] == [("f1", 8), ("em", 8)]


def test_an_off_by_one_span_is_not_valid(run: Run, reader: Any, predictor: Make) -> None:
    """Start and end logits moved by one token."""

    def shifted(*args: Any) -> Any:
        return [logits.roll(1, 1) for logits in reader.model(*args)]

    judged = run(predictor(reader.model, "bf16", via=shifted), limit=6)
    assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)
    assert "layer_drift" in toys.failed(judged)


def test_long_contexts_and_questions_without_an_answer(run: Run, recorder: Any, tmp_path: Path) -> None:
    """SQuAD 2.0 with a paragraph of several windows: every question is in the CSV once, in its order."""
    filler = "The weather was mild and nothing of note happened in the valley that week. " * 20
    context = filler + "The bridge was designed by Clara Whitfield in 1911. " + filler
    qas = [
        {"id": "a", "question": "Who designed the bridge?", "is_impossible": False,
         "answers": [{"text": "Clara Whitfield", "answer_start": context.index("Clara")}]},
        {"id": "b", "question": "When was the bridge designed?", "is_impossible": False,
         "answers": [{"text": "1911", "answer_start": context.index("1911")}]},
        {"id": "c", "question": "What did the tiger eat?", "is_impossible": True, "answers": []},
    ]  # fmt: skip
    path = tmp_path / "v2.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}))
    judged = run(layers=False, data=str(path))
    rows = recorder.rows("answers.csv")
    assert [row[0] for row in rows] == ["a", "b", "c"]
    assert "Clara Whitfield" in rows[0][2]
    assert judged.exit_code == 2


def test_a_question_counts_for_its_kind() -> None:
    """By the scores of both models; questions without an answer are a kind of their own."""
    answers = [ScoredAnswer("text", 0.9, score, score, True) for score in (1.0, 0.5)]
    for expected, kind in (("text", "who"), (None, "no answer")):
        question = AnsweredQuestion(0, "id", "Who built it?", expected, *answers, 1.0, 0.0, False, 0.0, 0.0)
        assert row(question, "A passage.").classes == {kind: (1.0, 0.5)}


def test_tokens_that_both_models_exclude_are_no_fault() -> None:
    """The logits of the question are -inf in both, as in models that mask it; in one of them alone it is a fault."""
    task, reference, tested, request = toys.answers()

    def masked(plain: Predictor, value: float = -torch.inf) -> Predictor:
        def call(ids: Any, mask: Any, types: Any) -> Any:
            return [each.masked_fill(types == 0, value) for each in plain.call(ids, mask, types)]

        return replace(plain, call=call)

    request = replace(request, limit=8)
    alike = judge("bert", task, masked(reference), masked(tested), request)
    assert {each.passed for each in alike.checks if each.name == "finite"} == {True}
    finite = judge("bert", task, masked(reference, -1e9), masked(tested, -1e9), request)
    assert alike.figures["identical_answers"] == finite.figures["identical_answers"]
    assert 0 < alike.figures["logit_error_max"] < 1
    assert judge("bert", task, reference, masked(tested), request).verdict == "NOT VALID"
    assert judge("bert", task, masked(reference), tested, request).verdict == "NOT VALID"
