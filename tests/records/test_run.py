"""What a result knows about itself: groups, labels and whether everything failed alike."""

from __future__ import annotations

import pytest
from fake_runs import make, result_of

from modelzoo.records.run import Result, Run, SettingRequest
from modelzoo.setting import Setting

BF16 = Setting("bf16")
DIED = make(None, error="the worker died")


def test_groups_are_sorted_by_round_and_empty_ones_left_out() -> None:
    """Groups come in the order asked for, whichever run ended first."""
    requested = tuple(SettingRequest("toy", setting) for setting in (Setting(), BF16, Setting(batch=8)))
    runs = (make([1.0], group=2), make([1.0], group=0, round=1), make([1.0], group=0))
    groups = Result((), "", requested, runs).groups()
    assert {group: [run.round for run in found] for group, found in groups.items()} == {0: [0, 1], 2: [0]}
    assert list(groups) == [0, 2]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((), None),
        ((DIED,), DIED),
        ((DIED, make(None, error="the worker died", setting=BF16)), DIED),
        ((DIED, make(None, error="out of memory", setting=BF16)), None),
        ((DIED, make([1.0], setting=BF16)), None),
        ((make([1.0]),), None),
    ],
)
def test_one_error_for_all_runs_is_found(runs: tuple[Run, ...], expected: Run | None) -> None:
    """Only if nothing ran, and everything failed for the same reason."""
    assert result_of(*runs).only_error() == expected
