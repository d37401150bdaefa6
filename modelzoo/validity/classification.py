"""Judge a classifier: accuracy, agreement, change of the probabilities, changed classes and their margins."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from modelzoo.errors import UsageError
from modelzoo.records.exhibits import ShownClasses
from modelzoo.records.partial import ClassifiedPicture, Row, TopClasses
from modelzoo.records.validity import ValidityRequest
from modelzoo.validity import picture_sets
from modelzoo.validity.checks import usable
from modelzoo.validity.picture_sets import PictureItem
from modelzoo.validity.rows import Metric, Rule, column, mean, means_and_largest, ratio, share
from modelzoo.validity.task import PictureTask, PreparedItem, any_layer, stacked, unchanged

if TYPE_CHECKING:
    from numpy.typing import NDArray


TOP = 5
MOST_KL = 2.0
"""Nats from which on Pinsker's inequality says nothing more: no probability is off by more than 100 %."""
METRICS = {
    True: (Metric("top1", right_or_wrong=True), Metric("top5", right_or_wrong=True)),
    False: (Metric("top1_agreement", of="top1_agreement"),),
}
"""By whether there are labels."""
_DIVERGENCE = Rule("kl", share, "kl", highest=MOST_KL)
RULES = {
    True: (Rule("accuracy", ratio, "top1"), _DIVERGENCE),
    False: (Rule("top1_agreement", share, "top1_agreement_or_tie"), _DIVERGENCE),
}
AGREEMENTS = ("top1_agreement", "top1_agreement_or_tie", "top5_agreement")
FIRST_SHOWN = 10
"""Pictures whose five classes are shown; the CSV file holds all of them."""
CHANGED_SHOWN = 20


@dataclass
class Classification(PictureTask):
    """Assigns each picture to one of C classes; a prediction is the logits [C] as an array of doubles.

    Attributes:
        preprocess: converts an RGB ``PIL.Image`` to a float tensor [3, H, W].
        labels: returns the C class names, in the order of the model's outputs.
        wnids: returns the C WordNet ids in that order, or ``None`` if the classes are not ImageNet's.
        scores: extracts the logits [N, C] from the model's output.
        arguments: builds the model's positional arguments from preprocessed pictures.
        published: the published quality of the weights in per cent, ``{"top1": 80.858}``.
        layers: whether the module of that name computes the same rows in both models, so that it can be compared.
    """

    preprocess: Callable[[Any], Any]
    labels: Callable[[], Sequence[str]]
    wnids: Callable[[], Sequence[str] | None] = lambda: None
    scores: Callable[[Any], Any] = unchanged
    arguments: Callable[[Sequence[Any]], tuple[Any, ...]] = stacked
    published: Mapping[str, float] = field(default_factory=dict)
    layers: Callable[[str], bool] = any_layer

    name = "classification"
    csv = ("top5.csv", ("picture", "label", "rank", "fp32", "fp32_probability", "tested", "tested_probability"))

    def read(self, request: ValidityRequest) -> Sequence[PictureItem]:
        self.names = list(self.labels())  # ImageNet has two classes "crane" and two "maillot"
        self.is_imagenet = tuple(self.wnids() or ()) == picture_sets.wnids()
        if request.data is None:
            items: Sequence[PictureItem] = self.builtin(request)
        else:
            items, self.data_notes = picture_sets.read_classes(request, self.names, self.wnids())
        self.labelled = items[0].label is not None
        self.metrics, self.rules = METRICS[self.labelled], RULES[self.labelled]
        self.metric = self.metrics[0].name
        return items

    def prepare(self, item: PictureItem) -> PreparedItem:
        picture = picture_sets.read(item.source)
        return PreparedItem((self.preprocess(picture.image),), picture.notes)

    def output_tensor(self, output: Any, rows: Sequence[Any]) -> Any:
        scores, labels = self.scores(output), len(self.names)
        if scores.shape[-1] != labels:
            advice = "drop the background's, or name it" if scores.shape[-1] == labels + 1 else "declare as many"
            raise UsageError(f"the model has {scores.shape[-1]} outputs, but the workload {labels} labels: {advice}")
        return scores

    def predictions(self, output: Any, rows: Sequence[Any]) -> Sequence[Any]:
        return list(self.output_tensor(output, rows).detach().double().cpu().numpy())

    def compare(self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]) -> Row:
        item, logits = self.items[index], (reference[0], tested[0])
        return self.row(compare_logits(index, item.name, logits, item.label, self.context.significant_bits))

    def row(self, picture: ClassifiedPicture) -> Row:
        """The row of a picture; its five classes are cells, one row per rank."""
        sides = {"reference": picture.reference, "tested": picture.tested}
        first, second = (set(each.classes) for each in sides.values())
        values = {
            "top1_agreement": float(picture.agrees),
            "top1_agreement_or_tie": float(picture.agrees or picture.near_tie),
            "top5_agreement": len(first & second) / len(first) if first else 0.0,
            "kl": picture.kl,
            "probability_drift": picture.probability_change,
            "logit_error": picture.logit_error,
        }
        numbers: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
        if picture.label is not None:
            numbers |= {
                f"top{k}_{side}": float(picture.label in each.classes[:k])
                for side, each in sides.items()
                for k in (1, TOP)
            }
        label = "" if picture.label is None else self.names[picture.label]
        ranked = enumerate(zip(*(zip(each.classes, each.probabilities) for each in sides.values())), start=1)
        return Row(
            picture.index,
            picture.name,
            numbers,
            picture.reference.finite,
            picture.tested.finite,
            bool(first & second),
            classes={} if self.context.request.data is None else self._classes(picture, numbers),
            cells=tuple(
                (picture.name, label, str(rank), *(cell for i, p in pair for cell in (self.names[i], f"{p:.6f}")))
                for rank, pair in ranked
            ),
            classified=picture,
        )

    def _classes(self, picture: ClassifiedPicture, numbers: Mapping[str, float]) -> dict[str, tuple[float, float]]:
        """Whether a picture is right, by its class and by its group of ImageNet classes.

        Without a label: whether the models agree or are in a near tie, by the reference's class. Crops of one
        photograph are no independent items, so they have no classes.
        """
        label, pair = picture.label, (1.0, numbers["top1_agreement_or_tie"])
        if label is not None:
            pair = numbers["top1_reference"], numbers["top1_tested"]
        elif picture.reference.finite:
            label = picture.reference.classes[0]
        else:
            return {}
        name = self.names[label]
        found = {name if self.names.count(name) == 1 else f"{name} ({label})": pair}
        return {**found, f"all {picture_sets.class_group(label)}": pair} if self.is_imagenet else found

    def figures(self, rows: Sequence[Row]) -> dict[str, float]:
        """Means over the pictures, probabilities and accuracies from 0 to 1."""
        agreed, with_ties = (sum(column(rows, name)) for name in AGREEMENTS[:2])
        correct = [f"top{k}_{side}" for side in ("reference", "tested") for k in (1, TOP)] if self.labelled else []
        return {
            **{name: mean(rows, name) for name in (*AGREEMENTS, *correct)},
            "flips": len(rows) - agreed,
            "near_ties": with_ties - agreed,
            **means_and_largest(rows, "kl", "probability_drift", "logit_error"),
        }

    def shown_items(self, rows: Sequence[Row]) -> ShownClasses:
        """The first pictures, and those whose first class changed."""
        pictures = [row.classified for row in rows if row.classified is not None]
        flips = sorted((p for p in pictures if p.finite and not p.agrees), key=lambda p: -p.margin)
        first, changed = tuple(pictures[:FIRST_SHOWN]), tuple(flips[:CHANGED_SHOWN])
        used = {index for p in (*first, *changed) for index in (*p.reference.classes, *p.tested.classes)}
        used |= {p.label for p in (*first, *changed) if p.label is not None}
        indices = tuple(sorted(used))
        return ShownClasses(first, changed, indices, tuple(self.names[index] for index in indices))

    def deviation(self, rows: Sequence[Row], published: float) -> float:
        return math.sqrt(published * (1 - published))


def compare_logits(
    index: int, name: str, logits: tuple[Any, Any], label: int | None, bits: int | None = None
) -> ClassifiedPicture:
    """Compare the (reference, tested) logits of one picture, [C] each; near ties are within one step of ``bits``."""
    import numpy as np

    p, q = (np.asarray(x, dtype="float64") for x in logits)
    finite, tops = usable(p, q), []
    for values, is_usable in zip((p, q), finite):
        order = np.argsort(-values, kind="stable")[:TOP].tolist() if is_usable else []
        tops.append(TopClasses(tuple(order), tuple(softmax(values)[order].tolist()) if order else (), is_usable))
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


def rounding_step(value: float, bits: int) -> float:
    """The distance between neighbouring numbers of ``bits`` significant bits at ``value``."""
    return math.ldexp(1.0, math.frexp(value)[1] - bits) if value else 0.0


def softmax(logits: Any) -> NDArray[Any]:
    """Softmax over the last axis in double precision."""
    import numpy as np

    return np.asarray(np.exp(log_softmax(logits)))


def log_softmax(logits: Any) -> NDArray[Any]:
    """Logarithm of the softmax over the last axis in double precision."""
    import numpy as np

    shifted = np.asarray(logits, dtype="float64")
    shifted = shifted - shifted.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def kl_divergence(reference: Any, tested: Any) -> float:
    """KL(reference ‖ tested) of two logit vectors [C] in nats; at least 0."""
    p, q = log_softmax(reference), log_softmax(tested)
    return max(0.0, float((softmax(reference) * (p - q)).sum()))
