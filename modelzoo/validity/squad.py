"""SQuAD files and SQuAD's official scores, 1.1 and 2.0.

As in the authors' ``evaluate-v1.1.py`` and ``evaluate-v2.0.py``: texts are normalised (lower case, no punctuation, no
articles, single blanks), then compared by exact match and by F1 over the multiset of words; the best gold answer
counts. For a question without an answer, an empty prediction scores 1 and any other 0.
"""

from __future__ import annotations

import collections
import json
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelzoo.errors import InputError

_QUESTION_WORD = re.compile(
    r"\b(how (?:many|much|long|far|old|often|high|tall|large|big|deep|wide|fast|few)"
    r"|how|who|whom|whose|what|which|when|where|why)\b"
)
BUILTIN = Path(__file__).with_name("questions.json")


@dataclass(frozen=True)
class Question:
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


def normalised(text: str) -> str:
    """``text`` in lower case, without punctuation, articles and superfluous blanks."""
    text = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact(prediction: str, gold: str) -> float:
    """1 if the normalised texts are equal, else 0."""
    return float(normalised(prediction) == normalised(gold))


def f1(prediction: str, gold: str) -> float:
    """Harmonic mean of precision and recall over the words; if one text is empty, 1 if both are, else 0."""
    predicted, expected = normalised(prediction).split(), normalised(gold).split()
    if not predicted or not expected:
        return float(predicted == expected)
    shared = sum((collections.Counter(predicted) & collections.Counter(expected)).values())
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(expected)
    return 2 * precision * recall / (precision + recall)


def scores(prediction: str, answers: Sequence[str]) -> tuple[float, float]:
    """Return (exact match, F1), each the best over the gold answers, from 0 to 1.

    As in evaluate-v2.0, gold answers that are empty once normalised are left out; if none remains, the empty text is
    the correct answer.
    """
    golds = [answer for answer in answers if normalised(answer)] or [""]
    return max(exact(prediction, gold) for gold in golds), max(f1(prediction, gold) for gold in golds)
