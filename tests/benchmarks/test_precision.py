"""benchmarks/precision.py: the command that replays recordings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import precision
import pytest
import recordings
from claims import Claim
from synthetic_recordings import recorded


def test_a_damaged_recording_is_one_line_on_stderr(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 2."""
    (tmp_path / "bad.json.gz").write_bytes(b"no")
    monkeypatch.setattr(sys, "argv", ["precision.py", str(tmp_path / "bad.json.gz")])
    assert precision.main() == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_precision_prints_every_row(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All can be shown."""
    path = tmp_path / "synthetic.json.gz"
    recordings.write(recorded(sessions=5, rounds=8, seconds=10.0), path)
    monkeypatch.setattr(
        sys, "argv", ["precision.py", str(path), "--replays", "20", "--time-replays", "5", "--old-cost", "one=9"]
    )
    code = precision.main()
    out = capsys.readouterr().out
    for row in ("Coverage", "equal wall time", "one fp32 / bf16"):
        assert row in out
    assert "not shown" not in out
    assert code in (0, 1), "20 replays may miss a goal"


def test_recordings_that_show_nothing_of_a_row_are_left_out_of_it() -> None:
    """Unless none shows anything; a row of which a recording shows a part is kept whole."""
    nothing, part = [Claim("nothing", None)], [Claim("shown", True), Claim("missing", None)]
    assert precision.gathered([{"time": nothing}, {"time": part}]) == part
    assert precision.gathered([{"time": nothing}, {"time": nothing}]) == nothing * 2
    assert precision.gathered([{"coverage": part, "time": nothing}]) == part + nothing
