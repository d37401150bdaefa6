"""When requests arrive: a whole schedule, made before the first of them is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def poisson(rate: float, queries: int, seconds: float, seed: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the arrivals of a Poisson process as seconds from the start of the run, ascending.

    The gaps are exponential with mean 1 / ``rate``. There are at least ``queries`` arrivals, and the last one is not
    before ``seconds``: a run ends when both minima are met, as in LoadGen (``TestSettings`` in ``test_settings.h``,
    "Test duration", https://github.com/mlcommons/inference/tree/master/loadgen). Nothing that happens during the run
    changes the schedule, so a slow server cannot slow down its own load.

    Args:
        rate: mean number of arrivals per second.
        queries: minimum number of arrivals, at least 1.
        seconds: minimum time of the last arrival.
        seed: one or more integers; equal ones give equal schedules.
    """
    import numpy as np

    draw = np.random.default_rng(seed)
    chunk = max(queries, round(rate * seconds))
    arrivals = draw.exponential(1 / rate, chunk).cumsum()
    while arrivals[-1] < seconds:
        more = arrivals[-1] + draw.exponential(1 / rate, max(16, chunk // 16)).cumsum()
        arrivals = np.concatenate([arrivals, more])
    # Both minima are met by the first arrival at or after ``seconds``.
    enough = max(queries, int(np.searchsorted(arrivals, seconds)) + 1)
    return arrivals[:enough]
