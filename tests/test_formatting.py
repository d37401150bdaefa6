"""Numbers as text, and warnings: data that can be filled in, in one line each, with what to do."""

from __future__ import annotations

import math
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelzoo import formatting
from modelzoo.warning import Severity, WarningCode, rank, warning_for

INF = math.inf


@pytest.mark.parametrize(
    ("value", "text"),
    [(9.9996, "10.00"), (0.99996, "1.000"), (123456.0, "123456"), (0.0000123456, "0.00001235"), (0.0, "0"), (INF, "0")],
)
def test_significant_digits(value: float, text: str) -> None:
    """Four digits, in plain decimals."""
    assert formatting.significant(value) == text


@given(st.floats(1e-9, 9e8), st.floats(1e-9, 9e8))
def test_a_value_is_not_rounded_onto_its_threshold(value: float, threshold: float) -> None:
    """What is shown of two different numbers differs, in the same order, however near they are."""
    for other in (value, math.nextafter(threshold, 0)):
        shown, limit = formatting.apart(other, threshold, digits=2)
        assert (float(shown) < float(limit), shown == limit) == (other < threshold, other == threshold)
    assert formatting.apart(0.0203, None, 0.02, digits=2) == ("0.0203", "–", "0.02")
    assert formatting.apart(0.05002, 0.05, digits=3, show=formatting.seconds) == ("50.02 ms", "50.00 ms")


@given(st.floats(1e-9, 9e8))
def test_significant_keeps_four_digits_without_an_exponent(value: float) -> None:
    """Any time is four digits in the pattern that scripts search for, and close to the value."""
    text = formatting.significant(value)
    assert re.fullmatch(r"[0-9]+(\.[0-9]+)?", text)
    digits = text.replace(".", "").lstrip("0")
    assert len(digits) == 4 or ("." not in text and len(digits) > 4)
    assert float(text) == pytest.approx(value, rel=5.01e-4)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0561234, "56.12 ms"), (8.12e-4, "812.0 µs"), (61.0, "61.00 s")],
)
def test_seconds_have_a_fitting_unit(value: float | None, text: str) -> None:
    """Four digits in s, ms or µs."""
    assert formatting.seconds(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.3, "0 s"), (7.4, "7 s"), (59.6, "1 min"), (750, "12 min 30 s"), (3600, "1 h"), (3723, "1 h 2 min")],
)
def test_a_time_to_wait_has_two_units(seconds: float, text: str) -> None:
    """In hours, seconds do not matter."""
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.0132, "1.3 %"), (1.0, "over 100 %"), (INF, "over 100 %")],
)
def test_a_half_width_beyond_its_value_is_not_a_number(fraction: float, text: str) -> None:
    """An interval wider than its value says no more than that."""
    assert formatting.percent(fraction) == text


@pytest.mark.parametrize("code", WarningCode, ids=lambda code: code.name)
def test_every_warning_is_a_line_with_a_hint(code: WarningCode) -> None:
    """Message and hint can be filled in, fit on a line each, and end without a full stop."""
    parts = [part for text in code.value[1:] for part in string.Formatter().parse(text)]
    values = {name: 1.5 if (spec or "").endswith(("f", "g")) else "X" for _, name, spec, _ in parts if name}
    found = warning_for(code, **values)
    assert found.code == code.name
    for text in (found.message, found.hint):
        assert text and not re.search(r"\n|{|\.$", text)


def test_codes_are_listed_most_harmful_first() -> None:
    """The order of the definitions is the order in which conditions are shown."""
    severities = [code.value[0] for code in WarningCode]
    assert severities == sorted(severities)
    assert set(severities) == set(Severity)


def test_an_unknown_code_is_neither_hidden_nor_first() -> None:
    """A result of a later version may hold codes that this version does not know."""
    assert rank("FP32_NOT_FP32") < rank("OTHER_LOAD") < rank("INVENTED_LATER") < rank("OUTLIERS")
    assert rank("INVENTED_LATER")[0] is Severity.DISTORTS
