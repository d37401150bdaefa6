"""SQuAD files and their kin, and the official scores: SQuAD's, 1.1 and 2.0, and those of CMRC 2018.

As in the authors' ``evaluate-v1.1.py`` and ``evaluate-v2.0.py``: texts are normalized (lower case, no punctuation, no
articles, single blanks), then compared by exact match and by F1 over the multiset of words; the best gold answer
counts. For a question without an answer, an empty prediction scores 1 and any other 0. In Chinese and Japanese, each
character is a word, and there are no articles and no punctuation of any script, as in MLQA's ``mlqa_evaluation_v1.py``.

CMRC 2018 and DRCD are scored as by ``cmrc2018_evaluate.py`` (github.com/ymcui/cmrc2018): exact match without the
punctuation listed there, and F1 over the longest common substring of tokens, which are the Chinese characters and the
words between them. There, NLTK divides these words; here they end at blanks and ASCII punctuation, so that a
contraction ("don't") is one word. On shifted spans of the published development set, exact match is always the same,
and F1 in 999 of 1,000.

Questions are cut into windows of tokens, and the best span is found by the logits, as in transformers' ``utils_qa.py``
(``postprocess_qa_predictions``) and BERT's ``run_squad.py``.
"""

from __future__ import annotations

import collections
import difflib
import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from modelzoo.errors import InputError
from modelzoo.records.validity import DataNote, DataNoteKind
from modelzoo.validity.picture_sets import some, without_bad
from modelzoo.workload.inputs import read_json

if TYPE_CHECKING:
    from modelzoo.validity.answers import Answers


_QUESTION_WORD = re.compile(
    r"\b(how (?:many|much|long|far|old|often|high|tall|large|big|deep|wide|fast|few)"
    r"|how|who|whom|whose|what|which|when|where|why)\b"
)
BUILTIN = Path(__file__).with_name("questions.json")
FIELDS = ("input_ids", "attention_mask", "token_type_ids")


_HAN = re.compile(r"[\u4e00-\u9fa5]")
_CJK = re.compile(
    r"[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]"
)
_WORD = re.compile(rf"[^\W{_CJK.pattern[1:-1]}]+")
_NO_BLANKS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Thai, Lao, Burmese and Khmer, which have no blanks between words."""
_CMRC_DROPPED = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》…·、「」（）－～『』")
_CMRC_WORD = rf"[^\s{_HAN.pattern[1:-1]}{re.escape(string.punctuation)}]"
_CMRC_TOKEN = re.compile(rf"\.?{_CMRC_WORD}+(?:[.,']{_CMRC_WORD}+)*(?:\.(?=\s+{_CMRC_WORD}))?|\S")


Rules = Literal["words", "characters", "cmrc"]
"""What counts in an answer: its words, as in SQuAD, its characters, or what CMRC 2018 counts."""
Text = Annotated[str, msgspec.Meta(min_length=1)]


class Question(msgspec.Struct, frozen=True):
    """A question about the paragraph ``context``; ``answers`` are the gold answers (SQuAD 2.0: possibly none).

    ``rules``: by which it is scored; those of the paragraph's language.
    """

    id: str
    question: str
    context: str
    answers: tuple[str, ...]
    rules: Rules = "words"


class _Answer(msgspec.Struct):
    text: str


class _Asked(msgspec.Struct):
    id: str | int
    question: Text
    answers: list[_Answer] = []
    is_impossible: bool = False


class _Paragraph(msgspec.Struct):
    context: Text
    qas: list[_Asked]
    id: str | int | None = None


class _Article(msgspec.Struct):
    paragraphs: list[_Paragraph]


class _Squad(msgspec.Struct):
    data: list[_Article]


class _CmrcAsked(msgspec.Struct):
    id: str | int = msgspec.field(name="query_id")
    question: Text = msgspec.field(name="query_text")
    answers: list[str | int | float] = []  # the published development set has a number among them
    is_impossible: bool = False


class _CmrcParagraph(msgspec.Struct):
    id: str | int = msgspec.field(name="context_id")
    context: Text = msgspec.field(name="context_text")
    qas: list[_CmrcAsked]


def read(path: Path) -> list[Question]:
    """Return the questions of a file in the layout of SQuAD, CMRC 2018 or DRCD.

    In the latter two, paragraphs have ids.

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
    found = read_json(path, _Squad | list[_CmrcParagraph], "a SQuAD file")
    paragraphs = [each for article in found.data for each in article.paragraphs] if isinstance(found, _Squad) else found
    questions = []
    for paragraph in paragraphs:
        rules = rules_of(paragraph.context, has_id=paragraph.id is not None)
        for qa in paragraph.qas:
            answers = tuple(each.text if isinstance(each, _Answer) else str(each) for each in qa.answers)
            if qa.is_impossible == bool(answers):
                raise InputError(
                    f"{path} is not a SQuAD file: question {qa.id} has {len(answers)} answers, and is_impossible is "
                    f"{str(qa.is_impossible).lower()}"
                )
            questions.append(Question(str(qa.id), qa.question, paragraph.context, answers, rules))
    if not questions:
        raise InputError(f"{path} holds no questions")
    return questions


def checked(
    questions: Sequence[Question], tokenizer: Any, declaration: Answers, skip_bad: bool
) -> tuple[list[Question], list[DataNote]]:
    """Return the questions that leave room for their paragraph in a window, and what is to be said about them.

    Raises:
        InputError: some do not, and are not to be left out.
    """
    longest = declaration.max_length - declaration.stride - 2
    sizes = [len(tokenizer(each.question.lstrip())["input_ids"]) for each in questions]
    problems = [
        f"question {each.id} takes {size} of {declaration.max_length} tokens, which leaves too few for the paragraph"
        if size > longest
        else ""
        for each, size in zip(questions, sizes)
    ]
    found, notes = without_bad(questions, problems, skip_bad, "question")
    elsewhere = [each.id for each in found if each.answers and not any(text in each.context for text in each.answers)]
    cmrc = sum(each.rules == "cmrc" for each in found)
    no_blanks = sum(any(map(_NO_BLANKS.search, each.answers)) for each in found)
    counted = ((DataNoteKind.CMRC, cmrc, ()), (DataNoteKind.NO_BLANKS, no_blanks, ()))
    more = [*counted, (DataNoteKind.NOT_IN_PASSAGE, len(elsewhere), some(elsewhere))]
    return found, [*notes, *(DataNote(*each) for each in more if each[1])]


def passages(questions: Sequence[Question]) -> list[str]:
    """The paragraphs that ``questions`` are about, each once, in their order."""
    return list(dict.fromkeys(question.context for question in questions))


def builtin_passages() -> list[str]:
    """The paragraphs of the built-in questions."""
    return passages(read(BUILTIN))


def builtin_questions() -> list[str]:
    """The built-in questions, without their paragraphs."""
    return [each.question for each in read(BUILTIN)]


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


def rules_of(text: str, has_id: bool = False) -> Rules:
    """The rules for answers from ``text``; Chinese and Japanese texts have more characters than other words.

    Of these, paragraphs that have an id and Chinese characters are CMRC 2018's or DRCD's.
    """
    if len(_CJK.findall(text)) <= len(_WORD.findall(text)):
        return "words"
    return "cmrc" if has_id and _HAN.search(text) else "characters"


def normalized(text: str, rules: Rules) -> str:
    """``text`` as it is compared: in lower case, without punctuation, with a blank between what counts by ``rules``."""
    if rules == "cmrc":
        return " ".join(_CMRC_TOKEN.findall(_without_cmrc_punctuation(text)))
    if rules == "characters":
        text = "".join(each for each in text if unicodedata.category(each)[0] != "P" and each not in string.punctuation)
        return " ".join(_CJK.sub(r" \g<0> ", text.lower()).split())
    text = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _without_cmrc_punctuation(text: str) -> str:
    return text.lower().strip().translate(_CMRC_DROPPED)


def exact(prediction: str, gold: str, rules: Rules) -> float:
    """1 if both texts are equal as they are compared, else 0."""
    if rules == "cmrc":
        return float(_without_cmrc_punctuation(prediction) == _without_cmrc_punctuation(gold))
    return float(normalized(prediction, rules) == normalized(gold, rules))


def f1(prediction: str, gold: str, rules: Rules) -> float:
    """Harmonic mean of precision and recall over the words; if one text is empty, 1 if both are, else 0."""
    predicted, expected = normalized(prediction, rules).split(), normalized(gold, rules).split()
    if not predicted or not expected:
        return float(predicted == expected)
    if rules == "cmrc":
        shared = difflib.SequenceMatcher(None, predicted, expected, autojunk=False).find_longest_match().size
    else:
        shared = sum((collections.Counter(predicted) & collections.Counter(expected)).values())
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(expected)
    return 2 * precision * recall / (precision + recall)


def scores(prediction: str, answers: Sequence[str], rules: Rules) -> tuple[float, float]:
    """Return (exact match, F1), each the best over the gold answers, from 0 to 1.

    As in evaluate-v2.0, gold answers that are empty once normalized are left out; if none remains, the empty text is
    the correct answer.
    """
    golds = [answer for answer in answers if normalized(answer, rules)] or [""]
    return max(exact(prediction, gold, rules) for gold in golds), max(f1(prediction, gold, rules) for gold in golds)


_HEADING = re.compile(r"^ ?= [^=].* = *$", re.MULTILINE)


def text_passages(text: str) -> list[str]:
    """The articles of WikiText's layout, each under a line like " = Title = "; of other texts, the paragraphs.

    Blank lines separate paragraphs.
    """
    starts = [found.start() for found in _HEADING.finditer(text)]
    if starts and not text[: starts[0]].strip():
        return [text[start:stop].strip() for start, stop in zip(starts, [*starts[1:], len(text)])]
    return [each.strip() for each in re.split(r"\n\s*\n", text)]


class Windows(msgspec.Struct, frozen=True):
    """The W windows of a question, of L tokens each.

    Attributes:
        fields: name to int64 array [W, L]; ``token_type_ids`` are 0 if the tokenizer gives none.
        offsets: W lists of L (start, end) character positions in the paragraph, ``None`` for tokens outside it.
    """

    question: Question
    fields: Mapping[str, Any]
    offsets: Sequence[Sequence[tuple[int, int] | None]]


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
    """Cut the paragraph into windows of ``max_length`` tokens, ``stride`` of them shared, each after the question."""
    import numpy as np

    encoded = tokenizer(
        question.question.lstrip(),
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


def paragraph_offsets(encoded: Any, number: int) -> list[tuple[int, int] | None]:
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
    count, longest = declaration.n_best, declaration.max_answer_length
    found: list[tuple[float, int, int, int]] = []
    for number, offsets in enumerate(windows.offsets):
        firsts, lasts = (np.argsort(-side[number], kind="stable")[:count].tolist() for side in (start, end))
        found += [
            (float(start[number, first] + end[number, last]), number, first, last)
            for first in firsts
            for last in lasts
            if first <= last < first + longest and offsets[first] and offsets[last]
        ]
    found = sorted(found, key=lambda candidate: -candidate[0])[:count]
    null = float((start[:, 0] + end[:, 0]).min())
    scores = [candidate[0] for candidate in found] + ([null] if may_be_empty or not found else [])
    probabilities = np.exp(np.array(scores) - max(scores))
    probabilities = probabilities / probabilities.sum()
    if not found or (may_be_empty and null > found[0][0]):
        return AnswerSpan("", -1, 0, 0, null, float(probabilities[-1]))
    score, number, first, last = found[0]
    begins, ends = windows.offsets[number][first], windows.offsets[number][last]
    text = windows.question.context[begins[0] : ends[1]] if begins and ends else ""
    return AnswerSpan(text, number, first, last, score, float(probabilities[0]))


def span_score(span: AnswerSpan, logits: Any) -> float:
    """The score of ``span`` under the logits [2, W, L]."""
    start, end = logits
    if span.window < 0:
        return float((start[:, 0] + end[:, 0]).min())
    return float(start[span.window, span.first] + end[span.window, span.last])
