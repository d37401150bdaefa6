"""The rules from checks to a verdict and an exit code."""

from __future__ import annotations

import math
from typing import Optional

import pytest

from modelzoo.frozen import replace
from modelzoo.records.partial import LayerError
from modelzoo.records.validity import Check, Reason, ReasonKind, WorstLayer
from modelzoo.validity import ValidityRequest
from modelzoo.validity.checks import check_value
from modelzoo.validity.protocol import Findings
from modelzoo.validity.verdict import (
    common_check,
    decide,
    decide_numbers,
    finite_check,
    layer_checks,
    published_check,
    sampled_checks,
    tensor_check,
)

BROKEN_REFERENCE = Reason(ReasonKind.REFERENCE_NOT_FINITE)
GOOD = check_value("accuracy", 1.0, {})
BAD = check_value("accuracy", 0.5, {})
LAYER = LayerError("conv", "Conv2d", 0.004, 0.0, 0.001, 0.004, 0.0, True)
BROKEN = replace(LAYER, name="broken", error=None, scale=None, finite=False)
UNKNOWN = replace(LAYER, name="unknown", error=0.5, baseline=None)
OPEN = replace(check_value("accuracy", 0.995, {}), passed=False, undecided=True, bound=0.97, more_items=1117)


def request(**changes: object) -> ValidityRequest:
    return replace(ValidityRequest(), **changes)  # type: ignore[arg-type]


def findings(clusters: int = 100, problem: Optional[Reason] = None, checks: tuple[Check, ...] = ()) -> Findings:
    return Findings("top1", 0.8, 0.8, checks, True, 0, problem, {}, {}, clusters=clusters)


@pytest.mark.parametrize(
    ("checks", "broken", "word", "code"),
    [
        ([GOOD], None, "VALID", 0),
        ([GOOD, BAD], None, "NOT VALID", 1),
        ([GOOD, OPEN], None, "INCONCLUSIVE", 2),
        ([BAD, OPEN], None, "NOT VALID", 1),
        ([GOOD], BROKEN_REFERENCE, "CANNOT JUDGE", 2),
        ([GOOD, finite_check(1, ())], None, "NOT VALID", 1),
        ([GOOD, finite_check(1, ())], BROKEN_REFERENCE, "CANNOT JUDGE", 2),
        ([GOOD, common_check(False)], None, "NOT VALID", 1),
        ([check_value("published", 5.0, {}), BAD], None, "CANNOT JUDGE", 2),
    ],
)
def test_rules_on_the_users_data(checks: list[Check], broken: Optional[Reason], word: str, code: int) -> None:
    """VALID takes every check; a broken reference, NaN and what is not certain are never VALID."""
    verdict, exit_code, reason = decide(checks, findings(problem=broken))
    assert (verdict, exit_code) == (word, code)
    assert (reason is not None) == (word != "VALID")


@pytest.mark.parametrize(
    ("checks", "count", "broken", "word", "code"),
    [
        ([check_value("tensor_error", 1.0, {})], 10, None, "NUMERIC ONLY", 0),
        ([check_value("tensor_error", 9.0, {})], 10, None, "NOT VALID", 1),
        ([finite_check(3, ())], 10, None, "NOT VALID", 1),
        ([check_value("tensor_error", 1.0, {})], 1, None, "INCONCLUSIVE", 2),
        ([check_value("tensor_error", 1.0, {})], 10, BROKEN_REFERENCE, "CANNOT JUDGE", 2),
        ([OPEN, check_value("layer_drift", 1.0, {})], 10, None, "NUMERIC ONLY", 0),
        ([BAD, check_value("layer_drift", 1.0, {})], 10, None, "NOT VALID", 1),
        ([tensor_check((), {})], 10, None, "INCONCLUSIVE", 2),
    ],
)
def test_rules_on_the_builtin_inputs_and_with_random_weights(
    checks: list[Check], count: int, broken: Optional[Reason], word: str, code: int
) -> None:
    """Accuracy is not judged: what is undecided about it changes nothing, and VALID is never said."""
    verdict, exit_code, reason = decide_numbers(checks, count, broken, random_weights=False)
    assert (verdict, exit_code) == (word, code)
    assert reason is not None


def test_an_inconclusive_verdict_says_what_would_decide() -> None:
    """How many more items; on few pictures, how many a verdict requires."""
    assert decide([OPEN], findings())[2] == Reason(ReasonKind.UNDECIDED_CHECKS, None, 1117)
    assert decide([replace(OPEN, more_items=None)], findings())[2] == Reason(ReasonKind.UNDECIDED_CHECKS)
    assert decide([OPEN], findings(clusters=12))[2] == Reason(ReasonKind.FEW_CLUSTERS, 20, 1117)


def test_the_reason_tells_random_weights_from_the_builtin_data() -> None:
    """Predictions of random weights mean nothing; on the built-in data the accuracy is not judged."""
    assert decide_numbers([GOOD], 42, None, random_weights=True)[2] == Reason(ReasonKind.RANDOM_WEIGHTS)
    assert decide_numbers([GOOD], 42, None, random_weights=False)[2] == Reason(ReasonKind.BUILT_IN_DATA)


@pytest.mark.parametrize("check", [GOOD, BAD])
def test_under_20_clusters_nothing_is_decided_about_the_users_data(check: Check) -> None:
    """However good or bad 19 pictures look; the built-in inputs show faults all the same."""
    few, enough = findings(19, checks=(check,)), findings(20, checks=(check,))
    assert [each.undecided for each in sampled_checks(few, 19, numeric_only=False)] == [True]
    assert sampled_checks(enough, 20, numeric_only=False) == [check]
    assert sampled_checks(few, 19, numeric_only=True) == [check]
    published = check_value("published", 5.0, {})
    assert sampled_checks(findings(19, checks=(published,)), 19, numeric_only=False) == [published]


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
    check = finite_check(0, (LAYER, BROKEN))
    assert not check.passed
    assert check.about == WorstLayer("broken")
    tolerant = layer_checks((LAYER, BROKEN), {"layer_drift": 1e9}, numeric_only=False)
    for found in (tolerant[1], tensor_check((LAYER, BROKEN), {})):
        assert (found.seen, found.passed, found.undecided) == (None, False, False)
    assert all(found.passed for found in layer_checks((LAYER,), {}, numeric_only=False))


@pytest.mark.parametrize("layers", [(), (UNKNOWN,), (LAYER, UNKNOWN)])
def test_without_a_baseline_numbers_are_not_judged(layers: tuple[LayerError, ...]) -> None:
    """Where numbers are all that is judged: undecided. On the user's data those layers are left out."""
    for found in (tensor_check(layers, {}), layer_checks(layers, {}, numeric_only=True)[-1]):
        assert (found.passed, found.undecided) == (False, True)
        assert isinstance(found.about, WorstLayer)
        assert (found.about.name, found.about.explained) == (layers[-1].name if layers else None, None)
    assert all(found.passed for found in layer_checks(layers, {}, numeric_only=False))
    assert not tensor_check((*layers, replace(LAYER, error=0.1)), {}).undecided
