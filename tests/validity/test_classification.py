"""A trained classifier judged: expected metrics, planted faults, bad input, small and flat."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from validity import toys
from validity.toys import Make, Run, bind, judge

from modelzoo.frozen import replace
from modelzoo.records.exhibits import ShownClasses
from modelzoo.records.partial import ClassifiedPicture, JudgedSoFar, PartialResult, TopClasses
from modelzoo.records.validity import Reason, ReasonKind
from modelzoo.validity import Predictor, Validity
from modelzoo.validity.judging import conclude


@pytest.fixture
def run(against: Run, classifier: Any) -> Run:
    """Judge a predictor beside the trained classifier."""
    return partial(against, classifier)


@pytest.mark.slow
def test_the_whole_sample_set(run: Run, classifier: Any, autocast: Make) -> None:
    """About 90 % top-1 on the 100 pictures, 98 % agreement or more: too few to show a loss of 1 %."""
    judged = run(autocast(classifier.model), data=str(classifier.data))
    assert judged.reference == pytest.approx(0.90, abs=0.02)
    assert judged.figures["top1_agreement"] >= 0.98
    assert (judged.verdict, judged.exit_code, judged.metric) == ("INCONCLUSIVE", 2, "top1")
    assert judged.reason is not None
    assert (judged.reason.kind, judged.reason.required) == (ReasonKind.UNDECIDED_CHECKS, None)
    assert judged.reason.more_items
    tolerant = run(autocast(classifier.model), data=str(classifier.data), tolerance={"accuracy": 0.9, "kl": 0.1})
    assert (tolerant.verdict, tolerant.exit_code) == ("VALID", 0)


def test_a_sample_of_labelled_pictures(run: Run, classifier: Any, recorder: Any) -> None:
    """24 pictures: INCONCLUSIVE, all of them in the CSV, the first ones with their classes."""
    judged = run(layers=False, data=str(classifier.data), limit=24, seed=1)
    assert (judged.verdict, judged.exit_code, judged.counts) == ("INCONCLUSIVE", 2, {"pictures": 24})
    assert judged.reference is not None
    assert judged.reference > 0.7
    assert len(recorder.rows("top5.csv")) == 24 * 5
    assert isinstance(judged.shown, ShownClasses)
    assert [each.index for each in judged.shown.first] == list(range(10))
    assert {i for each in judged.shown.first for i in each.tested.classes} <= set(judged.shown.indices)


def toy_judged(folder: Path, reference: Predictor, tested: Predictor, **request: Any) -> Validity:
    """The judgement of two models for the toy's pictures, eight of noise unless others are asked for."""
    task, _, _, asked = toys.classification(folder, 8)
    return judge("toy", task, reference, tested, replace(asked, **request))


@pytest.mark.parametrize(("layer", "factor"), [("_conv_stem", 0.95), ("_blocks.6._bn2", 1.05), ("_fc", 0.95)])
def test_a_scaled_layer_is_not_valid(run: Run, classifier: Any, predictor: Make, layer: str, factor: float) -> None:
    """One layer's weights are off by 5 %: exit code 1."""
    faulty = copy.deepcopy(classifier.model)
    with torch.no_grad():
        dict(faulty.named_modules())[layer].weight.mul_(factor)
    judged = run(predictor(faulty, "bf16"), limit=4)
    assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)


def test_swapped_colours_are_not_valid(run: Run, classifier: Any, predictor: Make) -> None:
    """BGR in place of RGB is found in eager mode, and by KL if the layers cannot be observed."""
    swapped = predictor(classifier.model, "bf16", via=lambda x: classifier.model(x[:, [2, 1, 0]]))
    for tested in (swapped, replace(swapped, model=None)):
        judged = run(tested, data=str(classifier.data), limit=20)
        assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)
        assert "kl" in toys.failed(judged)


def test_nan_is_not_valid_and_a_nan_reference_cannot_judge(tmp_path: Path, predictor: Make) -> None:
    """One NaN weight on the tested side gives 1; in the reference 2, since its NaN is no fault of the tested side."""
    model, broken = toys.network(), toys.network()
    with torch.no_grad():
        broken[1].weight[5, 5] = torch.nan
    for reference, tested, code in ((model, broken, 1), (broken, broken, 2), (broken, model, 2)):
        judged = toy_judged(tmp_path, predictor(reference), predictor(tested, "bf16"), limit=4)
        assert judged.exit_code == code
        assert judged.verdict == ("NOT VALID" if code == 1 else "CANNOT JUDGE")


def test_nothing_in_common_is_not_valid(run: Run, classifier: Any, predictor: Make) -> None:
    """Negated logits share no class with the reference's."""
    judged = run(predictor(classifier.model, "bf16", via=lambda x: -classifier.model(x)), limit=2)
    assert "in_common" in toys.failed(judged)
    assert judged.exit_code == 1


def test_a_reference_far_from_its_published_quality_cannot_judge(run: Run, classifier: Any) -> None:
    """Class names in another order make fp32 itself wrong: a broken set-up, exit code 2."""
    task = classifier.task
    shifted = replace(task, wnids=lambda: [*task.wnids()[7:], *task.wnids()[:7]])
    judged = run(task=shifted, layers=False, data=str(classifier.data), limit=20)
    assert (judged.verdict, judged.exit_code) == ("CANNOT JUDGE", 2)
    assert judged.reason == Reason(ReasonKind.FAR_FROM_PUBLISHED)
    assert "published" in toys.failed(judged)
    own = run(task=shifted, layers=False, data=str(classifier.data), limit=2, own_weights=True)
    assert own.verdict != "CANNOT JUDGE"


def test_progress_shows_the_running_metric(tmp_path: Path, predictor: Make) -> None:
    """Called after every batch with the metric so far; each model runs in its own context."""
    entered: list[str] = []

    @contextlib.contextmanager
    def active(name: str) -> Any:
        entered.append(name)
        yield

    task, _, _, request = toys.classification(tmp_path, 8)
    predictors = [
        replace(predictor(toys.network(), precision), active=lambda p=precision: active(p))
        for precision in ("fp32", "bf16")
    ]
    seen: list[JudgedSoFar] = []
    judge("toy", task, *predictors, replace(request, limit=5), progress=seen.append)
    assert [(each.items, each.total) for each in seen] == [(2, 5), (4, 5), (5, 5)]
    assert seen[-1].metric == "top1"
    assert entered.count("bf16") == 1 + 3
    assert entered.count("fp32") == 3 + 3, "twice on the first inputs, to see whether it is repeatable"


def test_every_batch_has_the_same_shape(tmp_path: Path, predictor: Make) -> None:
    """A model that cannot be hooked (compiled, traced) sees one shape only, the last batch filled up."""
    shapes, model = set(), toys.network()

    def call(x: Any) -> Any:
        shapes.add(tuple(x.shape))
        return model(x)

    tested = Predictor("compiled", call, "fp32", None)
    assert toy_judged(tmp_path, predictor(model), tested, data=None, limit=7, batch=4).exit_code == 0
    assert shapes == {(4, 3, 16, 16)}


def planted(
    folder: Path,
    right: Callable[[int], tuple[bool, bool]],
    *,
    labelled: bool = True,
    tolerance: dict[str, float] | None = None,
) -> Validity:
    """Judge 140 pictures of 7 classes; ``right`` says of which pictures the two models are right."""
    task, reference, tested, request = toys.classification(folder, 140)
    if not labelled:  # as many directories as classes would be labels
        task = replace(task, labels=lambda: [f"other {i}" for i in range(8)])
    bound = bind("toy", task, reference, tested, replace(request, tolerance=tolerance or {}))
    rows = []
    for index, item in enumerate(bound.items):
        true = index // 20
        tops = [TopClasses((true if is_right else (true + 1) % 7,), (0.9,), True) for is_right in right(index)]
        picture = ClassifiedPicture(index, item.name, item.label, *tops, 0.0, 0.0, 0.0, 0.0, False)
        rows.append(bound.row(picture))
    return conclude(bound, PartialResult("classification", tuple(rows)))


def test_an_unchanged_accuracy_does_not_hide_a_broken_class(tmp_path: Path) -> None:
    """The last class is lost, and as many pictures of the others are gained: NOT VALID, and the class is named."""
    judged = planted(tmp_path, lambda index: (index >= 40, 20 <= index < 120))
    assert judged.reference == judged.tested == 100 / 140
    assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)
    assert judged.classes is not None
    worst = judged.classes.worst[0]
    assert (worst.name, worst.loss, worst.broken) == ("c6", 1.0, True)
    assert [each.about for each in judged.checks if each.name in toys.failed(judged)] == [worst]


def test_pictures_without_labels_are_compared_by_the_class_that_fp32_sees(tmp_path: Path) -> None:
    """One class always flips."""
    judged = planted(tmp_path, lambda index: (True, index >= 20), labelled=False)
    assert judged.metric == "top1_agreement"
    assert judged.classes is not None
    assert (judged.classes.worst[0].name, judged.classes.worst[0].broken) == ("other 0", True)


def test_changes_in_both_directions_are_inconclusive_on_few_pictures(tmp_path: Path) -> None:
    """Every 20th picture is lost and as many are gained: the set is too small to say that nothing is lost."""
    judged = planted(tmp_path, lambda index: (index % 20 != 7, index % 20 != 3))
    assert (judged.verdict, judged.exit_code) == ("INCONCLUSIVE", 2)
    top1, top5 = judged.changes
    assert (top1.metric, top1.worse, top1.better, top1.p_value, top5.metric) == ("top1", 7, 7, 1.0, "top5")
    assert (top1.reference, top1.tested) == (judged.reference, judged.tested)
    assert top1.detectable_loss == pytest.approx(2.49 * (14 / 139) ** 0.5 / 140**0.5, rel=0.01)
    assert 0.04 < top1.possible_loss < 0.08
    assert judged.deciding_change == top1
    assert judged.reason is not None
    assert judged.reason.kind is ReasonKind.UNDECIDED_CHECKS
    assert judged.reason.more_items
    (accuracy,) = (each for each in judged.checks if each.name == "accuracy")
    assert accuracy.undecided
    assert accuracy.seen == 1
    assert accuracy.bound is not None and 0.9 < accuracy.bound < 0.99


def test_enough_pictures_are_valid(tmp_path: Path) -> None:
    """140 pictures of which none changes are VALID if 3 % may be lost, and not if 1 % may."""
    assert planted(tmp_path / "a", lambda index: (True, True)).verdict == "INCONCLUSIVE"
    tolerance = {"accuracy": 0.97, "kl": 0.05}
    assert planted(tmp_path / "b", lambda index: (True, True), tolerance=tolerance).verdict == "VALID"


def test_a_certain_loss_is_not_valid(tmp_path: Path) -> None:
    """14 of 140 pictures, two of each class: no class is broken."""
    judged = planted(tmp_path, lambda index: (True, index % 20 < 18))
    assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)
    assert judged.reason == Reason(ReasonKind.FAILED_CHECKS)
    assert toys.failed(judged) == ["accuracy"]
