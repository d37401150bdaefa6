"""Counting inside the window in which all instances ran, and stragglers."""

from __future__ import annotations

import random

import pytest
from instances import configuration, ran, series

from modelzoo.results.counting import count, rate, stragglers, uncertainty


def test_only_the_time_in_which_all_ran_counts() -> None:
    """One instance started late, another one ended early; of one alone, whole batches only."""
    found = count([series(1.0, 20, start=0.0), series(1.0, 20, start=5.3), series(1.0, 12, start=0.25)])
    assert (found.start, found.end) == (pytest.approx(6.3), pytest.approx(12.25))
    assert found.counts == (6, 5, 6)
    found = count([series(0.1, 51)])
    assert (found.counts, found.seconds) == ((50,), pytest.approx(5.0))
    assert found.latencies[0] == pytest.approx([0.1] * 50)


def test_the_total_is_off_by_less_than_a_batch_per_instance_and_unbiased() -> None:
    """Of instances of any speed and phase, against the work that was really done in the window."""
    source = random.Random(3)
    errors = []
    for _ in range(300):
        speeds = [source.uniform(0.05, 0.15) for _ in range(4)]
        instances = [series(speed, 80, start=source.uniform(0, 0.2)) for speed in speeds]
        found = count(instances)
        true = sum(found.seconds / speed for speed in speeds)
        errors.append(sum(found.counts) - true)
    assert max(map(abs, errors)) < 4
    assert abs(sum(errors) / len(errors)) < 0.2


@pytest.mark.parametrize("batches", [0, 1])
def test_without_a_common_stretch_nothing_is_counted(batches: int) -> None:
    """An instance that completed at most one batch opens no window."""
    assert count([series(0.1, 50), series(0.1, batches)]) is None
    assert count([]) is None
    assert count([series(0.1, 5), series(0.1, 5, start=10.0)]) is None, "they did not run at the same time"


def test_throughput_is_items_by_the_window_and_no_sum_of_averages() -> None:
    """An instance that runs alone for a while afterwards adds nothing."""
    own = configuration(2, batch=4)
    run = ran(0, own, 0, [0.1, 0.2])
    alone = series(0.1, 100)
    assert count([alone, series(0.2, 10)]).counts == (18, 9)
    assert rate(run, 4) == pytest.approx(4 * (10 + 5), rel=0.02)
    assert uncertainty(run) == pytest.approx(2 / run.counted)


def test_a_straggler_is_named() -> None:
    """It is far behind the median, and by more than counting can be off."""
    own = configuration(4)
    assert stragglers(ran(0, own, 0, [0.1, 0.1, 0.1, 0.13])) == {3: pytest.approx(0.77, abs=0.02)}
    assert stragglers(ran(0, own, 0, [0.1, 0.1, 0.1, 0.103])) == {}
    assert stragglers(ran(0, own, 0, [2.0, 2.0, 2.0, 2.6])) == {}, "4 batches and 3 prove nothing"
    assert stragglers(ran(0, configuration(1), 0, [0.1])) == {}
