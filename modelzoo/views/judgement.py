"""The words of a judgement: its verdict and reason, what was judged on, the checks and where their limits come from."""

from __future__ import annotations

import math

from modelzoo.document import Line, Lines, Rows, Table, Tone, lines
from modelzoo.formatting import MISSING, apart, for_people, number, share, significant, word
from modelzoo.records.partial import LONGEST_WITH_MASKS, OUTPUT, JudgedSoFar, PictureNote
from modelzoo.records.run import ValidityEntry
from modelzoo.records.validity import (
    Check,
    ClassChange,
    DataNoteKind,
    MetricChange,
    PublishedQuality,
    ReasonKind,
    Validity,
    ValidityVerdict,
    WorstLayer,
)

METRICS = {
    "top1": "top-1 accuracy",
    "top5": "top-5 accuracy",
    "top1_agreement": "top-1 agreement",
    "em": "exact match",
    "f1": "F1",
    "box_ap": "box AP",
    "mask_ap": "mask AP",
    "detection_agreement": "objects in common",
    "perplexity": "perplexity",
    "same_top": "most likely tokens in common",
    "tensor_error": "error of the outputs ÷ the expected rounding error",
}
OF_BOTH = ("top1_agreement", "detection_agreement", "same_top", "tensor_error")
"""Metrics of the two models together: fp32 has no value of its own."""


MLPERF = "MLPerf Inference: 99 % of the fp32 metric"
ROUNDED = "the same model in fp32 with every operand rounded as the setting rounds it"
CHECKS = {
    "finite": ("NaN or Inf unlike fp32's", "never passes"),
    "in_common": ("outputs in common", "nothing in common never passes"),
    "accuracy": ("task metric ÷ fp32's", MLPERF),
    "mask_ap": ("mask AP ÷ fp32's", MLPERF),
    "top1_agreement": (
        "top-1 agreement, near ties excused",
        "accuracy cannot fall by more than what changes (MLPerf's 99 %); a near tie is within one rounding step",
    ),
    "kl": (
        "mean KL divergence, each at most 2 nats",
        "Pinsker: no class's probability is off by more than √(KL/2) = 7 % on average, and by 100 % from 2 nats on",
    ),
    "detection_agreement": (
        "detections in common ÷ all",
        "1 object in 20 may appear or vanish; bf16 changes 1 in 250 on a trained SSDLite",
    ),
    "box_iou": ("mean IoU of matched boxes", "COCO's strictest IoU threshold"),
    "box_bias": (
        "mean shift or growth of boxes ÷ their size",
        "rounding has no preferred direction; two operands rounded the same way would give 2⁻⁷",
    ),
    "score_drift": ("median change of a matched score", "about 5 bf16 steps (2⁻⁸) of a probability near 1"),
    "answer_agreement": (
        "F1 of the answers with fp32's as gold",
        "bf16 preserves 99 % of a trained model's answers; near ties may select another span",
    ),
    "ln_perplexity_ratio": (
        "ln(perplexity ÷ fp32's)",
        "our choice: 1 %, MLPerf's 99 % applied to perplexity; llama.cpp's q6_K loses 0.3 %",
    ),
    "token_kl": (
        "mean KL divergence of a token in nats",
        "our choice: probabilities within √(KL/2) = 7 % (Pinsker); llama.cpp's q6_K has 0.006, q5_K_M 0.011",
    ),
    "token_kl_p99": (
        "99th percentile of the KL divergences",
        "our choice: ten times the limit of the mean; with llama.cpp's formats, p99 is about 8 times the mean",
    ),
    "same_top": (
        "most likely tokens in common",
        "our choice: 1 token in 20 may change, mostly near ties; llama.cpp's q6_K changes 1 in 25, q4_K_M 1 in 12",
    ),
    "class_loss": (
        "certain loss of the worst class",
        "1 % of all items (MLPerf), all in one class that holds a tenth of them",
    ),
    "layer_scale": (
        "largest change of scale of a layer",
        "two operands, each rounded by 2⁻⁸ in the same direction, give 0.8 %",
    ),
    "layer_drift": ("largest error of a layer ÷ the expected rounding error", ROUNDED),
    "tensor_error": ("error of the outputs ÷ the expected rounding error", ROUNDED),
    "published": (
        "published quality − fp32's, in margins of this data set",
        "a margin is three standard errors of the mean over the data set",
    ),
}
"""What each check applies to, and where its default limit comes from; all but the first two have one, which
``--tolerance`` replaces.
"""
NOTES = {
    PictureNote.FIRST_FRAME: "animated: the first frame was taken",
    PictureNote.TO_8_BITS: "16-bit: scaled to 8 bits",
    PictureNote.FROM_CMYK: "CMYK: converted to RGB",
    PictureNote.LARGE: "large: decoded at reduced size",
    PictureNote.REDUCED: f"reduced to {LONGEST_WITH_MASKS} pixels, as the model does",
}
DATA_NOTES = {
    DataNoteKind.SKIPPED: "{count} left out by --skip-bad: {names}",
    DataNoteKind.UPRIGHT: "{count} pictures turned by their EXIF orientation, as the annotations' sizes are",
    DataNoteKind.UNKNOWN_ORIENTATION: "{count} pictures have an EXIF orientation that may apply to their boxes; it is "
    "not applied: {names}",
    DataNoteKind.SYNONYMS: "{count} categories known by another name: {names}",
    DataNoteKind.UNKNOWN_CATEGORIES: "{count} objects not judged, because the model does not know their categories: "
    "{names}",
    DataNoteKind.NO_MASKS: "{count} objects have no mask: only boxes are judged",
    DataNoteKind.NUMBERED_CLASSES: "directory names are class indices, from 0: {names}",
    DataNoteKind.SORTED_CLASSES: "directories in sorted order are the classes: {names}",
    DataNoteKind.LABEL_FILE: "classes by {names}",
    DataNoteKind.NO_CLASSES: "no directory is named after a class: agreement only",
    DataNoteKind.CMRC: "answers scored by the rules of CMRC 2018",
    DataNoteKind.NO_BLANKS: "{count} questions have answers in a script without blanks between words, in which F1 says "
    "little",
    DataNoteKind.NOT_IN_PASSAGE: "{count} questions have no answer that occurs in their passage: {names}",
}
"""What a data set was like, and how its images were read."""


VALIDITY_TONE = {
    ValidityVerdict.VALID: Tone.BETTER,
    ValidityVerdict.NOT_VALID: Tone.BAD,
    ValidityVerdict.INCONCLUSIVE: Tone.OPEN,
    ValidityVerdict.CANNOT_JUDGE: Tone.OPEN,
}


def valid_line(judged: Validity) -> str:
    """The last line on stdout: ``[VALID] <workload> <metric> <fp32> <tested> <verdict>``.

    In parentheses follows why the predictions are neither VALID nor NOT VALID; with NOT VALID, the size of the built-in
    data set, if that was used.
    """
    values = ["-" if value is None else f"{value:.4g}" for value in (judged.reference, judged.tested)]
    text = " ".join(["[VALID]", word(judged.workload), word(judged.metric), *values, judged.verdict.value])
    if judged.verdict not in (ValidityVerdict.VALID, ValidityVerdict.NOT_VALID):
        return f"{text} ({reason_text(judged)})"
    return f"{text} ({scope_text(judged)})" if judged.small else text


def validity_text(entry: ValidityEntry) -> str:
    """A judgement in a few words: ``VALID: top-1 accuracy 0.8 in fp32, 0.79 in bf16``."""
    return verdict_text(entry.report.validity) if entry.report is not None else str(entry.verdict)


def verdict_text(judged: Validity) -> str:
    """The verdict with the metric that decides."""
    return ": ".join(filter(None, (str(judged.verdict), metric_text(judged))))


def verdict(judged: Validity) -> Lines:
    """Return the verdict with the metric that decides; why it is not VALID, and what the data do not rule out."""
    said = f"{judged.workload} {judged.tested_name}: {verdict_text(judged)}; {scope_text(judged)}"
    first = Line(said, tone=VALIDITY_TONE.get(judged.verdict, Tone.PLAIN))
    more = lines(reason_text(judged), resolution_text(judged))
    return Lines((first, *more.items), stands_out=True)


def validity_detail(entry: ValidityEntry) -> str:
    """Why it is not VALID, what was judged on, and where the reference ran if that was not the CPU."""
    if entry.report is None:
        return entry.error or ""
    judged, side = entry.report.validity, entry.report.reference
    where = ""
    if side is not None and side.setting is not None and side.setting.device != "cpu":
        tf32 = ", TF32 off" if "cuda" in side.setting.device else ""
        where = f"reference: {side.setting.label} on {side.setting.device}{tf32}"
    return "; ".join(filter(None, (reason_text(judged), scope_text(judged), where)))


def metric_text(judged: Validity) -> str:
    """The metric that decides: ``F1 93.1 in fp32, 92.8 in bf16``; empty if it has no value."""
    sides = ((judged.reference, judged.reference_name), (judged.tested, judged.tested_name))
    values = ", ".join(f"{significant(value)} in {name}" for value, name in sides if value is not None)
    if judged.metric in OF_BOTH and judged.tested is not None:
        values = significant(judged.tested)
    return f"{METRICS.get(judged.metric, judged.metric)} {values}" if values else ""


def judged_so_far(found: JudgedSoFar) -> str:
    """How far a judgement is: ``12 of 42: F1 93.1 | 92.8``."""
    values = " | ".join(f"{100 * each:.1f}" for each in found.values)
    metric = {
        "top1": f"{values} % top-1",
        "top1_agreement": f"{values} % agreement",
        "detection_agreement": f"{values} % of the objects in common",
        "f1": f"F1 {values}",
        "same_top": f"{values} % of the most likely tokens in common",
    }.get(found.metric, f"{found.metric} {values}")
    return f"{found.items} of {found.total}: {metric}"


def plural(item: str) -> str:
    """``images``; stored results call an image a picture."""
    return f"{'image' if item == 'picture' else item}s"


def scope_text(judged: Validity) -> str:
    """What was judged on: ``32 crops of 1 photograph: agreement only``."""
    items = f"{judged.items} {plural(judged.item)}"
    if judged.item == "crop":
        return f"{items} of 1 photograph: agreement only"
    if judged.task == "answers" and judged.small:
        return f"{items} on {_counted(judged.clusters, judged.cluster)} written for modelzoo"
    if judged.task == "language":
        own = " written for modelzoo" if judged.small else ""
        return f"{items}{own}, {judged.counts.get('positions', 0):,} tokens"
    if judged.task == "classification":
        kind = "labelled images" if judged.labelled else "images without known classes: agreement only"
        return f"{judged.items} {kind}"
    if judged.task == "detection" and not judged.labelled:
        return f"{items} without annotations: agreement only"
    return items


def _counted(count: int, noun: str) -> str:
    return f"{count} {plural(noun).removesuffix('s' if count == 1 else '')}"


def reason_text(judged: Validity) -> str:
    """Why the verdict is not VALID; empty if it is."""
    reason = judged.reason
    if reason is None:
        return ""
    undecided = [each for each in judged.checks if each.undecided]
    failures = "; ".join(_failure(each) for each in judged.checks if not each.passed and not each.undecided)
    needed = ""
    if reason.more_items is not None:
        unit = int(10 ** max(0, len(str(reason.more_items)) - 2))  # rounded up to two significant digits
        more = f"{-(-reason.more_items // unit) * unit:,} more {plural(judged.item)}"
        needed = f"; about {more} would probably settle it"
    if reason.kind is ReasonKind.UNDECIDED_CHECKS:
        return "; ".join(f"{_failure(each)}, and may be {_beside_limit(each)[1]}" for each in undecided) + needed
    if reason.kind is ReasonKind.FEW_CLUSTERS:
        return f"{_counted(judged.clusters, judged.cluster)} of the {reason.required} that a verdict requires{needed}"
    if reason.kind is ReasonKind.UNKNOWN_ROUNDING:
        return "; ".join(f"{title_text(each)}: {source_text(each, judged)}" for each in undecided if _is_numeric(each))
    if reason.kind is ReasonKind.BUILT_IN_DATA:
        change = judged.deciding_change
        return "accuracy not judged" + (f": {_unseen_losses(change, judged)}" if change is not None else "")
    if reason.unrepeatable is not None:
        found = reason.unrepeatable
        size = "" if found.change is None else f" by {significant(100 * found.change, 2)} %"
        where = "" if found.layer == OUTPUT else f", first in {found.layer}"
        return (
            f"two passes of the fp32 reference on the same inputs differ{size}{where}: it is random (dropout in "
            "training mode, for example), or keeps state from pass to pass"
        )
    return {
        ReasonKind.FAILED_CHECKS: failures,
        ReasonKind.REFERENCE_NOT_FINITE: "the fp32 reference itself gives NaN or Inf",
        ReasonKind.NOTHING_DETECTED: f"the fp32 reference itself detects nothing with a score of {reason.required} or "
        "more",
        ReasonKind.FAR_FROM_PUBLISHED: f"fp32 itself is far from the published quality: a broken set-up; {failures}",
        ReasonKind.FEW_ITEMS: f"at least {reason.required} {plural(judged.item)} are needed",
        ReasonKind.RANDOM_WEIGHTS: "random weights: numbers agree, predictions mean nothing",
    }[reason.kind]


def _is_numeric(check: Check) -> bool:
    return check.name in ("layer_drift", "tensor_error")


def _failure(check: Check) -> str:
    seen, _, required = _beside_limit(check)
    return f"{title_text(check)} is {seen}, required {check.relation} {required}"


def _beside_limit(check: Check, missing: str = "none") -> tuple[str, str, str]:
    """What is seen, its bound, and what is required."""
    shown = apart(check.seen, check.bound, check.required)
    seen, bound, required = (missing if each == MISSING else each for each in shown)
    return seen, bound, required


def resolution_text(judged: Validity) -> str:
    """How the metric that decides changed, and which losses the data set does not rule out; empty if not known."""
    change = judged.deciding_change
    if change is None:
        return ""
    title = METRICS.get(change.metric, change.metric)
    return f"{title} {change_in_points(change)}; {_unseen_losses(change, judged)}"


def _unseen_losses(change: MetricChange, judged: Validity) -> str:
    losses = points(change.possible_loss, change)
    return f"losses of up to {losses} points cannot be ruled out with these {change.items} {plural(judged.item)}"


def points(value: float, change: MetricChange, sign: str = "") -> str:
    """A loss in points, with one decimal more than the smallest loss that is seen has zeros."""
    digits = max(1, min(4, -math.floor(math.log10(100 * change.detectable_loss)) + 1))
    return f"{100 * value + 0.0:{sign}.{digits}f}"


def change_in_points(change: MetricChange, unit: str = " points") -> str:
    """The change with its interval: ``-0.3 points [-1.1, +0.5]``."""
    value, low, high = (points(each, change, "+") for each in (change.change, change.low, change.high))
    return f"{value}{unit} [{low}, {high}]"


def check_table(judged: Validity, *, is_brief: bool = False) -> Table:
    """Each check: observed, its bound, required, the tolerance that would have passed, and where that comes from.

    With ``is_brief``, a terminal leaves out what does not fit, the source first.
    """
    of = Rows((each, *_beside_limit(each, MISSING)) for each in judged.checks)
    order = (0, 1, 2) if is_brief else (None, None, None)

    def required(row: tuple[Check, str, str, str]) -> str:
        return f"{'≥' if row[0].relation == '>=' else '≤'} {row[3]}"

    def outcome(row: tuple[Check, str, str, str]) -> Tone:
        return Tone.BETTER if row[0].passed else Tone.OPEN if row[0].undecided else Tone.BAD

    words = {Tone.BETTER: "pass", Tone.OPEN: "undecided", Tone.BAD: "FAIL"}
    columns = (
        of.text("check", lambda row: title_text(row[0])),
        of.number("seen", lambda row: row[1]),
        of.number("95 % bound", lambda row: row[2]),
        of.number("required", required),
        of.number("would pass at", lambda row: number(row[0].would_pass_at, unknown="no value"), order=order[2]),
        of.text("", lambda row: words[outcome(row)], outcome),
        of.text("tolerance", lambda row: None if row[0].would_pass_at is None else row[0].name, order=order[1]),
        of.text("source of the requirement", lambda row: source_text(row[0], judged), order=order[0]),
    )
    about = [
        DATA_NOTES[each.kind].format(count=each.count, names=for_people(", ".join(each.names)))
        for each in judged.data_notes
    ]
    notes = "\n".join([*about, *sorted(NOTES[note] for note in judged.notes)])
    return Table("Checks", columns, notes, is_brief=is_brief)


def title_text(check: Check) -> str:
    """What is checked."""
    if isinstance(check.about, ClassChange):
        return f"certain loss of the class {check.about.name}"
    return CHECKS.get(check.name, (check.name,))[0]


def source_text(check: Check, judged: Validity) -> str:
    """Where the limit comes from, and what the check is about."""
    about, known = check.about, CHECKS.get(check.name)
    source = "--tolerance" if check.is_own or known is None else known[1]
    if check.name == "finite":
        first = f"; first in {about.name}" if isinstance(about, WorstLayer) else ""
        return f"of {judged.items}; {source}{first}"
    if check.name == "class_loss":
        if judged.classes is not None:
            confidence = f"{100 * (1 - judged.classes.significance):g} % confidence"
            source += f"; {confidence} over {judged.classes.tested} classes of {judged.classes.fewest} items or more"
        if isinstance(about, ClassChange):
            source += f"; its {about.items} items lost {share(about.loss)}"
        return source
    if _is_numeric(check) and check.undecided:
        unknown = "the expected rounding error is not known"
        if not isinstance(about, WorstLayer) or about.name is None:
            return f"no output was compared, so {unknown}"
        return f"{unknown} in {about.name}"
    if check.is_own:
        return source
    if isinstance(about, PublishedQuality):
        published, seen = 100 * about.published, 100 * about.seen
        sample = f"sample of {about.clusters}: margin {100 * about.margin:.1f}"
        return f"published {published:.2f}, here {seen:.2f}; {sample}"
    if isinstance(about, WorstLayer) and check.name != "layer_scale":
        expected = "none" if about.explained is None else f"{about.explained:.2g}"
        return f"expected rounding error {expected}; seen in {about.name}"
    return f"{source}; seen in {about.name}" if isinstance(about, WorstLayer) else source
