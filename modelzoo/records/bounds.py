"""A bound that latencies have to meet."""

from __future__ import annotations

import msgspec


class LatencyBound(msgspec.Struct, frozen=True):
    """A percentile of the latencies must not be over a limit.

    Attributes:
        percentile: over 0 and under 100: 99 stands for p99.
        seconds: the limit.
    """

    percentile: float
    seconds: float

    @property
    def text(self) -> str:
        """As it is written on the command line: ``p99=50ms``.

        >>> LatencyBound(99.9, 0.0125).text
        'p99.9=12.5ms'
        """
        return f"{self.name}={self.seconds * 1e3:.10g}ms"

    @property
    def name(self) -> str:
        """Of the percentile: ``p99``."""
        return f"p{self.percentile:.10g}"
