"""A search begins near its answer."""

from __future__ import annotations

from load_results import plan

from modelzoo.frozen import replace
from modelzoo.load.prediction import START, predicted
from modelzoo.records.load import Calibration


def test_the_prediction_is_the_answer_of_virtual_time() -> None:
    """Below the capacity; a looser bound allows more."""
    known = Calibration(1, (0.0095, 0.01, 0.0105), 100.0)
    tight = predicted(plan(is_search=True), known, {1: 0.01}, None)
    assert 40.0 < tight < 100.0
    loose = plan(is_search=True)
    loose = replace(loose, bound=type(loose.bound)(99.0, 0.5))
    assert tight < predicted(loose, known, {1: 0.01}, None) < 105.0


def test_a_bound_below_the_service_time_begins_low() -> None:
    """The search itself has to show that nothing meets it."""
    known = Calibration(1, (0.1,), 10.0)
    assert predicted(plan(is_search=True), known, {}, None) == START * 10.0 / 2
