"""Tests of the conditions that may distort results, and of failures, as text."""

from __future__ import annotations

import pytest
from fake_runs import make, shown, warning

from modelzoo.results.summary import SummaryRow
from modelzoo.setting import Setting
from modelzoo.views.differences import conditions
from modelzoo.warning import Severity, WarningCode, WarningMessage, warning_for

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
    """All rows of a workload are its name; all rows together need no name; many settings are counted."""
    load, note = warning("OTHER_LOAD"), warning("OUTLIERS")
    rows = with_warnings((load, note), (load,), (load,), ())
    assert [(each.word, each.concerns) for each in conditions(rows)] == [("warning", "a; b fp32"), ("note", "a fp32")]
    (every,) = conditions(with_warnings(*[(load,)] * 4))
    assert (every.concerns, every.message, every.hint) == ("", "a message", "a hint")
    runs = [make(STEADY, setting=Setting(threads=1 + n), warnings=(load,) * (n < 5)) for n in range(8)]
    assert [each.concerns for each in conditions(shown(*runs)) if each.message == "a message"] == ["5 of 8 settings"]


def test_the_most_harmful_comes_first() -> None:
    """In the order of ``WarningCode``; one that is unknown before the notes."""
    codes = ("OUTLIERS", "LATER", "OTHER_LOAD", "FP32_NOT_FP32")
    found = conditions(with_warnings(*((warning(code, code),) for code in codes)))
    assert [str(each.message) for each in found] == ["FP32_NOT_FP32", "OTHER_LOAD", "LATER", "OUTLIERS"]
    assert [each.severity for each in found] == [0, 1, 1, Severity.NOTE]


def test_of_two_disturbances_the_larger_one_comes_first() -> None:
    """By the share of the time that each may explain, not by its kind."""
    load = warning_for(WarningCode.OTHER_LOAD, cores=0.12)
    odd = warning_for(WarningCode.ODD_PROCESS, number=3, count=8, percent=108.0, direction="slower")
    found = conditions(with_warnings(*[(load, odd)] * 4))
    assert [str(each.message).split()[0] for each in found] == ["process", "other"]


@pytest.mark.parametrize(
    ("code", "values", "message"),
    [
        (
            WarningCode.OTHER_LOAD,
            [{"cores": 0.96}, {"cores": 0.171}, {"cores": 0.2}],
            "other programs used 0.17 to 0.96 cores during the run",
        ),
        (
            WarningCode.OUTLIERS,
            [{"count": 9, "total": 20}, {"count": 12, "total": 20}],
            "9 to 12 of 20 samples are outliers (above 1.5 × the median); none was dropped",
        ),
        (
            WarningCode.WAIT_POLICY,
            [{"value": "ACTIVE"}, {"value": "PASSIVE"}],
            "OMP_WAIT_POLICY=ACTIVE; PASSIVE changes the speed of short operators",
        ),
    ],
)
def test_the_values_of_several_rows_are_merged(code: WarningCode, values: list[dict[str, float]], message: str) -> None:
    """Numbers become a range; of words that differ, each is said once."""
    (found,) = conditions(with_warnings(*((warning_for(code, **each),) for each in values)))
    assert str(found.message) == message


def test_messages_that_cannot_be_filled_in_anew_are_said_one_after_the_other() -> None:
    """Of a code that this version does not know, or with values of another version."""
    for code, values in (("LATER", {"x": 1.0}), ("OTHER_LOAD", {"x": 1.0})):
        pair = [WarningMessage(code, text, "a hint", {**values}) for text in ("this", "that")]
        (found,) = conditions(with_warnings(*((each,) for each in pair)))
        assert (found.message, found.hint) == ("this; that", "a hint")
