"""Thresholds and the rules from checks to a verdict, an exit code and a line."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.errors import UsageError
from modelzoo.validity import LIMITS, Check, Validity, ValidityRequest, line, tables
from modelzoo.validity.thresholds import hold, verified
from modelzoo.validity.verdict import common_check, conclude, finite_check, published_check, resolution

GOOD = hold("accuracy", 1.0, {})
BAD = hold("accuracy", 0.5, {})


def request(**changes: object) -> ValidityRequest:
    return dataclasses.replace(ValidityRequest(Path("out")), **changes)  # type: ignore[arg-type]


@given(st.sampled_from(sorted(LIMITS)), st.floats(1e-6, 1e6))
def test_the_tolerance_that_would_have_passed_passes(name: str, seen: float) -> None:
    """Giving would_pass_at back as --tolerance makes the check pass."""
    first = hold(name, seen, {})
    assert first.would_pass_at is not None
    assert hold(name, seen, {name: first.would_pass_at}).passed


@given(st.sampled_from(sorted(LIMITS)), st.sampled_from([None, math.nan, math.inf]))
def test_nothing_and_nan_pass_no_tolerance(name: str, seen: float | None) -> None:
    """A figure that could not be had never passes."""
    assert not hold(name, seen, {name: -1e9}).passed
    assert not hold(name, seen, {name: 1e9}).passed


def test_the_users_tolerance_replaces_default_and_allowance() -> None:
    """And is named as the source."""
    allowance = resolution(0.9, 100)
    assert hold("accuracy", 0.985, {}, *allowance).passed
    check = hold("accuracy", 0.985, {"accuracy": 0.99}, *allowance)
    assert (check.passed, check.required, check.source) == (False, 0.99, "--tolerance")


def test_unknown_tolerances_are_refused() -> None:
    """The message lists the names there are."""
    with pytest.raises(UsageError, match="layer_scale"):
        verified({"acuracy": 0.9})
    with pytest.raises(UsageError, match="must be a number"):
        verified({"accuracy": math.nan})


def test_the_allowance_is_one_item_and_fades_with_the_set() -> None:
    """One of 100 at 0.9 is 1.1 %; one of 50,000 is nothing."""
    assert resolution(0.9, 100)[0] == pytest.approx(0.01 / 0.9)
    assert resolution(0.9, 50_000)[0] < 1e-4
    assert resolution(0.0, 10) == (0.0, "")


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
        ([hold("published", 5.0, {}), BAD], 10, "", False, "CANNOT JUDGE", 2),
        ([hold("tensor_error", 1.0, {})], 10, "", True, "NUMERIC ONLY", 0),
        ([hold("tensor_error", 9.0, {})], 10, "", True, "NUMERIC ONLY", 1),
        ([finite_check(3, 10, ())], 10, "", True, "NOT VALID", 1),
        ([hold("tensor_error", 1.0, {})], 1, "", True, "CANNOT JUDGE", 2),
    ],
)
def test_rules(checks: list[Check], count: int, broken: str, random: bool, word: str, code: int) -> None:
    """One picture, NaN, a broken reference and random weights are never VALID."""
    seen, exit_code, reason = conclude(checks, count, "picture", broken, random)
    assert (seen, exit_code) == (word, code)
    assert bool(reason) == (word != "VALID")


def test_the_published_quality_gets_the_margin_of_the_set() -> None:
    """0.70 against 0.80 is possible on 40 pictures and out of the question on 5,000."""
    deviation = math.sqrt(0.8 * 0.2)
    assert published_check(0.8, 0.7, deviation, 40, request())[0].passed
    assert not published_check(0.8, 0.7, deviation, 5000, request())[0].passed
    assert published_check(0.8, 0.9, deviation, 5000, request())[0].passed
    assert published_check(0.8, 0.1, deviation, 5000, request(own_weights=True)) == []
    assert published_check(None, 0.1, deviation, 5000, request()) == []


def verdict_of(**changes: object) -> Validity:
    start = Validity("resnet50", "classification", "top1", 0.8, 0.79, "VALID", 0, "100 pictures", "", (GOOD, BAD))
    return dataclasses.replace(start, **changes)  # type: ignore[arg-type]


def test_the_line_has_six_fields_and_says_how_small_the_set_was() -> None:
    """Verdict last; in parentheses behind it the built-in set, or why nothing could be judged."""
    assert line(verdict_of()) == "[VALID] resnet50 top1 0.8 0.79 VALID"
    small = verdict_of(small=True, scope="32 crops of 1 photograph: agreement only")
    assert line(small).endswith(" VALID (32 crops of 1 photograph: agreement only)")
    unjudged = verdict_of(verdict="CANNOT JUDGE", exit_code=2, reason="no", reference=None)
    assert line(unjudged) == "[VALID] resnet50 top1 - 0.79 CANNOT JUDGE (no)"


def test_a_validity_is_json_and_its_tables_show_what_would_have_passed() -> None:
    """The check that failed is shown with seen, required and the value that would have passed."""
    from rich.console import Console

    made = verdict_of(notes=("a [note] in brackets",))
    assert json.loads(json.dumps(dataclasses.asdict(made)))["verdict"] == "VALID"
    console = Console(width=140, file=None, record=True, quiet=False, force_terminal=False)
    with console.capture() as captured:
        for table in tables(made):
            console.print(table)
    shown = captured.get()
    for word in ("FAIL", "pass", "would pass at", "0.5", "0.99", "MLPerf", "[note]", "--tolerance accuracy="):
        assert word in shown
