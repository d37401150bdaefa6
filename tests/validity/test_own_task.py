"""A task that a workload brings with it is judged, divided into shards and merged as the built-in ones are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from places import ROOT
from validity.toys import bind, judge

from modelzoo.errors import InputError, UsageError
from modelzoo.records.partial import PartialResult
from modelzoo.records.validity import Validity, ValidityRequest, ValidityVerdict
from modelzoo.validity import Predictor, ScoredTask, judging
from modelzoo.validity.task import PreparedItem, TaskContext
from modelzoo.views.judgement import valid_line
from modelzoo.workload.discovery import load_workload

EXAMPLE = ROOT / "examples" / "regression"
ROWS = 400


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Rows whose right number the network of ``trained`` predicts to within a few hundredths."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(ROWS, 8, generator=generator)
    with torch.no_grad():
        right = trained()(features).flatten() + 0.04 * torch.randn(ROWS, generator=generator)
    path = tmp_path / "rows.csv"
    np.savetxt(path, torch.column_stack([features, right]).numpy(), delimiter=",", header="the right one is the last")
    return path


def trained() -> Any:
    """The example's network, with weights that are always the same."""
    torch.manual_seed(1)
    return load_workload(EXAMPLE).build({}).eval()


def predictor(change: float = 0.0) -> Predictor:
    """The network, with weights that are off by a share ``change``."""
    model = trained()
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(1 + change)
    return Predictor(model, model=model)


def judged(reference: Predictor, tested: Predictor, data: Path) -> Validity:
    """The judgement of two networks by the example's task."""
    request = ValidityRequest(data=str(data), batch=16, own_weights=True)
    return judge("regression", load_workload(EXAMPLE).judge({}), reference, tested, request)


@pytest.mark.parametrize(("change", "verdict"), [(0.0, ValidityVerdict.VALID), (0.2, ValidityVerdict.NOT_VALID)])
def test_it_is_judged_by_its_mean_score(data: Path, change: float, verdict: ValidityVerdict) -> None:
    """With an interval, and with the checks of the layers that every task has."""
    found = judged(predictor(), predictor(change), data)
    assert (found.verdict, found.task, found.metric, found.items) == (verdict, "regression", "close_enough", ROWS)
    assert {"accuracy", "layer_drift"} <= {check.name for check in found.checks}
    assert [each.metric for each in found.changes] == ["close_enough"]
    assert valid_line(found).startswith("[VALID] regression close_enough 0.9")


def test_predictions_that_are_not_finite_are_not_scored(data: Path) -> None:
    """They are a fault, as in every task."""
    broken = Predictor(lambda rows: torch.full((len(rows), 1), float("nan")))
    found = judged(predictor(), broken, data)
    assert found.verdict is ValidityVerdict.NOT_VALID
    (check,) = [each for each in found.checks if each.name == "finite"]
    assert (check.passed, check.seen) == (False, ROWS)
    assert judged(broken, predictor(), data).verdict is ValidityVerdict.CANNOT_JUDGE


class Fixed(ScoredTask):
    """A number is its own score; a text is right if it is "yes", and scores of classes if the second is the best."""

    def __init__(self, count: int) -> None:
        self.count = count

    def read(self, request: ValidityRequest) -> Any:
        return np.arange(self.count).astype(object)  # whose truth value is ambiguous

    def score(self, item: Any, prediction: Any) -> float:
        if np.ndim(prediction):
            return float(np.argmax(prediction) == 1)
        return float(prediction == "yes") if isinstance(prediction, str) else prediction


def compared(*pairs: tuple[Any, Any]) -> Validity:
    """The judgement of items with these predictions of fp32 and of the setting under test."""
    task = judging.bind(Fixed(len(pairs)), TaskContext("own", ValidityRequest(data="x"), "tested", 8))
    rows = [task.compare(each, PreparedItem([]), [a], [b]) for each, (a, b) in enumerate(pairs)]
    return judging.conclude(task, PartialResult("own", tuple(rows)))


def in_common(*pairs: tuple[Any, Any]) -> bool:
    """Whether these predictions have anything in common."""
    (check,) = (each for each in compared(*pairs).checks if each.name == "in_common")
    return check.passed


def test_scores_of_zero_have_nothing_in_common() -> None:
    """What both got wrong may be wrong in different ways; four items that fp32 alone gets right may be chance."""
    nothing_to_lose = compared(*[(0.0, 0.0)] * 400)
    assert (nothing_to_lose.verdict, nothing_to_lose.reason.more_items) == (ValidityVerdict.INCONCLUSIVE, None)
    assert not in_common(*[(1.0, 0.0)] * 5, (0.0, 0.0))
    assert in_common(*[(1.0, 0.0)] * 4, (0.0, 1.0))
    assert in_common((1.0, 0.5), (0.0, 0.0))
    assert in_common((0.0, 0.0), (0.0, 0.0))


def test_predictions_may_be_texts_or_scores_of_classes() -> None:
    """Only numbers can be NaN or Inf; a class that both models exclude is no fault."""
    found = compared(("yes", "yes"), ("yes", "no"))
    assert (found.reference, found.tested, found.checks[0].seen) == (1.0, 0.5, 0)
    unused, all_used = np.array([-np.inf, 1.0]), np.array([-1e9, 1.0])
    found = compared((unused, unused), (unused, all_used))
    assert (found.reference, found.tested, found.checks[0].seen) == (1.0, 0.5, 1)


def test_mistakes_of_a_task_are_named() -> None:
    """A score beyond 1, more than one prediction of an item, and no items."""
    with pytest.raises(UsageError, match="the score of 0 must be from 0 to 1, not 2.0"):
        compared((2.0, 2.0))
    task = judging.bind(Fixed(1), TaskContext("own", ValidityRequest(data="x")))
    with pytest.raises(UsageError, match="0 has 2 rows; every item of a ScoredTask must have one"):
        task.compare(0, PreparedItem([]), [1.0, 1.0], [1.0, 1.0])
    with pytest.raises(InputError, match="^rows.csv holds no items$"):
        bind("own", Fixed(0), predictor(), ValidityRequest(data="rows.csv"))


def test_every_row_needs_a_prediction(data: Path) -> None:
    """Otherwise items would be compared with the predictions of others."""
    tested = Predictor(lambda rows: torch.zeros(1, 1))
    with pytest.raises(UsageError, match="task regression makes 1 predictions of 16 rows; make one of each"):
        judged(predictor(), tested, data)
