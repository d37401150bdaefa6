"""Thresholds: what passes, and the tolerance that would have passed."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from modelzoo.validity.checks import LIMITS, check_value


@given(st.sampled_from(sorted(LIMITS)), st.floats(1e-6, 1e6))
def test_the_tolerance_that_would_have_passed_passes(name: str, seen: float) -> None:
    """Giving would_pass_at back as --tolerance makes the check pass."""
    first = check_value(name, seen, {})
    assert first.would_pass_at is not None
    assert check_value(name, seen, {name: first.would_pass_at}).passed


@given(st.sampled_from(sorted(LIMITS)), st.sampled_from([None, math.nan, math.inf]))
def test_nothing_and_nan_pass_no_tolerance(name: str, seen: float | None) -> None:
    """A value that could not be computed never passes."""
    assert not check_value(name, seen, {name: -1e9}).passed
    assert not check_value(name, seen, {name: 1e9}).passed


def test_the_users_tolerance_replaces_the_default() -> None:
    """And the check says so."""
    assert check_value("accuracy", 0.991, {}).passed
    check = check_value("accuracy", 0.991, {"accuracy": 0.995})
    assert (check.passed, check.required, check.is_own) == (False, 0.995, True)
