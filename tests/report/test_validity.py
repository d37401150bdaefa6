"""A judgement as a line, as tables, and what was written for it."""

from __future__ import annotations

from modelzoo.frozen import replace
from modelzoo.records.validity import Check, Relation, Validity, ValidityVerdict
from modelzoo.report.validity import check_table, tables, valid_line, written_lines

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
    """Observed, required, the tolerance that would have passed, and the source; brackets are not markup."""
    from rich.console import Console

    console = Console(width=140, force_terminal=False)
    with console.capture() as captured:
        for table in tables(replace(VALIDITY, notes=("a [note] in brackets",))):
            console.print(table)
    shown = captured.get()
    for text in ("FAIL", "pass", "would pass at", "0.5", "≥ 0.99", "MLPerf", "[note]", "--tolerance accuracy="):
        assert text in shown


def test_a_check_without_tolerance_offers_none() -> None:
    """NaN never passes, so no ``--tolerance`` is suggested."""
    row = check_table(VALIDITY).rows[2]
    assert row == ("outputs with NaN", "3", "–", "≤ 0", "no value", "FAIL", "never passes")


def test_an_undecided_check_is_neither_passed_nor_failed() -> None:
    """Its bound is shown beside what was seen."""
    undecided = replace(BAD, seen=0.995, undecided=True, bound=0.97, would_pass_at=0.97)
    row = check_table(replace(VALIDITY, checks=(undecided,))).rows[0]
    assert row == ("task metric\n--tolerance accuracy=", "0.995", "0.97", "≥ 0.99", "0.97", "undecided", "MLPerf")


def test_what_the_set_can_show_stands_below_the_checks() -> None:
    """After the verdict and its reason, and before the notes; the line on stdout is without it."""
    seen = "F1 -0.3 points [-1.1, +0.5]; losses under 1.6 points cannot be seen with these 42 questions"
    judged = replace(VALIDITY, resolution=seen, notes=("a note",))
    assert check_table(judged).note.splitlines() == ["resnet50: VALID, 100 pictures", seen, "a note"]
    assert valid_line(judged) == valid_line(VALIDITY)


def test_two_hundred_pictures_are_one_line() -> None:
    """Pictures by number and directory, other files by name, at most two lines."""
    pictures = [f"out/ssd_pictures/{number}.jpg" for number in range(200)]
    assert written_lines([*pictures, "out/ssd_layers.csv", "out/ssd_layers.png"]) == [
        "written: 200 pictures in out/ssd_pictures",
        "written: out/ssd_layers.csv, out/ssd_layers.png",
    ]
    assert written_lines(["out/bert_answers.csv"]) == ["written: out/bert_answers.csv"]
    assert written_lines([]) == []
