"""SQuAD files and SQuAD's official scores, 1.1 and 2.0.

As in the authors' ``evaluate-v1.1.py`` and ``evaluate-v2.0.py``: texts are normalized (lower case, no punctuation, no
articles, single blanks), then compared by exact match and by F1 over the multiset of words; the best gold answer
counts. For a question without an answer, an empty prediction scores 1 and any other 0.

Questions are cut into windows of tokens, and the best span is found by the logits, as in transformers' ``utils_qa.py``
(``postprocess_qa_predictions``) and BERT's ``run_squad.py``.
"""

from __future__ import annotations

import collections
import json
import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import msgspec

from modelzoo.errors import InputError

if TYPE_CHECKING:
    from modelzoo.validity.answers import Answers


_QUESTION_WORD = re.compile(
    r"\b(how (?:many|much|long|far|old|often|high|tall|large|big|deep|wide|fast|few)"
    r"|how|who|whom|whose|what|which|when|where|why)\b"
)
BUILTIN = Path(__file__).with_name("questions.json")
FIELDS = ("input_ids", "attention_mask", "token_type_ids")


class Question(msgspec.Struct, frozen=True):
    """A question about the paragraph ``context``; ``answers`` are the gold answers (SQuAD 2.0: possibly none)."""

    id: str
    question: str
    context: str
    answers: tuple[str, ...]


def read(path: Path) -> list[Question]:
    """Return the questions of a SQuAD JSON.

    Args:
        path: a file, or a directory that holds exactly one ``*.json``.

    Raises:
        InputError: missing, not JSON, malformed, or without questions.
    """
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if len(files) != 1:
            raise InputError(f"{path} holds {len(files)} JSON files; give one SQuAD file as --data")
        path = files[0]
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {' '.join(str(error).split())}") from None
    try:
        paragraphs = [paragraph for article in stored["data"] for paragraph in article["paragraphs"]]
        questions = [_question(qa, paragraph["context"]) for paragraph in paragraphs for qa in paragraph["qas"]]
    except KeyError as error:
        raise InputError(f"{path} is not a SQuAD file: it lacks {error.args[0]!r}") from None
    except (TypeError, AttributeError):
        raise InputError(f"{path} is not a SQuAD file: expected data → paragraphs → qas → answers") from None
    if not questions:
        raise InputError(f"{path} holds no questions")
    return questions


def passages(questions: Sequence[Question]) -> list[str]:
    """The paragraphs that ``questions`` are about, each once, in their order."""
    return list(dict.fromkeys(question.context for question in questions))


def builtin_passages() -> list[str]:
    """The paragraphs of the built-in questions."""
    return passages(read(BUILTIN))


def builtin_questions() -> list[str]:
    """The built-in questions, without their paragraphs."""
    return [each.question for each in read(BUILTIN)]


def _question(qa: dict[str, Any], context: str) -> Question:
    answers = () if qa.get("is_impossible") else tuple(answer["text"] for answer in qa["answers"])
    if not all(isinstance(text, str) for text in (context, qa["question"], *answers)):
        raise TypeError
    return Question(str(qa["id"]), qa["question"], context, answers)


def question_kind(question: str) -> str:
    """The kind of answer that a question asks for, by its question word: "who", "how many", …; "other" without one.

    "how much", "how old" and the like, which ask for a quantity, count as "how many"; "whose" and "whom" as "who".
    """
    found = _QUESTION_WORD.search(question.lower())
    if found is None:
        return "other"
    word = found.group(1)
    if word.startswith("how "):
        return "how many"
    return "who" if word in ("whom", "whose") else word


def normalized(text: str) -> str:
    """``text`` in lower case, without punctuation, articles and superfluous blanks."""
    text = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact(prediction: str, gold: str) -> float:
    """1 if the normalized texts are equal, else 0."""
    return float(normalized(prediction) == normalized(gold))


def f1(prediction: str, gold: str) -> float:
    """Harmonic mean of precision and recall over the words; if one text is empty, 1 if both are, else 0."""
    predicted, expected = normalized(prediction).split(), normalized(gold).split()
    if not predicted or not expected:
        return float(predicted == expected)
    shared = sum((collections.Counter(predicted) & collections.Counter(expected)).values())
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(expected)
    return 2 * precision * recall / (precision + recall)


def scores(prediction: str, answers: Sequence[str]) -> tuple[float, float]:
    """Return (exact match, F1), each the best over the gold answers, from 0 to 1.

    As in evaluate-v2.0, gold answers that are empty once normalized are left out; if none remains, the empty text is
    the correct answer.
    """
    golds = [answer for answer in answers if normalized(answer)] or [""]
    return max(exact(prediction, gold) for gold in golds), max(f1(prediction, gold) for gold in golds)


class Windows(msgspec.Struct, frozen=True):
    """The W windows of a question, of L tokens each.

    Attributes:
        fields: name to int64 array [W, L]; ``token_type_ids`` are 0 if the tokenizer gives none.
        offsets: W lists of L (start, end) character positions in the paragraph, ``None`` for tokens outside it.
    """

    question: Question
    fields: Mapping[str, Any]
    offsets: Sequence[Sequence[Optional[tuple[int, int]]]]


class AnswerSpan(msgspec.Struct, frozen=True):
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


def best_span(windows: Windows, logits: Any, declaration: Answers, may_be_empty: bool) -> AnswerSpan:
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
        return AnswerSpan("", -1, 0, 0, null, float(probabilities[-1]))
    score, number, first, last = found[0]
    return AnswerSpan(text_of(windows, number, first, last), number, first, last, score, float(probabilities[0]))


def text_of(windows: Windows, window: int, first: int, last: int) -> str:
    """The text of the paragraph from token ``first`` to token ``last`` of ``window``."""
    start, end = windows.offsets[window][first], windows.offsets[window][last]
    return windows.question.context[start[0] : end[1]] if start and end else ""


def span_score(span: AnswerSpan, logits: Any) -> float:
    """The score of ``span`` under the logits [2, W, L]."""
    start, end = logits
    if span.window < 0:
        return float((start[:, 0] + end[:, 0]).min())
    return float(start[span.window, span.first] + end[span.window, span.last])
