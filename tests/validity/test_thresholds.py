"""Thresholds: what passes, the tolerance that would have passed, and allowances."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.errors import UsageError
from modelzoo.validity.thresholds import LIMITS, NO_ALLOWANCE, check_tolerances, check_value, one_item_of


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


def test_the_users_tolerance_replaces_default_and_allowance() -> None:
    """And ``--tolerance`` is given as the source."""
    allowance = one_item_of(100, 0.9)
    assert check_value("accuracy", 0.985, {}, allowance).passed
    check = check_value("accuracy", 0.985, {"accuracy": 0.99}, allowance)
    assert (check.passed, check.required, check.source) == (False, 0.99, "--tolerance")


def test_unknown_tolerances_are_refused() -> None:
    """The message lists the existing names."""
    with pytest.raises(UsageError, match="layer_scale"):
        check_tolerances({"acuracy": 0.9})
    with pytest.raises(UsageError, match="must be a number"):
        check_tolerances({"accuracy": math.nan})


def test_the_allowance_is_one_item_of_the_data_set() -> None:
    """One of 100 at 0.9 is 1.1 %; one of 50,000 is nothing."""
    assert one_item_of(100, 0.9).value == pytest.approx(0.01 / 0.9)
    assert one_item_of(50_000, 0.9).value < 1e-4
    assert one_item_of(10, 0.0) == NO_ALLOWANCE
