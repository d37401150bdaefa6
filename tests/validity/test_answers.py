"""A question-answering model judged: known answers in long passages, planted faults, what is drawn, best spans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from validity import toys
from validity.toys import judge

from modelzoo.frozen import replace
from modelzoo.records.partial import AnsweredQuestion, ScoredAnswer
from modelzoo.records.validity import ReasonKind, ValidityRequest
from modelzoo.validity import Answers, Predictor, squad
from modelzoo.validity.answers import row
from modelzoo.validity.squad import Question, Windows, best_span, span_score
from modelzoo.workload.discovery import find_workload, load_workload

CONTEXT = "Marta baked rye bread in the old house."
TASK = Answers(tokenizer=lambda _: None)


def windows() -> Windows:
    """Two windows of 10 tokens: [CLS] question [SEP], then words 0 to 4, and words 3 to 7."""
    places, at = [], 0
    for word in CONTEXT[:-1].split():
        places.append((at, at + len(word)))
        at += len(word) + 1
    offsets = [[None] * 3 + places[:5] + [None] * 2, [None] * 3 + places[3:8] + [None] * 2]
    return Windows(Question("1", "Who?", CONTEXT, ("Marta",)), {}, offsets)


def logits(*peaks: tuple[int, int, int, float]) -> Any:
    """[2, 2, 10] of −5 with peaks (start or end, window, token, value)."""
    values = np.full((2, 2, 10), -5.0)
    for which, window, token, value in peaks:
        values[which, window, token] = value
    return values


@pytest.mark.parametrize(
    ("peaks", "longest", "text"),
    [
        # The second window holds the larger sum.
        ([(0, 0, 3, 4), (1, 0, 3, 4), (0, 1, 6, 5), (1, 1, 7, 5)], 30, "old house"),
        # The largest logits lie on [CLS] and on an end before the start: neither is taken.
        ([(0, 0, 0, 9), (1, 0, 0, 9), (0, 0, 6, 3), (1, 0, 4, 8), (1, 0, 7, 2)], 30, "bread in"),
        # With two tokens at most the whole sentence is no answer.
        ([(0, 0, 3, 5), (1, 0, 7, 5), (1, 0, 4, 1)], 2, "Marta baked"),
    ],
)
def test_the_best_possible_span_wins(peaks: list[tuple[int, int, int, float]], longest: int, text: str) -> None:
    """Over all windows; its score under other logits is the margin of a changed answer."""
    span = best_span(windows(), logits(*peaks), replace(TASK, max_answer_length=longest), False)
    assert span.text == text
    assert 0 < span.probability < 1
    assert span_score(span, logits(*peaks)) == span.score
    assert span_score(span, logits((0, span.window, span.first, 1))) == -4


def test_no_answer_wins_only_if_allowed_and_in_every_window() -> None:
    """SQuAD 2.0: the lowest null score over the windows counts."""
    one = ((0, 0, 0, 6), (1, 0, 0, 6), (0, 0, 3, 4), (1, 0, 3, 4))
    everywhere = logits(*one, (0, 1, 0, 6), (1, 1, 0, 6))
    assert best_span(windows(), everywhere, TASK, True).text == ""
    assert best_span(windows(), everywhere, TASK, False).text == "Marta"
    assert best_span(windows(), logits(*one), TASK, True).text == "Marta"


def test_an_answer_is_found_in_a_long_passage_or_not_at_all(tmp_path: Path) -> None:
    """By a model that knows one answer; windows share the stride's tokens, and every question is in the CSV once."""
    context = f"{'the ' * 150}lamp burned whale oil. {'the ' * 150}"
    found = {"id": "a", "question": "What did it burn?", "answers": [{"text": "whale oil", "answer_start": 612}]}
    none = {"id": "b", "question": "Who?", "is_impossible": True, "answers": []}
    paragraphs = [{"context": context, "qas": [found]}, {"context": "the " * 200, "qas": [none]}]
    (tmp_path / "v2.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    shared = toys.tokenizer()
    begin, first, *_, last, _ = shared("whale oil")["input_ids"]

    def model(ids: Any, mask: Any, types: Any) -> Any:
        shapes.add(tuple(ids.shape))
        return tuple(8.0 * (ids == token) + 4.0 * (ids == begin) for token in (first, last))

    shapes: set[tuple[int, ...]] = set()
    task, recorder = Answers(lambda _: shared, max_length=96, stride=32), toys.Recorder()
    predictor, request = Predictor(model), ValidityRequest(data=str(tmp_path / "v2.json"), batch=4)
    judged = judge("bert", task, predictor, predictor, request, exhibit=recorder)
    assert (judged.reference, judged.figures["em_tested"], judged.exit_code) == (1.0, 1.0, 2)
    assert [(each[0], each[2]) for each in recorder.rows("answers.csv")] == [("a", "whale oil"), ("b", "")]
    assert shapes == {(4, 96)}
    cut = squad.cut_into_windows(Question("1", "Who?", context, ()), shared, task)
    covered = sorted({place for window in cut.offsets for place in window if place})
    assert (len(cut.offsets) > 3, covered[0][0], covered[-1][1]) == (True, 0, len(context) - 1)
    one, two = ({place for place in window if place} for window in cut.offsets[:2])
    assert len(one & two) == task.stride


def test_passages_are_drawn_and_not_questions() -> None:
    """The 42 questions on 8 passages are as few as 8."""
    task, reference, tested, request = toys.answers()
    judged = judge("bert", task, reference, tested, replace(request, data=str(squad.BUILTIN)))
    assert (judged.counts["passages"], judged.verdict) == (8, "INCONCLUSIVE")
    assert (judged.reason.kind, judged.reason.required) == (ReasonKind.FEW_CLUSTERS, 20)
    assert (judged.cluster, judged.clusters) == ("passage", 8)
    assert judged.reason.more_items


def test_the_builtin_questions_show_certain_faults_alone() -> None:
    """Numbers only; start and end logits that are moved by one token are a fault."""
    task, reference, _, request = toys.answers()
    request = replace(request, limit=8)
    judged = judge("bert", task, reference, reference, request)
    assert (judged.verdict, judged.exit_code, judged.small) == ("NUMERIC ONLY", 0, True)
    assert (judged.items, judged.item) == (8, "question")
    assert len(judged.shown.questions) == 8
    assert [(each.metric, each.items) for each in judged.changes] == [("f1", 8), ("em", 8)]
    shifted = replace(reference, call=lambda *args: [each.roll(1, 1) for each in reference.call(*args)])
    judged = judge("bert", task, reference, shifted, request)
    assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)
    assert "layer_drift" in toys.failed(judged)


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


@pytest.mark.parametrize(("sequence", "stride"), [(384, 128), (192, 64), (16, 5)])
def test_bert_is_judged_in_windows_of_its_sequence_length(sequence: int, stride: int) -> None:
    """What is judged is what is timed; the published quality of a size is that of the longest windows."""
    workload = load_workload(find_workload("bert"))
    for size, f1 in (("base", 88.2), ("large", 93.15)):
        task = workload.judge(workload.option_values({"size": size, "sequence": sequence}))
        assert (task.max_length, task.stride) == (sequence, stride)
        assert task.published.get("f1") == (f1 if sequence >= 384 else None)
