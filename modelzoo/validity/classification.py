"""Judge a classifier: accuracy, agreement, change of the probabilities, changed classes and their margins."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from modelzoo.records.exhibits import CsvRows, Exhibit, ShownClasses
from modelzoo.records.partial import ClassifiedPicture, PartialResult, PictureNote, TopClasses
from modelzoo.records.validity import Check, ClassChange, MetricChange, Reason, ReasonKind
from modelzoo.validity import picture_sets
from modelzoo.validity.bounds import Extreme, draw
from modelzoo.validity.changes import ClassItem, class_changes, class_checks, class_limit, item_change
from modelzoo.validity.checks import check_ratio, check_shares, check_value
from modelzoo.validity.finite import usable
from modelzoo.validity.picture_sets import PictureItem
from modelzoo.validity.prefetch import batches, model_threads
from modelzoo.validity.protocol import Findings, ItemComparison, ItemResult, PreparedItem, TaskContext
from modelzoo.validity.verdict import published_check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from modelzoo.validity.task import Classification


TOP = 5
CROPS = 32
"""Crops in the built-in data set."""
SMALLEST_CROP = 0.5
PROBE_ITEMS = 4
MOST_KL = 2.0
"""Nats from which on Pinsker's inequality says nothing more: no probability is off by more than 100 %."""
CSV_CHUNK = 1000
"""Pictures per exhibit of the CSV file."""
CSV_COLUMNS = ("picture", "label", "rank", "fp32", "fp32_probability", "tested", "tested_probability")
FIRST_SHOWN = 10
"""Pictures whose five classes are shown; the CSV file holds all of them."""
CHANGED_SHOWN = 20


def compare_logits(
    index: int, name: str, logits: tuple[Any, Any], label: Optional[int], bits: Optional[int] = None
) -> ClassifiedPicture:
    """Compare the (reference, tested) logits of one picture, [C] each; near ties are within one step of ``bits``."""
    import numpy as np

    p, q = (np.asarray(x, dtype="float64") for x in logits)
    finite = usable(p, q)
    tops = [top_classes(x) if each else TopClasses((), (), False) for x, each in zip((p, q), finite)]
    if not all(finite):
        return ClassifiedPicture(index, name, label, tops[0], tops[1], None, None, None, 0.0, False)
    first, other = tops[0].classes[0], tops[1].classes[0]
    margin = float(p[first] - p[other])
    is_possible = np.isfinite(p)  # the others are -inf in both
    probability_change = float(np.abs(softmax(p) - softmax(q)).max())
    p, q = p[is_possible], q[is_possible]
    centred = p - p.mean()
    size = float(np.linalg.norm(centred))
    return ClassifiedPicture(
        index,
        name,
        label,
        tops[0],
        tops[1],
        kl=kl_divergence(p, q),
        probability_change=probability_change,
        logit_error=float(np.linalg.norm((q - q.mean()) - centred)) / size if size else 0.0,
        margin=margin,
        near_tie=bits is not None and margin <= rounding_step(float(logits[0][first]), bits),
    )


def top_classes(logits: NDArray[Any]) -> TopClasses:
    """The five most likely classes of logits [C] that can be judged, with their softmax probabilities."""
    import numpy as np

    order = np.argsort(-logits, kind="stable")[:TOP]
    probabilities = softmax(logits)
    return TopClasses(tuple(int(i) for i in order), tuple(float(probabilities[i]) for i in order), True)


def rounding_step(value: float, bits: int) -> float:
    """The distance between neighbouring numbers of ``bits`` significant bits at ``value``."""
    return math.ldexp(1.0, math.frexp(value)[1] - bits) if value else 0.0


def softmax(logits: Any) -> NDArray[Any]:
    """Softmax over the last axis in double precision."""
    import numpy as np

    shifted = np.asarray(logits, dtype="float64")
    shifted = np.exp(shifted - shifted.max(axis=-1, keepdims=True))
    normalized: NDArray[Any] = shifted / shifted.sum(axis=-1, keepdims=True)
    return normalized


def kl_divergence(reference: Any, tested: Any) -> float:
    """KL(reference ‖ tested) of two logit vectors [C] in nats; at least 0."""
    import numpy as np

    p, q = (np.asarray(x, dtype="float64") for x in (reference, tested))
    log_p = p - p.max() - np.log(np.exp(p - p.max()).sum())
    log_q = q - q.max() - np.log(np.exp(q - q.max()).sum())
    return max(0.0, float((np.exp(log_p) * (log_p - log_q)).sum()))


def fraction(values: Sequence[bool]) -> float:
    """The fraction of true values; 0 if there are none."""
    return sum(values) / len(values) if values else 0.0


def accuracy(labels: Sequence[Optional[int]], predicted: Sequence[TopClasses], within: int) -> float:
    """Fraction of labelled pictures whose class is among the first ``within`` predicted classes."""
    return fraction([label in top.classes[:within] for label, top in zip(labels, predicted) if label is not None])


def top5_overlap(picture: ClassifiedPicture) -> float:
    """Fraction of the reference's five classes that are among the tested model's five."""
    reference, tested = picture.reference.classes, picture.tested.classes
    return len(set(reference) & set(tested)) / len(reference) if reference else 0.0


class ClassificationTask:
    """A bound ``Classification``; a prediction is the logits [C] as an array of doubles."""

    name = "classification"
    item_name = "picture"
    probe_items = PROBE_ITEMS
    one_row = True
    compares_output = True

    def __init__(self, declaration: Classification, context: TaskContext) -> None:
        request = context.request
        self.context = context
        self.class_names = list(declaration.labels())
        self._declaration = declaration
        self.items: Sequence[PictureItem]
        if request.data is None:
            count = CROPS if request.limit is None else min(CROPS, request.limit)
            self.items = picture_sets.builtin_crops(count, request.seed, SMALLEST_CROP)
        else:
            found = picture_sets.read_classes(Path(request.data), self.class_names, declaration.wnids())
            self.items = picture_sets.sampled(found, request.limit, request.seed)

    def comparable_layer(self, name: str) -> bool:
        return self._declaration.layers(name)

    def identify(self, item: PictureItem) -> str:
        return item.identity()

    def file_of(self, item: PictureItem) -> Optional[Path]:
        return item.file

    def data_digest(self) -> str:
        return ""

    def preparing_threads(self) -> int:
        return model_threads()

    def prepare(self, item: PictureItem) -> PreparedItem:
        picture = item.read()
        return PreparedItem((self._declaration.preprocess(picture.image),), picture.notes)

    def arguments(self, rows: Sequence[Any]) -> tuple[Any, ...]:
        return self._declaration.arguments(rows)

    def output_tensor(self, output: Any, rows: Sequence[Any]) -> Any:
        return self._declaration.scores(output)

    def predictions(self, output: Any, rows: Sequence[Any]) -> Sequence[Any]:
        return list(self._declaration.scores(output).detach().double().cpu().numpy())

    def compare(
        self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]
    ) -> ItemComparison:
        item = self.items[index]
        logits = (reference[0], tested[0])
        result = compare_logits(index, item.name, logits, item.label, self.context.significant_bits)
        correct = [
            result.label is not None and result.label in top.classes[:1] for top in (result.reference, result.tested)
        ]
        return ItemComparison(result, (float(result.agrees), *map(float, correct)))

    def running_metric(self, sums: Sequence[float], count: int) -> tuple[str, tuple[float, ...]]:
        agreed, *correct = sums
        if self._is_labelled:
            return "top1", tuple(each / count for each in correct)
        return "top1_agreement", (agreed / count,)

    def partial_result(self, results: Sequence[ItemResult], notes: Sequence[PictureNote]) -> PartialResult:
        classified = tuple(each for each in results if isinstance(each, ClassifiedPicture))
        return PartialResult(self.name, classified=classified, notes=tuple(notes))

    def exhibits(self, result: PartialResult) -> Iterator[Exhibit]:
        for chunk in batches(result.classified, CSV_CHUNK):
            rows = csv_rows(chunk, self.class_names)
            yield Exhibit("top5.csv", csv=CsvRows(CSV_COLUMNS, rows))

    def findings(self, result: PartialResult) -> Findings:
        pictures, context = result.classified, self.context
        values = figures(pictures, self._is_labelled)
        metric, reference, tested = "top1_agreement", 1.0, values["top1_agreement"]
        if self._is_labelled:
            metric, reference, tested = "top1", values["top1_reference"], values["top1_tested"]
        is_builtin = context.request.data is None
        classes = self._classes(pictures)
        is_finite = all(p.reference.finite for p in pictures)
        return Findings(
            metric=metric,
            reference=reference,
            tested=tested,
            checks=[*self._checks(values, pictures), *class_checks(classes, context.request.tolerance)],
            in_common=any(set(p.reference.classes) & set(p.tested.classes) for p in pictures),
            nonfinite=sum(not p.tested.finite for p in pictures),
            reference_problem=None if is_finite else Reason(ReasonKind.REFERENCE_NOT_FINITE),
            counts={"crops": len(pictures), "photographs": 1} if is_builtin else {"pictures": len(pictures)},
            figures=values,
            shown=shown(pictures, self.class_names),
            changes=changes(pictures, self._is_labelled),
            classes=classes,
            clusters=len(pictures),
            labelled=self._is_labelled,
        )

    def _classes(self, pictures: Sequence[ClassifiedPicture]) -> list[ClassChange]:
        """The changes by class; none for crops of one photograph, which are no independent items."""
        if self.context.request.data is None:
            return []
        return class_changes(self._class_items(pictures), class_limit(self.context.request.tolerance))

    def _class_items(self, pictures: Sequence[ClassifiedPicture]) -> Iterator[ClassItem]:
        """Whether each picture is right, by its class and by its group of ImageNet classes.

        Without labels: whether the models agree or are in a near tie, by the reference's class.
        """
        # ImageNet has two classes "crane" and two "maillot".
        counts = Counter(self.class_names)
        names = [name if counts[name] == 1 else f"{name} ({label})" for label, name in enumerate(self.class_names)]
        is_imagenet = tuple(self._declaration.wnids() or ()) == picture_sets.wnids()
        for p in pictures:
            if p.label is not None:
                label, first, second = p.label, *(float(p.label in top.classes[:1]) for top in (p.reference, p.tested))
            elif p.reference.finite:
                label, first, second = p.reference.classes[0], 1.0, float(p.agrees or p.near_tie)
            else:
                continue
            yield ClassItem(names[label], first, second)
            if is_imagenet:
                yield ClassItem(f"all {picture_sets.class_group(label)}", first, second)

    @property
    def _is_labelled(self) -> bool:
        return self.items[0].label is not None

    def _checks(self, values: dict[str, float], pictures: Sequence[ClassifiedPicture]) -> list[Check]:
        request = self.context.request
        checks = sampled_checks(pictures, self._is_labelled, request.tolerance)
        if not self._is_labelled:
            return checks
        published = self._declaration.published.get("top1", 0.0) / 100
        deviation = math.sqrt(published * (1 - published))
        return [*checks, *published_check(published, values["top1_reference"], deviation, len(pictures), request)]


def sampled_checks(
    pictures: Sequence[ClassifiedPicture], labelled: bool, tolerance: Mapping[str, float]
) -> list[Check]:
    """Check accuracy (without labels, agreement) and the probabilities, of which the pictures are a sample."""
    count = len(pictures)
    ones = [1.0] * count
    if labelled:
        right = [[float(p.label in top.classes[:1]) for top in (p.reference, p.tested)] for p in pictures]
        first, second = zip(*right)
        first_check = check_ratio("accuracy", draw(second, first, Extreme(0, 1), Extreme(1, 0)), count, tolerance)
    else:
        agrees = [float(p.agrees or p.near_tie) for p in pictures]
        first_check = check_shares("top1_agreement", agrees, ones, count, tolerance)
    known = [min(p.kl, MOST_KL) for p in pictures if p.kl is not None]
    if not known:
        return [first_check, check_value("kl", None, tolerance)]
    return [first_check, check_shares("kl", known, ones[: len(known)], count, tolerance, highest=MOST_KL)]


def changes(pictures: Sequence[ClassifiedPicture], labelled: bool) -> list[MetricChange]:
    """How top-1 and top-5 accuracy changed picture by picture; without labels, the top-1 agreement."""
    if not labelled:
        found = [
            item_change("top1_agreement", [1.0] * len(pictures), [float(p.agrees) for p in pictures], agreement=True)
        ]
    else:
        found = [
            item_change(
                f"top{k}",
                [float(p.label in p.reference.classes[:k]) for p in pictures],
                [float(p.label in p.tested.classes[:k]) for p in pictures],
                right_or_wrong=True,
            )
            for k in (1, 5)
        ]
    return [each for each in found if each is not None]


def figures(pictures: Sequence[ClassifiedPicture], labelled: bool) -> dict[str, float]:
    """Every figure over the data set; means over the pictures, probabilities and accuracies from 0 to 1."""
    found = {
        "top1_agreement": fraction([p.agrees for p in pictures]),
        "top1_agreement_or_tie": fraction([p.agrees or p.near_tie for p in pictures]),
        "top5_agreement": sum(top5_overlap(p) for p in pictures) / len(pictures),
        "flips": float(sum(not p.agrees for p in pictures)),
        "near_ties": float(sum(p.near_tie and not p.agrees for p in pictures)),
    }
    columns: dict[str, list[Optional[float]]] = {
        "kl": [p.kl for p in pictures],
        "probability_drift": [p.probability_change for p in pictures],
        "logit_error": [p.logit_error for p in pictures],
    }
    for name, column in columns.items():
        values = [value for value in column if value is not None]
        if values:
            found[f"{name}_mean"], found[f"{name}_max"] = sum(values) / len(values), max(values)
    if labelled:
        labels = [p.label for p in pictures]
        sides: dict[str, list[TopClasses]] = {
            "reference": [p.reference for p in pictures],
            "tested": [p.tested for p in pictures],
        }
        for name, predicted in sides.items():
            found[f"top1_{name}"] = accuracy(labels, predicted, 1)
            found[f"top5_{name}"] = accuracy(labels, predicted, 5)
    return found


def shown(pictures: Sequence[ClassifiedPicture], names: Sequence[str]) -> ShownClasses:
    """The first pictures, and those whose first class changed."""
    first = tuple(pictures[:FIRST_SHOWN])
    flips = sorted((p for p in pictures if p.finite and not p.agrees), key=lambda p: -p.margin)
    changed = tuple(flips[:CHANGED_SHOWN])
    used = {index for p in (*first, *changed) for index in (*p.reference.classes, *p.tested.classes)}
    used |= {p.label for p in (*first, *changed) if p.label is not None}
    indices = tuple(sorted(used))
    return ShownClasses(first, changed, indices, tuple(names[index] for index in indices))


def csv_rows(pictures: Sequence[ClassifiedPicture], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The five classes of each picture, one row per rank."""
    rows = []
    for p in pictures:
        label = "" if p.label is None else names[p.label]
        ranked = zip(p.reference.classes, p.reference.probabilities, p.tested.classes, p.tested.probabilities)
        for rank, (first, first_probability, second, second_probability) in enumerate(ranked, start=1):
            values = (names[first], f"{first_probability:.6f}", names[second], f"{second_probability:.6f}")
            rows.append((p.name, label, str(rank), *values))
    return tuple(rows)
