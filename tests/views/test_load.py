"""Tables and sentences of measurements under load."""

from __future__ import annotations

import math

import pytest
from load_results import load, measured

from modelzoo.frozen import replace
from modelzoo.records.load import BatchCount, GeneratorPlace, Load, Scenario
from modelzoo.records.machine import Throttling
from modelzoo.stats import Interval
from modelzoo.views import load as report

_NONE = Throttling(0, 0.0)


@pytest.fixture(scope="module")
def search() -> Load:
    """Two repeats of a search."""
    return measured(load(is_search=True, rate=None, repeats=2, queries=662))


def rows(found: Load) -> list[dict[str, str]]:
    """The table, row by row."""
    columns = report.columns(found)
    return [{column.title: column.cells[index] for column in columns} for index in range(len(columns[0].cells))]


def test_a_run_that_ended_early_shows_how_many_requests_it_had(search: Load) -> None:
    """Its percentiles are of those, not of all that were planned."""
    early = next(run for run in search.runs if run.given_up)
    (row,) = rows(replace(search, runs=(early,)))
    assert row["requests"] == f"{len(early.latencies)} of 662"
    assert len(early.latencies) < 662


def test_what_a_search_found_is_a_command(search: Load) -> None:
    """``tests/snapshots`` has the sentence."""
    words = ("--find", "--slo", "p99=50ms", "--repeats", "2", "--json=x.json", "-oy.json", "--batch", "1")
    line = report.command(("modelzoo", "load", "toy", *words), search)
    assert line.endswith(" --duration 5m")
    assert line.startswith("modelzoo load toy --slo p99=50ms --batch 1 --rate ")
    given = report.command(("modelzoo", "load", "toy", *words, "--queries=662"), search)
    assert "--duration" not in given


def test_a_search_without_an_answer_says_so() -> None:
    """Interrupted, or because nothing meets the bound."""
    requested = load(is_search=True, rate=None)
    assert "interrupted" in report.headline(requested)
    assert report.command(("modelzoo", "load", "toy"), requested) is None
    assert report.headline(measured(requested, seconds=0.2)) == (
        "no rate was found that passes p99=50ms, in 1 of 1 repeats; requests took longer than that even without waiting"
    )


def test_a_single_search_does_not_know_its_spread() -> None:
    """It says what would tell."""
    assert "(--repeats)" in report.headline(measured(load(is_search=True, rate=None, queries=662)))


def test_one_rate_that_is_valid_has_a_bound_of_its_percentile() -> None:
    """``tests/snapshots`` has one that is not."""
    valid = measured(load(queries=6000, rate=20.0))
    assert rows(valid)[0]["p99 at most (99 %)"].endswith(" ms")
    assert report.headline(valid) == "20.0 requests/s meet p99=50ms: VALID"


def test_the_other_scenarios_have_answers_of_their_own() -> None:
    """A rate, and a latency."""
    offline = measured(load(scenario=Scenario.OFFLINE, rate=None, bound=None, queries=200))
    assert "requests/s if all of them are there at the start" in report.headline(offline)
    assert "p99" not in rows(offline)[0]
    stream = measured(load(scenario=Scenario.SINGLE_STREAM, rate=None, bound=None))
    assert report.headline(stream).startswith("one request at a time is answered within 10.")
    assert "(p90)" in report.headline(stream)


def test_lines_while_it_runs() -> None:
    """What a batch takes, where the generator is, and each run."""
    found = measured(load(queries=662))
    lines = report.session_lines(found.sessions[0], replace(found, fixed_size=4))
    assert lines[0].startswith("repeat 1 of 1: a request takes 10.")
    assert lines[1] == "generator: on CPU 3, which no instance uses"
    assert "each batch is computed as one of 4" in lines[2]
    limited = replace(found, topology=replace(found.topology, quota=2.0))
    sleeping = replace(found.sessions[0], generator=GeneratorPlace((3,), True, has_quota=False))
    own = "generator: on CPU 3, which no instance uses, but it sleeps between events, because the instances may use up"
    fewer = "the whole quota of 2 CPUs; leave a core free for it: --cores-per-instance 1"
    assert report.session_lines(sleeping, limited)[1] == f"{own} {fewer}"
    assert report.run_line(found.runs[0], found).startswith("  50.0 requests/s: 662 requests in ")


def test_what_a_quota_stopped_is_shown() -> None:
    """In a column, and in a note; nothing if the quota was not used up."""
    found = measured(load(repeats=2, queries=662))
    first, second = (replace(run, throttling=each) for run, each in zip(found.runs, (Throttling(12, 0.35), _NONE)))
    limited = replace(found, topology=replace(found.topology, quota=2.0), runs=(first, second))
    assert [row["throttled"] for row in rows(limited)] == ["0.35 s in 12 periods", "–"]
    (note,) = (each for each in report.notes(limited) if each.startswith("throttling: "))
    assert note == (
        "throttling: the quota of 2 CPUs was used up 12 times in 1 of 2 runs, and CPUs stopped for 350.0 ms in all, "
        "which is part of the latencies; give the instances less: --cores-per-instance 1"
    )
    quiet = replace(found, runs=(replace(first, throttling=_NONE), second))
    assert not [each for each in report.notes(quiet) if each.startswith("throttling")]
    assert "throttled" not in rows(quiet)[0]


def test_batch_sizes_are_a_histogram_while_they_are_few() -> None:
    """Otherwise their mean."""
    run = measured(load(queries=662)).runs[0]
    few = replace(run, batches=(BatchCount(1, 3), BatchCount(2, 1)))
    assert report.sizes(few) == "1: 75 %, 2: 25 %"
    assert report.sizes(replace(run, batches=tuple(BatchCount(size, 1) for size in range(1, 20)))) == "mean 10.0"


def test_an_interval_is_rounded_as_its_width_allows() -> None:
    """Without one, the value alone."""
    assert report.interval(Interval(13.62, 12.41, 14.93), "requests/s") == "13.6 requests/s [12.4, 14.9]"
    assert report.interval(Interval(13.62, 0.0, math.inf), "requests/s") == "13.6 requests/s"
