"""A classifier judged: agreement of its logits, accuracy, broken classes, planted faults, bad references."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from validity import toys
from validity.toys import bind, judge, predictor

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.partial import ClassifiedPicture, JudgedSoFar, PartialResult, TopClasses
from modelzoo.records.validity import Reason, ReasonKind
from modelzoo.validity import Predictor, Validity
from modelzoo.validity.classification import compare_logits, kl_divergence, softmax
from modelzoo.validity.judging import conclude


def compared(p: np.ndarray, q: np.ndarray, bits: int | None = None) -> ClassifiedPicture:
    return compare_logits(0, "x", (p, q), None, bits)


LOGITS = st.floats(-30, 30)


@given(arrays("float64", st.integers(5, 12), elements=LOGITS), st.floats(-50, 50))
def test_a_constant_added_to_all_logits_changes_nothing(logits: np.ndarray, constant: float) -> None:
    """Softmax ignores a common shift, and so do KL and the drift."""
    one = compared(logits, logits + constant)
    assert (one.kl, one.probability_change) == (pytest.approx(0, abs=1e-9), pytest.approx(0, abs=1e-9))


@given(st.integers(5, 12).flatmap(lambda n: st.tuples(*[arrays("float64", n, elements=LOGITS)] * 2)))
def test_divergence_bounds_the_change_of_a_probability(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """Pinsker's inequality, the source of the KL threshold: no probability moves more than √(KL/2)."""
    one, (p, q) = compared(*pair), pair
    assert one.margin >= 0
    assert not one.agrees or one.margin == 0
    assert np.abs(softmax(p) - softmax(q)).max() <= np.sqrt(kl_divergence(p, q) / 2) + 1e-9


@pytest.mark.parametrize(
    ("lead", "bits", "is_tie"),
    [(0.1, 8, True), (0.1, 11, False), (0.01, 11, True), (0.1, None, False), (0.2, 8, False)],
)
def test_a_flip_within_one_rounding_step_is_a_near_tie(lead: float, bits: int | None, is_tie: bool) -> None:
    """At 20 a bf16 step is 0.125: a lead of 0.1 is a tie in bf16, none in fp16 and fp32, and 0.2 is none."""
    one = compared(np.array([20 + lead, 20.0, 0, 0, 0]), np.array([20.0, 20 + lead, 0, 0, 0]), bits)
    assert (one.agrees, one.margin, one.near_tie) == (False, pytest.approx(lead), is_tie)


def toy_judged(folder: Path, reference: Predictor, tested: Predictor, **request: Any) -> Validity:
    """The judgement of two models for the toy's pictures, 24 of noise."""
    task, _, _, asked = toys.classification(folder, 24)
    return judge("toy", task, reference, tested, replace(asked, **request))


def sure() -> Any:
    """The toy's network with weights so large that its classes are certain."""
    model = toys.network()
    with torch.no_grad():
        model[1].weight.mul_(20)
    return model


def test_a_scaled_layer_is_not_valid(tmp_path: Path) -> None:
    """Its weights are off by 5 %: exit code 1, although no class changes."""
    faulty = sure()
    with torch.no_grad():
        faulty[1].weight.mul_(1.05)
    judged = toy_judged(tmp_path, predictor(sure()), predictor(faulty, "bf16"), data=None, limit=4)
    assert (judged.verdict, judged.exit_code, toys.failed(judged)) == ("NOT VALID", 1, ["layer_drift"])


def test_swapped_colours_are_not_valid(tmp_path: Path) -> None:
    """BGR in place of RGB is found in eager mode, and by KL if the layers cannot be observed."""
    model = sure()
    swapped = Predictor(lambda x: model(x[:, [2, 1, 0]]), "bf16", model)
    for tested in (swapped, replace(swapped, model=None)):
        judged = toy_judged(tmp_path, predictor(model), tested)
        assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)
        assert "kl" in toys.failed(judged)


def test_nan_is_not_valid_and_a_nan_reference_cannot_judge(tmp_path: Path) -> None:
    """One NaN weight on the tested side gives 1; in the reference 2, since its NaN is no fault of the tested side."""
    model, broken = toys.network(), toys.network()
    with torch.no_grad():
        broken[1].weight[5, 5] = torch.nan
    for reference, tested, code in ((model, broken, 1), (broken, broken, 2), (broken, model, 2)):
        judged = toy_judged(tmp_path, predictor(reference), predictor(tested, "bf16"), limit=4)
        assert (judged.verdict, judged.exit_code) == ("NOT VALID" if code == 1 else "CANNOT JUDGE", code)


def test_a_reference_far_from_its_published_quality_cannot_judge(tmp_path: Path) -> None:
    """Fp32 that is right about noise in one case of 7 where 80 % are published is a broken set-up: exit code 2."""
    task, *models, request = toys.classification(tmp_path, 24)
    published = replace(task, published={"top1": 80.0})
    judged = judge("toy", published, *models, request)
    assert (judged.verdict, judged.exit_code) == ("CANNOT JUDGE", 2)
    assert judged.reason == Reason(ReasonKind.FAR_FROM_PUBLISHED)
    assert "published" in toys.failed(judged)
    assert judge("toy", published, *models, replace(request, own_weights=True)).verdict != "CANNOT JUDGE"


def test_progress_shows_the_running_metric(tmp_path: Path) -> None:
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


def test_every_batch_has_the_same_shape(tmp_path: Path) -> None:
    """A model that cannot be hooked (compiled, traced) sees one shape only, the last batch filled up."""
    shapes, model = set(), toys.network()

    def call(x: Any) -> Any:
        shapes.add(tuple(x.shape))
        return model(x)

    tested = Predictor(call, "fp32", None)
    assert toy_judged(tmp_path, predictor(model), tested, data=None, limit=7, batch=4).exit_code == 0
    assert shapes == {(4, 3, 16, 16)}


def test_another_number_of_outputs_than_labels_is_one_line(tmp_path: Path) -> None:
    """A background class would shift every label by one."""
    task, *models, request = toys.classification(tmp_path, 7)
    line = "^the model has 7 outputs, but the workload 6 labels: drop the background's, or name it$"
    with pytest.raises(UsageError, match=line):
        judge("toy", replace(task, labels=lambda: [f"c{i}" for i in range(6)]), *models, replace(request, data=None))


def planted(
    folder: Path, right: Callable[[int], tuple[bool, bool]], *, labelled: bool = True, **tolerance: float
) -> Validity:
    """Judge 140 pictures of 7 classes; ``right`` says of which pictures the two models are right."""
    task, _, tested, request = toys.classification(folder, 140)
    if not labelled:  # as many directories as classes would be labels
        task = replace(task, labels=lambda: [f"other {i}" for i in range(8)])
    bound = bind("toy", task, tested, replace(request, tolerance=tolerance))
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
    worst = judged.classes.worst[0]
    assert (worst.name, worst.loss, worst.broken) == ("c6", 1.0, True)
    assert [each.about for each in judged.checks if each.name in toys.failed(judged)] == [worst]


def test_pictures_without_labels_are_compared_by_the_class_that_fp32_sees(tmp_path: Path) -> None:
    """One class always flips."""
    judged = planted(tmp_path, lambda index: (True, index >= 20), labelled=False)
    assert judged.metric == "top1_agreement"
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
    assert judged.reason is not None and judged.reason.more_items
    assert judged.reason.kind is ReasonKind.UNDECIDED_CHECKS
    (accuracy,) = (each for each in judged.checks if each.name == "accuracy")
    assert (accuracy.undecided, accuracy.seen) == (True, 1)
    assert accuracy.bound is not None and 0.9 < accuracy.bound < 0.99
    assert [each.index for each in judged.shown.first] == list(range(10))
    assert {i for each in judged.shown.first for i in each.tested.classes} <= set(judged.shown.indices)


def test_enough_pictures_are_valid(tmp_path: Path) -> None:
    """140 pictures of which none changes are VALID if 3 % may be lost, and not if 1 % may."""
    assert planted(tmp_path / "a", lambda index: (True, True)).verdict == "INCONCLUSIVE"
    assert planted(tmp_path / "b", lambda index: (True, True), accuracy=0.97, kl=0.05).verdict == "VALID"


def test_a_certain_loss_is_not_valid(tmp_path: Path) -> None:
    """14 of 140 pictures, two of each class: no class is broken. If all are lost, nothing is in common."""
    judged = planted(tmp_path / "a", lambda index: (True, index % 20 < 18))
    assert (judged.verdict, judged.exit_code) == ("NOT VALID", 1)
    assert judged.reason == Reason(ReasonKind.FAILED_CHECKS)
    assert toys.failed(judged) == ["accuracy"]
    assert "in_common" in toys.failed(planted(tmp_path / "b", lambda index: (True, False)))
