"""Tests of the conditions that may distort results, and of failures, as text."""

from __future__ import annotations

import pytest
from fake_runs import make, shown, warning

from modelzoo.results.summary import SummaryRow
from modelzoo.setting import Setting
from modelzoo.views.conditions import grouped_conditions, grouped_failures, merged
from modelzoo.warning import Severity, WarningMessage

STEADY = [0.0501, 0.0502, 0.05, 0.0503] * 5


def with_warnings(*warnings: tuple[WarningMessage, ...]) -> list[SummaryRow]:
    """One workload ``a`` and one ``b``, each in fp32 and bf16, with these warnings in turn."""
    places = [("a", Setting()), ("a", Setting("bf16")), ("b", Setting()), ("b", Setting("bf16"))]
    runs = [
        make(STEADY, workload=workload, setting=setting, group=group, round=number, warnings=found)
        for group, ((workload, setting), found) in enumerate(zip(places, warnings))
        for number in (0, 1)
    ]
    return shown(*runs)


def test_a_condition_is_said_once_with_the_rows_it_concerns() -> None:
    """All rows of a workload are its name; all rows together need no name."""
    load, note = warning("OTHER_LOAD"), warning("OUTLIERS")
    rows = with_warnings((load, note), (load,), (load,), ())
    assert [(each.code, each.concerns) for each in grouped_conditions(rows)] == [
        ("OTHER_LOAD", "a; b fp32"),
        ("OUTLIERS", "a fp32"),
    ]
    (every,) = grouped_conditions(with_warnings(*[(load,)] * 4))
    assert (every.concerns, every.message, every.hint) == ("", "a message", "a hint")


def test_many_settings_are_counted() -> None:
    """Names of twenty settings would hide the condition."""
    runs = [
        make(
            STEADY,
            setting=Setting(threads=number + 1),
            group=number,
            round=place,
            warnings=(warning("X"),) * (number < 5),
        )
        for number in range(8)
        for place in (0, 1)
    ]
    (found,) = grouped_conditions(shown(*runs))
    assert found.concerns == "5 of 8 settings"


def test_the_most_harmful_comes_first() -> None:
    """In the order of ``WarningCode``; one that is unknown before the notes."""
    codes = ("OUTLIERS", "LATER", "OTHER_LOAD", "FP32_NOT_FP32")
    found = grouped_conditions(with_warnings(*((warning(code),) for code in codes)))
    assert [each.code for each in found] == ["FP32_NOT_FP32", "OTHER_LOAD", "LATER", "OUTLIERS"]
    assert [each.severity for each in found] == [0, 1, 1, Severity.NOTE]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["the same", "the same"], "the same"),
        (["used 0.96 cores", "used 0.17 cores", "used 0.2 cores"], "used 0.17 to 0.96 cores"),
        (["66,432 faults", "231,810 faults"], "66,432 to 231,810 faults"),
        (["2 of 9 (error 2e-07)", "12 of 9 (error 3e-06)"], "2 to 12 of 9 (error 2e-07 to 3e-06)"),
        (["random (A is not cached): slow", "random (B/c is not cached): slow"], "random (… is not cached): slow"),
        (["set --threads 2, now", "set --threads 10, now"], "set --threads 2 to 10, now"),
    ],
)
def test_messages_are_merged(texts: list[str], said: str) -> None:
    """Numbers become a range, and other words that differ an ellipsis."""
    assert merged(texts) == said


def test_the_number_of_processes_that_warned_is_left_to_the_details() -> None:
    """``(in 1 of 2 processes)`` is true of one row only."""
    rows = shown(
        make(STEADY, warnings=(warning("X"),)), make(STEADY, round=1), make(STEADY, round=2, warnings=(warning("X"),))
    )
    assert (rows[0].warnings[0].processes, rows[0].warnings[0].checked) == (2, 3)
    assert grouped_conditions(rows)[0].message == "a message"


def test_failures_with_one_reason_are_one() -> None:
    """Each with the names of its rows."""
    rows = shown(*(make(None, workload=name, group=place, error="died") for place, name in enumerate("ab")))
    assert grouped_failures(rows) == [("a fp32, b fp32", "died")]
