"""Queues with one server, by theory: Lindley's recursion, and the mean wait of M/D/1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def lindley(arrivals: ArrayLike, services: ArrayLike) -> NDArray[np.float64]:
    """Compute the wait of each request in a FIFO queue with one server.

    W(n + 1) = max(0, W(n) + S(n) - A(n + 1)), with A the gap before an arrival (Lindley, "The theory of queues with a
    single server", Mathematical Proceedings of the Cambridge Philosophical Society 48, 1952). Unrolled, W is a running
    sum minus its running minimum.

    Args:
        arrivals: seconds, ascending.
        services: seconds that each request takes once it is served.
    """
    import numpy as np

    steps = np.asarray(services, dtype=float)[:-1] - np.diff(np.asarray(arrivals, dtype=float))
    sums = np.concatenate([[0.0], np.cumsum(steps)])
    return sums - np.minimum.accumulate(sums)


def m_d_1_wait(load: float, service: float) -> float:
    """Compute the mean wait with Poisson arrivals and a constant service time: Pollaczek and Khinchine's formula.

    load · service / (2 (1 - load)) (Kleinrock, "Queueing Systems", volume 1, 1975, section 5.6).
    """
    return load * service / (2 * (1 - load))


def late_latencies(arrivals: ArrayLike, service: float, p99: float, seed: int) -> NDArray[np.float64]:
    """Compute latencies, from scheduled arrival, in a FIFO queue with one server behind a generator that is late.

    Args:
        arrivals: seconds, ascending.
        service: seconds of each request.
        p99: 99th percentile of the lateness, in seconds: 2 % of the requests are late, by up to twice as much, and no
            request overtakes another.
        seed: of the choice.
    """
    import numpy as np

    due, rng = np.asarray(arrivals, dtype=float), np.random.default_rng(seed)
    delays = np.where(rng.random(due.size) < 0.02, rng.uniform(0.0, 2 * p99, due.size), 0.0)
    taken = np.maximum.accumulate(due + delays)
    latencies: NDArray[np.float64] = taken + lindley(taken, np.full(due.size, service)) + service - due
    return latencies
