"""What the earlier sessions of a machine say: which of them count, and how certain their variance is."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from fake_runs import MACHINE
from kept_sessions import kept
from stored_sides import HERE, history, session, side_setting

from modelzoo.comparison.levels import Histories, known, machine_of, read_histories
from modelzoo.frozen import replace
from modelzoo.machine.history import add_to_history, history_path
from modelzoo.records.history import SessionLevel
from modelzoo.views.speed import earlier_text

SIDE = side_setting(session([0.1] * 8))
LOGS = (-0.02, -0.01, 0.0, 0.01, 0.02)
"""Their variance is 2.5e-4."""


def test_five_sessions_of_the_same_work_are_enough() -> None:
    """Their variance, with 4 degrees of freedom; and that of their processes, 0.01² + 0.05² / 3 s, with 5 × 7."""
    found = known(SIDE, history(LOGS))
    assert found is not None
    assert (found.sessions.value, found.sessions.freedom) == (pytest.approx(2.5e-4), 4)
    assert (found.processes.value, found.processes.freedom) == (pytest.approx(0.01**2 + 0.05**2 / 3), 35)
    assert earlier_text(found.earlier) == "1.6 % (earlier sessions of the same work on 5 days)"


def test_four_sessions_are_too_few() -> None:
    """Nothing is known then."""
    assert known(SIDE, history(LOGS[:4])) is None
    assert known(SIDE, []) is None


def test_sessions_of_one_day_count_as_one() -> None:
    """Ten sessions on four days are too few; of each of five days, the first session counts."""
    first = history(LOGS)
    later = [replace(each, level=9.0, created=each.created.replace("T00:", "T01:")) for each in first]
    assert known(SIDE, [*first[:4], *later[:4]]) is None
    found = known(SIDE, [*first, *later])
    assert found is not None
    assert (found.sessions.value, found.sessions.freedom) == (pytest.approx(2.5e-4), 4)


def test_sessions_of_the_workload_and_then_of_all_workloads_take_their_place() -> None:
    """Each work about its own mean: the levels of different settings do not count as a difference of sessions."""
    bf16 = [replace(each, level=3 * each.level, key="bf16") for each in history(LOGS)]
    found = known(SIDE, [*history(LOGS[:3]), *bf16])
    assert found is not None
    assert (found.sessions.value, found.sessions.freedom) == (pytest.approx((2e-4 + 10e-4) / 6), 4)
    assert earlier_text(found.earlier).endswith("(earlier sessions of toy in all settings on 5 days)")
    elsewhere = [replace(each, workload="other") for each in bf16]
    found = known(SIDE, elsewhere)
    assert found is not None
    assert earlier_text(found.earlier) == "1.6 % (earlier sessions of all workloads on 5 days)"


def test_settings_of_the_same_sessions_add_no_degrees_of_freedom() -> None:
    """A session that is slow is slow in all of its settings."""
    several = [replace(each, key=key) for key in ("x", "y", "z") for each in history(LOGS)]
    found = known(SIDE, several)
    assert found is not None
    assert found.sessions.freedom == 4


def test_adjusted_levels_vary_less_than_raw_ones() -> None:
    """Sessions that were slow because the machine was have the same level at one speed."""
    slow = history(LOGS, loads=[0.002 * math.exp(log) for log in LOGS])
    raw, adjusted = known(SIDE, slow), known(SIDE, slow, 1.0)
    assert raw is not None and adjusted is not None
    assert raw.sessions.value == pytest.approx(2.5e-4)
    assert adjusted.sessions.value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("factor", [1.0, 1000.0])
def test_adjusted_levels_do_not_depend_on_how_long_the_load_takes(factor: float) -> None:
    """The slope of the comparison counts: a load of 2 ms is far from the 1 s at which its log is zero."""
    logs = (-0.02, -0.01, 0.0, 0.01, 0.02)
    slow = history(LOGS, loads=[factor * 0.002 * math.exp(2 * log) for log in logs])
    found = known(SIDE, slow, 1.5)
    assert found is not None
    assert found.sessions.value == pytest.approx(4 * 2.5e-4), "each log level is its log less 1.5 times twice that"


def test_sessions_without_a_load_or_with_another_one_are_not_adjusted_together() -> None:
    """Times of different loads cannot be compared, so five sessions with two loads are too few."""
    loads = [0.002] * 5
    slow = history(LOGS, loads=loads)
    mixed = [*slow[:3], *(replace(each, reference_load="another") for each in slow[3:])]
    assert known(SIDE, history(LOGS), 1.0) is None
    assert known(SIDE, mixed, 1.0) is None
    assert known(SIDE, slow, 1.0) is not None


def test_histories_leave_out_what_is_compared_and_other_machines() -> None:
    """Sessions are told apart by when they began."""
    levels = [kept(day) for day in range(1, 7)]
    found = Histories({"here": levels})
    assert found.besides("here", {levels[2].created}) == (*levels[:2], *levels[3:])
    assert found.besides("elsewhere", set()) == ()


def test_the_history_of_each_machine_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From where this suite keeps it; a machine that was never here has none."""
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path))
    here, there = session([0.1]), session([0.1], machine=replace(MACHINE, cpu="another"))
    level: SessionLevel = kept()
    assert add_to_history([level], history_path(MACHINE))
    found = read_histories([here, there])
    assert found.by_machine == {HERE: (level,), machine_of(side_setting(there)): ()}
