"""The grammar of ``--slo p99=50ms``."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

from modelzoo.records.bounds import LatencyBound

_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_BOUND = re.compile(r"p(\d+(?:\.\d+)?)=(\d+(?:\.\d+)?|\.\d+)(us|µs|ms|s)")


def latency_bound(text: str) -> LatencyBound:
    """Return the bound that ``text`` states, for argparse.

    >>> latency_bound("p99=50ms")
    LatencyBound(percentile=99.0, seconds=0.05)
    """
    found = _BOUND.fullmatch(text.strip())
    if found is None:
        raise ArgumentTypeError(f"{text!r} is not a bound; write a percentile and a time, such as p99=50ms or p90=1.5s")
    percentile, seconds = float(found[1]), float(found[2]) * _UNITS[found[3]]
    if not 0 < percentile < 100 or not seconds > 0:
        raise ArgumentTypeError(f"{text!r}: the percentile must be over 0 and under 100, and the time over 0")
    return LatencyBound(percentile, seconds)
