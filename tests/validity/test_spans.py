"""From logits to answers: windows, the best span, no answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from modelzoo.validity import Answers
from modelzoo.validity.squad import Question, Windows, best_span, cut_into_windows, span_score

CONTEXT = "Marta baked rye bread in the old house."
WORDS = CONTEXT[:-1].split()
TASK = Answers(tokenizer=lambda _: None)


def made() -> Windows:
    """Two windows of 10 tokens: [CLS] question [SEP], then words 0 to 4, and words 3 to 7."""
    places = []
    at = 0
    for word in WORDS:
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


def test_the_best_span_over_all_windows_wins() -> None:
    """The second window holds the larger sum."""
    span = best_span(made(), logits((0, 0, 3, 4), (1, 0, 3, 4), (0, 1, 6, 5), (1, 1, 7, 5)), TASK, False)
    assert (span.text, span.window, span.score) == ("old house", 1, 10)
    assert 0 < span.probability < 1


def test_spans_in_the_question_or_backwards_are_no_answers() -> None:
    """The largest logits lie on [CLS] and on an end before the start: neither is taken."""
    span = best_span(made(), logits((0, 0, 0, 9), (1, 0, 0, 9), (0, 0, 6, 3), (1, 0, 4, 8), (1, 0, 7, 2)), TASK, False)
    assert span.text == "bread in"


def test_answers_are_no_longer_than_allowed() -> None:
    """With two tokens at most the whole sentence is no answer."""
    short = Answers(tokenizer=lambda _: None, max_answer_length=2)
    span = best_span(made(), logits((0, 0, 3, 5), (1, 0, 7, 5), (1, 0, 4, 1)), short, False)
    assert span.text == "Marta baked"


def test_no_answer_wins_only_if_allowed_and_in_every_window() -> None:
    """SQuAD 2.0: the lowest null score over the windows counts."""
    everywhere = logits((0, 0, 0, 6), (1, 0, 0, 6), (0, 1, 0, 6), (1, 1, 0, 6), (0, 0, 3, 4), (1, 0, 3, 4))
    assert best_span(made(), everywhere, TASK, True).text == ""
    assert best_span(made(), everywhere, TASK, False).text == "Marta"
    one = logits((0, 0, 0, 6), (1, 0, 0, 6), (0, 0, 3, 4), (1, 0, 3, 4))
    assert best_span(made(), one, TASK, True).text == "Marta"


def test_the_score_of_a_span_under_other_logits() -> None:
    """The margin of a changed answer is computed from it."""
    ours = logits((0, 0, 3, 4), (1, 0, 3, 4))
    span = best_span(made(), ours, TASK, False)
    assert span_score(span, ours) == span.score
    assert span_score(span, logits((0, 0, 3, 1))) == -4


def test_long_paragraphs_are_cut_into_overlapping_windows(reader: Any) -> None:
    """Every word of a paragraph of 900 words is in a window; neighbours share the stride's tokens."""
    context = " ".join(f"word{number}" for number in range(900))
    cut = cut_into_windows(Question("1", "Which word?", context, ()), reader.tokenizer, TASK)
    assert len(cut.offsets) > 3
    assert cut.fields["input_ids"].shape == (len(cut.offsets), 384)
    covered = sorted({place for window in cut.offsets for place in window if place})
    assert covered[0][0] == 0
    assert covered[-1][1] == len(context)
    first, second = ({place for place in window if place} for window in cut.offsets[:2])
    assert len(first & second) == TASK.stride
