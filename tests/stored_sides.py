"""Made-up sides of a comparison: sessions of one setting, as a stored result would hold them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

from fake_runs import MACHINE, make, result_of
from kept_sessions import beside, kept

from modelzoo.comparison.estimate import Context, context
from modelzoo.comparison.levels import Histories
from modelzoo.comparison.model import Side, SideSetting, StoredResult
from modelzoo.frozen import replace
from modelzoo.records.history import SessionLevel
from modelzoo.records.machine import fingerprint
from modelzoo.records.run import Latency, Result
from modelzoo.results.sessions import work_key

HERE = fingerprint(MACHINE)
"""The machine of made-up runs."""
LOAD = "version 1, threads 1, numpy 2.2"
"""What ran as the reference load."""


def session(
    processes: Sequence[float], day: int = 1, *, loads: Sequence[float] = (), name: str = LOAD, **changes: Any
) -> Result:
    """The session of this day of July: one process of three equal samples for each of ``processes`` (seconds).

    ``loads`` are the times of the reference load beside them; ``changes`` replaces fields of the reports.
    """
    runs = [make([seconds] * 3, round=number, **changes) for number, seconds in enumerate(processes)]
    runs = [beside(run, load, load, load) for run, load in zip(runs, loads)] if loads else runs
    return replace(
        result_of(*runs),
        created=f"2026-07-{day:02}T00:00:00+00:00",
        payload=Latency(reference_load=name if loads else ""),
    )


def side_setting(*results: Result) -> SideSetting:
    """The only setting of these sessions."""
    first = results[0].runs[0]
    runs = tuple(result.runs for result in results)
    return SideSetting(first.workload, first.requested, "fp32", runs, results, (0,) * len(results))


def common(
    base: SideSetting,
    other: SideSetting,
    *,
    same_machine: bool = True,
    history: Sequence[SessionLevel] = (),
    assumed: float = 0.1,
) -> Context:
    """What the estimates of these two have in common; ``history`` is of the machine of made-up runs."""
    sides = [Side("", tuple(StoredResult("", result) for result in each.results)) for each in (base, other)]
    return context(*sides, same_machine=same_machine, histories=Histories({HERE: history}), assumed=assumed)


def history(logs: Sequence[float], *, loads: Optional[Sequence[float]] = None, **changes: Any) -> list[SessionLevel]:
    """Kept sessions of the same work on other days, whose levels are 0.1 s times e to the power of ``logs``.

    ``loads`` are the times of the reference load, beside them.
    """
    report = session([0.1]).runs[0].report
    assert report is not None
    found = [
        kept(day, level=0.1 * math.exp(log), **{"key": work_key(report), **changes}) for day, log in enumerate(logs, 1)
    ]
    if loads is None:
        return found
    return [replace(each, reference=load, reference_load=LOAD) for each, load in zip(found, loads)]
