"""What ``modelzoo validate`` promises about its verdicts, replayed on simulated data with a known loss.

``benchmarks/verdicts.py`` replays ``PROMISES``: VALID although the loss is just beyond a limit, NOT VALID although it
is within all limits, losses that are larger than those that "cannot be ruled out", intervals that miss the true change,
and sound classes that are called broken. Each repetition contains the suite's own bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from promises import COVERAGE, Counted, Promise, share

from modelzoo.records.partial import MatchedPair, Matches, Row, UnmatchedObject
from modelzoo.records.validity import Check, MetricChange, ValidityVerdict
from modelzoo.validity import Answers, Detection, classification, detection_figures
from modelzoo.validity import average_precision as ap
from modelzoo.validity.checks import LIMITS, MINIMUM_CLUSTERS, check_ratio, class_changes, class_checks
from modelzoo.validity.detection_figures import AveragePrecisions
from modelzoo.validity.judging import decide, of_few_clusters
from modelzoo.validity.rows import Metric, Rule, clusters

# Pictures, questions and detectors of which the true loss is known

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
    return AveragePrecisions("box", first, second, *(ap.resample(first, second) if resampled else ()))


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


# What the suite says about them

Judged = Callable[[np.random.Generator], ValidityVerdict]
Truth = tuple[MetricChange, float]
"""What the suite says about a change, and the true loss."""
Changed = Callable[[np.random.Generator], Truth]
COMMAND = "validate"
WRONG, BROKEN = 0.05, 0.01
"""How often a verdict or a loss that "cannot be ruled out" may be wrong, and how often classes are."""
REPETITIONS = 1000
"""Each contains a bootstrap."""
SHARE = 1 - LIMITS["accuracy"]
"""Of the metric that may be lost."""
BEYOND = 1.0001
"""A loss just beyond its limit is this many times as large as one at the limit."""
AP_BEYOND, AP_WITHIN = 1.02 * SHARE, 0.98 * SHARE
"""Losses of AP just beyond and within the limit, further from it because they are known to about 1 %."""
AGREEMENT = 1 - LIMITS["detection_agreement"]


def verdict_of(checks: Sequence[Check], groups: int) -> ValidityVerdict:
    """The verdict on the user's data if these are the task's checks, and nothing else is wrong."""
    checks = checks if groups >= MINIMUM_CLUSTERS else of_few_clusters(checks, groups, groups)
    return decide(checks, None, items=groups, clusters=groups, numbers=None)[0]


def judged_by(
    rules: Sequence[Rule], world: Callable[..., Sequence[Row]], random: np.random.Generator, **given: Any
) -> ValidityVerdict:
    """The verdict by these rules on a simulated world."""
    rows = world(random, **given)
    return verdict_of([rule.check(rows, {}) for rule in rules], len(set(clusters(rows))))


accuracy = partial(judged_by, classification.RULES[True], classified)
"""The verdict on a classifier with labels."""
agreement = partial(judged_by, classification.RULES[False], classified)
"""The verdict on a classifier without labels: all that it gets wrong has changed."""
f1 = partial(judged_by, Answers.rules, answered)
"""The verdict on answers."""
objects = partial(judged_by, Detection.rules, detected)
"""The verdict on a detector without annotations."""


def changed_by(metric: Metric, rows: Sequence[Row]) -> MetricChange:
    """How a metric changed."""
    found = metric.change(rows)
    assert found is not None
    return found


def average_precision(random: np.random.Generator, pictures: int, loss: float, by_picture: bool) -> ValidityVerdict:
    """The verdict on box AP, of which a share is lost with whole pictures or with single objects."""
    rate = rate_of(loss, by_picture)
    found = evaluated(random, pictures, *((rate, 0.0) if by_picture else (0.0, rate)))
    return verdict_of([check_ratio("accuracy", found.ratio, pictures, {})], pictures)


def classes_broken(random: np.random.Generator, classes: int, items: int) -> ValidityVerdict:
    """The verdict on classes that each lose as much as they may."""
    limit = LIMITS["class_loss"]
    lost = random.random((classes, items)) < limit
    found = [
        Row(index, "", {}, classes={str(index // items): (1.0, 1.0 - each)})
        for index, each in enumerate(lost.flatten().tolist())
    ]
    return verdict_of(class_checks(class_changes(found, limit), {}), classes * items)


def count_verdicts(judged: Judged, wanted: ValidityVerdict, random: np.random.Generator, repetitions: int) -> Counted:
    """How often a simulated set gets this verdict."""
    return share(judged(random) is wanted for _ in range(repetitions))


def changed_accuracy(random: np.random.Generator, pictures: int, loss: float, gained: float = 0.0) -> Truth:
    """How top-1 accuracy changed."""
    rows = classified(random, pictures, loss, gained)
    return changed_by(classification.METRICS[True][0], rows), loss * ACCURACY


def changed_f1(
    random: np.random.Generator, passages: int, by_passage: float, by_question: float = 0.0, gained: float = 0.0
) -> Truth:
    """How F1 changed."""
    found = changed_by(Answers.metrics[0], answered(random, passages, by_passage, by_question, gained))
    return found, (1 - gained - (1 - by_passage) * (1 - by_question - gained)) * MEAN_F1


def changed_ap(random: np.random.Generator, pictures: int, loss: float) -> Truth:
    """How box AP changed, if single objects are missed."""
    found = evaluated(random, pictures, 0.0, rate_of(loss, False))
    assert found.change is not None
    return found.change, loss * reference_ap()


def changed_objects(random: np.random.Generator, pictures: int, lost: float) -> Truth:
    """How many objects both detectors have in common."""
    return changed_by(Detection.metrics[0], detected(random, pictures, lost=lost)), lost


def count_unseen(changed: Changed, random: np.random.Generator, repetitions: int) -> Counted:
    """How often the true loss is larger than the largest that "cannot be ruled out"."""
    found = (changed(random) for _ in range(repetitions))
    return share(change.possible_loss is not None and change.possible_loss < loss for change, loss in found)


def count_covered(changed: Changed, random: np.random.Generator, repetitions: int) -> Counted:
    """How often the interval contains the true change, and its mean width ÷ that of ±1.96 standard deviations."""
    found = [changed(random) for _ in range(repetitions)]
    ideal = 2 * 1.96 * float(np.std([change.change for change, _ in found]))
    width = float(np.mean([change.high - change.low for change, _ in found])) / ideal if ideal else None
    return Counted(sum(change.low <= -loss <= change.high for change, loss in found), repetitions, width)


AT_LIMIT: tuple[tuple[str, Judged], ...] = (
    ("accuracy, 700 pictures, nothing gained", partial(accuracy, pictures=700, loss=SHARE * BEYOND)),
    ("accuracy, 1,000 pictures, nothing gained", partial(accuracy, pictures=1000, loss=SHARE * BEYOND)),
    ("accuracy, 1,000 pictures, 2 % gained", partial(accuracy, pictures=1000, loss=SHARE * BEYOND, gained=0.02)),
    ("agreement, 700 pictures", partial(agreement, pictures=700, loss=SHARE * BEYOND / ACCURACY)),
    ("KL divergence of few pictures, 700 pictures", partial(accuracy, pictures=700, loss=0.0, kl=0.01 * BEYOND)),
    ("F1, 240 passages, whole ones lost", partial(f1, passages=240, by_passage=SHARE * BEYOND)),
    ("F1, 1,000 passages, whole ones lost", partial(f1, passages=1000, by_passage=SHARE * BEYOND)),
    ("F1, 1,000 passages, 2 % gained elsewhere", partial(f1, passages=1000, by_question=SHARE * BEYOND, gained=0.02)),
    ("box AP, 1,000 pictures, whole ones lost",
     partial(average_precision, pictures=1000, loss=AP_BEYOND, by_picture=True)),
    ("box AP, 1,000 pictures, single objects lost",
     partial(average_precision, pictures=1000, loss=AP_BEYOND, by_picture=False)),
    ("objects, 200 pictures", partial(objects, pictures=200, lost=AGREEMENT * BEYOND)),
    ("objects, 200 pictures, crowded ones lost", partial(objects, pictures=200, lost=AGREEMENT * BEYOND, crowded=True)),
    ("IoU of boxes, 300 pictures", partial(objects, pictures=300, iou=LIMITS["box_iou"] / BEYOND)),
    ("shift of boxes, 300 pictures", partial(objects, pictures=300, bias=LIMITS["box_bias"] * BEYOND)),
    ("change of scores, 300 pictures", partial(objects, pictures=300, drift=LIMITS["score_drift"] * BEYOND)),
)  # fmt: skip
"""Cases in which one value is just beyond its limit, and all others are well within theirs."""
WITHIN: tuple[tuple[str, Judged], ...] = (
    ("accuracy, 50 pictures", partial(accuracy, pictures=50, loss=SHARE)),
    ("accuracy and KL divergence, 1,000 pictures", partial(accuracy, pictures=1000, loss=SHARE, kl=0.01)),
    ("F1, 30 passages", partial(f1, passages=30, by_passage=SHARE)),
    ("F1, 240 passages, 2 % gained elsewhere", partial(f1, passages=240, by_question=SHARE, gained=0.02)),
    ("box AP, 100 pictures", partial(average_precision, pictures=100, loss=AP_WITHIN, by_picture=False)),
    ("all checks of objects, 100 pictures", partial(
        objects, pictures=100, lost=AGREEMENT, iou=LIMITS["box_iou"], bias=LIMITS["box_bias"],
        drift=LIMITS["score_drift"],
    )),
)  # fmt: skip
"""Cases in which values are at their limits."""
BUILT_IN: tuple[tuple[str, Changed], ...] = (
    ("F1 falls by 3 points, 8 passages", partial(changed_f1, passages=8, by_passage=0.03 / MEAN_F1)),
    ("F1 falls by 20 points, 8 passages", partial(changed_f1, passages=8, by_passage=0.2 / MEAN_F1)),
    ("accuracy falls by 5 points, 32 crops", partial(changed_accuracy, pictures=32, loss=0.05 / ACCURACY)),
    ("accuracy falls by 20 points, 32 crops", partial(changed_accuracy, pictures=32, loss=0.2 / ACCURACY)),
    ("1 object in 10 is lost, 8 crops", partial(changed_objects, pictures=8, lost=0.1)),
)
"""Cases of built-in inputs."""
FEW = "one more picture, which may be lost, counts too, and few changed"
CROWDED = "one more crowded picture or long passage counts too, which may be lost as a whole"
INTERVALS: tuple[tuple[str, Changed, str], ...] = (
    ("accuracy −1 %, 300 pictures", partial(changed_accuracy, pictures=300, loss=0.01), FEW),
    ("accuracy −2 %, 5 % gained, 1,000 pictures",
     partial(changed_accuracy, pictures=1000, loss=0.02, gained=0.05), FEW),
    ("F1 −5 %, 5 % gained, 240 passages",
     partial(changed_f1, passages=240, by_passage=0.02, by_question=0.03, gained=0.05), CROWDED),
    ("box AP −10 %, 150 pictures", partial(changed_ap, pictures=150, loss=0.1), CROWDED),
    ("1 object in 20 lost, 100 pictures", partial(changed_objects, pictures=100, lost=0.05), CROWDED),
)  # fmt: skip
"""Cases of intervals, and why one may cover more than it promises."""


def _at_most(case: str, judged: Judged, wanted: ValidityVerdict, promised: float = WRONG) -> Promise:
    replay = partial(count_verdicts, judged, wanted)
    return Promise(COMMAND, case, str(wanted), promised, replay, repetitions=REPETITIONS)


PROMISES: tuple[Promise, ...] = (
    *(_at_most(f"just beyond the limit: {case}", judged, ValidityVerdict.VALID) for case, judged in AT_LIMIT),
    *(_at_most(f"at the limit: {case}", judged, ValidityVerdict.NOT_VALID) for case, judged in WITHIN),
    Promise(COMMAND, "at the limit: 80 classes of 15 items", "NOT VALID", BROKEN,
            partial(count_verdicts, partial(classes_broken, classes=80, items=15), ValidityVerdict.NOT_VALID)),
    *(
        Promise(COMMAND, f"built-in inputs: {case}", "larger loss than would not show", WRONG,
                partial(count_unseen, changed), repetitions=REPETITIONS)
        for case, changed in BUILT_IN
    ),
    *(
        Promise(COMMAND, f"interval: {case}", "contains the change", COVERAGE, partial(count_covered, changed),
                is_least=True, repetitions=REPETITIONS, why=why)
        for case, changed, why in INTERVALS
    ),
)  # fmt: skip
