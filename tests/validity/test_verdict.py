"""The rules from checks to a verdict and an exit code."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.frozen import replace
from modelzoo.records.partial import LayerError
from modelzoo.records.validity import Check, Reason, ReasonKind, WorstLayer
from modelzoo.validity.checks import LIMITS, check_value
from modelzoo.validity.judging import common_check, decide, drift_check, finite_check, layer_checks, of_few_clusters

BROKEN_REFERENCE = Reason(ReasonKind.REFERENCE_NOT_FINITE)
GOOD = check_value("accuracy", 1.0, {})
BAD = check_value("accuracy", 0.5, {})
LAYER = LayerError("conv", "Conv2d", 0.004, 0.0, 0.001, 0.004, 0.0, True)
BROKEN = replace(LAYER, name="broken", error=None, scale=None, finite=False)
UNKNOWN = replace(LAYER, name="unknown", error=0.5, baseline=None)
OPEN = replace(check_value("accuracy", 0.995, {}), passed=False, undecided=True, bound=0.97, more_items=1117)


TENSOR = check_value("tensor_error", 1.0, {})
DATA, NUMBERS = None, ReasonKind.BUILT_IN_DATA


@pytest.mark.parametrize(
    ("checks", "broken", "numbers", "word", "code"),
    [
        ([GOOD], None, DATA, "VALID", 0),
        ([GOOD, BAD], None, DATA, "NOT VALID", 1),
        ([GOOD, OPEN], None, DATA, "INCONCLUSIVE", 2),
        ([BAD, OPEN], None, DATA, "NOT VALID", 1),
        ([GOOD], BROKEN_REFERENCE, DATA, "CANNOT JUDGE", 2),
        ([GOOD, finite_check(1, ())], None, DATA, "NOT VALID", 1),
        ([GOOD, finite_check(1, ())], BROKEN_REFERENCE, DATA, "CANNOT JUDGE", 2),
        ([GOOD, common_check(False)], None, DATA, "NOT VALID", 1),
        ([check_value("published", 5.0, {}), BAD], None, DATA, "CANNOT JUDGE", 2),
        # Of built-in inputs and random weights, what is undecided about accuracy changes nothing; nothing is VALID.
        ([TENSOR], None, NUMBERS, "NUMERIC ONLY", 0),
        ([check_value("tensor_error", 9.0, {})], None, NUMBERS, "NOT VALID", 1),
        ([finite_check(3, ())], None, NUMBERS, "NOT VALID", 1),
        ([TENSOR], BROKEN_REFERENCE, NUMBERS, "CANNOT JUDGE", 2),
        ([OPEN, check_value("layer_drift", 1.0, {})], None, NUMBERS, "NUMERIC ONLY", 0),
        ([BAD, check_value("layer_drift", 1.0, {})], None, NUMBERS, "NOT VALID", 1),
        ([drift_check("tensor_error", (), {})], None, NUMBERS, "INCONCLUSIVE", 2),
    ],
)
def test_checks_decide(
    checks: list[Check], broken: Reason | None, numbers: ReasonKind | None, word: str, code: int
) -> None:
    """VALID takes every check; a broken reference, NaN and what is not certain are never VALID."""
    verdict, exit_code, reason = decide(checks, broken, items=100, clusters=100, numbers=numbers)
    assert (verdict, exit_code, reason is None) == (word, code, word == "VALID")


def test_an_inconclusive_verdict_says_what_would_decide() -> None:
    """How many more items; on few pictures, how many a verdict requires; one picture is never enough."""

    def reason(check: Check, clusters: int = 100) -> Reason | None:
        return decide([check], None, items=100, clusters=clusters, numbers=None)[2]

    assert reason(OPEN) == Reason(ReasonKind.UNDECIDED_CHECKS, None, 1117)
    assert reason(replace(OPEN, more_items=None)) == Reason(ReasonKind.UNDECIDED_CHECKS)
    assert reason(OPEN, clusters=12) == Reason(ReasonKind.FEW_CLUSTERS, 20, 1117)
    assert decide([TENSOR], None, items=1, clusters=1, numbers=NUMBERS)[:2] == ("INCONCLUSIVE", 2)


def test_few_clusters_decide_nothing_but_whether_the_reference_is_broken() -> None:
    """However good or bad 19 pictures look."""
    published = check_value("published", 5.0, {})
    first, second, third = of_few_clusters([GOOD, BAD, published], 19, 19)
    assert (first.undecided, first.would_pass_at, first.more_items) == (True, None, 1)
    assert (second.undecided, third) == (True, published)


def test_a_layer_with_nan_never_passes() -> None:
    """It is named as the first, and its error has no value whatever the tolerance."""
    check = finite_check(0, (LAYER, BROKEN))
    assert not check.passed
    assert check.about == WorstLayer("broken")
    tolerant = layer_checks((LAYER, BROKEN), {"layer_drift": 1e9}, numeric_only=False)
    for found in (tolerant[1], drift_check("tensor_error", (LAYER, BROKEN), {})):
        assert (found.seen, found.passed, found.undecided) == (None, False, False)
    assert all(found.passed for found in layer_checks((LAYER,), {}, numeric_only=False))


@pytest.mark.parametrize("layers", [(), (UNKNOWN,), (LAYER, UNKNOWN)])
def test_without_a_baseline_numbers_are_not_judged(layers: tuple[LayerError, ...]) -> None:
    """Where numbers are all that is judged: undecided. On the user's data those layers are left out."""
    for found in (drift_check("tensor_error", layers, {}), layer_checks(layers, {}, numeric_only=True)[-1]):
        assert (found.passed, found.undecided) == (False, True)
        assert (found.about.name, found.about.explained) == (layers[-1].name if layers else None, None)
    assert all(found.passed for found in layer_checks(layers, {}, numeric_only=False))
    assert not drift_check("tensor_error", (*layers, replace(LAYER, error=0.1)), {}).undecided


@given(st.sampled_from(sorted(LIMITS)), st.floats(1e-6, 1e6))
def test_the_tolerance_that_would_have_passed_passes(name: str, seen: float) -> None:
    """Giving would_pass_at back as --tolerance makes the check pass."""
    first = check_value(name, seen, {})
    second = check_value(name, seen, {name: first.would_pass_at})
    assert (second.passed, second.required, second.is_own) == (True, first.would_pass_at, True)


@given(st.sampled_from(sorted(LIMITS)), st.sampled_from([None, math.nan, math.inf]))
def test_nothing_and_nan_pass_no_tolerance(name: str, seen: float | None) -> None:
    """A value that could not be computed never passes."""
    assert not check_value(name, seen, {name: -1e9}).passed
    assert not check_value(name, seen, {name: 1e9}).passed
