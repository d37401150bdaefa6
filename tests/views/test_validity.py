"""A judgement as a line, in words, as tables, and what was written for it."""

from __future__ import annotations

import pytest
from fake_runs import changed, evidence, make
from places import DATA
from printed import printed, sentences

from modelzoo.document import Notices, Table, Tone
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.exhibits import (
    CategoryAp,
    CategoryLosses,
    ExplainedLayers,
    PictureObjects,
    ShownAnswers,
    ShownClasses,
    ShownObjects,
)
from modelzoo.records.partial import (
    AnsweredQuestion,
    ChangedObject,
    ClassifiedPicture,
    JudgedSoFar,
    LayerError,
    PictureNote,
    ScoredAnswer,
    TopClasses,
)
from modelzoo.records.run import Observed, SideReport, ValidityEntry, ValidityReport
from modelzoo.records.validity import (
    Check,
    ClassChange,
    ClassLosses,
    DataNote,
    DataNoteKind,
    MetricChange,
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
    METRICS,
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
VALIDITY = Validity(
    *("resnet50", "classification", "top1", 0.8, 0.79, ValidityVerdict.VALID, 0, "picture", 100, "picture", 100),
    checks=(GOOD, BAD, NEVER),
    tested_name="bf16",
)
SMALL = replace(VALIDITY, item="crop", items=32, clusters=32, labelled=False, small=True)
ANSWERS = replace(VALIDITY, task="answers", metric="f1", item="question", items=42, cluster="passage", clusters=8)
F1 = MetricChange("f1", 0.92, 0.917, -0.011, 0.005, 0.016, 0.0504, 42, 3, 1, None, 0.03)


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
        (SMALL, "32 crops of 1 photograph: agreement only"),
        (VALIDITY, "100 labelled images"),
        (replace(VALIDITY, labelled=False), "100 images without known classes: agreement only"),
        (replace(VALIDITY, task="detection"), "100 images"),
        (replace(VALIDITY, task="detection", labelled=False), "100 images without annotations: agreement only"),
        (ANSWERS, "42 questions"),
        (replace(ANSWERS, small=True), "42 questions on 8 passages written for modelzoo"),
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
        (judged(ReasonKind.REFERENCE_NOT_FINITE), "the fp32 reference itself gives NaN or Inf"),
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
        (judged(ReasonKind.RANDOM_WEIGHTS), "random weights: numbers agree, predictions mean nothing"),
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
        ("top1_agreement", (0.97,), "97.0 % agreement"),
        ("detection_agreement", (0.975,), "97.5 % of the objects in common"),
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
        (NEVER, "of 100; never passes"),
        (replace(NEVER, about=WorstLayer("conv")), "of 100; never passes; first in conv"),
        (check_value("accuracy", 0.9, {}), "MLPerf Inference: 99 % of the fp32 metric"),
        (check_value("accuracy", 0.9, {"accuracy": 0.8}), "--tolerance"),
        (
            check_value("layer_scale", 0.0, {}, WorstLayer("conv")),
            "two operands, each rounded by 2⁻⁸ in the same direction, give 0.8 %; seen in conv",
        ),
        (
            check_value("layer_drift", 1.0, {}, WorstLayer("conv", 0.0039)),
            "expected rounding error 0.0039; seen in conv",
        ),
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


def test_the_checks_show_what_would_have_passed() -> None:
    """NaN never passes, so no ``--tolerance`` is suggested."""
    table = check_table(VALIDITY)
    source = "MLPerf Inference: 99 % of the fp32 metric"
    assert table.rows[1:] == [
        ("task metric ÷ fp32's", "0.5", "–", "≥ 0.99", "0.5", "FAIL", "accuracy", source),
        ("NaN or Inf unlike fp32's", "3", "–", "≤ 0", "no value", "FAIL", "–", "of 100; never passes"),
    ]
    assert table.columns[5].tones == (Tone.BETTER, Tone.BAD, Tone.BAD)


def test_an_undecided_check_is_neither_passed_nor_failed() -> None:
    """Its bound is shown beside what was seen."""
    table = check_table(replace(VALIDITY, checks=(OPEN,)))
    assert table.rows[0][1:7] == ("0.995", "0.97", "≥ 0.99", "0.995", "undecided", "accuracy")
    assert table.columns[5].tones == (Tone.OPEN,)


def test_the_verdict_comes_first_with_what_the_set_can_show() -> None:
    """Then its reason; what was done to images stands below the checks; the line on stdout has neither."""
    seen = "F1 -0.3 points [-1.1, +0.5]; losses of up to 5.0 points cannot be ruled out with these 42 questions"
    found = replace(ANSWERS, changes=(F1,), notes=(PictureNote.LARGE,))
    assert str(check_table(found).note) == "large: decoded at reduced size"
    for kind in DataNoteKind:
        said = str(check_table(replace(found, data_notes=(DataNote(kind, 3, ("cat", "d\n[VALID]")),))).note)
        assert said.endswith("\nlarge: decoded at reduced size")
        assert said.count("\n") == 1
        assert "[VALID]" not in said
    (entry,) = store.read(DATA / "results" / "bert.json").validity
    assert entry.report is not None
    first, *_ = validity.document(replace(entry, report=replace(entry.report, validity=found)))
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


# Tables of items


def tables(found: Validity) -> dict[str, Table]:
    """By caption."""
    return {table.caption: table for table in validity.tables(found)}


CAT, DOG = TopClasses((0, 1), (0.7, 0.3), True), TopClasses((1, 0), (0.6, 0.4), True)
SAME = ClassifiedPicture(0, "a.jpg", 0, CAT, CAT, 0.0, 0.0, 0.0, 0.0, False)
FLIP = replace(SAME, name="b.jpg", tested=DOG, margin=0.05, near_tie=True)
BROKEN = replace(SAME, name="c.jpg", label=None, tested=TopClasses((), (), False), kl=None)
CLASSIFIED = replace(
    VALIDITY,
    shown=ShownClasses((SAME, BROKEN), (FLIP,), (0, 1), ("cat", "dog")),
    figures={
        **dict.fromkeys(("top1_reference", "top1_tested", "top5_reference", "top5_tested"), 0.9),
        **{"top1_agreement": 0.5, "top5_agreement": 1.0, "flips": 1.0, "near_ties": 1.0},
    },
)


def test_pictures_show_both_models_classes() -> None:
    """With the true class below the name; a note says where the other pictures are."""
    table = tables(CLASSIFIED)["Five most likely classes"]
    assert table.rows[0] == ("a.jpg\n(cat)", " 70.0 % cat\n 30.0 % dog", " 70.0 % cat\n 30.0 % dog")
    assert table.rows[1][2] == "NaN or Inf"
    assert str(table.note) == "the first 2 of 100 images; all of them: resnet50_top5.csv"
    assert tables(replace(CLASSIFIED, items=2))["Five most likely classes"].note == ""


def test_changed_classes_come_with_their_margin() -> None:
    """Near ties are marked; no table if no class changed."""
    assert tables(CLASSIFIED)["Flips"].rows == [
        ("b.jpg", "cat", "cat (70.0 %)", "dog (60.0 %)", "0.050 near tie"),
    ]
    assert "Flips" not in tables(replace(CLASSIFIED, shown=ShownClasses((SAME,), (), (0, 1), ("cat", "dog"))))


def test_figures_without_a_value_are_dashes() -> None:
    """KL has no value if no picture has finite logits; accuracy is shown for labelled pictures only."""
    table = tables(CLASSIFIED)["Over the set"]
    assert table.rows[0] == ("top-1 accuracy", "90.00 %", "90.00 %")
    rows = tables(replace(CLASSIFIED, labelled=False))["Over the set"].rows
    assert rows[0] == ("top-1 agreement", "", "50.00 %")
    assert rows[3][2] == "–, –"


OBJECTS = PictureObjects("a.jpg", 100, 90, 2, 1, 1, 1, 0.6, 0.1)
CHANGES = (
    ChangedObject("a.jpg", "class 7", reference_score=0.55),
    ChangedObject("a.jpg", "person", tested_score=0.65),
    ChangedObject("a.jpg", "dog", 0.7, 0.7, 0.6),
)
DETECTED = replace(
    VALIDITY,
    task="detection",
    shown=ShownObjects((OBJECTS, PictureObjects("b.jpg", 5, 5, 0, 0, 0, 0)), CHANGES, 170),
    figures={"detection_agreement": 0.5, "matched": 2.0, "lost": 1.0, "new": 1.0, "moved": 1.0},
)


def test_objects_are_counted_by_picture() -> None:
    """In common, lost, new and moved; a picture without pairs has no IoU."""
    table = tables(DETECTED)["Objects"]
    assert table.rows[0] == ("a.jpg", "3 (100)", "3 (90)", "2", "1", "1", "1", "0.600", "0.100")
    assert table.rows[1][-2:] == ("–", "–")
    note = "the first 2 of 100 images; in parentheses: all boxes after NMS, whatever their score"
    assert str(table.note) == note


def test_changes_name_class_and_scores() -> None:
    """Lost, new, then moved."""
    table = tables(DETECTED)["What changed"]
    assert table.rows == [
        ("a.jpg", "lost", "class 7", "0.550", "–", "–"),
        ("a.jpg", "new", "person", "–", "0.650", "–"),
        ("a.jpg", "moved", "dog", "0.700", "0.700", "0.600"),
    ]
    assert str(table.note) == "the first 3 of 170"


def test_ap_is_shown_if_there_are_annotations() -> None:
    """Sizes that the data set does not hold are dashes."""
    assert [row[0] for row in tables(DETECTED)["Over the set"].rows] == ["objects in common", "objects"]
    sizes = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")
    figures = {f"box_{name}_{side}": 0.5 for name in sizes for side in ("reference", "tested")}
    figures |= {"box_ap_small_reference": -1.0, "box_ap_tested": 0.25}
    found = replace(DETECTED, figures={**DETECTED.figures, **figures})
    rows = {row[0]: row[1:] for row in tables(found)["Over the set"].rows}
    assert rows["box AP"] == ("0.500", "0.250", "-0.250")
    assert rows["box AP small"] == ("–", "–", "–")
    assert not any(name.startswith("mask") for name in rows)


def test_categories_whose_ap_fell_are_listed() -> None:
    """With how many fell, and rose."""
    losses = CategoryLosses("box", (CategoryAp("dog", 12, 0.75, 0.25),), 4, 2, 1)
    shown = ShownObjects((OBJECTS,), (), 0, (losses,))
    table = tables(replace(DETECTED, shown=shown))["Box AP by category"]
    assert table.rows == [("dog", "12", "0.750", "0.250", "-0.500")]
    assert str(table.note) == "fell in 2 of 4 categories, rose in 1"


RYE = ScoredAnswer("rye bread", 0.8, 1.0, 1.0, True)
ALIKE = AnsweredQuestion(0, "q1", "What?", "rye bread", RYE, RYE, 1.0, 0.0, False, 0.01, 0.001)
EMPTY = replace(ALIKE, tested=ScoredAnswer("", 0.6, 0.0, 0.0, True), margin=0.25, near_tie=True)
NAN = replace(ALIKE, expected=None, tested=ScoredAnswer("", 0.0, 0.0, 0.0, False), margin=None)
ANSWERED = replace(
    ANSWERS,
    shown=ShownAnswers((EMPTY, NAN, ALIKE)),
    figures={
        **{"em_reference": 0.5, "em_tested": 0.25, "f1_reference": 0.75, "f1_tested": 0.5},
        **{"identical_answers": 0.5, "answer_agreement": 0.6},
    },
)


def test_answers_are_shown_with_what_changed() -> None:
    """With margin and near tie; an empty answer, NaN and a question without an answer are shown as such."""
    table = tables(ANSWERED)["Answers"]
    assert [row[5] for row in table.rows] == ["changed, margin 0.250 (near tie)", "changed, margin nan", "same"]
    assert table.rows[0][3] == "(no answer) (60 %)"
    assert table.rows[1][1:4] == ("(none)", "rye bread (80 %)", "NaN or Inf")
    assert table.rows[2][4] == "100 | 100"
    assert str(table.note) == "3 of 42, changed ones first; all of them: resnet50_answers.csv"


def test_the_summary_has_no_logits_without_finite_ones() -> None:
    """EM and F1 with their difference; the rows on logits only if there are figures."""
    table = tables(ANSWERED)["Over the set"]
    assert table.rows[0] == ("exact match", "50.00", "25.00", "-25.00")
    assert len(table.rows) == 4
    logits = {f"logit_{name}_{kind}": 0.1 for name in ("drift", "error") for kind in ("mean", "max")}
    assert len(tables(replace(ANSWERED, figures={**ANSWERED.figures, **logits}))["Over the set"].rows) == 6


# Tables of all tasks


def test_the_table_of_classes_marks_broken_ones() -> None:
    """No table without losses."""
    lost = ClassLosses((ClassChange("crane", 20, 0.95, 0.0, 1e-9, True),), 20, 20, 5, 0.1, 0.01)
    table = tables(replace(VALIDITY, classes=lost))["Losses by class"]
    assert table.rows == [("crane", "20", "95.0", "0.0", "-95.0", "1e-09", "BROKEN")]
    assert str(table.note) == (
        "1 of 20 classes; p: of a loss over 10 points, corrected for the 20 classes of 5 images or more; below 0.01 "
        "the class is broken"
    )
    assert "Losses by class" not in tables(replace(VALIDITY, classes=replace(lost, worst=())))


def test_the_table_of_changes_shows_every_metric() -> None:
    """With a dash for what is not known."""
    ap = replace(F1, metric="box_ap", worse=None, better=None, allowed_loss=None, p_value=0.031)
    table = tables(replace(ANSWERS, changes=(F1, ap)))["What this set can show"]
    assert table.rows == [
        ("F1", "-0.3 [-1.1, +0.5]", "3", "1", "–", "1.6", "3.0"),
        ("box AP", "-0.3 [-1.1, +0.5]", "–", "–", "0.031", "1.6", "–"),
    ]
    assert "bf16 minus fp32" in str(table.note)
    assert METRICS["box_ap"] == "box AP"


def test_the_table_of_layers_names_the_first_suspect() -> None:
    """Without a suspect it says so; NaN is shown; a compiled model has no layers."""
    good = LayerError("a", "Conv2d", 0.004, 0.0, 0.001, 0.004, 0.0, True)
    bad = replace(good, name="b", error=None, scale=None, finite=False)
    table = tables(replace(VALIDITY, layers=ExplainedLayers((good, bad), 1)))["Error by layer"]
    assert [row[0] for row in table.rows] == ["a", "→ b"]
    assert table.rows[1][2:] == ("nan", "4.00e-03", "nan", "nan %")
    assert str(table.note).endswith("b (Conv2d)")
    table = tables(replace(VALIDITY, layers=ExplainedLayers((good,))))["Error by layer"]
    assert str(table.note) == "no layer's error is beyond the expected rounding error; the 1 closest to it"
    assert "cannot be observed" in str(tables(replace(VALIDITY, layers=ExplainedLayers(())))["Error by layer"].note)


# The document


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
    """And how many there are; the others are among the details."""
    found = replace(CLASSIFIED, shown=replace(CLASSIFIED.shown, changed=(FLIP,) * 12))
    found = replace(found, figures={**found.figures, "flips": 30.0})
    _, flips = validity.tables(found, is_brief=True)
    assert len(flips.rows) == 10
    assert str(flips.note) == "the first 10 of 30: --details"
    assert len(tables(found)["Flips"].rows) == 12


def test_two_hundred_pictures_are_one_line() -> None:
    """Pictures by number and directory, other files by name, at most two lines."""
    pictures = [f"out/ssd_pictures/{number}.jpg" for number in range(200)]
    assert written(*pictures, "out/ssd_layers.csv", "out/ssd_layers.png") == [
        "written: 200 images in out/ssd_pictures",
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
    assert not [block for block in validity.document(entry) if isinstance(block, Notices) and block.items]
    changes = {"canary_verdict": CanaryVerdict.NOT_ACTIVE, "canary": None, "canary_problem": "conv [fp32]"}
    tested = changed(entry.report.tested, **changes)
    _, warning, *_ = validity.document(replace(entry, report=replace(entry.report, tested=tested)))
    assert sentences([warning]) == [f"warning: bf16 is {CanaryVerdict.NOT_ACTIVE} in this process: conv [fp32]"]


def test_what_could_not_be_judged_has_failed() -> None:
    """With the reason."""
    (entry,) = store.read(DATA / "results" / "bert.json").validity
    assert printed(validity.document(replace(entry, report=None, error="no [data]"))) == ("failed: bert: no [data]\n")


def test_a_kernel_that_is_wrong_is_named_before_the_verdict() -> None:
    """Of either model; the audit of a judgement that is not VALID replays products."""
    run = make([1.0])
    assert run.report is not None
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
