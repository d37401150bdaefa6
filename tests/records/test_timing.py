"""The record of what was timed."""

from __future__ import annotations

from modelzoo.records.timing import DEVICE, ISSUE, LATENCY, SamplingStop, Series, Timing, WarmUpEnd

TIMING = Timing(
    cold_start=0.5,
    warmup=(0.3, 0.2),
    series=(
        Series(LATENCY, (0.11, 0.12)),
        Series(DEVICE, (0.1, 0.09)),
    ),
    watched=LATENCY,
    warmup_end=WarmUpEnd.SETTLED,
    stop=SamplingStop.TIME_LIMIT,
)


def test_steady_samples_are_those_of_the_watched_series() -> None:
    """Which series counts is part of the record, not a convention."""
    assert TIMING.steady == (0.11, 0.12)
    assert Timing(0.5, (), TIMING.series, DEVICE, WarmUpEnd.FIXED, SamplingStop.ITERATIONS).steady == (0.1, 0.09)


def test_a_series_that_was_not_recorded_is_empty() -> None:
    """A CPU run has no issue times; looking them up is no error."""
    assert TIMING.find(ISSUE) is None
    assert TIMING.values(ISSUE) == ()
    assert TIMING.find(DEVICE) == TIMING.series[1]
