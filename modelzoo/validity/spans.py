"""From a question to windows of tokens, and from logits to the best span. Pure numpy but for the tokenizer.

Practice of transformers' ``utils_qa.py`` (``postprocess_qa_predictions``), after BERT's ``run_squad.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelzoo.errors import InputError
from modelzoo.validity.squad import Question
from modelzoo.validity.task import Answers

FIELDS = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True)
class Windows:
    """A question's windows.

    Attributes:
        fields: name to int64 array [W, L]; ``token_type_ids`` are 0 where the tokenizer has none.
        offsets: W lists of L (start, end) places in the paragraph, ``None`` outside it.
    """

    question: Question
    fields: Mapping[str, Any]
    offsets: Sequence[Sequence[tuple[int, int] | None]]


@dataclass(frozen=True)
class Span:
    """An answer: its text, where it is (window, first and last token), its score and its probability.

    ``score`` is the sum of the start and the end logit; ``probability`` its softmax over the candidates of
    all windows. ``window`` is −1 for "no answer".
    """

    text: str
    window: int
    first: int
    last: int
    score: float
    probability: float


def windows(question: Question, tokenizer: Any, task: Answers) -> Windows:
    """Cut the paragraph into windows of ``max_length`` tokens with ``stride`` shared ones, question in front.

    Raises:
        InputError: the question leaves no room for the paragraph.
    """
    import numpy as np

    text = question.question.lstrip()
    asked = len(tokenizer(text, truncation=True, max_length=task.max_length)["input_ids"])
    if asked + task.stride + 1 >= task.max_length:
        raise InputError(f"question {question.id} takes {asked} of {task.max_length} tokens; shorten it")
    encoded = tokenizer(
        text,
        question.context,
        truncation="only_second",
        max_length=task.max_length,
        stride=task.stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding="max_length",
    )
    fields = {name: np.array(encoded[name], dtype="int64") for name in FIELDS if name in encoded}
    fields.setdefault("token_type_ids", np.zeros_like(fields["input_ids"]))
    offsets = []
    for number, places in enumerate(encoded["offset_mapping"]):
        parts = encoded.sequence_ids(number)
        offsets.append([tuple(place) if part == 1 else None for place, part in zip(places, parts)])
    return Windows(question, fields, offsets)


def best(made: Windows, logits: Any, task: Answers, may_be_empty: bool) -> Span:
    """The best span over all windows.

    Args:
        logits: start and end logits [2, W, L].
        may_be_empty: whether "no answer" competes (SQuAD 2.0): it wins where the lowest score of the first
            token over the windows is above the best span's, the official threshold of 0.
    """
    import numpy as np

    start, end = np.asarray(logits, dtype="float64")
    found: list[tuple[float, int, int, int]] = []
    for number, offsets in enumerate(made.offsets):
        firsts = np.argsort(-start[number], kind="stable")[: task.n_best]
        lasts = np.argsort(-end[number], kind="stable")[: task.n_best]
        for first in firsts.tolist():
            for last in lasts.tolist():
                if first <= last < first + task.max_answer_length and offsets[first] and offsets[last]:
                    found.append((float(start[number, first] + end[number, last]), number, first, last))
    found.sort(key=lambda candidate: -candidate[0])
    found = found[: task.n_best]
    null = float((start[:, 0] + end[:, 0]).min())
    scores = [candidate[0] for candidate in found] + ([null] if may_be_empty or not found else [])
    shares = np.exp(np.array(scores) - max(scores))
    shares = shares / shares.sum()
    if not found or (may_be_empty and null > found[0][0]):
        return Span("", -1, 0, 0, null, float(shares[-1]))
    score, number, first, last = found[0]
    return Span(text_of(made, number, first, last), number, first, last, score, float(shares[0]))


def text_of(made: Windows, window: int, first: int, last: int) -> str:
    """The paragraph's text from token ``first`` to token ``last`` of ``window``."""
    start, end = made.offsets[window][first], made.offsets[window][last]
    return made.question.context[start[0] : end[1]] if start and end else ""


def score_of(span: Span, logits: Any) -> float:
    """The score that the logits [2, W, L] give to ``span``."""
    start, end = logits
    if span.window < 0:
        return float((start[:, 0] + end[:, 0]).min())
    return float(start[span.window, span.first] + end[span.window, span.last])
