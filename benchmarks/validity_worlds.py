"""Simulated pictures, questions and detectors of which the true loss is known, for ``verdicts_validity.py``."""

from __future__ import annotations

from functools import cache

import common  # noqa: F401 - puts the checkout on the path
import numpy as np

from modelzoo.records.partial import MatchedPair, Matches, Row, UnmatchedObject
from modelzoo.validity import average_precision as ap
from modelzoo.validity import detection_figures
from modelzoo.validity.detection_figures import AveragePrecisions

ACCURACY = 0.8
"""Of the classifier in fp32."""
CATEGORIES = 5
MORE = 0.15
"""How probably a picture has no more objects, after each one."""
CALIBRATION = 40_000
"""Pictures of the population on which a detector's true loss is measured."""


def classified(
    random: np.random.Generator, pictures: int, loss: float, gained: float = 0.0, kl: float = 0.0
) -> list[Row]:
    """Labelled pictures.

    Args:
        loss: of accuracy, as a share of fp32's.
        gained: share of fp32's accuracy that is gained on other pictures; as much more is lost.
        kl: mean divergence in nats, of a distribution with a few large values.
    """
    first = random.random(pictures) < ACCURACY
    changed = random.random(pictures)
    lost, found = first & (changed < loss + gained), ~first & (changed < gained * ACCURACY / (1 - ACCURACY))
    divergence = 2 * random.beta(0.05, 0.05 * (2 / kl - 1), pictures) if kl else np.zeros(pictures)
    tested = (first & ~lost) | found
    return [
        Row(index, "", {
            **{"top1_reference": float(one), "top1_tested": float(other), "kl": float(nats)},
            "top1_agreement_or_tie": float(one == other),
        })
        for index, (one, other, nats) in enumerate(zip(first, tested, divergence))
    ]  # fmt: skip


def answered(
    random: np.random.Generator, passages: int, by_passage: float = 0.0, by_question: float = 0.0, gained: float = 0.0
) -> list[Row]:
    """Questions on passages of 1 to about 20 questions, some passages harder than others.

    Args:
        by_passage: share of fp32's F1 that is lost with whole passages. by_question: with single answers.
        gained: share of fp32's F1 that other answers gain; as much more is lost with single answers.
    """
    sizes = random.geometric(0.2, passages)
    places = np.repeat(np.arange(passages), sizes)
    hard = random.beta(2, 1, passages)[places]
    kind = random.random(len(places))
    first = np.where(kind < 0.7 * hard, 1.0, np.where(kind < hard, random.random(len(places)), 0.0))
    factor = np.where((random.random(passages) < by_passage)[places], 0.0, 1.0)
    factor *= np.where(random.random(len(places)) < 2 * (by_question + gained), random.random(len(places)), 1.0)
    second = first * factor
    # The mean F1 is 0.85 × 2/3, and an answer that becomes right gains 1 − F1.
    better = random.random(len(places)) < gained * MEAN_F1 / (1 - MEAN_F1)
    second = np.where(better, 1.0 - (1 - factor) * first, second)
    return [
        Row(i, "", {"f1_reference": a, "f1_tested": b, "answer_agreement": 1.0}, cluster=f"passage {place}")
        for i, (a, b, place) in enumerate(zip(first.tolist(), second.tolist(), places.tolist()))
    ]


MEAN_F1 = 0.85 * 2 / 3
"""Of ``answered`` in fp32."""


def detected(
    random: np.random.Generator,
    pictures: int,
    *,
    lost: float = 0.0,
    crowded: bool = False,
    iou: float = 0.99,
    bias: float = 0.0,
    drift: float = 0.002,
) -> list[Row]:
    """Pictures with 1 to about 30 objects, whose changes are alike within a picture.

    Args:
        lost: share of the objects that only fp32 detects: half of them with all others in their picture.
        crowded: whether they are all lost in this way, and rather in pictures with many objects.
        iou: mean IoU of the others. bias: mean shift of their left edges. drift: median change of their scores.
    """
    found = []
    single = 0.0 if crowded else 1 - (1 - lost) / (1 - lost / 2)
    for index in range(pictures):
        count = int(random.geometric(MORE))
        # An object's picture has (2 − p) ÷ p objects on average, more than a picture has.
        whole = lost * count * MORE / (2 - MORE) if crowded else lost / 2
        gone = count if random.random() < whole else int(random.binomial(count, single))
        shared, spread = random.normal(0, 1, 2)
        noise = random.normal(0, 1, (count - gone, 2)) / np.sqrt(2)
        overlaps = np.clip(iou + (1 - iou) * random.uniform(-1, 1) * np.ones(count - gone), 0.5, 1)
        shifts = bias + 0.01 * (noise[:, 0] + shared / np.sqrt(2))
        changes = np.minimum(1.0, drift * np.exp(noise[:, 1] + spread / np.sqrt(2)))
        pairs = tuple(
            MatchedPair(row, row, 1, 0.9, 0.9 - float(change), float(overlap), (float(shift), 0.0, 0.0, 0.0))
            for row, (overlap, shift, change) in enumerate(zip(overlaps, shifts, changes))
        )
        matches = Matches(pairs, (UnmatchedObject(0, 1, 0.9),) * gone)
        found.append(detection_figures.row(index, "", matches, {}))
    return found


def evaluated(
    random: np.random.Generator, pictures: int, by_picture: float, by_object: float = 0.0, *, resampled: bool = True
) -> AveragePrecisions:
    """Two detectors on annotated pictures of a few categories, one of them rare, with many objects in some pictures.

    Args:
        by_picture: how probably the second detector misses everything in a picture. by_object: a single object.
    """
    sides: tuple[dict[int, ap.CategoryMatches], dict[int, ap.CategoryMatches]] = ({}, {})
    crowded = random.gamma(2.0, 0.5, pictures)
    ruined = random.random(pictures) < by_picture
    for category in range(CATEGORIES):
        objects = random.poisson(0.5 * crowded * (0.2 if category == 0 else 1.0))
        objects[random.integers(pictures)] += 1  # every category is seen
        picture = np.repeat(np.arange(pictures), objects)
        found, score = random.random(len(picture)) < 0.7, random.beta(4, 2, len(picture))
        wrong = random.integers(0, pictures, pictures // 2)
        wrong_score = random.beta(2, 4, len(wrong))
        kept = found & ~ruined[picture] & (random.random(len(picture)) >= by_object)
        for side, hits in zip(sides, (found, kept)):
            places, scores = np.concatenate([picture[hits], wrong]), np.concatenate([score[hits], wrong_score])
            order = np.argsort(-scores, kind="stable")
            hit = (np.arange(len(places)) < hits.sum())[order][None]
            side[category] = ap.CategoryMatches(places[order], hit, np.zeros_like(hit), objects.astype(float))
    first, second = (ap.Evaluation({"ap": _mean_ap(side)}, pictures, side) for side in sides)
    return AveragePrecisions("box", first, second, ap.resample(first, second) if resampled else None)


def _mean_ap(categories: dict[int, ap.CategoryMatches]) -> float:
    return float(np.mean([ap.category_ap(each, np.ones((1, len(each.objects)))) for each in categories.values()]))


@cache
def reference_ap() -> float:
    """AP of the first detector in the population."""
    return evaluated(np.random.default_rng(1), CALIBRATION, 0.0, resampled=False).reference.figures["ap"]


@cache
def rate_of(loss: float, by_picture: bool) -> float:
    """How probably pictures or objects must be missed so that AP falls by ``loss``, as a share of the reference's."""
    low, high = 0.0, 4 * loss
    for _ in range(12):
        rate = (low + high) / 2
        by = (rate, 0.0) if by_picture else (0.0, rate)
        found = evaluated(np.random.default_rng(1), CALIBRATION, *by, resampled=False)
        is_less = 1 - found.tested.figures["ap"] / found.reference.figures["ap"] < loss
        low, high = (rate, high) if is_less else (low, rate)
    return high
