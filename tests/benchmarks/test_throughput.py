"""What the benchmark of throughput concludes from its rounds."""

from __future__ import annotations

import pytest
from fake_runs import make
from throughput import agreement_claim, printed, window_claims


@pytest.mark.parametrize(
    ("ratios", "holds"),
    [
        ([0.99, 1.0, 1.02], True),
        ([0.90, 0.97, 1.02], None),
        ([0.90, 0.91, 0.92], False),
    ],
)
def test_too_few_rounds_do_not_refute_the_agreement(ratios: list[float], holds: bool | None) -> None:
    """Nor do they show it, unless their mean is within 2 %."""
    assert agreement_claim(ratios, 2).holds is holds


def test_the_worst_round_decides_on_the_window() -> None:
    """Both how far apart the instances began, and the share that was counted."""
    assert [each.holds for each in window_claims([1e-3, 2e-3], [0.9, 0.95], 2)] == [True, True]
    assert [each.holds for each in window_claims([1e-3, 6e-3], [0.7, 0.95], 2)] == [False, False]


def test_the_figure_of_run_is_the_one_that_it_prints() -> None:
    """The batch of 4 ÷ the mean latency, although the median is 1 s."""
    assert printed(make([1.0, 1.0, 1.0, 1.0, 5.0])) == pytest.approx(20 / 9)
