"""Successive halving: how the time is divided among the stages, and which candidates stay. Pure.

Every stage measures the candidates that are left in interleaved rounds, with the default setting in each block, and
keeps the faster half (Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits", ICML 2013;
Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016). The
stages get equal shares of the time, so fewer candidates are measured more often.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from modelzoo.errors import UsageError

FINALISTS = 4
"""With so many candidates or fewer, nothing is halved any more."""
SEARCH_SHARE = 0.7
"""Of the budget; the rest is for measuring the winner again."""
FIRST_SHARE = 0.7
"""Of the time of the search that the first stage may take. It measures every candidate once, and some have to be
compiled or exported for the first time."""
MOST_ROUNDS = 8
"""Rounds of one stage of the search. More would only tell candidates apart that differ by less than matters."""
CONFIRMATION_ROUNDS = (4, 16)
"""Fewest and most rounds in which the winner is measured again."""
SAMPLING_SECONDS = 2.0
"""How long a process of the search samples."""
CONFIRMATION_SECONDS = 3.0
"""How long a process samples that measures the winner again."""
SAMPLES = 5
"""Fewest samples of a process, if they take longer than that."""
LEAST_PROCESS_SECONDS = 2.0
"""No process takes less than this; importing torch alone takes that long."""

Logs = Mapping[int, float]
"""By round: the logarithm of how many times faster a candidate was than the default in the same round, per item."""


@dataclass(frozen=True)
class Time:
    """The time of a search, in seconds: what has been spent, and the budget."""

    spent: float
    budget: float

    @property
    def search_left(self) -> float:
        """What is left for the search."""
        return max(0.0, SEARCH_SHARE * self.budget - self.spent)

    @property
    def left(self) -> float:
        """What is left."""
        return max(0.0, self.budget - self.spent)


def check(budget: float, settings: int) -> None:
    """Check that ``budget`` seconds allow a search at all, before anything is started.

    Raises:
        UsageError: they do not, however fast the model is.
    """
    processes = 1 + settings + 2 * CONFIRMATION_ROUNDS[0]
    least = LEAST_PROCESS_SECONDS * processes
    if budget < least:
        raise UsageError(
            f"--budget {budget:g}s is too short: a search of {settings} settings starts at least {processes} "
            f"processes, which take {least:.0f} s or more; give more time, or --vary fewer values"
        )


def sizes(candidates: int) -> list[int]:
    """Return how many candidates each stage measures, the default not counted.

    >>> sizes(39)
    [39, 20, 10, 5, 3]
    >>> sizes(3)
    [3, 3]
    """
    found = [candidates]
    while found[-1] > FINALISTS:
        found.append(math.ceil(found[-1] / 2))
    # Everything is measured in two stages at least: one process says little.
    return found if len(found) > 1 else [candidates, candidates]


def stage_rounds(costs: Sequence[float], stages: int, time: Time) -> int:
    """Return how many rounds the next stage has.

    Args:
        costs: seconds that one process of each setting takes, the default included.
        stages: number of stages that are left, this one included.
        time: of the search.
    """
    share = time.search_left / max(1, stages)
    return max(1, min(MOST_ROUNDS, int(share / max(sum(costs), 1e-9))))


def confirmation_rounds(costs: Sequence[float], time: Time) -> int:
    """Return in how many rounds the winner is measured again; 0 if not even two fit into the time.

    The number is fixed before the first one, so the data cannot decide when to stop.

    Args:
        costs: seconds that one process of each setting takes.
        time: of the search.
    """
    fewest, most = CONFIRMATION_ROUNDS
    fitting = int(time.left / max(sum(costs), 1e-9))
    return min(most, fitting) if fitting >= min(2, fewest) else 0


def sampling_seconds(wanted: float, sample: float) -> float:
    """Return how long a process samples: as long as ``wanted``, or ``SAMPLES`` of a slow model."""
    return max(wanted, SAMPLES * sample)


def ranked(found: Mapping[int, Logs]) -> list[int]:
    """The candidates with times, the fastest first."""
    return sorted((group for group, logs in found.items() if logs), key=lambda group: -fmean(found[group].values()))


def speed(logs: Logs) -> float:
    """How many times faster than the default: the geometric mean over the rounds."""
    return math.exp(fmean(logs.values()))
