"""The exact interval of a proportion, for benchmarks that count how often something happens."""

from __future__ import annotations

import common  # noqa: F401 - puts the checkout on the path

from modelzoo.validity.bounds import lower_bound


def clopper_pearson(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of the probability behind ``hits`` of ``trials`` independent trials.

    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
    Biometrika 26, 1934. Its coverage is never less than ``confidence``.

    Raises:
        ValueError: there are no trials.
    """
    if trials < 1:
        raise ValueError("there are no trials")
    tail = (1 - confidence) / 2
    return lower_bound(hits, trials, tail), 1 - lower_bound(trials - hits, trials, tail)
