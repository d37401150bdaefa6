"""Agreement of two logit vectors of the same picture. Pure numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from modelzoo.records.partial import ClassifiedPicture, TopClasses

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOP = 5


@dataclass(frozen=True)
class LogitDifference:
    """Differences between two finite logit vectors; the fields are those of ``ClassifiedPicture``."""

    kl: float
    probability_change: float
    logit_error: float
    margin: float
    near_tie: bool


def compare_logits(
    index: int, name: str, logits: tuple[Any, Any], label: Optional[int], bits: Optional[int] = None
) -> ClassifiedPicture:
    """Compare the (reference, tested) logits of one picture, [C] each; near ties are within one step of ``bits``."""
    import numpy as np

    p, q = (np.asarray(x, dtype="float64") for x in logits)
    finite = (bool(np.isfinite(p).all()), bool(np.isfinite(q).all()))
    if not all(finite):
        empty = (TopClasses((), (), finite[0]), TopClasses((), (), finite[1]))
        return ClassifiedPicture(index, name, label, *empty, None, None, None, 0.0, False)
    tops = (top_classes(p), top_classes(q))
    found = _difference(p, q, tops, bits)
    return ClassifiedPicture(
        index,
        name,
        label,
        *tops,
        kl=found.kl,
        probability_change=found.probability_change,
        logit_error=found.logit_error,
        margin=found.margin,
        near_tie=found.near_tie,
    )


def _difference(
    p: NDArray[Any], q: NDArray[Any], tops: tuple[TopClasses, TopClasses], bits: Optional[int]
) -> LogitDifference:
    import numpy as np

    first, other = tops[0].classes[0], tops[1].classes[0]
    margin = float(p[first] - p[other])
    centred = p - p.mean()
    size = float(np.linalg.norm(centred))
    return LogitDifference(
        kl=kl_divergence(p, q),
        probability_change=float(np.abs(softmax(p) - softmax(q)).max()),
        logit_error=float(np.linalg.norm((q - q.mean()) - centred)) / size if size else 0.0,
        margin=margin,
        near_tie=bits is not None and margin <= rounding_step(float(p[first]), bits),
    )


def top_classes(logits: NDArray[Any]) -> TopClasses:
    """The five most likely classes of finite logits [C] with their softmax probabilities."""
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
