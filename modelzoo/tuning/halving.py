"""What the processes of a search cost, and how its time is divided among the stages. Pure.

The stages get equal shares of the time, so fewer candidates are measured more often.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import fmean

from modelzoo.errors import UsageError
from modelzoo.measure.schedule import LEAST_PROCESS_SECONDS
from modelzoo.records.run import Run
from modelzoo.setting import Setting

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
COMPILED = 4.0
"""A process that compiles is taken to cost this many times as much as one of the default, until one was measured."""


def costs(runs: Sequence[Run], settings: Sequence[Setting]) -> list[float]:
    """Return the seconds of wall time that the next process of each setting is expected to take, by what ran so far.

    It is what the latest one took: what was compiled or exported is in a cache then. A setting of which nothing is
    known costs as much as those of its engine and mode.
    """
    rounds: dict[int, list[Run]] = {}
    for run in runs:
        rounds.setdefault(run.round, []).append(run)
    known: dict[int, float] = {}
    for number in sorted(rounds):
        # Everyone has its own compiling, and an equal part of the rest.
        ended = [datetime.fromisoformat(run.ended).timestamp() for run in rounds[number] if run.ended]
        began = min(datetime.fromisoformat(run.started).timestamp() for run in rounds[number])
        compiling = {run.group: run.report.compile_seconds or 0.0 if run.report else 0.0 for run in rounds[number]}
        rest = max(0.0, max(ended, default=0.0) - began - sum(compiling.values())) / len(rounds[number])
        known.update({group: seconds + rest for group, seconds in compiling.items()})
    by_kind: dict[tuple[str, str], list[float]] = {}
    for group, seconds in known.items():
        by_kind.setdefault((settings[group].engine, settings[group].mode), []).append(seconds)
    usual = {True: [known.get(0, 0.0)], False: [known.get(0, 0.0) * COMPILED]}
    alike = [by_kind.get((each.engine, each.mode), usual[each.mode == "eager"]) for each in settings]
    return [known.get(group, fmean(each)) for group, each in enumerate(alike)]


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


def stage_rounds(costs: Sequence[float], stages: int, left: float) -> int:
    """Return how many rounds the next stage has.

    Args:
        costs: seconds that one process of each setting takes, the default included.
        stages: number of stages that are left, this one included.
        left: seconds that are left for the search.
    """
    return max(1, min(MOST_ROUNDS, int(left / max(1, stages) / max(sum(costs), 1e-9))))


def confirmation_rounds(costs: Sequence[float], left: float) -> int:
    """Return in how many rounds the winner is measured again; 0 if not even two fit into the time.

    The number is fixed before the first one, so the data cannot decide when to stop.

    Args:
        costs: seconds that one process of each setting takes.
        left: seconds that are left of the budget.
    """
    fitting = int(left / max(sum(costs), 1e-9))
    return min(CONFIRMATION_ROUNDS[1], fitting) if fitting >= 2 else 0
