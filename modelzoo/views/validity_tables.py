"""The tables of a judgement: the figures over the data set, its items, classes, metrics and layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from modelzoo.document import Column, Table, Text
from modelzoo.formatting import MISSING, number, share
from modelzoo.frozen import replace
from modelzoo.records.exhibits import (
    CategoryLosses,
    ExplainedLayers,
    ShownAnswers,
    ShownClasses,
    ShownObjects,
    ShownPassages,
)
from modelzoo.records.partial import AnsweredQuestion, ChangedObject, ClassifiedPicture, ScoredAnswer, TopClasses
from modelzoo.records.validity import MetricChange, Validity
from modelzoo.views.judgement import METRICS, change_in_points, plural, points

SHOWN_CHANGES = 10
"""Changed items that are listed without ``--details``."""
AP_TITLES = {f"ap{each.replace(' ', '_')}": f"AP{each}" for each in ("", "50", "75", " small", " medium", " large")}
T = TypeVar("T")


def tables(judged: Validity, *, is_brief: bool = False) -> list[Table]:
    """Return all tables of a judgement but that of the checks.

    Args:
        judged: the judgement.
        is_brief: only the figures over the set, and the items, classes and layers that changed; some of each.
    """
    shown, figures = judged.shown, judged.figures

    def cut(table: Table, number: int) -> list[Table]:
        """The first rows, if it is to be brief, of a table of ``number`` changes, which need not all be stored."""
        if not table.rows:
            return []
        if not is_brief or number <= SHOWN_CHANGES:
            return [table]
        note = Text(f"the first {SHOWN_CHANGES} of {number:,}: --details")
        some = (
            replace(each, cells=each.cells[:SHOWN_CHANGES], tones=each.tones[:SHOWN_CHANGES]) for each in table.columns
        )
        return [replace(table, columns=tuple(some), note=note)]

    found: list[Table] = []
    if isinstance(shown, ShownClasses):
        found.append(_classifier_over_the_set(judged))
        found += [] if is_brief else [_top_classes(judged, shown)]
        found += cut(_flips(shown), int(figures["flips"]))
    elif isinstance(shown, ShownObjects):
        found.append(_detector_over_the_set(judged))
        found += [] if is_brief else [_objects(judged, shown)]
        found += cut(_changed_objects(shown), shown.changed)
        found += [] if is_brief else [_categories(judged, each) for each in shown.categories]
    elif isinstance(shown, ShownAnswers):
        found.append(_answers_over_the_set(judged))
        changed = [each for each in shown.questions if not each.same]
        number = round((1 - figures["identical_answers"]) * judged.items)
        found += cut(_answers(judged, changed, "Changed answers"), number) if is_brief else []
        if not is_brief:
            table, count = _answers(judged, shown.questions, "Answers"), len(shown.questions)
            note = f"{count} of {judged.items}, changed ones first; all of them: {judged.workload}_answers.csv"
            found.append(replace(table, note=Text(note)) if judged.items > count else table)
    elif isinstance(shown, ShownPassages):
        found.append(_language_over_the_set(judged))
        found += [] if is_brief else [_passages(judged, shown)]
    found += _classes(judged)
    found += [_changes(judged)] if judged.changes and not is_brief else []
    layers = judged.layers
    if layers is not None and (not is_brief or layers.suspect is not None or not layers.layers):
        found.append(_layers(layers))
    return found


def text_column(title: str, rows: Sequence[T], cell: Callable[[T], str]) -> Column:
    """A column of text, a cell for each row."""
    return Column(title, tuple(map(cell, rows)))


def number_column(title: str, rows: Sequence[T], cell: Callable[[T], str]) -> Column:
    """A column of numbers; of text if no row has one."""
    cells = tuple(map(cell, rows))
    return Column(title, cells, is_number=any(each not in ("", MISSING) for each in cells))


def over_the_set(judged: Validity, rows: Sequence[tuple[str, ...]]) -> Table:
    """The figures over the data set: name, of the reference, under test, and the difference if there is a column."""
    titles, cells = ("", judged.reference_name, judged.tested_name, "difference"), list(zip(*rows))
    columns = [number_column(title, each, str) for title, each in zip(titles[1:], cells[1:])]
    return Table("Over the set", (Column("", cells[0]), *columns))


# Classification


def _top_classes(judged: Validity, shown: ShownClasses) -> Table:
    """The five classes of the first pictures by both models, one line per class."""
    names = dict(zip(shown.indices, shown.names))

    def listed(top: TopClasses) -> str:
        if not top.finite:
            return "NaN or Inf"
        return "\n".join(f"{100 * p:5.1f} % {names[i]}" for i, p in zip(top.classes, top.probabilities))

    def name(picture: ClassifiedPicture) -> str:
        return picture.name + ("" if picture.label is None else f"\n({names[picture.label]})")

    first, note = shown.first, None
    if judged.items > len(first):
        file = f"{judged.workload}_top5.csv"
        note = Text(f"the first {len(first)} of {judged.items} images; all of them: {file}")
    columns = (
        text_column("image", first, name),
        text_column(judged.reference_name, first, lambda each: listed(each.reference)),
        text_column(judged.tested_name, first, lambda each: listed(each.tested)),
    )
    return Table("Five most likely classes", columns, note)


def _classifier_over_the_set(judged: Validity) -> Table:
    figures = judged.figures

    def percent(name: str) -> str:
        return share(figures[name], 2) if name in figures else MISSING

    def figure(name: str) -> str:
        return number(figures.get(name), ".3g")

    def mean_and_max(name: str) -> str:
        return f"{figure(f'{name}_mean')}, {figure(f'{name}_max')}"

    rows = []
    if judged.labelled:
        rows += [(METRICS[name], percent(f"{name}_reference"), percent(f"{name}_tested")) for name in ("top1", "top5")]
    rows += [
        ("top-1 agreement", "", percent("top1_agreement")),
        ("top-5 agreement (classes in common)", "", percent("top5_agreement")),
        ("flips (of them near ties)", "", f"{figures['flips']:.0f} ({figures['near_ties']:.0f})"),
        ("KL divergence, nats: mean, max", "", mean_and_max("kl")),
        ("largest change of a probability: mean, max", "", mean_and_max("probability_drift")),
        ("relative error of the logits: mean, max", "", mean_and_max("logit_error")),
    ]
    return over_the_set(judged, rows)


def _flips(shown: ShownClasses) -> Table:
    """The pictures whose first class changed."""
    names = dict(zip(shown.indices, shown.names))

    def first(top: TopClasses) -> str:
        return f"{names[top.classes[0]]} ({share(top.probabilities[0])})"

    changed = shown.changed
    note = "margin: fp32's logit of its first class minus that of the other; near tie: within one rounding step"
    columns = (
        text_column("image", changed, lambda each: each.name),
        text_column("class", changed, lambda each: "" if each.label is None else names[each.label]),
        text_column("fp32", changed, lambda each: first(each.reference)),
        text_column("tested", changed, lambda each: first(each.tested)),
        number_column("margin", changed, lambda each: f"{each.margin:.3f}" + (" near tie" if each.near_tie else "")),
    )
    return Table("Flips", columns, Text(note))


# Detection


def _objects(judged: Validity, shown: ShownObjects) -> Table:
    """One row per picture: objects of both models, in common, lost, new, moved, worst IoU, largest score change."""
    pictures = shown.pictures
    columns = (
        text_column("image", pictures, lambda each: each.name),
        number_column(
            judged.reference_name, pictures, lambda each: f"{each.common + each.lost} ({each.reference_boxes})"
        ),
        number_column(judged.tested_name, pictures, lambda each: f"{each.common + each.new} ({each.tested_boxes})"),
        number_column("in common", pictures, lambda each: str(each.common)),
        number_column("lost", pictures, lambda each: str(each.lost)),
        number_column("new", pictures, lambda each: str(each.new)),
        number_column("moved", pictures, lambda each: str(each.moved)),
        number_column("worst IoU", pictures, lambda each: number(each.worst_iou, ".3f")),
        number_column("score change", pictures, lambda each: number(each.score_change, ".3f")),
    )
    note = "in parentheses: all boxes after NMS, whatever their score"
    if judged.items > len(pictures):
        note = f"the first {len(pictures)} of {judged.items} images; {note}"
    return Table("Objects", columns, Text(note))


def _changed_objects(shown: ShownObjects) -> Table:
    """Lost, new and moved objects."""

    def what(each: ChangedObject) -> str:
        return "lost" if each.tested_score is None else "new" if each.reference_score is None else "moved"

    changes = shown.changes
    columns = (
        text_column("image", changes, lambda each: each.picture),
        text_column("what", changes, what),
        text_column("class", changes, lambda each: each.label),
        number_column("fp32 score", changes, lambda each: number(each.reference_score, ".3f")),
        number_column("tested score", changes, lambda each: number(each.tested_score, ".3f")),
        number_column("IoU", changes, lambda each: number(each.iou, ".3f")),
    )
    is_cut = shown.changed > len(changes)
    return Table("What changed", columns, Text(f"the first {len(changes)} of {shown.changed}") if is_cut else None)


def _categories(judged: Validity, found: CategoryLosses) -> Table:
    """The categories whose AP fell most."""
    worst = found.worst
    columns = (
        text_column("category", worst, lambda each: each.name),
        number_column("objects", worst, lambda each: str(each.objects)),
        number_column(judged.reference_name, worst, lambda each: f"{each.reference:.3f}"),
        number_column(judged.tested_name, worst, lambda each: f"{each.tested:.3f}"),
        number_column("difference", worst, lambda each: f"{each.tested - each.reference:+.3f}"),
    )
    note = f"fell in {found.fell} of {found.categories} categories, rose in {found.rose}"
    return Table(f"{found.shape.capitalize()} AP by category", columns, Text(note))


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


# Answers


def _answers(judged: Validity, chosen: Sequence[AnsweredQuestion], caption: str) -> Table:
    """The answers with their probabilities."""

    def answer(each: ScoredAnswer) -> str:
        if not each.finite:
            return "NaN or Inf"
        return f"{each.text or '(no answer)'} ({share(each.probability, 0)})"

    def change(same: bool, margin: float | None, near_tie: bool) -> str:
        if same:
            return "same"
        return f"changed, margin {number(margin, '.3f', 'nan')}" + (" (near tie)" if near_tie else "")

    columns = (
        text_column("question", chosen, lambda each: each.question),
        text_column("expected", chosen, lambda each: "(none)" if each.expected is None else each.expected),
        text_column(judged.reference_name, chosen, lambda each: answer(each.reference)),
        text_column(judged.tested_name, chosen, lambda each: answer(each.tested)),
        number_column("F1", chosen, lambda each: f"{100 * each.reference.f1:.0f} | {100 * each.tested.f1:.0f}"),
        text_column("", chosen, lambda each: change(each.same, each.margin, each.near_tie)),
    )
    return Table(caption, columns)


def _answers_over_the_set(judged: Validity) -> Table:
    figures = judged.figures

    def both(name: str) -> tuple[str, str, str]:
        first, second = 100 * figures[f"{name}_reference"], 100 * figures[f"{name}_tested"]
        return f"{first:.2f}", f"{second:.2f}", f"{second - first:+.2f}"

    rows = [("exact match", *both("em")), ("F1", *both("f1"))]
    rows.append(("identical answers", "", share(figures["identical_answers"]), ""))
    rows.append(("F1 of the answers with fp32's as gold", "", f"{100 * figures['answer_agreement']:.1f}", ""))
    if "logit_drift_mean" in figures:
        change = f"{figures['logit_drift_mean']:.3g}, {figures['logit_drift_max']:.3g}"
        rows.append(("largest change of a start or end logit: mean, max", "", change, ""))
        error = f"{figures['logit_error_mean']:.3g}, {figures['logit_error_max']:.3g}"
        rows.append(("relative error of the logits: mean, max", "", error, ""))
    return over_the_set(judged, rows)


# Language


def _language_over_the_set(judged: Validity) -> Table:
    """Perplexity, divergences and the most likely tokens over the data set."""
    found = judged.figures
    ratio = f"{100 * math.expm1(found['ln_perplexity_ratio']):+.2f} %"
    kl = ", ".join(f"{found[name]:.3g}" for name in ("token_kl", "token_kl_median", "token_kl_p99", "token_kl_max"))
    rows = [
        ("perplexity", f"{found['perplexity_reference']:.4g}", f"{found['perplexity_tested']:.4g}", ratio),
        ("KL divergence in nats: mean, median, p99, max", "", kl, ""),
        ("most likely tokens in common", "", share(found["same_top"], 2), ""),
    ]
    return over_the_set(judged, rows)


def _passages(judged: Validity, shown: ShownPassages) -> Table:
    """Those with the largest mean divergence."""
    found = shown.passages
    columns = (
        text_column("passage", found, lambda each: each.name),
        number_column("tokens", found, lambda each: str(each.tokens)),
        number_column(f"perplexity {judged.reference_name}", found, lambda each: f"{each.reference_perplexity:.4g}"),
        number_column(judged.tested_name, found, lambda each: f"{each.tested_perplexity:.4g}"),
        number_column("mean KL", found, lambda each: f"{each.mean_kl:.3g}"),
        number_column("max KL", found, lambda each: f"{each.max_kl:.3g}"),
        number_column("same top", found, lambda each: share(each.same_top)),
    )
    note = Text(f"{len(found)} of {judged.items}, those with the largest mean divergence")
    return Table("Passages", columns, note if len(found) < judged.items else None)


# All tasks


def _classes(judged: Validity) -> Iterator[Table]:
    """The classes that lost most; no table if none lost anything."""
    classes, items = judged.classes, plural(judged.item)
    if classes is None or not classes.worst:
        return
    worst = classes.worst
    columns = (
        text_column("class", worst, lambda each: each.name),
        number_column(items, worst, lambda each: str(each.items)),
        number_column(judged.reference_name, worst, lambda each: f"{100 * each.reference:.1f}"),
        number_column(judged.tested_name, worst, lambda each: f"{100 * each.tested:.1f}"),
        number_column("change, points", worst, lambda each: f"{-100 * each.loss:+.1f}"),
        number_column("p", worst, lambda each: number(each.p_value, ".2g")),
        text_column("", worst, lambda each: "BROKEN" if each.broken else ""),
    )
    limit, tested = f"{100 * classes.limit:.3g} points", f"the {classes.tested} classes of {classes.fewest} {items}"
    note = f"{len(worst)} of {classes.classes} classes; p: of a loss over {limit}, corrected for {tested} or more; "
    note += f"below {classes.significance} the class is broken"
    yield Table("Losses by class", columns, Text(note))


def _changes(judged: Validity) -> Table:
    """All metrics with the interval of their change."""

    def loss(each: MetricChange, value: float | None) -> str:
        return MISSING if value is None else points(value, each)

    changes = judged.changes
    columns = (
        text_column("points", changes, lambda each: METRICS.get(each.metric, each.metric)),
        number_column("change [95 %]", changes, lambda each: change_in_points(each, "")),
        number_column("worse", changes, lambda each: MISSING if each.worse is None else str(each.worse)),
        number_column("better", changes, lambda each: MISSING if each.better is None else str(each.better)),
        number_column("McNemar p", changes, lambda each: number(each.p_value, ".2g")),
        number_column("detectable loss", changes, lambda each: loss(each, each.detectable_loss)),
        number_column("allowed", changes, lambda each: loss(each, each.allowed_loss)),
    )
    note = (
        f"{judged.tested_name} minus {judged.reference_name}; worse, better: {plural(judged.item)} whose score "
        "fell, rose; losses below 'detectable loss' would probably go unnoticed"
    )
    return Table("What this set can show", columns, Text(note))


def _layers(found: ExplainedLayers) -> Table:
    """The layers around the first suspect, or those with the largest errors if none is suspect."""
    layers, suspect = found.layers, None if found.suspect is None else found.layers[found.suspect]
    if not layers:
        note = "the layers of a traced or compiled model cannot be observed; try --mode eager"
        return Table("Error by layer", (Column("layer", ()),), Text(note))
    if suspect is None:
        note = f"no layer's error is beyond the expected rounding error; the {len(layers)} closest to it"
    else:
        note = f"first layer whose error is beyond the expected rounding error: {suspect.name} ({suspect.kind})"
    columns = (
        text_column("layer", layers, lambda each: ("→ " if each is suspect else "") + each.name),
        text_column("kind", layers, lambda each: each.kind),
        number_column("error", layers, lambda each: number(each.error, ".2e", "nan")),
        number_column("expected rounding error", layers, lambda each: number(each.baseline, ".2e")),
        number_column("ratio", layers, lambda each: number(each.ratio, ".2f", "nan")),
        number_column("scale", layers, lambda each: f"{number(each.scale and 100 * each.scale, '+.2f', 'nan')} %"),
    )
    return Table("Error by layer", columns, Text(note))
