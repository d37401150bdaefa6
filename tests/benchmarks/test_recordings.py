"""benchmarks/recordings.py: what is kept of stored results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import fake_runs
import pytest
import recordings
from places import DATA
from stored_results import STORED

from modelzoo.errors import InputError
from modelzoo.records.run import Turn
from modelzoo.results import store
from modelzoo.setting import Setting

BF16 = Setting(precision="bf16")


def test_a_recording_keeps_what_the_claims_need(tmp_path: Path) -> None:
    """Samples, turns and the cost of a process survive being written and read; files are equal."""
    turns = (Turn(fake_seconds() + 4, fake_seconds() + 5, 2),)
    runs = [fake_runs.make((1.000049, 2.0), setting=setting, round=0, turns=turns) for setting in (Setting(), BF16)]
    ended = "2026-01-01T00:00:16+00:00"
    runs = [fake_runs.replace(run, ended=ended) for run in runs]
    recording = recordings.record([fake_runs.result_of(*runs)])
    first, second = recording.processes
    assert (first.workload, first.label, second.precision, first.session, first.round) == ("toy", "fp32", "bf16", 0, 0)
    assert first.samples == (1.0, 2.0)
    assert first.cost == pytest.approx((16 - 6) / 2)
    assert first.turns == (recordings.Turn(4.0, 5.0, 2),)
    for name in ("a.json.gz", "b.json.gz"):
        recordings.write(recording, tmp_path / name)
    assert recordings.read(tmp_path / "a.json.gz") == recording
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def fake_seconds() -> float:
    """When fake runs start, in seconds since the epoch."""
    return recordings._seconds(fake_runs.STARTED)


def test_the_command_records_a_stored_result(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real result."""
    stored = next(path for path in STORED if path.stem == "mlp")
    monkeypatch.setattr(sys, "argv", ["recordings.py", str(stored), "-o", str(tmp_path / "mlp.json.gz")])
    assert recordings.main() == 0
    assert "1 sessions, 2 settings" in capsys.readouterr().out
    found = recordings.read(tmp_path / "mlp.json.gz")
    runs = [run for run in store.read(stored).runs if run.steady]
    assert sum(len(process.samples) for process in found.processes) == sum(len(run.steady) for run in runs)


def test_sessions_of_different_machines_are_refused() -> None:
    """Their levels cannot be compared."""
    other = fake_runs.replace(fake_runs.MACHINE, cpu="another")
    results = [fake_runs.result_of(fake_runs.make((1.0,), machine=each)) for each in (fake_runs.MACHINE, other)]
    with pytest.raises(InputError, match="different machines"):
        recordings.record(results)
    with pytest.raises(InputError, match="no timings"):
        recordings.record([fake_runs.result_of()])


def test_kept_recordings_are_small_and_readable() -> None:
    """All of them together stay under 300 kB."""
    files = recordings.kept()
    assert sum(path.stat().st_size for path in files) < 300_000
    assert all(recordings.read(path).processes for path in files)
    assert all(path.parent == DATA / "timings" for path in files)
