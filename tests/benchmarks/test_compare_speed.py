"""benchmarks/compare_speed.py: the results that it makes, and its claims; nothing is timed here."""

from __future__ import annotations

from pathlib import Path

import compare_speed
import numpy as np
import pytest

from modelzoo.results import store


def test_made_results_can_be_read_and_have_as_many_runs_as_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them have 200 runs, in groups that fit their settings."""
    monkeypatch.setattr(compare_speed, "SAMPLES", 10)
    store.write(compare_speed.made_result(np.random.default_rng(0), "2026-01-01T00:00:00+00:00"), tmp_path / "a.json")
    result = store.read(tmp_path / "a.json")
    assert 2 * len(result.runs) == 200
    assert all(len(run.steady) == 10 for run in result.runs)
    assert {len(runs) for runs in result.groups().values()} == {compare_speed.PROCESSES}
    assert all(run.report is not None and run.report.setting.threads == run.requested.threads for run in result.runs)


def test_time_and_memory_both_count() -> None:
    """A command must stay below both bounds."""
    found = compare_speed.Used(1.0, 9.0, 100e6)
    assert compare_speed.claim("x", found, 2.0).holds
    assert not compare_speed.claim("x", found, 1.0).holds
    assert compare_speed.claim("x", found, 2.0, 200e6).holds
    assert not compare_speed.claim("x", found, 2.0, 50e6).holds


def test_a_command_is_called_as_a_user_calls_it() -> None:
    """It needs time and memory; one that fails is not counted."""
    found = compare_speed.used("--version", times=1)
    assert found.seconds > 0
    assert found.wall > 0
    assert found.memory > 1e6
    with pytest.raises(SystemExit, match="exit code 2"):
        compare_speed.used("no-such-command", times=1)
