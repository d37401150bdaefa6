"""What ``modelzoo validate`` promises about its verdicts, replayed on simulated data with a known loss.

``benchmarks/verdicts.py`` replays ``PROMISES``: VALID although the loss is just beyond a limit, NOT VALID although it
is within all limits, losses that are larger than those that "cannot be ruled out", intervals that miss the true change,
and sound classes that are called broken. Each repetition contains the suite's own bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import validity_worlds as worlds
from promises import COVERAGE, Counted, Promise, share

from modelzoo.records.partial import Row
from modelzoo.records.validity import Check, MetricChange, ValidityVerdict
from modelzoo.validity import Answers, Detection, classification
from modelzoo.validity.checks import LIMITS, MINIMUM_CLUSTERS, check_ratio, class_changes, class_checks
from modelzoo.validity.judging import decide, of_few_clusters
from modelzoo.validity.rows import Metric, Rule, clusters

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
    """The verdict by these rules on a world of ``validity_worlds``."""
    rows = world(random, **given)
    return verdict_of([rule.check(rows, {}) for rule in rules], len(set(clusters(rows))))


accuracy = partial(judged_by, classification.RULES[True], worlds.classified)
"""The verdict on a classifier with labels."""
agreement = partial(judged_by, classification.RULES[False], worlds.classified)
"""The verdict on a classifier without labels: all that it gets wrong has changed."""
f1 = partial(judged_by, Answers.rules, worlds.answered)
"""The verdict on answers."""
objects = partial(judged_by, Detection.rules, worlds.detected)
"""The verdict on a detector without annotations."""


def changed_by(metric: Metric, rows: Sequence[Row]) -> MetricChange:
    """How a metric changed."""
    found = metric.change(rows)
    assert found is not None
    return found


def average_precision(random: np.random.Generator, pictures: int, loss: float, by_picture: bool) -> ValidityVerdict:
    """The verdict on box AP, of which a share is lost with whole pictures or with single objects."""
    rate = worlds.rate_of(loss, by_picture)
    found = worlds.evaluated(random, pictures, *((rate, 0.0) if by_picture else (0.0, rate)))
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
    rows = worlds.classified(random, pictures, loss, gained)
    return changed_by(classification.METRICS[True][0], rows), loss * worlds.ACCURACY


def changed_f1(
    random: np.random.Generator, passages: int, by_passage: float, by_question: float = 0.0, gained: float = 0.0
) -> Truth:
    """How F1 changed."""
    found = changed_by(Answers.metrics[0], worlds.answered(random, passages, by_passage, by_question, gained))
    return found, (1 - gained - (1 - by_passage) * (1 - by_question - gained)) * worlds.MEAN_F1


def changed_ap(random: np.random.Generator, pictures: int, loss: float) -> Truth:
    """How box AP changed, if single objects are missed."""
    found = worlds.evaluated(random, pictures, 0.0, worlds.rate_of(loss, False))
    assert found.change is not None
    return found.change, loss * worlds.reference_ap()


def changed_objects(random: np.random.Generator, pictures: int, lost: float) -> Truth:
    """How many objects both detectors have in common."""
    return changed_by(Detection.metrics[0], worlds.detected(random, pictures, lost=lost)), lost


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
    ("agreement, 700 pictures", partial(agreement, pictures=700, loss=SHARE * BEYOND / worlds.ACCURACY)),
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
    ("F1 falls by 3 points, 8 passages", partial(changed_f1, passages=8, by_passage=0.03 / worlds.MEAN_F1)),
    ("F1 falls by 20 points, 8 passages", partial(changed_f1, passages=8, by_passage=0.2 / worlds.MEAN_F1)),
    ("accuracy falls by 5 points, 32 crops", partial(changed_accuracy, pictures=32, loss=0.05 / worlds.ACCURACY)),
    ("accuracy falls by 20 points, 32 crops", partial(changed_accuracy, pictures=32, loss=0.2 / worlds.ACCURACY)),
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
