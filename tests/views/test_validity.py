"""A judgement as a line, in words, as tables, and what was written for it."""

from __future__ import annotations

from collections.abc import Callable

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

GOOD = Check("kl", 0.001, "<=", 0.01, True, 0.001)
BAD = Check("accuracy", 0.5, ">=", 0.99, False, 0.5)
NEVER = Check("finite", 3.0, "<=", 0.0, False, None)
OPEN = replace(check_value("accuracy", 0.995, {}), passed=False, undecided=True, bound=0.97)
UNCOMPARED = replace(check_value("tensor_error", None, {}), undecided=True)
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


def test_what_is_said_of_a_judgement(approved: Callable[[str, str], None]) -> None:
    """What was judged on, how far it is, why it is not VALID, and where the limit of a check comes from."""
    scopes = (
        VALIDITY,
        *(replace(VALIDITY, task=task, item="sound") for task in ("classification", "detection", "own")),
        *(replace(VALIDITY, task=task, labelled=False) for task in ("classification", "detection")),
        *(ANSWERS, replace(ANSWERS, small=True, clusters=1)),
    )
    progress = (("top1", (0.761, 0.76)), ("f1", (0.931, 0.928)), ("own", (0.5,)))
    reasons = (
        judged(ReasonKind.FAILED_CHECKS, GOOD, BAD),
        replace(VALIDITY, reason=Reason(ReasonKind.NOTHING_DETECTED, 0.5)),
        judged(ReasonKind.FAR_FROM_PUBLISHED, check_value("published", 5.0, {})),
        judged(ReasonKind.FEW_CLUSTERS, OPEN, found=replace(ANSWERS, clusters=12), required=20, more_items=1117),
        judged(ReasonKind.FEW_CLUSTERS, OPEN, found=replace(VALIDITY, clusters=1), required=20),
        judged(ReasonKind.UNDECIDED_CHECKS, GOOD, OPEN, found=ANSWERS, more_items=1117),
        judged(ReasonKind.UNDECIDED_CHECKS, OPEN),
        judged(ReasonKind.FEW_ITEMS, found=SMALL, required=2),
        judged(ReasonKind.UNKNOWN_ROUNDING, UNCOMPARED),
        judged(ReasonKind.BUILT_IN_DATA, found=replace(ANSWERS, changes=(replace(F1, possible_loss=0.312),))),
    )
    crane, conv = ClassChange("crane", 20, 0.95, 0.0, 0.0, True), WorstLayer("conv")
    checks = (
        replace(NEVER, about=conv),
        check_value("accuracy", 0.9, {"accuracy": 0.8}),
        check_value("layer_drift", None, {}, conv),
        check_value("layer_drift", 1.0, {"layer_drift": 9.0}, WorstLayer("conv", 0.1)),
        replace(UNCOMPARED, about=conv),
        check_value("published", 0.5, {}, PublishedQuality(0.8, 0.75, 0.123, 40)),
        check_value("class_loss", 0.0, {}),
        check_value("class_loss", 0.6, {"class_loss": 0.5}, crane),
    )
    classes = replace(VALIDITY, classes=ClassLosses((), 30, 20, 5, 0.1, 0.01))
    said = [
        *map(scope_text, scopes),
        *(judged_so_far(JudgedSoFar(12, 42, *each)) for each in progress),
        *map(reason_text, reasons),
        *(f"{title_text(each)}: {source_text(each, classes)}" for each in checks),
        *(change_in_points(replace(F1, detectable_loss=each)) for each in (0.2, 0.005, 4e-4)),
    ]
    approved("said/judgements.txt", "".join(f"{each}\n" for each in said))


def test_every_check_has_a_title_and_a_source() -> None:
    """Those that ``--tolerance`` takes, and two more."""
    assert set(CHECKS) == {*LIMITS, "finite", "in_common"}


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


def test_an_answer_that_did_not_change_is_a_detail() -> None:
    """Of 20 questions, one was answered differently."""
    (entry,) = store.read(DATA / "results" / "early-bert.json").validity
    captions = [block.caption for block in validity.document(entry) if isinstance(block, Table)]
    assert captions == ["Checks", "Over the set", "Changed answers"]


def test_ten_changes_are_listed() -> None:
    """And how many there are; the others are among the details. If nothing changed there is no table."""
    found = replace(CLASSIFIED, classes=None, layers=None, shown=replace(CLASSIFIED.shown, changed=(FLIP,) * 12))
    _, flips = validity.tables(replace(found, figures={**found.figures, "flips": 30.0}), is_brief=True)
    assert (len(flips.rows), flips.note) == (10, "the first 10 of 30: --details")
    assert len(validity.tables(found)[-1].rows) == 12
    same = replace(found, shown=ShownClasses((SAME,), (), (0, 1), ("cat", "dog")))
    assert [table.caption for table in validity.tables(same)] == ["Over the set", "Five most likely classes"]
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
    wrong, right = (
        SideReport(observed=Observed(evidence=evidence(each)))
        for each in (ProofVerdict.WRONG_RESULTS, ProofVerdict.FP32)
    )
    report = ValidityReport(VALIDITY, make([1.0]).report.prepared, wrong, right)
    entry = ValidityEntry("resnet50", 0, Setting("bf16"), 1, report)
    first, second, *_ = validity.document(entry)
    assert printed([first]).startswith("WRONG RESULTS in bf16: aten::convolution in encoder.pos_conv_embed.conv (")
    assert second == verdict(VALIDITY)
    mirrored = replace(entry, report=replace(report, tested=right, reference=wrong))
    assert printed(validity.answer(mirrored)).startswith("WRONG RESULTS in the reference: ")
