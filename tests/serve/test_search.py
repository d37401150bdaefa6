"""A search in virtual time finds the rate, in every repeat with instances of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from load_results import load, measured, sessions
from virtual_server import VirtualServer

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.machine import Throttling
from modelzoo.records.serving import Flaw, InvalidReason, Load, LoadRun
from modelzoo.results.load import RESOLUTION, answer, searches
from modelzoo.serve import search
from modelzoo.serve.search import LOWEST, MOST_LATE, Bracket, CalibratedInstances
from modelzoo.serve.servers import Reply
from modelzoo.views.load import headline


def searched(truth: float) -> tuple[Bracket, list[float]]:
    """What is known at the end of a search that begins at 10, and the rates that were tried."""
    bracket, tried = Bracket(10.0), list[float]()
    while (rate := bracket.next()) is not None:
        tried.append(rate)
        bracket = bracket.tried(rate, passed=rate <= truth)
    return bracket, tried


@pytest.mark.parametrize("truth", [1.0, 7.0, 9.1, 9.7, 9.9, 10.0, 10.2, 10.4, 10.9, 25.0, 300.0])
def test_the_highest_rate_is_found(truth: float) -> None:
    """To within the resolution, from below; a first guess within 10 % of the truth takes at most five runs."""
    found, tried = searched(truth)
    assert found.low is not None
    assert found.low <= truth <= found.low * (1 + RESOLUTION)
    assert len(set(tried)) == len(tried) <= (5 if 9 < truth < 11 else 14)


def test_a_bound_that_no_rate_meets_ends_the_search() -> None:
    """Far below the first guess; the runs end after a few requests each, and there is no answer."""
    bracket, tried = searched(0.0)
    assert bracket.low is None
    assert min(tried) >= LOWEST * 10.0
    found = measured(load(is_search=True, rate=None), seconds=0.2)
    assert answer(found) is None
    assert all(len(run.latencies) < 20 for run in found.runs)
    assert len(found.runs) <= 5, "requests that do not wait are too slow already"
    assert [one.rate for one in searches(found)] == [None]


def test_a_search_finds_the_highest_rate_in_every_repeat() -> None:
    """Slower instances sustain less; the answer is the least, and the interval covers all of them."""
    found = measured(load(is_search=True, rate=None, repeats=2, queries=1001), slower=0.1)
    assert len(found.sessions) == 2
    each = searches(found)
    assert all(one.rate is not None and one.limit is not None for one in each)
    assert all(one.limit <= one.rate * (1 + RESOLUTION) for one in each if one.rate and one.limit)
    best = answer(found)
    assert best is not None
    assert best.sustained == min(one.rate for one in each if one.rate is not None)
    assert best.sustained < best.level.value
    assert best.level.low < best.level.value < best.level.high
    assert [one.rate for one in each] == sorted((one.rate for one in each if one.rate), reverse=True)
    assert 40.0 < best.sustained < 100.0


def test_without_a_search_every_repeat_is_one_run() -> None:
    """All with schedules of their own; and so is a search with too few requests, for which no other rate would help."""
    found = measured(load(repeats=3, queries=300))
    assert [run.repeat for run in found.runs] == [0, 1, 2]
    assert len({run.latencies for run in found.runs}) == 3
    found = measured(load(is_search=True, rate=None, queries=100))
    assert [[reason.flaw for reason in run.reasons] for run in found.runs] == [[Flaw.TOO_FEW]]


def test_a_search_that_did_not_come_to_its_end_has_no_answer() -> None:
    """It met the bound at some rate, but nothing shows that no higher one would do."""
    found = measured(load(is_search=True, rate=None, repeats=2, queries=662))
    first = [run for run in found.runs if run.repeat == 0]
    valid = next(run for run in found.runs if run.repeat == 1 and run.is_valid)
    late = replace(valid, reasons=(InvalidReason(Flaw.LATE),))
    ended = replace(found, runs=(*first, valid, *[late] * MOST_LATE))
    assert answer(ended) is None
    assert [(one.rate is None, one.valid is None) for one in searches(ended)] == [(False, False), (True, False)]
    said = headline(ended)
    assert said.startswith("the search did not come to its end in 1 of 2 repeats, so there is no answer; ")
    assert said.endswith("; the generator was late, so something else kept the machine busy")
    interrupted = answer(replace(ended, is_complete=False))
    assert interrupted is not None
    assert [one.repeat for one in interrupted.found] == [0]


def opened(requested: Load, **changes: Any) -> Iterator[LoadRun]:
    """The runs with instances in which something is otherwise."""
    usual = sessions(requested)

    @contextmanager
    def changed(repeat: int) -> Iterator[CalibratedInstances]:
        with usual(repeat) as found:
            yield replace(found, **changes)

    return search.runs(requested, changed, lambda session: None)


def test_every_run_says_how_a_quota_stopped_it() -> None:
    """From the counters of the control group before and after it; nothing without a quota."""
    requested = load(repeats=2, queries=300)
    counters = iter([(1, 0.5), (4, 0.75), (4, 0.75), (4, 0.75)])
    found = opened(requested, throttling=lambda: Throttling(*next(counters)))
    assert [run.throttling for run in found] == [Throttling(3, 0.25), Throttling(0, 0.0)]
    assert {run.throttling for run in measured(requested).runs} == {None}


class Late(VirtualServer):
    """Its waits end late, as on a machine that is busy with something else."""

    def wait(self, until: float) -> list[Reply]:
        return list(super().wait(until + 0.02))


def test_a_late_generator_ends_a_search() -> None:
    """After a few runs; none of them counts."""
    found = list(opened(load(is_search=True, rate=None), server=Late(1, lambda size: 0.001)))
    late_only = [run for run in found if [reason.flaw for reason in run.reasons] == [Flaw.LATE]]
    assert late_only == found[-MOST_LATE:]
    assert not any(run.is_valid for run in found)


class Dying(VirtualServer):
    """Dies with its first batch."""

    def wait(self, until: float) -> list[Reply]:
        return [reply._replace(error="ended by SIGKILL") for reply in super().wait(until)]


def test_the_death_of_an_instance_is_stored_and_reported() -> None:
    """The run comes first, then the error."""
    runs = opened(load(queries=300), server=Dying(1, lambda size: 0.001))
    assert [reason.flaw for reason in next(runs).reasons] == [Flaw.DIED]
    with pytest.raises(WorkerError, match="instance 0 died: ended by SIGKILL"):
        next(runs)
