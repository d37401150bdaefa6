"""What is said about a soak test."""

from __future__ import annotations

import random

from modelzoo.records.throughput import Soak, SoakPoint
from modelzoo.views import soak


def points(drift: float, leak: float) -> tuple[SoakPoint, ...]:
    """Two hours in 60 stretches, with 1 % of noise: latency by ``drift`` per hour, memory by ``leak`` MB per hour."""
    source = random.Random(4)
    return tuple(
        SoakPoint(
            120.0 * n,
            120.0,
            1000,
            0.1 * (1 + drift * n / 30) * source.gauss(1, 0.01),
            None,
            int(2e9 + leak * 1e6 * n / 30),
        )
        for n in range(60)
    )


def test_the_trend_of_an_interrupted_test_is_not_extrapolated() -> None:
    """It is over the time for which it lasted."""
    lines = soak.lines(Soak(0, 7200.0, points(0.0, 0.0)[:10]))
    assert lines[0] == "The soak test was interrupted after 19 min of 2 h."
    assert " in 19 min [" in lines[1]
    assert soak.lines(Soak(0, 5.0)) == ["Nothing could be counted in the soak test; make --soak longer."]


def test_a_drift_is_told_from_noise() -> None:
    """Each with its trend per hour and the interval."""
    steady = soak.lines(Soak(0, 7200.0, points(0.0, 0.0)))
    assert steady[0].startswith("Median latency: no significant drift, ")
    assert steady[2] == "Memory of all instances: no significant drift, +0.0 MB per hour [+0.0, +0.0]."
    drifting = soak.lines(Soak(0, 7200.0, points(0.05, 30.0)))
    assert drifting[0].startswith("Median latency: drifts, +")
    assert drifting[2].startswith("Memory of all instances: drifts, +30.0 MB per hour")
    assert len(soak.columns(Soak(0, 7200.0, points(0.0, 0.0)))[0].cells) <= 12


def test_a_trend_without_an_interval_is_not_shown() -> None:
    """Stretches that follow each other closely are worth only a few."""
    found = tuple(SoakPoint(120.0 * n, 120.0, 1000, 0.1 + 0.05 * (n // 10 % 2), None, n // 10 % 2) for n in range(20))
    lines = soak.lines(Soak(0, 7200.0, found))
    assert lines[1] == "Median latency: too few independent stretches to tell a drift; make --soak longer."
    assert lines[3] == "Memory of all instances: too few independent stretches to tell a drift; make --soak longer."


def test_a_test_that_ended_early_says_why() -> None:
    """What was measured until then is shown."""
    lines = soak.lines(Soak(0, 7200.0, points(0.0, 0.0)[:20], error="instance 1: it was ended by SIGKILL"))
    assert lines[0] == "The soak test ended early: instance 1: it was ended by SIGKILL"
    assert len(lines) == 4
    assert (
        soak.lines(Soak(0, 60.0, points(0.0, 0.0)[:3]))[0] == "3 stretches are too few for a trend; make --soak longer."
    )
