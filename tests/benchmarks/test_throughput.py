"""What the benchmark of throughput concludes from its rounds."""

from __future__ import annotations

from typing import Optional

import pytest
from throughput import agreement_claim, warm, window_claims

from modelzoo.records.run_report import Turn


@pytest.mark.parametrize(
    ("ratios", "holds"),
    [
        ([0.99, 1.0, 1.02], True),
        ([0.90, 0.97, 1.02], None),
        ([0.90, 0.91, 0.92], False),
    ],
)
def test_too_few_rounds_do_not_refute_the_agreement(ratios: list[float], holds: Optional[bool]) -> None:
    """Nor do they show it, unless their mean is within 2 %."""
    assert agreement_claim(ratios, 2).holds is holds


def test_the_worst_round_decides_on_the_window() -> None:
    """Both how far apart the instances began, and the share that was counted."""
    assert [each.holds for each in window_claims([1e-3, 2e-3], [0.9, 0.95], 2)] == [True, True]
    assert [each.holds for each in window_claims([1e-3, 6e-3], [0.7, 0.95], 2)] == [False, False]


def test_the_first_batch_of_each_turn_is_left_out() -> None:
    """It finds the caches as another process left them."""
    turns = [Turn(0.0, 1.0, samples=2), Turn(2.0, 3.0, samples=3)]
    assert warm([9.0, 1.0, 9.0, 2.0, 3.0], turns) == [1.0, 2.0, 3.0]
