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
