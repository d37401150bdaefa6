"""Durations and fractions on the command line."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from modelzoo.cli.parser import duration, fraction, short_time, whole_numbers


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("0.5s", 0.5), (".5m", 30), ("0s", 0)],
)
def test_a_duration_is_given_with_its_unit(text: str, seconds: float) -> None:
    """In seconds, minutes or hours."""
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "10d", "-5s", "1e3s", "10mm", "nan", "inf", "5s!"])
def test_anything_else_is_no_duration(text: str) -> None:
    """A number alone could be seconds or minutes."""
    with pytest.raises(ArgumentTypeError, match="is not a duration; write it with its unit: 90s, 10m or 2h"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "value"), [("5%", 0.05), ("0.05", 0.05), ("2.5 %", 0.025), (".1", 0.1), ("300%", 3.0), ("0.99", 0.99)]
)
def test_a_fraction_may_be_a_percentage(text: str, value: float) -> None:
    """Whether it is in range depends on the option."""
    assert fraction(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "'3' may mean 3 % or 300 %; write it with its sign: 3%"),
        ("1", "'1' may mean 1 % or 100 %; write it with its sign: 1%"),
        ("2.5", "'2.5' may mean 2.5 % or 250 %; write it with its sign: 2.5%"),
    ],
)
def test_a_bare_number_from_1_on_is_no_fraction(text: str, message: str) -> None:
    """3 is more often meant as 3 % than as 300 %, and a gate that is a hundred times as wide passes everything."""
    with pytest.raises(ArgumentTypeError) as caught:
        fraction(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["", "%", "-5%", "five", "5%%", "nan", "inf", "1e-2"])
def test_anything_else_is_no_fraction(text: str) -> None:
    """The message shows both ways to write it."""
    with pytest.raises(ArgumentTypeError, match="is not a fraction; write 5% or 0.05"):
        fraction(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5ms", 5e-3), ("1.5s", 1.5), ("250us", 250e-6), ("250µs", 250e-6), ("0ms", 0.0)]
)
def test_a_short_time_is_given_with_its_unit(text: str, seconds: float) -> None:
    """In milliseconds, microseconds or seconds."""
    assert short_time(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5m", "5 ms", "-5ms", "infs", "1h"])
def test_anything_else_is_no_short_time(text: str) -> None:
    """Minutes are not short."""
    with pytest.raises(ArgumentTypeError, match="is not a time; write it with its unit: 5ms"):
        short_time(text)


@pytest.mark.parametrize(("text", "numbers"), [("1", (1,)), ("1,2, 4", (1, 2, 4)), ("2,2", (2,))])
def test_a_list_of_whole_numbers(text: str, numbers: tuple[int, ...]) -> None:
    """Each once."""
    assert whole_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "0", "1,,2", "-1", "1.5", "a", "²"])
def test_anything_else_is_no_such_list(text: str) -> None:
    """The message has an example."""
    with pytest.raises(ArgumentTypeError, match="such as 1,2,4"):
        whole_numbers(text)
