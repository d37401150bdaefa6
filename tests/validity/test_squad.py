"""SQuAD's scores against hand-computed cases, and files of the wrong shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelzoo.errors import InputError
from modelzoo.validity import squad


@pytest.mark.parametrize(
    ("prediction", "golds", "exact", "f1"),
    [
        ("the Broncos", ["Broncos"], 1, 1),
        ("Denver Broncos!", ["denver broncos"], 1, 1),
        ("in the old customs house", ["old customs house"], 0, 2 * (3 / 4) * 1 / (3 / 4 + 1)),
        ("six", ["seven", "six families"], 0, 2 / 3),
        ("cat cat dog", ["cat dog dog"], 0, 2 / 3),
        ("Paris", ["London"], 0, 0),
        ("", [], 1, 1),
        ("Paris", [], 0, 0),
        ("", ["Paris"], 0, 0),
        ("a", ["the", "Paris"], 0, 0),
    ],
)
def test_scores_by_hand(prediction: str, golds: list[str], exact: float, f1: float) -> None:
    """Articles, case and punctuation do not count; words are a multiset; the best gold answer counts."""
    assert squad.scores(prediction, golds) == (exact, pytest.approx(f1))


def test_builtin_questions_are_a_sound_set() -> None:
    """At least 40 questions on 8 paragraphs, every answer where the file says it is, ids unique."""
    stored = json.loads(squad.BUILTIN.read_text(encoding="utf-8"))
    paragraphs = [p for article in stored["data"] for p in article["paragraphs"]]
    questions = [qa for p in paragraphs for qa in p["qas"]]
    assert len(paragraphs) >= 8
    assert len(questions) >= 40
    assert len({qa["id"] for qa in questions}) == len(questions)
    for paragraph in paragraphs:
        for qa in paragraph["qas"]:
            for answer in qa["answers"]:
                start = answer["answer_start"]
                assert paragraph["context"][start : start + len(answer["text"])] == answer["text"]
    assert len(squad.read(squad.BUILTIN)) == len(questions)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no json", "is not JSON"),
        ("[]", "not a SQuAD file"),
        ('{"images": []}', "lacks 'data'"),
        ('{"data": [{"paragraphs": [{"qas": [{}]}]}]}', "lacks 'context'"),
        ('{"data": []}', "holds no questions"),
        ('{"data": [{"paragraphs": [{"context": 3, "qas": [{"id": 1, "question": "?", "answers": []}]}]}]}', "SQuAD"),
    ],
)
def test_files_of_another_shape_are_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    """Each says what is wrong."""
    path = tmp_path / "set.json"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        squad.read(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_an_empty_directory_are_refused(tmp_path: Path) -> None:
    """Both are the user's errors."""
    for path in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(InputError):
            squad.read(path)


def test_questions_without_an_answer_are_read(tmp_path: Path) -> None:
    """SQuAD 2.0's is_impossible makes the gold answers empty."""
    qa = {"id": "1", "question": "?", "is_impossible": True, "answers": []}
    path = tmp_path / "v2.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "Text.", "qas": [qa]}]}]}))
    assert squad.read(path)[0].answers == ()


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When was the lighthouse on Gull Point finished?", "when"),
        ("In which month does the snow melt?", "which"),
        ("How many queens does a hive hold?", "how many"),
        ("How long may the queen live?", "how many"),
        ("How did the town pay for it?", "how"),
        ("Whose patents were restored, and what for?", "who"),
        ("To whom was it sold?", "who"),
        ("Name the author of the song that whatever it was called.", "other"),
        ("¿Quién diseñó el puente?", "other"),
    ],
)
def test_questions_are_of_the_kind_of_their_question_word(question: str, kind: str) -> None:
    """The first one, wherever it stands; "how" with a quantity is a kind of its own."""
    assert squad.question_kind(question) == kind
