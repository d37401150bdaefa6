"""The grammar of latency bounds."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from modelzoo.cli.serving import latency_bound
from modelzoo.records.bounds import LatencyBound


@pytest.mark.parametrize(
    ("text", "percentile", "seconds"),
    [("p99=50ms", 99, 0.05), ("p90=1.5s", 90, 1.5), ("p99.9=800us", 99.9, 8e-4), ("p50=.5ms", 50, 5e-4)],
)
def test_a_bound_is_a_percentile_and_a_time(text: str, percentile: float, seconds: float) -> None:
    """It is written again as it was given, in milliseconds."""
    found = latency_bound(text)
    assert (found.percentile, found.seconds) == (pytest.approx(percentile), pytest.approx(seconds))
    again = latency_bound(found.text)
    assert (again.percentile, again.seconds) == (found.percentile, pytest.approx(found.seconds))


@pytest.mark.parametrize(
    "text", ["", "p99", "99=50ms", "p99=50", "p99=-5ms", "p100=5ms", "p0=5ms", "p99=0ms", "p99=5m"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    """A time without a unit would be guessed."""
    with pytest.raises(ArgumentTypeError, match="such as p99=50ms|under 100"):
        latency_bound(text)


def test_a_bound_names_its_percentile() -> None:
    """As tables show it."""
    assert LatencyBound(99, 0.05).name == "p99"
    assert LatencyBound(99.9, 0.0125).text == "p99.9=12.5ms"
