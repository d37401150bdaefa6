"""A search begins near its answer."""

from __future__ import annotations

from load_results import plan

from modelzoo.frozen import replace
from modelzoo.records.load import Calibration, Scenario
from modelzoo.serve.runs import OVER, measure
from modelzoo.serve.search import LONGEST, START, lengthened, predicted
from modelzoo.serve.servers import VirtualServer
from modelzoo.stats.early_stopping import queries_for


def test_the_prediction_is_the_answer_of_virtual_time() -> None:
    """Below the capacity; a looser bound allows more."""
    known = Calibration(1, (0.0095, 0.01, 0.0105), 100.0)
    tight = predicted(plan(is_search=True), known, {1: 0.01}, None)
    assert 40.0 < tight < 100.0
    loose = plan(is_search=True)
    loose = replace(loose, bound=type(loose.bound)(99.0, 0.5))
    assert tight < predicted(loose, known, {1: 0.01}, None) < 105.0


def test_a_bound_below_the_service_time_begins_low() -> None:
    """The search itself has to show that nothing meets it."""
    known = Calibration(1, (0.1,), 10.0)
    assert predicted(plan(is_search=True), known, {}, None) == START * 10.0 / 2


KNOWN = Calibration(1, (0.0095, 0.01, 0.0105), 100.0)


def test_a_run_is_as_long_as_its_bound_takes_in_the_queue() -> None:
    """Requests of a busy server follow each other, so it takes more of them; the run is then VALID."""
    quiet, busy = (lengthened(plan(rate=rate), KNOWN, {1: 0.01}, None).queries for rate in (20.0, 45.0))
    assert quiet is not None
    assert busy is not None
    assert queries_for(OVER, 0.99) < quiet < busy <= 45.0 * LONGEST
    requested = plan(rate=40.0)
    long = lengthened(requested, KNOWN, {1: 0.01}, None)
    assert measure(VirtualServer(1, lambda size: 0.01), long, 40.0, 0, 1, KNOWN).is_valid
    assert not measure(VirtualServer(1, lambda size: 0.01), requested, 40.0, 0, 1, KNOWN).is_valid


def test_a_run_is_not_lengthened_in_vain() -> None:
    """If the bound is not met a short run shows it; the user's length counts; other runs have no rate or no bound."""
    for requested in (
        plan(rate=90.0),
        plan(queries=100),
        plan(duration=5.0),
        plan(bound=None),
        plan(is_search=True, rate=None),
        plan(scenario=Scenario.OFFLINE, rate=None, bound=None),
    ):
        assert lengthened(requested, KNOWN, {1: 0.01}, None) == requested
