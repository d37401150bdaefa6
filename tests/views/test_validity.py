"""A judgement as a line, in words, as tables, and what was written for it."""

from __future__ import annotations

import pytest
from fake_runs import changed, evidence, make
from judgements import CLASSIFIED, F1, FLIP, PICTURES, SAME
from judgements import QUESTIONS as ANSWERS
from places import DATA
from printed import printed, sentences

from modelzoo.document import Table, Tone
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.exhibits import ShownClasses
from modelzoo.records.partial import JudgedSoFar, PictureNote
from modelzoo.records.run import Observed, SideReport, ValidityEntry, ValidityReport
from modelzoo.records.validity import (
    Check,
    ClassChange,
    ClassLosses,
    DataNote,
    DataNoteKind,
    PublishedQuality,
    Reason,
    ReasonKind,
    Relation,
    Validity,
    ValidityVerdict,
    WorstLayer,
)
from modelzoo.results import store
from modelzoo.setting import Setting
from modelzoo.validity.checks import LIMITS, check_value
from modelzoo.views import validity
from modelzoo.views.judgement import (
    CHECKS,
    change_in_points,
    check_table,
    judged_so_far,
    reason_text,
    resolution_text,
    scope_text,
    source_text,
    title_text,
    valid_line,
    verdict,
)

GOOD = Check("kl", 0.001, Relation.AT_MOST, 0.01, True, 0.001)
BAD = Check("accuracy", 0.5, Relation.AT_LEAST, 0.99, False, 0.5)
NEVER = Check("finite", 3.0, Relation.AT_MOST, 0.0, False, None)
OPEN = replace(check_value("accuracy", 0.995, {}), passed=False, undecided=True, bound=0.97)
VALIDITY = replace(PICTURES, checks=(GOOD, BAD, NEVER))
SMALL = replace(VALIDITY, item="crop", items=32, clusters=32, labelled=False, small=True)

(JUDGED,) = store.read(DATA / "results" / "bert.json").validity


def judged(kind: ReasonKind, *checks: Check, found: Validity = VALIDITY, **numbers: int) -> Validity:
    """A judgement that is not VALID."""
    return replace(found, reason=Reason(kind, **numbers), checks=checks)


def test_the_line_has_six_fields_and_says_how_small_the_data_set_was() -> None:
    """The verdict is last; the built-in data set, or why nothing could be judged, follows in parentheses."""
    assert valid_line(VALIDITY) == "[VALID] resnet50 top1 0.8 0.79 VALID"
    small = replace(SMALL, verdict=ValidityVerdict.NOT_VALID)
    assert valid_line(small).endswith(" NOT VALID (32 crops of 1 photograph: agreement only)")
    broken = judged(ReasonKind.REFERENCE_NOT_FINITE)
    unjudged = replace(broken, verdict=ValidityVerdict.CANNOT_JUDGE, exit_code=2, reference=None)
    why = "(the fp32 reference itself gives NaN or Inf)"
    assert valid_line(unjudged) == f"[VALID] resnet50 top1 - 0.79 CANNOT JUDGE {why}"
    numbers = replace(small, verdict=ValidityVerdict.NUMERIC_ONLY, reason=Reason(ReasonKind.BUILT_IN_DATA))
    assert valid_line(numbers) == "[VALID] resnet50 top1 0.8 0.79 NUMERIC ONLY (accuracy not judged)"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (VALIDITY, "100 labelled images"),
        (replace(VALIDITY, labelled=False), "100 images without known classes: agreement only"),
        (replace(VALIDITY, task="detection"), "100 images"),
        (replace(VALIDITY, task="detection", labelled=False), "100 images without annotations: agreement only"),
        (ANSWERS, "42 questions"),
        (replace(ANSWERS, small=True, clusters=1), "42 questions on 1 passage written for modelzoo"),
        (replace(VALIDITY, task="own", item="sound"), "100 sounds"),
    ],
)
def test_the_scope_says_what_was_judged_on(found: Validity, text: str) -> None:
    """And whether quality or agreement only."""
    assert scope_text(found) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (VALIDITY, ""),
        (judged(ReasonKind.FAILED_CHECKS, GOOD, BAD), "task metric ÷ fp32's is 0.5, required >= 0.99"),
        (
            replace(VALIDITY, reason=Reason(ReasonKind.NOTHING_DETECTED, 0.5)),
            "the fp32 reference itself detects nothing with a score of 0.5 or more",
        ),
        (
            judged(ReasonKind.FAR_FROM_PUBLISHED, check_value("published", 5.0, {})),
            "fp32 itself is far from the published quality: a broken set-up; published quality − fp32's, in margins of "
            "this data set is 5, required <= 1",
        ),
        (
            judged(ReasonKind.FEW_CLUSTERS, OPEN, found=replace(ANSWERS, clusters=12), required=20, more_items=1117),
            "12 passages of the 20 that a verdict requires; about 1,200 more questions would probably settle it",
        ),
        (
            judged(ReasonKind.FEW_CLUSTERS, OPEN, found=replace(VALIDITY, clusters=1), required=20),
            "1 image of the 20 that a verdict requires",
        ),
        (
            judged(ReasonKind.UNDECIDED_CHECKS, GOOD, OPEN, found=ANSWERS, more_items=1117),
            "task metric ÷ fp32's is 0.995, required >= 0.99, and may be 0.97; "
            "about 1,200 more questions would probably settle it",
        ),
        (
            judged(ReasonKind.UNDECIDED_CHECKS, OPEN),
            "task metric ÷ fp32's is 0.995, required >= 0.99, and may be 0.97",
        ),
        (judged(ReasonKind.FEW_ITEMS, found=SMALL, required=2), "at least 2 crops are needed"),
        (
            judged(ReasonKind.UNKNOWN_ROUNDING, replace(check_value("tensor_error", None, {}), undecided=True)),
            "error of the outputs ÷ the expected rounding error: no output was compared, so the expected "
            "rounding error is not known",
        ),
        (
            judged(ReasonKind.BUILT_IN_DATA, found=replace(ANSWERS, changes=(replace(F1, possible_loss=0.312),))),
            "accuracy not judged: losses of up to 31.2 points cannot be ruled out with these 42 questions",
        ),
    ],
)
def test_the_reason_says_why_a_verdict_is_not_valid(found: Validity, text: str) -> None:
    """Which checks failed or are open, and what would decide."""
    assert reason_text(found) == text


@pytest.mark.parametrize(
    ("metric", "values", "text"),
    [
        ("top1", (0.761, 0.76), "76.1 | 76.0 % top-1"),
        ("f1", (0.931, 0.928), "F1 93.1 | 92.8"),
        ("own", (0.5,), "own 50.0"),
    ],
)
def test_progress_says_how_far_a_judgement_is(metric: str, values: tuple[float, ...], text: str) -> None:
    """With the metric so far."""
    assert judged_so_far(JudgedSoFar(12, 42, metric, values)) == f"12 of 42: {text}"


def test_every_check_has_a_title_and_a_source() -> None:
    """Those that ``--tolerance`` takes, and two more."""
    assert set(CHECKS) == {*LIMITS, "finite", "in_common"}


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (replace(NEVER, about=WorstLayer("conv")), "of 100; never passes; first in conv"),
        (check_value("accuracy", 0.9, {"accuracy": 0.8}), "--tolerance"),
        (check_value("layer_drift", None, {}, WorstLayer("conv")), "expected rounding error none; seen in conv"),
        (check_value("layer_drift", 1.0, {"layer_drift": 9.0}, WorstLayer("conv", 0.1)), "--tolerance"),
        (
            replace(check_value("tensor_error", None, {}, WorstLayer("conv")), undecided=True),
            "the expected rounding error is not known in conv",
        ),
        (
            check_value("published", 0.5, {}, PublishedQuality(0.8, 0.75, 0.123, 40)),
            "published 80.00, here 75.00; sample of 40: margin 12.3",
        ),
        (
            check_value("class_loss", 0.0, {}),
            "1 % of all items (MLPerf), all in one class that holds a tenth of them; 99 % confidence over 20 classes "
            "of 5 items or more",
        ),
        (
            check_value("class_loss", 0.6, {"class_loss": 0.5}, ClassChange("crane", 20, 0.95, 0.0, 0.0, True)),
            "--tolerance; 99 % confidence over 20 classes of 5 items or more; its 20 items lost 95.0 %",
        ),
    ],
)
def test_the_source_says_where_a_limit_comes_from(check: Check, text: str) -> None:
    """And which layer, quality or class it is about."""
    assert source_text(check, replace(VALIDITY, classes=ClassLosses((), 30, 20, 5, 0.1, 0.01))) == text


def test_the_worst_class_is_named() -> None:
    """If one lost something."""
    lost = check_value("class_loss", 0.6, {}, ClassChange("crane", 20, 0.95, 0.0))
    assert title_text(lost) == "certain loss of the class crane"
    assert title_text(replace(lost, about=None)) == "certain loss of the worst class"


def test_a_check_passes_fails_or_is_undecided() -> None:
    """NaN never passes, so no ``--tolerance`` is suggested; a bound is shown beside what was seen."""
    table = check_table(replace(VALIDITY, checks=(*VALIDITY.checks, OPEN)))
    assert [row[1:7] for row in table.rows[1:]] == [
        ("0.5", "–", "≥ 0.99", "0.5", "FAIL", "accuracy"),
        ("3", "–", "≤ 0", "no value", "FAIL", "–"),
        ("0.995", "0.97", "≥ 0.99", "0.995", "undecided", "accuracy"),
    ]
    assert table.columns[5].tones == (Tone.BETTER, Tone.BAD, Tone.BAD, Tone.OPEN)


def test_the_verdict_comes_first_with_what_the_set_can_show() -> None:
    """Then its reason; what was done to images stands below the checks; the line on stdout has neither."""
    seen = "F1 -0.3 points [-1.1, +0.5]; losses of up to 5.0 points cannot be ruled out with these 42 questions"
    found = replace(ANSWERS, changes=(F1,), notes=(PictureNote.LARGE,))
    assert check_table(found).note == "large: decoded at reduced size"
    for kind in DataNoteKind:
        said = check_table(replace(found, data_notes=(DataNote(kind, 3, ("cat", "d\n[VALID]")),))).note
        assert said.endswith("\nlarge: decoded at reduced size")
        assert said.count("\n") == 1
        assert "[VALID]" not in said
    first, *_ = validity.document(replace(JUDGED, report=replace(JUDGED.report, validity=found)))
    assert sentences([first]) == ["resnet50 bf16: VALID: F1 0.8000 in fp32, 0.7900 in bf16; 42 questions", seen]
    assert resolution_text(ANSWERS) == ""


@pytest.mark.parametrize(
    ("detectable", "text"),
    [
        (0.2, "-0.3 points [-1.1, +0.5]"),
        (0.005, "-0.30 points [-1.10, +0.50]"),
        (4e-4, "-0.300 points [-1.100, +0.500]"),
    ],
)
def test_large_sets_get_more_digits(detectable: float, text: str) -> None:
    """As many as the smallest loss that is seen needs."""
    assert change_in_points(replace(F1, detectable_loss=detectable)) == text


def test_an_answer_that_did_not_change_is_a_detail() -> None:
    """20 questions, one of which was answered differently: verdict, checks and that one fit one screen."""
    (entry,) = store.read(DATA / "results" / "early-bert.json").validity
    lines = printed(validity.document(entry)).splitlines()
    assert lines[0] == "bert bf16=autocast: VALID: F1 0.5768 in fp32, 0.5663 in bf16=autocast; 20 questions"
    assert len(lines) < 45
    captions = [block.caption for block in validity.document(entry) if isinstance(block, Table)]
    assert captions == ["Checks", "Over the set", "Changed answers"]
    full = [block.caption for block in validity.document(entry, details=True) if isinstance(block, Table)]
    assert full == ["Checks", "Over the set", "Answers", "Error by layer"]


def test_ten_changes_are_listed() -> None:
    """And how many there are; the others are among the details. If nothing changed there is no table."""
    found = replace(CLASSIFIED, classes=None, layers=None, shown=replace(CLASSIFIED.shown, changed=(FLIP,) * 12))
    found = replace(found, figures={**found.figures, "flips": 30.0})
    _, flips = validity.tables(found, is_brief=True)
    assert (len(flips.rows), flips.note) == (10, "the first 10 of 30: --details")
    assert len(validity.tables(found)[-1].rows) == 12
    same = replace(found, shown=ShownClasses((SAME,), (), (0, 1), ("cat", "dog")))
    assert [table.caption for table in validity.tables(same)] == ["Over the set", "Five most likely classes"]
    assert validity.tables(replace(same, items=1))[1].note == "", "all pictures are shown"
    assert validity.tables(replace(same, labelled=False))[0].rows[0][0] == "top-1 agreement"


def test_two_hundred_pictures_are_one_line() -> None:
    """Pictures by number and directory, other files by name, at most two lines."""
    pictures = [f"out/ssd_pictures/{number}.jpg" for number in range(200)]
    found = replace(JUDGED, files=(*pictures, "out/ssd_layers.csv", "out/ssd_layers.png"))
    assert sentences(validity.document(found))[-2:] == [
        "written: 200 images in out/ssd_pictures",
        "written: out/ssd_layers.csv, out/ssd_layers.png",
    ]
    assert "written: " not in printed(validity.document(replace(JUDGED, files=())))


def test_a_warning_says_that_bf16_did_not_run() -> None:
    """The verdict is of what ran."""
    changes = {"canary_verdict": CanaryVerdict.NOT_ACTIVE, "canary": None, "canary_problem": "conv [fp32]"}
    tested = changed(JUDGED.report.tested, **changes)
    _, warning, *_ = validity.document(replace(JUDGED, report=replace(JUDGED.report, tested=tested)))
    assert sentences([warning]) == [f"warning: bf16 is {CanaryVerdict.NOT_ACTIVE} in this process: conv [fp32]"]


def test_what_could_not_be_judged_has_failed() -> None:
    """With the reason."""
    assert printed(validity.document(replace(JUDGED, report=None, error="no [data]"))) == "failed: bert: no [data]\n"


def test_a_kernel_that_is_wrong_is_named_before_the_verdict() -> None:
    """Of either model; the audit of a judgement that is not VALID replays products."""
    run = make([1.0])
    sides = [
        SideReport(observed=Observed(evidence=evidence(each)))
        for each in (ProofVerdict.WRONG_RESULTS, ProofVerdict.FP32)
    ]
    report = ValidityReport(VALIDITY, run.report.prepared, *sides)
    entry = ValidityEntry("resnet50", 0, Setting("bf16"), 1, report)
    first, second, *_ = validity.document(entry)
    assert printed([first]).startswith(
        "WRONG RESULTS in bf16: aten::convolution in encoder.pos_conv_embed.conv (bf16, "
    )
    assert second == verdict(VALIDITY)
    mirrored = replace(entry, report=replace(report, tested=sides[1], reference=sides[0]))
    assert printed(validity.answer(mirrored)).startswith("WRONG RESULTS in the reference: ")
