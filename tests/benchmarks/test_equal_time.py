"""benchmarks/equal_time.py and benchmarks/old_formula.py: the old and the new design in the same wall time."""

from __future__ import annotations

import math

import equal_time
import old_formula
import pytest
from synthetic_recordings import recorded

from modelzoo import stats


def test_the_old_formula_is_as_wide_as_it_was() -> None:
    """The runs in the note of the change that replaced it: 3.122, 2.877 and 2.975 s had ±10.8 % by Student's t."""
    levels = [math.log(each) for each in (3.122, 2.877, 2.975)]
    alone = old_formula.half_width(levels, [0.0] * 3)
    assert stats.level_interval([3.122, 2.877, 2.975]).half_width == pytest.approx(0.108, abs=0.001)
    assert old_formula.half_width(levels, [0.1] * 3) > 2 * alone
    assert old_formula.standard_error([1.0, 1.0]) == 0
    assert old_formula.standard_error([1.0, 1.1, 0.9, 1.0, 1.05, 0.95] * 5) > 0


def test_the_new_design_takes_the_wall_time_of_the_old_one() -> None:
    """The number of processes follows from what they cost."""
    processes = [each for each in recorded(seconds=10.0).processes if each.workload == "one"]
    chosen = equal_time.design(processes)
    assert equal_time.SECONDS[0] <= chosen.seconds <= equal_time.SECONDS[1]
    assert chosen.old_wall == pytest.approx(3 * (3.0 + 10))
    each = chosen.wall / chosen.processes
    assert each == pytest.approx(3.0 + chosen.seconds)
    assert abs(chosen.wall - chosen.old_wall) <= each / 2
    assert equal_time.design(processes, 8.0).old_wall == pytest.approx(3 * 18)


def test_a_shorter_process_is_the_beginning_of_a_recorded_one() -> None:
    """As many samples as fill the time, at least 3, at most all."""
    assert equal_time.first([0.5] * 10, 2.0) == [0.5] * 4
    assert equal_time.first([5.0] * 4, 2.0) == [5.0] * 3
    assert equal_time.first([0.5] * 10, 20.0) == [0.5] * 10


def test_short_processes_do_not_stand_for_long_ones() -> None:
    """The old design cannot be replayed from processes of 2 s."""
    assert [claim.holds for claim in equal_time.show_equal_time(recorded(), 5, 0, {})] == [None] * 2
