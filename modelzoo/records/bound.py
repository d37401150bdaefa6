"""A bound on a percentile of the latency: ``p99=50ms``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LatencyBound:
    """What a service promises of its latency.

    Attributes:
        percent: the percentile, over 0 and below 100: 99 for p99.
        seconds: what it must not exceed.
    """

    percent: float
    seconds: float

    @property
    def name(self) -> str:
        """The percentile as tables name it: ``p99``."""
        return f"p{self.percent:g}"

    @property
    def fraction(self) -> float:
        """The percentile as a fraction."""
        return self.percent / 100

    def __str__(self) -> str:
        """As on the command line: ``p99=50ms``."""
        return f"{self.name}={1e3 * self.seconds:g}ms"
