"""The rules from checks to a verdict and an exit code."""

from __future__ import annotations

import math

import pytest

from modelzoo.frozen import replace
from modelzoo.records.partial import LayerError
from modelzoo.records.validity import Check
from modelzoo.validity import ValidityRequest
from modelzoo.validity.thresholds import check_value
from modelzoo.validity.verdict import common_check, decide, finite_check, layer_checks, published_check, tensor_check

GOOD = check_value("accuracy", 1.0, {})
BAD = check_value("accuracy", 0.5, {})
LAYER = LayerError("conv", "Conv2d", 0.004, 0.0, 0.001, 0.004, 0.0, True)
BROKEN = replace(LAYER, name="broken", error=None, scale=None, finite=False)


def request(**changes: object) -> ValidityRequest:
    return replace(ValidityRequest(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("checks", "count", "broken", "random", "word", "code"),
    [
        ([GOOD], 10, "", False, "VALID", 0),
        ([GOOD, BAD], 10, "", False, "NOT VALID", 1),
        ([GOOD], 1, "", False, "CANNOT JUDGE", 2),
        ([BAD], 1, "", False, "NOT VALID", 1),
        ([GOOD], 10, "the reference is NaN", False, "CANNOT JUDGE", 2),
        ([GOOD, finite_check(1, 10, ())], 10, "the reference is NaN", False, "NOT VALID", 1),
        ([GOOD, common_check(False)], 10, "", False, "NOT VALID", 1),
        ([check_value("published", 5.0, {}), BAD], 10, "", False, "CANNOT JUDGE", 2),
        ([check_value("tensor_error", 1.0, {})], 10, "", True, "NUMERIC ONLY", 0),
        ([check_value("tensor_error", 9.0, {})], 10, "", True, "NOT VALID", 1),
        ([finite_check(3, 10, ())], 10, "", True, "NOT VALID", 1),
        ([check_value("tensor_error", 1.0, {})], 1, "", True, "CANNOT JUDGE", 2),
    ],
)
def test_rules(checks: list[Check], count: int, broken: str, random: bool, word: str, code: int) -> None:
    """One picture, NaN, a broken reference and random weights are never VALID."""
    verdict, exit_code, reason = decide(checks, count, "picture", broken, random)
    assert (verdict, exit_code) == (word, code)
    assert bool(reason) == (word != "VALID")


def test_the_published_quality_gets_the_margin_of_the_set() -> None:
    """0.70 against 0.80 is possible on 40 pictures and out of the question on 5,000."""
    deviation = math.sqrt(0.8 * 0.2)
    assert published_check(0.8, 0.7, deviation, 40, request())[0].passed
    assert not published_check(0.8, 0.7, deviation, 5000, request())[0].passed
    assert published_check(0.8, 0.9, deviation, 5000, request())[0].passed
    assert published_check(0.8, 0.1, deviation, 5000, request(own_weights=True)) == []
    assert published_check(0.0, 0.1, deviation, 5000, request()) == []


def test_a_layer_with_nan_never_passes() -> None:
    """It is named as the first, and its error has no value whatever the tolerance."""
    check = finite_check(0, 10, (LAYER, BROKEN))
    assert not check.passed
    assert "first in broken" in check.source
    for found in (layer_checks((LAYER, BROKEN), {"layer_drift": 1e9})[1], tensor_check((LAYER, BROKEN), {})):
        assert (found.seen, found.passed) == (None, False)
    assert layer_checks((), {}) == []
    assert all(found.passed for found in layer_checks((LAYER,), {}))
    assert not tensor_check((), {}).passed
