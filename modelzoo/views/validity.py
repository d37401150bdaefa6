"""A judgement as a document: the verdict, the checks, what changed, what was written; on demand, all tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from modelzoo.document import Block, Column, Notice, Notices, Rows, Table, Tone, first_line, lines
from modelzoo.formatting import MISSING, number, share
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.exhibits import ExplainedLayers, ShownAnswers, ShownClasses, ShownObjects, ShownPassages
from modelzoo.records.partial import AnsweredQuestion, ChangedObject, ScoredAnswer, TopClasses
from modelzoo.records.run import ValidityEntry
from modelzoo.records.validity import Validity
from modelzoo.views.judgement import METRICS, change_in_points, check_table, plural, points, verdict
from modelzoo.views.kernel_tables import wrong_text
from modelzoo.warning import Severity, rank

PICTURES = "_pictures"
"""End of the name of the directory that holds the pictures of a judgement."""
SHOWN_CHANGES = 10
"""Changed items that are listed without ``--details``."""
AP_TITLES = {f"ap{each.replace(' ', '_')}": f"AP{each}" for each in ("", "50", "75", " small", " medium", " large")}


def document(entry: ValidityEntry, *, details: bool = False) -> list[Block]:
    """Return the verdict on a judgement and what it follows from; or why there is none.

    Args:
        entry: the judgement.
        details: all tables, and the sources of the limits, instead of what changed.
    """
    if entry.report is None:
        return answer(entry)
    judged, tested, notices = entry.report.validity, entry.report.tested.observed, list[Notice]()
    if entry.requested.precision != "fp32" and tested.canary_verdict is not CanaryVerdict.ACTIVE:
        why = tested.canary.summary if tested.canary is not None else tested.canary_problem or ""
        message = f"{entry.requested.precision} is {tested.canary_verdict} in this process: {why}"
        notices.append(Notice(Severity.DISTORTS, "warning", "", message))
    sides = filter(None, (entry.report.reference, entry.report.tested))
    warnings = {each.code: each for side in sides for each in side.observed.warnings}
    notices += [Notice(rank(code)[0], "warning", "", each.message, each.hint) for code, each in warnings.items()]
    # What was written, in at most two lines: the number of pictures with their directory, other files by name.
    folders = [str(PurePath(path).parent) for path in entry.files]
    pictures = [folder for folder in folders if folder.endswith(PICTURES)]
    others = ", ".join(path for path, folder in zip(entry.files, folders) if not folder.endswith(PICTURES))
    written = (
        f"written: {len(pictures)} images in {', '.join(sorted(set(pictures)))}" if pictures else "",
        f"written: {others}" if others else "",
    )
    return [
        *answer(entry),
        Notices(notices),
        check_table(judged, is_brief=not details),
        *tables(judged, is_brief=not details),
        lines(*written),
    ]


def answer(entry: ValidityEntry) -> list[Block]:
    """Return the verdict, after the products of either model that are wrong; or why there is none."""
    report = entry.report
    if report is None:
        error = entry.error or "it could not be judged"
        return [Notices([Notice(Severity.INVALIDATES, "failed", entry.workload, error)])]
    wrong = (
        first_line(f"WRONG RESULTS in {name}: {wrong_text(found)}", Tone.BAD)
        for name, side in ((report.validity.tested_name, report.tested), ("the reference", report.reference))
        if side is not None and (found := side.observed.evidence) is not None and found.wrong
    )
    return [*wrong, verdict(report.validity)]


def tables(judged: Validity, *, is_brief: bool = False) -> list[Table]:
    """Return all tables of a judgement but that of the checks.

    Args:
        judged: the judgement.
        is_brief: only the figures over the set, and the items, classes and layers that changed; some of each.
    """
    found = list[Table]()
    shown = judged.shown
    if isinstance(shown, ShownClasses):
        found += _of_classes(judged, shown, is_brief)
    elif isinstance(shown, ShownObjects):
        found += _of_objects(judged, shown, is_brief)
    elif isinstance(shown, ShownAnswers):
        found += _of_answers(judged, shown, is_brief)
    elif isinstance(shown, ShownPassages):
        found += _of_passages(judged, shown, is_brief)
    found += _classes(judged)
    found += [_changes(judged)] if judged.changes and not is_brief else []
    layers = judged.layers
    if layers is not None and (not is_brief or layers.suspect is not None or not layers.layers):
        found.append(_layers(layers))
    return found


def _cut(table: Table, number: int, is_brief: bool) -> list[Table]:
    """The first rows, if it is to be brief, of a table of ``number`` changes, which need not all be stored."""
    if not table.rows or not is_brief or number <= SHOWN_CHANGES:
        return [table] if table.rows else []
    return [replace(table.first(SHOWN_CHANGES), note=f"the first {SHOWN_CHANGES} of {number:,}: --details")]


def over_the_set(judged: Validity, rows: Sequence[tuple[str, ...]]) -> Table:
    """The figures over the data set: name, of the reference, under test, and the difference if there is a column."""
    first, *cells = zip(*rows)
    titles = (judged.reference_name, judged.tested_name, "difference")
    columns = [Column(title, each, is_number=any(each)) for title, each in zip(titles, cells)]
    return Table("Over the set", [Column("", first), *columns])


# Classification


def _of_classes(judged: Validity, shown: ShownClasses, is_brief: bool) -> Iterator[Table]:
    """The figures, the five classes of the first pictures, and the pictures whose first class changed."""
    names, figures = dict(zip(shown.indices, shown.names)), judged.figures

    def percent(name: str) -> str:
        return share(figures.get(name), 2)

    def mean_and_max(name: str) -> str:
        return ", ".join(number(figures.get(f"{name}_{each}"), ".3g") for each in ("mean", "max"))

    labelled = ("top1", "top5") if judged.labelled else ()
    yield over_the_set(
        judged,
        [
            *((METRICS[name], percent(f"{name}_reference"), percent(f"{name}_tested")) for name in labelled),
            ("top-1 agreement", "", percent("top1_agreement")),
            ("top-5 agreement (classes in common)", "", percent("top5_agreement")),
            ("flips (of them near ties)", "", f"{figures['flips']:.0f} ({figures['near_ties']:.0f})"),
            ("KL divergence, nats: mean, max", "", mean_and_max("kl")),
            ("largest change of a probability: mean, max", "", mean_and_max("probability_drift")),
            ("relative error of the logits: mean, max", "", mean_and_max("logit_error")),
        ],
    )

    def listed(top: TopClasses) -> str:
        lines = (f"{100 * p:5.1f} % {names[i]}" for i, p in zip(top.classes, top.probabilities))
        return "\n".join(lines) if top.finite else "NaN or Inf"

    if not is_brief:
        pictures, note = Rows(shown.first), ""
        if judged.items > len(shown.first):
            file = f"{judged.workload}_top5.csv"
            note = f"the first {len(shown.first)} of {judged.items} images; all of them: {file}"
        columns = (
            pictures.text(
                "image", lambda each: each.name + (f"\n({names[each.label]})" if each.label is not None else "")
            ),
            pictures.text(judged.reference_name, lambda each: listed(each.reference)),
            pictures.text(judged.tested_name, lambda each: listed(each.tested)),
        )
        yield Table("Five most likely classes", columns, note)

    def first(top: TopClasses) -> str:
        return f"{names[top.classes[0]]} ({share(top.probabilities[0])})"

    changed = Rows(shown.changed)
    flips = (
        changed.text("image", lambda each: each.name),
        changed.text("class", lambda each: "" if each.label is None else names[each.label]),
        changed.text("fp32", lambda each: first(each.reference)),
        changed.text("tested", lambda each: first(each.tested)),
        changed.number("margin", lambda each: f"{each.margin:.3f}{' near tie' if each.near_tie else ''}"),
    )
    note = "margin: fp32's logit of its first class minus that of the other; near tie: within one rounding step"
    yield from _cut(Table("Flips", flips, note), int(figures["flips"]), is_brief)


# Detection


def _of_objects(judged: Validity, shown: ShownObjects, is_brief: bool) -> Iterator[Table]:
    """The figures; objects in common, lost, new and moved by picture, and one by one; AP by category."""
    yield _detector_over_the_set(judged)
    if not is_brief:
        of = Rows(shown.pictures)
        columns = (
            of.text("image", lambda each: each.name),
            of.number(judged.reference_name, lambda each: f"{each.common + each.lost} ({each.reference_boxes})"),
            of.number(judged.tested_name, lambda each: f"{each.common + each.new} ({each.tested_boxes})"),
            of.number("in common", lambda each: each.common),
            of.number("lost", lambda each: each.lost),
            of.number("new", lambda each: each.new),
            of.number("moved", lambda each: each.moved),
            of.number("worst IoU", lambda each: number(each.worst_iou, ".3f")),
            of.number("score change", lambda each: number(each.score_change, ".3f")),
        )
        pictures = len(shown.pictures)
        note = f"the first {pictures} of {judged.items} images; " if judged.items > pictures else ""
        yield Table("Objects", columns, f"{note}in parentheses: all boxes after NMS, whatever their score")

    def what(each: ChangedObject) -> str:
        return "lost" if each.tested_score is None else "new" if each.reference_score is None else "moved"

    changed, changes = Rows(shown.changes), len(shown.changes)
    one_by_one = (
        changed.text("image", lambda each: each.picture),
        changed.text("what", what),
        changed.text("class", lambda each: each.label),
        changed.number("fp32 score", lambda each: number(each.reference_score, ".3f")),
        changed.number("tested score", lambda each: number(each.tested_score, ".3f")),
        changed.number("IoU", lambda each: number(each.iou, ".3f")),
    )
    note = f"the first {changes} of {shown.changed}" if shown.changed > changes else ""
    yield from _cut(Table("What changed", one_by_one, note), shown.changed, is_brief)
    for found in () if is_brief else shown.categories:
        worst = Rows(found.worst)
        losses = (
            worst.text("category", lambda each: each.name),
            worst.number("objects", lambda each: each.objects),
            worst.number(judged.reference_name, lambda each: f"{each.reference:.3f}"),
            worst.number(judged.tested_name, lambda each: f"{each.tested:.3f}"),
            worst.number("difference", lambda each: f"{each.tested - each.reference:+.3f}"),
        )
        note = f"fell in {found.fell} of {found.categories} categories, rose in {found.rose}"
        yield Table(f"{found.shape.capitalize()} AP by category", losses, note)


def _detector_over_the_set(judged: Validity) -> Table:
    """With AP of both models and its difference if there are annotations."""
    figures = judged.figures
    rows: list[tuple[str, ...]] = []
    for word in ("box", "mask"):
        for name, title in AP_TITLES.items():
            if f"{word}_{name}_reference" not in figures:
                continue
            first, second = figures[f"{word}_{name}_reference"], figures[f"{word}_{name}_tested"]
            known = first >= 0 and second >= 0  # COCOeval gives −1 if the data set holds nothing of that size
            texts = (f"{first:.3f}", f"{second:.3f}", f"{second - first:+.3f}") if known else (MISSING,) * 3
            rows.append((f"{word} {title}", *texts))
    rows.append(("objects in common", "", share(figures["detection_agreement"]), ""))
    counts = "{matched:.0f} in common, {lost:.0f} lost, {new:.0f} new, {moved:.0f} moved".format(**figures)
    rows.append(("objects", "", counts, ""))
    if "box_iou_mean" in figures:
        drift = f"{figures['score_drift_median']:.4f}, {figures['score_drift_max']:.4f}"
        rows.append(("IoU of matched boxes, mean", "", f"{figures['box_iou_mean']:.4f}", ""))
        rows.append(("change of a score: median, max", "", drift, ""))
    return over_the_set(judged, rows)


# Answers and language


def _of_answers(judged: Validity, shown: ShownAnswers, is_brief: bool) -> Iterator[Table]:
    """The figures, and the answers with their probabilities."""
    figures = judged.figures

    def both(name: str) -> tuple[str, str, str]:
        first, second = 100 * figures[f"{name}_reference"], 100 * figures[f"{name}_tested"]
        return f"{first:.2f}", f"{second:.2f}", f"{second - first:+.2f}"

    rows = [("exact match", *both("em")), ("F1", *both("f1"))]
    rows.append(("identical answers", "", share(figures["identical_answers"]), ""))
    rows.append(("F1 of the answers with fp32's as gold", "", f"{100 * figures['answer_agreement']:.1f}", ""))
    for name, title in (
        ("logit_drift", "largest change of a start or end logit: mean, max"),
        ("logit_error", "relative error of the logits: mean, max"),
    ):
        if "logit_drift_mean" in figures:
            rows.append((title, "", f"{figures[f'{name}_mean']:.3g}, {figures[f'{name}_max']:.3g}", ""))
    yield over_the_set(judged, rows)

    def answer(each: ScoredAnswer) -> str:
        return f"{each.text or '(no answer)'} ({share(each.probability, 0)})" if each.finite else "NaN or Inf"

    def change(each: AnsweredQuestion) -> str:
        if each.same:
            return "same"
        return f"changed, margin {number(each.margin, '.3f', 'nan')}{' (near tie)' if each.near_tie else ''}"

    of = Rows(each for each in shown.questions if not (is_brief and each.same))
    columns = (
        of.text("question", lambda each: each.question),
        of.text("expected", lambda each: "(none)" if each.expected is None else each.expected),
        of.text(judged.reference_name, lambda each: answer(each.reference)),
        of.text(judged.tested_name, lambda each: answer(each.tested)),
        of.number("F1", lambda each: f"{100 * each.reference.f1:.0f} | {100 * each.tested.f1:.0f}"),
        of.text("", change),
    )
    if is_brief:
        changed = round((1 - figures["identical_answers"]) * judged.items)
        yield from _cut(Table("Changed answers", columns), changed, is_brief)
        return
    count, file = len(shown.questions), f"{judged.workload}_answers.csv"
    note = f"{count} of {judged.items}, changed ones first; all of them: {file}" if judged.items > count else ""
    yield Table("Answers", columns, note)


def _of_passages(judged: Validity, shown: ShownPassages, is_brief: bool) -> Iterator[Table]:
    """Perplexity, divergences and the most likely tokens over the data set; the passages that diverge most."""
    figures, of, count = judged.figures, Rows(shown.passages), len(shown.passages)
    ratio = f"{100 * math.expm1(figures['ln_perplexity_ratio']):+.2f} %"
    kl = ", ".join(f"{figures[name]:.3g}" for name in ("token_kl", "token_kl_median", "token_kl_p99", "token_kl_max"))
    rows = [
        ("perplexity", f"{figures['perplexity_reference']:.4g}", f"{figures['perplexity_tested']:.4g}", ratio),
        ("KL divergence in nats: mean, median, p99, max", "", kl, ""),
        ("most likely tokens in common", "", share(figures["same_top"], 2), ""),
    ]
    yield over_the_set(judged, rows)
    columns = (
        of.text("passage", lambda each: each.name),
        of.number("tokens", lambda each: each.tokens),
        of.number(f"perplexity {judged.reference_name}", lambda each: f"{each.reference_perplexity:.4g}"),
        of.number(judged.tested_name, lambda each: f"{each.tested_perplexity:.4g}"),
        of.number("mean KL", lambda each: f"{each.mean_kl:.3g}"),
        of.number("max KL", lambda each: f"{each.max_kl:.3g}"),
        of.number("same top", lambda each: share(each.same_top)),
    )
    note = f"{count} of {judged.items}, those with the largest mean divergence" if count < judged.items else ""
    if not is_brief:
        yield Table("Passages", columns, note)


# All tasks


def _classes(judged: Validity) -> Iterator[Table]:
    """The classes that lost most; no table if none lost anything."""
    classes, items = judged.classes, plural(judged.item)
    if classes is None or not classes.worst:
        return
    of = Rows(classes.worst)
    columns = (
        of.text("class", lambda each: each.name),
        of.number(items, lambda each: each.items),
        of.number(judged.reference_name, lambda each: f"{100 * each.reference:.1f}"),
        of.number(judged.tested_name, lambda each: f"{100 * each.tested:.1f}"),
        of.number("change, points", lambda each: f"{-100 * each.loss:+.1f}"),
        of.number("p", lambda each: number(each.p_value, ".2g")),
        of.text("", lambda each: "BROKEN" if each.broken else ""),
    )
    limit, tested = f"{100 * classes.limit:.3g} points", f"the {classes.tested} classes of {classes.fewest} {items}"
    note = (
        f"{len(of.rows)} of {classes.classes} classes; p: of a loss over {limit}, corrected for {tested} or more; "
        f"below {classes.significance} the class is broken"
    )
    yield Table("Losses by class", columns, note)


def _changes(judged: Validity) -> Table:
    """All metrics with the interval of their change."""
    of = Rows(judged.changes)
    columns = (
        of.text("points", lambda each: METRICS.get(each.metric, each.metric)),
        of.number("change [95 %]", lambda each: change_in_points(each, "")),
        of.number("worse", lambda each: each.worse),
        of.number("better", lambda each: each.better),
        of.number("McNemar p", lambda each: number(each.p_value, ".2g")),
        of.number("detectable loss", lambda each: points(each.detectable_loss, each)),
        of.number("allowed", lambda each: None if each.allowed_loss is None else points(each.allowed_loss, each)),
    )
    note = (
        f"{judged.tested_name} minus {judged.reference_name}; worse, better: {plural(judged.item)} whose score "
        "fell, rose; losses below 'detectable loss' would probably go unnoticed"
    )
    return Table("What this set can show", columns, note)


def _layers(found: ExplainedLayers) -> Table:
    """The layers around the first suspect, or those with the largest errors if none is suspect."""
    of, suspect = Rows(found.layers), None if found.suspect is None else found.layers[found.suspect]
    if not found.layers:
        note = "the layers of a traced or compiled model cannot be observed; try --mode eager"
        return Table("Error by layer", [Column("layer", ())], note)
    note = f"no layer's error is beyond the expected rounding error; the {len(found.layers)} closest to it"
    if suspect is not None:
        note = f"first layer whose error is beyond the expected rounding error: {suspect.name} ({suspect.kind})"
    columns = (
        of.text("layer", lambda each: f"{'→ ' if each is suspect else ''}{each.name}"),
        of.text("kind", lambda each: each.kind),
        of.number("error", lambda each: number(each.error, ".2e", "nan")),
        of.number("expected rounding error", lambda each: number(each.baseline, ".2e")),
        of.number("ratio", lambda each: number(each.ratio, ".2f", "nan")),
        of.number("scale", lambda each: f"{number(each.scale and 100 * each.scale, '+.2f', 'nan')} %"),
    )
    return Table("Error by layer", columns, note)
