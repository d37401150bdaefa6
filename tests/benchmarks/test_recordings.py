"""benchmarks/recordings.py: what is kept of stored results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import recordings
from fake_runs import MACHINE, make, result_of
from stored_results import STORED

from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.results import store


def test_the_command_records_a_stored_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real one; samples survive being written and read, and equal recordings make equal files."""
    stored = next(path for path in STORED if path.stem == "mlp")
    for name in ("a.json.gz", "b.json.gz"):
        monkeypatch.setattr(sys, "argv", ["recordings.py", str(stored), "-o", str(tmp_path / name)])
        assert recordings.main() == 0
    assert "b.json.gz: 1 sessions, " in capsys.readouterr().out
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    found = recordings.read(tmp_path / "a.json.gz")
    runs = [run for group in store.read(stored).groups().values() for run in group]
    assert [(each.round, len(each.samples)) for each in found.processes] == [(r.round, len(r.steady)) for r in runs]
    assert [each.level for each in found.processes] == pytest.approx(
        [recordings.math.log(recordings.median(run.steady)) for run in runs], abs=1e-3
    )


def test_sessions_of_different_machines_are_refused() -> None:
    """Their levels cannot be compared."""
    results = [result_of(make((1.0,), machine=each)) for each in (MACHINE, replace(MACHINE, cpu="another"))]
    with pytest.raises(InputError, match="different machines"):
        recordings.record(results)
    with pytest.raises(InputError, match="no timings"):
        recordings.record([result_of()])
