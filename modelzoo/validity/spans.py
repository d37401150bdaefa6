"""Cut questions into windows of tokens, and find the best span by the logits. Pure numpy but for the tokenizer.

Follows transformers' ``utils_qa.py`` (``postprocess_qa_predictions``) and BERT's ``run_squad.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from modelzoo.errors import InputError
from modelzoo.validity.squad import Question

if TYPE_CHECKING:
    from modelzoo.validity.task import Answers

FIELDS = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True)
class Windows:
    """The W windows of a question, of L tokens each.

    Attributes:
        fields: name to int64 array [W, L]; ``token_type_ids`` are 0 if the tokenizer gives none.
        offsets: W lists of L (start, end) character positions in the paragraph, ``None`` for tokens outside it.
    """

    question: Question
    fields: Mapping[str, Any]
    offsets: Sequence[Sequence[Optional[tuple[int, int]]]]


@dataclass(frozen=True)
class Span:
    """An answer: its text, window, first and last token, score and probability.

    ``score`` is the sum of the start and the end logit, ``probability`` its softmax over the candidates of all
    windows. ``window`` is −1 for "no answer".
    """

    text: str
    window: int
    first: int
    last: int
    score: float
    probability: float


def cut_into_windows(question: Question, tokenizer: Any, declaration: Answers) -> Windows:
    """Cut the paragraph into windows of ``max_length`` tokens, ``stride`` of them shared, each after the question.

    Raises:
        InputError: the question leaves no room for the paragraph.
    """
    import numpy as np

    text = question.question.lstrip()
    asked = len(tokenizer(text, truncation=True, max_length=declaration.max_length)["input_ids"])
    if asked + declaration.stride + 1 >= declaration.max_length:
        raise InputError(
            f"question {question.id} takes {asked} of {declaration.max_length} tokens, which leaves too few for the "
            "paragraph; shorten it or use longer windows"
        )
    encoded = tokenizer(
        text,
        question.context,
        truncation="only_second",
        max_length=declaration.max_length,
        stride=declaration.stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding="max_length",
    )
    fields = {name: np.array(encoded[name], dtype="int64") for name in FIELDS if name in encoded}
    fields.setdefault("token_type_ids", np.zeros_like(fields["input_ids"]))
    return Windows(question, fields, [paragraph_offsets(encoded, w) for w in range(len(encoded["offset_mapping"]))])


def paragraph_offsets(encoded: Any, number: int) -> list[Optional[tuple[int, int]]]:
    """Return (start, end) in the paragraph for each token of one window, ``None`` for those outside of it.

    Args:
        encoded: what a fast tokenizer made of questions and paragraphs, with ``return_offsets_mapping``.
        number: index of the window.
    """
    places, parts = encoded.encodings[number].offsets, encoded.sequence_ids(number)
    return [place if part == 1 else None for place, part in zip(places, parts)]


def best_span(windows: Windows, logits: Any, declaration: Answers, may_be_empty: bool) -> Span:
    """Return the best span over all windows.

    Args:
        logits: start and end logits [2, W, L].
        may_be_empty: whether "no answer" is a candidate (SQuAD 2.0). It wins if the lowest score of the first token
            over the windows exceeds the best span's, which is the official threshold of 0.
    """
    import numpy as np

    start, end = np.asarray(logits, dtype="float64")
    found: list[tuple[float, int, int, int]] = []
    for number, offsets in enumerate(windows.offsets):
        firsts = np.argsort(-start[number], kind="stable")[: declaration.n_best]
        lasts = np.argsort(-end[number], kind="stable")[: declaration.n_best]
        for first in firsts.tolist():
            for last in lasts.tolist():
                if first <= last < first + declaration.max_answer_length and offsets[first] and offsets[last]:
                    found.append((float(start[number, first] + end[number, last]), number, first, last))
    found.sort(key=lambda candidate: -candidate[0])
    found = found[: declaration.n_best]
    null = float((start[:, 0] + end[:, 0]).min())
    scores = [candidate[0] for candidate in found] + ([null] if may_be_empty or not found else [])
    probabilities = np.exp(np.array(scores) - max(scores))
    probabilities = probabilities / probabilities.sum()
    if not found or (may_be_empty and null > found[0][0]):
        return Span("", -1, 0, 0, null, float(probabilities[-1]))
    score, number, first, last = found[0]
    return Span(text_of(windows, number, first, last), number, first, last, score, float(probabilities[0]))


def text_of(windows: Windows, window: int, first: int, last: int) -> str:
    """The text of the paragraph from token ``first`` to token ``last`` of ``window``."""
    start, end = windows.offsets[window][first], windows.offsets[window][last]
    return windows.question.context[start[0] : end[1]] if start and end else ""


def span_score(span: Span, logits: Any) -> float:
    """The score of ``span`` under the logits [2, W, L]."""
    start, end = logits
    if span.window < 0:
        return float((start[:, 0] + end[:, 0]).min())
    return float(start[span.window, span.first] + end[span.window, span.last])
