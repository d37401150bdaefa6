"""A judgement as a line, as tables, and what was written for it."""

from __future__ import annotations

from places import DATA
from printed import printed, sentences

from modelzoo.document import Notices, Tone
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.validity import Check, Relation, Table, Validity, ValidityVerdict
from modelzoo.results import store
from modelzoo.views import validity
from modelzoo.views.validity import check_table, stored_table, valid_line

GOOD = Check("kl", "mean KL divergence", 0.001, Relation.AT_MOST, 0.01, "Pinsker", True, 0.001)
BAD = Check("accuracy", "task metric", 0.5, Relation.AT_LEAST, 0.99, "MLPerf", False, 0.5)
NEVER = Check("finite", "outputs with NaN", 3.0, Relation.AT_MOST, 0.0, "never passes", False, None)
VALIDITY = Validity(
    "resnet50", "classification", "top1", 0.8, 0.79, ValidityVerdict.VALID, 0, "100 pictures", "", (GOOD, BAD, NEVER)
)


def test_the_line_has_six_fields_and_says_how_small_the_data_set_was() -> None:
    """The verdict is last; the built-in data set, or why nothing could be judged, follows in parentheses."""
    assert valid_line(VALIDITY) == "[VALID] resnet50 top1 0.8 0.79 VALID"
    small = replace(
        VALIDITY, small=True, verdict=ValidityVerdict.NOT_VALID, scope="32 crops of 1 photograph: agreement only"
    )
    assert valid_line(small).endswith(" NOT VALID (32 crops of 1 photograph: agreement only)")
    unjudged = replace(VALIDITY, verdict=ValidityVerdict.CANNOT_JUDGE, exit_code=2, reason="no", reference=None)
    assert valid_line(unjudged) == "[VALID] resnet50 top1 - 0.79 CANNOT JUDGE (no)"
    few = replace(VALIDITY, verdict=ValidityVerdict.INCONCLUSIVE, exit_code=2, reason="about 9 more")
    assert valid_line(few) == "[VALID] resnet50 top1 0.8 0.79 INCONCLUSIVE (about 9 more)"
    numbers = replace(small, verdict=ValidityVerdict.NUMERIC_ONLY, reason="accuracy not judged")
    assert valid_line(numbers) == "[VALID] resnet50 top1 0.8 0.79 NUMERIC ONLY (accuracy not judged)"


def test_the_checks_show_what_would_have_passed() -> None:
    """NaN never passes, so no ``--tolerance`` is suggested."""
    table = check_table(VALIDITY)
    assert table.rows[1:] == [
        ("task metric", "0.5", "–", "≥ 0.99", "0.5", "FAIL", "accuracy", "MLPerf"),
        ("outputs with NaN", "3", "–", "≤ 0", "no value", "FAIL", "–", "never passes"),
    ]
    assert table.columns[5].tones == (Tone.BETTER, Tone.BAD, Tone.BAD)


def test_an_undecided_check_is_neither_passed_nor_failed() -> None:
    """Its bound is shown beside what was seen."""
    undecided = replace(BAD, seen=0.995, undecided=True, bound=0.97, would_pass_at=0.97)
    table = check_table(replace(VALIDITY, checks=(undecided,)))
    assert table.rows == [("task metric", "0.995", "0.97", "≥ 0.99", "0.97", "undecided", "accuracy", "MLPerf")]
    assert table.columns[5].tones == (Tone.OPEN,)


def test_columns_of_numbers_of_a_stored_table_are_recognised() -> None:
    """Mostly digits, with or without a sign; the first column names the rows, and a list is no number."""
    rows = (("1", "≤ 0.1", "pass", "9 % a\n8 % b", "x"), ("2", "–", "FAIL", "7 % c", "y"))
    stored = Table("t", ("1", "seen", "", "classes", "source"), rows)
    assert [column.is_number for column in stored_table(stored).columns] == [False, True, False, False, False]


def test_what_the_set_can_show_stands_below_the_checks() -> None:
    """After the verdict and its reason, and before the notes; the line on stdout is without it."""
    seen = "F1 -0.3 points [-1.1, +0.5]; losses under 1.6 points cannot be seen with these 42 questions"
    judged = replace(VALIDITY, resolution=seen, notes=("a note",))
    assert str(check_table(judged).note).splitlines() == ["resnet50: VALID, 100 pictures", seen, "a note"]
    assert valid_line(judged) == valid_line(VALIDITY)


def test_two_hundred_pictures_are_one_line() -> None:
    """Pictures by number and directory, other files by name, at most two lines."""
    pictures = [f"out/ssd_pictures/{number}.jpg" for number in range(200)]
    assert written(*pictures, "out/ssd_layers.csv", "out/ssd_layers.png") == [
        "written: 200 pictures in out/ssd_pictures",
        "written: out/ssd_layers.csv, out/ssd_layers.png",
    ]
    assert written("out/bert_answers.csv") == ["written: out/bert_answers.csv"]
    assert written() == []


def written(*files: str) -> list[str]:
    """What is said of these files."""
    (entry,) = store.read(DATA / "results" / "bert.json").validity
    return [text for text in sentences(validity.document(replace(entry, files=files))) if text.startswith("written")]


def test_a_warning_says_that_bf16_did_not_run() -> None:
    """The verdict is of what ran."""
    (entry,) = store.read(DATA / "results" / "bert.json").validity
    assert entry.report is not None
    assert not [block for block in validity.document(entry) if isinstance(block, Notices)]
    tested = replace(entry.report.tested, canary_verdict=CanaryVerdict.NOT_ACTIVE, canary=None)
    tested = replace(tested, canary_problem="conv [fp32]")
    *_, last = validity.document(replace(entry, report=replace(entry.report, tested=tested)))
    assert sentences([last]) == [f"warning: bf16 is {CanaryVerdict.NOT_ACTIVE} in this process: conv [fp32]"]


def test_what_could_not_be_judged_has_failed() -> None:
    """With the reason."""
    (entry,) = store.read(DATA / "results" / "bert.json").validity
    assert printed(validity.document(replace(entry, report=None, error="no [data]"))) == ("failed: bert: no [data]\n")
