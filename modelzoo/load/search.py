"""The runs of a call: repeats with new instances, and in each of them one run, or the search for the highest rate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Callable

from modelzoo.errors import WorkerError
from modelzoo.load.bracket import Bracket
from modelzoo.load.measuring import measure
from modelzoo.load.prediction import lengthened, predicted
from modelzoo.load.server import Server
from modelzoo.records.load import Flaw, Load, LoadRun, LoadSession

MOST_LATE = 3
"""Runs in a row in which the generator was late, after which a search ends without an answer."""


@dataclass(frozen=True)
class Opened:
    """The instances of one repeat, ready and calibrated.

    Attributes:
        server: the instances.
        session: what is known of them.
        alone: seconds of a batch by its size, as the instances measured them before the calibration.
    """

    server: Server
    session: LoadSession
    alone: dict[int, float]


Open = Callable[[int], "AbstractContextManager[Opened]"]
"""Starts the instances of a repeat, given its number; they end with the context."""


def runs(load: Load, open_session: Open, on_session: Callable[[LoadSession], None]) -> Iterator[LoadRun]:
    """Yield the runs of a call, each as it ends.

    Args:
        load: what was asked for.
        open_session: starts the instances of a repeat.
        on_session: called with the instances of each repeat when they are ready.

    Raises:
        WorkerError: an instance died; its run was yielded before.
        ModelzooError: the instances cannot be started.
    """
    for repeat in range(load.plan.repeats):
        with open_session(repeat) as opened:
            on_session(opened.session)
            for run in _repeat(load, opened, repeat):
                yield run
                for number, use in enumerate(run.uses):
                    if use.error is not None:
                        raise WorkerError(f"instance {number} died: {use.error}")


def _repeat(load: Load, opened: Opened, repeat: int) -> Iterator[LoadRun]:
    plan, calibration = load.plan, opened.session.calibration
    if not plan.is_search:
        plan = lengthened(plan, calibration, opened.alone, load.fixed_size)
        yield measure(opened.server, plan, plan.rate, repeat, repeat, calibration)
        return
    yield from _search(load, opened, repeat)


def _search(load: Load, opened: Opened, repeat: int) -> Iterator[LoadRun]:
    """The runs of one search.

    All of them have the same gaps between arrivals, stretched by the rate (common random numbers), so that the rates of
    a repeat differ by nothing else; other repeats have others. A run of which only the generator was at fault is
    repeated with another schedule. Whatever fails for another reason as well counts as failed, so a generator that is
    late can only make the answer lower.
    """
    plan, calibration = load.plan, opened.session.calibration
    bracket = Bracket(predicted(plan, calibration, opened.alone, load.fixed_size))
    late, seed = 0, repeat
    while (rate := bracket.next()) is not None:
        run = measure(opened.server, plan, rate, repeat, seed, calibration)
        yield run
        flaws = {reason.flaw for reason in run.reasons}
        late = late + 1 if flaws == {Flaw.LATE} else 0
        if late >= MOST_LATE or Flaw.TOO_FEW in flaws or Flaw.DIED in flaws:
            return
        if late:
            seed += plan.repeats
        else:
            bracket = bracket.tried(rate, passed=run.is_valid)
