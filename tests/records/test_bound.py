"""A bound is written as it is given."""

from __future__ import annotations

from modelzoo.cli.values import latency_bound
from modelzoo.records.bound import LatencyBound


def test_its_text_can_be_parsed() -> None:
    """In milliseconds, whatever the unit was."""
    bound = LatencyBound(99.0, 0.05)
    assert (bound.name, bound.fraction, str(bound)) == ("p99", 0.99, "p99=50ms")
    assert latency_bound(str(bound)) == bound
    assert str(latency_bound("p99.9=1.5s")) == "p99.9=1500ms"
