"""benchmarks/precision.py: replays of pools whose distribution is known."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import precision
import pytest
import recordings
from synthetic_recordings import LABELS, recorded


@pytest.mark.parametrize("kind", [precision.RAW, precision.RATIO])
def test_intervals_of_independent_draws_cover_their_pool(kind: str) -> None:
    """Log-normal pools are covered as often as the intervals promise."""
    found = precision.pools(kind, recorded().processes)
    labels = LABELS[1:] if kind == precision.RATIO else LABELS
    assert set(found) == {(workload, label) for workload in ("one", "two") for label in labels}
    hits = precision.replayed(kind, found, 8, 150, Random(0))
    assert all(len(each) == 150 for each in hits.values())
    assert 0.90 < sum(map(sum, hits.values())) / (150 * len(hits)) < 0.99


def test_windows_do_not_overlap() -> None:
    """12 rounds have 4 windows of 3 and one of 8, which would cover itself and does not count."""
    recording = recorded(sessions=2)
    number, own, overall = precision.windows(precision.RAW, recording, 3)
    assert number == 2 * 4 * 4
    assert 0 <= overall <= number and 0.7 * number < own <= number
    assert precision.windows(precision.RAW, recording, 8) == (0, 0, 0)


def test_small_pools_show_no_coverage(capsys: Any) -> None:
    """Their draws repeat."""
    assert [claim.holds for claim in precision.show_coverage(recorded(1, 4), 10, 0)] == [None] * 2


def test_a_damaged_recording_is_one_line_on_stderr(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 2."""
    (tmp_path / "bad.json.gz").write_bytes(b"no")
    monkeypatch.setattr(sys, "argv", ["precision.py", str(tmp_path / "bad.json.gz")])
    assert precision.main() == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_recording_that_shows_nothing_counts_only_alone(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside one that shows its coverage it is left out; alone, it is said that nothing was shown."""
    files = {"large": recorded(sessions=5), "small": recorded(1, 4)}
    for name, each in files.items():
        recordings.write(each, tmp_path / name)
    for names, is_shown in ((["large", "small"], True), (["small"], False)):
        given = [str(tmp_path / name) for name in names]
        monkeypatch.setattr(sys, "argv", ["precision.py", *given, "--replays", "20"])
        assert precision.main() in (0, 1), "20 replays may miss the goal"
        out = capsys.readouterr().out
        assert ("Coverage" in out) is is_shown
        assert ("not shown" in out) is not is_shown
