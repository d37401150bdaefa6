"""SQuAD's scores against hand-computed cases, and files of the wrong shape."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.records.validity import DataNoteKind
from modelzoo.validity import Answers, squad


@pytest.mark.parametrize(
    ("rules", "prediction", "golds", "exact", "f1"),
    [
        # Articles, case and punctuation do not count; words are a multiset; the best gold answer counts.
        ("words", "the Broncos", ["Broncos"], 1, 1),
        ("words", "in the old customs house", ["old customs house"], 0, 2 * (3 / 4) * 1 / (3 / 4 + 1)),
        ("words", "six", ["seven", "six families"], 0, 2 / 3),
        ("words", "cat cat dog", ["cat dog dog"], 0, 2 / 3),
        ("words", "Paris", ["London"], 0, 0),
        ("words", "", [], 1, 1),
        ("words", "", ["Paris"], 0, 0),
        ("words", "a", ["the", "Paris"], 0, 0),
        # Only ASCII's punctuation is dropped, as in SQuAD's scripts.
        ("words", "“The “Broncos”", ["“the “Broncos”!"], 1, 1),
        ("words", "“Broncos”", ["Broncos"], 0, 0),
        # Each character is a word; punctuation of any width does not count, nor do blanks.
        ("characters", "在北京大学", ["北京大学"], 0, 2 * (4 / 5) / (4 / 5 + 1)),
        ("characters", "北京。", ["北京"], 1, 1),
        ("characters", "北 京", ["北京"], 1, 1),
        ("characters", "《三国演义》（小说）", ["三国演义小说"], 1, 1),
        ("characters", "北海", ["海北"], 0, 1),
        ("characters", "NBA总冠军", ["NBA 总冠军"], 1, 1),
        ("characters", "第3名", ["3"], 0, 2 * (1 / 3) / (1 / 3 + 1)),
        # As the script of CMRC 2018 gives with NLTK's words: the longest common substring, punctuation that it lists.
        ("cmrc", "在北京大学", ["北京大学"], 0, 2 * (4 / 5) / (4 / 5 + 1)),
        ("cmrc", "北京。", ["北京"], 1, 1),
        ("cmrc", "北海", ["海北"], 0, 1 / 2),
        ("cmrc", "the NBA", ["NBA"], 0, 2 * (1 / 2) / (1 / 2 + 1)),
        ("cmrc", "光荣和ω-force", ["光荣和ωforce"], 1, 1),
        ("cmrc", "11.42亿元", ["11.42"], 0, 2 * (1 / 3) / (1 / 3 + 1)),
        ("cmrc", "Henry A. Walsh", ["Henry A.Walsh"], 0, 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)),
        ("cmrc", "", ["北京"], 0, 0),
    ],
)
def test_scores_by_hand(rules: squad.Rules, prediction: str, golds: list[str], exact: float, f1: float) -> None:
    """By the rules of a data set."""
    assert squad.scores(prediction, golds, rules) == (exact, pytest.approx(f1))


def test_builtin_questions_are_a_sound_set() -> None:
    """42 questions on 8 paragraphs, every answer where the file says it is, ids unique."""
    stored = json.loads(squad.BUILTIN.read_text(encoding="utf-8"))
    paragraphs = [each for article in stored["data"] for each in article["paragraphs"]]
    for paragraph in paragraphs:
        for answer in (answer for each in paragraph["qas"] for answer in each["answers"]):
            assert paragraph["context"][answer["answer_start"] :].startswith(answer["text"])
    found = squad.read(squad.BUILTIN)
    assert (len(paragraphs), len({each.id for each in found}), {each.rules for each in found}) == (8, 42, {"words"})


def dataset() -> dict[str, Any]:
    """Two paragraphs with two questions each, the last of which has no answer."""
    asked = [
        {"id": f"q{number}", "question": f"Which {word}?", "answers": [{"text": word, "answer_start": 4}]}
        for number, word in enumerate(("castle", "river", "tower", "bridge"))
    ]
    asked[3] |= {"is_impossible": True, "answers": [], "plausible_answers": [{"text": "The tower"}]}
    contexts = ("The castle over the river is old.", "The tower is not.")
    paragraphs = [{"context": each, "qas": asked[2 * n : 2 * n + 2]} for n, each in enumerate(contexts)]
    return {"version": "v2.0", "data": [{"title": "Old", "paragraphs": paragraphs}]}


Change = Callable[[dict[str, Any]], Any]


def question(**values: Any) -> Change:
    """Set fields of the first question; ``...`` removes one."""

    def change(content: dict[str, Any]) -> None:
        first = content["data"][0]["paragraphs"][0]["qas"][0]
        for name, value in values.items():
            first.pop(name) if value is ... else first.update({name: value})

    return change


def whole(change: Callable[[bytes], bytes]) -> Change:
    return lambda content: change(json.dumps(content).encode())


SAME = "judged the same"
MUTATIONS: dict[str, tuple[Change, str]] = {
    # ids and types
    "ids are numbers": (question(id=7), SAME),
    "ids repeat": (question(id="q1"), SAME),
    "a question is empty": (question(question=""), "Expected `str` of length >= 1"),
    "places of answers are wrong": (question(answers=[{"text": "castle", "answer_start": 99}]), SAME),
    # answers
    "no answer": (question(answers=[]), "question q0 has 0 answers, and is_impossible is false"),
    "answers are missing": (question(answers=...), "question q0 has 0 answers, and is_impossible is false"),
    "an answer to an impossible question": (question(is_impossible=True), "has 1 answers, and is_impossible is true"),
    # encoding and layout; the other encodings are in test_coco.py
    "Latin-1": (whole(lambda text: text.replace(b"castle", b"ch\xe2teau")), "not UTF-8"),
    "no paragraphs": (whole(lambda text: b"[]"), "holds no questions"),
    "no articles": (whole(lambda text: b'{"data": []}'), "holds no questions"),
    "annotations of COCO": (whole(lambda text: b'{"images": []}'), "missing required field `data`"),
    "one line a question": (whole(lambda text: b'{"question": "?"}\n{"question": "?"}'), "is not "),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_an_inconsistent_file_is_refused_in_one_line_or_judged_the_same(tmp_path: Path, name: str) -> None:
    """The questions are what they were, except for what they are called, or there is an error."""
    change, expected = MUTATIONS[name]
    original, content = dataset(), dataset()
    changed = change(content)
    for file, what in (("a", original), ("b", changed if isinstance(changed, bytes) else content)):
        (tmp_path / file).write_bytes(what if isinstance(what, bytes) else json.dumps(what).encode())
    if expected == SAME:
        found, was = ([replace(each, id="") for each in squad.read(tmp_path / file)] for file in "ba")
        assert found == was
        assert [each.answers for each in found] == [("castle",), ("river",), ("tower",), ()]
    else:
        with pytest.raises(InputError, match=expected) as caught:
            squad.read(tmp_path / "b")
        assert "\n" not in str(caught.value)


def test_a_missing_file_and_an_empty_directory_are_refused(tmp_path: Path) -> None:
    """Both are the user's errors."""
    for path in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(InputError):
            squad.read(path)


PASSAGE, ASKED = "北京大学在北京。", "哪所大学？"
CMRC_ASKED = {"query_id": "DEV_0_QUERY_0", "query_text": ASKED, "answers": ["北京大学", "大学", 1898.0]}
CMRC = [{"context_id": "DEV_0", "context_text": PASSAGE, "title": "北京", "qas": [CMRC_ASKED]}]
DRCD_ASKED = {"id": "1-1-1", "question": ASKED, "answers": [{"text": "北京大学", "id": "1"}]}
DRCD_PARAGRAPHS = [{"context": PASSAGE, "id": "1-1", "qas": [DRCD_ASKED]}]
DRCD = {"version": "1.3", "data": [{"title": "北京", "id": "1", "paragraphs": DRCD_PARAGRAPHS}]}


def test_chinese_sets_are_read_in_their_own_layouts(tmp_path: Path) -> None:
    """CMRC 2018's and DRCD's, both with the rules of CMRC; numbers among the answers are as published."""
    for content, answers in ((CMRC, ("北京大学", "大学", "1898.0")), (DRCD, ("北京大学",))):
        (tmp_path / "dev.json").write_text(json.dumps(content), encoding="utf-8")
        (found,) = squad.read(tmp_path / "dev.json")
        assert (found.question, found.context, found.answers) == (ASKED, PASSAGE, answers)
        assert found.rules == "cmrc"
    content = json.dumps(dataset()).replace("The castle over", "The castle 大元通制 over")
    (tmp_path / "dev.json").write_text(content)
    assert squad.read(tmp_path / "dev.json")[0].rules == "words", "the passage's, whichever span is predicted"


def test_what_is_said_of_questions() -> None:
    """Rules other than SQuAD's, words that blanks do not separate, and answers that no span of the passage can be."""
    asked = [
        squad.Question("1", "谁？", "北京大学", ("北京",), "cmrc"),
        squad.Question("2", "ใคร", "กรุงเทพมหานคร", ("กรุงเทพ",)),
        squad.Question("3", "Who?", "The castle.", ("the river",)),
        squad.Question("4", "why " * 90, "The castle.", ("The castle",)),
    ]
    task = Answers(tokenizer=lambda path: None, max_length=96, stride=32)

    def words(text: str) -> dict[str, list[str]]:
        return {"input_ids": text.split()}

    with pytest.raises(InputError, match="1 of 4 questions cannot be judged: question 4 takes 90 of 96 tokens"):
        squad.checked(asked, words, task, skip_bad=False)
    found, notes = squad.checked(asked, words, task, skip_bad=True)
    assert found == asked[:3]
    assert [(note.kind, note.count, note.names) for note in notes[1:]] == [
        (DataNoteKind.CMRC, 1, ()),
        (DataNoteKind.NO_BLANKS, 1, ()),
        (DataNoteKind.NOT_IN_PASSAGE, 1, ("3",)),
    ]


def test_the_articles_of_wikitext_are_passages() -> None:
    """Each begins at a heading of the first level; in other texts, blank lines separate, even if blanks are in them."""
    wikitext = " \n = Castle = \n \n The castle is old . \n \n = = Walls = = \n \n Thick . \n = River = \n \n Wet . \n"
    first, second = squad.text_passages(wikitext)
    assert first.startswith("= Castle =")
    assert first.endswith("Thick .")
    assert second == "= River = \n \n Wet ."
    assert squad.text_passages("one\ntwo\n \nthree\n\n\nfour") == ["one\ntwo", "three", "four"]


def test_questions_are_of_the_kind_of_their_question_word() -> None:
    """The first one, wherever it stands; "how" with a quantity is a kind of its own."""
    for question, kind in {
        "When was the lighthouse on Gull Point finished?": "when",
        "In which month does the snow melt?": "which",
        "How long may the queen live?": "how many",
        "How did the town pay for it?": "how",
        "Whose patents were restored, and what for?": "who",
        "Name the author of the song that whatever it was called.": "other",
        "¿Quién diseñó el puente?": "other",
    }.items():
        assert squad.question_kind(question) == kind
