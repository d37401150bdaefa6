"""benchmarks/process_start.py: the ratio of two spreads."""

from __future__ import annotations

import math
import random
import statistics

import process_start
import pytest


@pytest.mark.parametrize("heavy", [False, True])
def test_the_interval_covers_the_ratio(heavy: bool) -> None:
    """About as often as it says, for normal values and for those with heavier tails, whose F test would not."""
    generator = random.Random(1)

    def drawn(scale: float) -> list[float]:
        scales = [generator.choice((1, 1, 1, 2)) if heavy else 1 for _ in range(20)]
        return [generator.gauss(0, scale * each) for each in scales]

    found = [process_start.spread_ratio(drawn(1), drawn(1.5)) for _ in range(600)]
    covered = statistics.fmean(each.low <= 1.5 <= each.high for each in found)
    assert 0.91 < covered < 0.99
    assert math.exp(statistics.fmean(math.log(each.value) for each in found)) == pytest.approx(1.5, rel=0.03)


def test_the_claim_needs_processes(capsys: pytest.CaptureFixture[str]) -> None:
    """It holds, does not hold, or cannot be shown from so few."""
    generator = random.Random(2)

    def side(sd: float, count: int) -> list[object]:
        return [process_start.Process((math.exp(generator.gauss(0, sd)),), 2.0) for _ in range(count)]

    assert process_start.judged("toy", side(0.1, 40), side(0.1, 40)).holds is True
    assert process_start.judged("toy", side(0.1, 40), side(0.3, 40)).holds is False
    assert process_start.judged("toy", side(0.1, 4), side(0.1, 4)).holds is None
    assert "seconds of a process beside its samples, median: 2.00 and 2.00" in capsys.readouterr().out
