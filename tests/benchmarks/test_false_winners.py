"""benchmarks/false_winners.py: searches among equals, replayed from recorded rounds."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import false_winners
import pytest
import recordings
from false_winners import Search, deviations, replay
from synthetic_recordings import recorded

from modelzoo.stats import Outcome

SEARCH = Search(candidates=20, budget=1200.0, cost=6.0)


def test_deviations_are_free_of_settings_and_rounds() -> None:
    """What is left has the size of the noise that each process has."""
    pools = deviations(recorded(rounds=40, drift=0.2, noise=0.03).processes)
    assert set(pools) == {"one", "two"}
    for values in pools.values():
        assert fmean(values) == pytest.approx(0, abs=1e-6)
        assert stdev(values) == pytest.approx(0.03, rel=0.25)


def test_equals_rarely_have_a_winner() -> None:
    """Although the best of them seems faster nearly always."""
    generator = random.Random(0)
    pool = [generator.gauss(0, 0.05) for _ in range(100)]
    found = [replay(pool, SEARCH, generator) for _ in range(100)]
    assert fmean(each.seemed for each in found) > 1.02
    assert sum(each.is_false for each in found) <= 5


def test_a_faster_candidate_would_be_a_winner() -> None:
    """The replay can fail: a default that takes twice as long loses in every round."""
    generator = random.Random(0)
    values = iter(range(10**6))

    class Slow(random.Random):
        def choice(self, pool: Any) -> Any:
            return 0.7 if next(values) % 5 == 0 else 0.001 * generator.random()

    found = replay([0.0], Search(4, 1200.0, 6.0), Slow())
    assert found.seemed > 1.9
    assert found.winner


def test_the_command_judges_every_recording(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One claim for each workload."""
    path = tmp_path / "synthetic.json.gz"
    recordings.write(recorded(sessions=2, rounds=8), path)
    monkeypatch.setattr(sys, "argv", ["false_winners.py", str(path), "--replays", "20", "--candidates", "9"])
    assert false_winners.main() == 0
    out = capsys.readouterr().out
    assert out.count("holds: ") == 2
    assert "best seems faster" in out


def test_a_false_winner_is_one_that_is_called_faster() -> None:
    """Not one that was chosen and not confirmed."""
    assert false_winners.Replay(1.1, 3, Outcome.FASTER).is_false
    assert not false_winners.Replay(1.1, 3, Outcome.AMBIGUOUS).is_false
    assert not false_winners.Replay(1.01, 0, None).is_false
