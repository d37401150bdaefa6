"""benchmarks/false_alarms.py: verdicts on simulated rounds; no worker is started."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import false_alarms
import numpy as np
import pytest

PLANNED = (8, 12, 16)


def rounds_of(count: int, noise: float = 0.005, slower: float = 1.03) -> list[false_alarms.Round]:
    """Rounds of A, A, B, B on a machine that drifts, with B slower than A."""
    generator, found = np.random.default_rng(1), []
    for _ in range(count):
        values = np.exp(generator.normal(0, noise, 4) + generator.normal(0, 0.1)) * [1, 1, slower, slower]
        found.append(false_alarms.Round(tuple(map(float, values)), 12.0, 0.5))
    return found


def test_verdicts_on_stored_rounds(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored rounds are judged without measuring; a clear difference is always found, at the first look."""
    file = tmp_path / "rounds.json"
    file.write_bytes(false_alarms.msgspec.json.encode(rounds_of(160)))
    monkeypatch.setattr(false_alarms, "measured", lambda seconds: iter(()))
    monkeypatch.setattr(sys, "argv", ["false_alarms.py", "--rounds", str(file), "--comparisons", "0"])
    assert false_alarms.main() == 0
    out = capsys.readouterr().out
    assert "SLOWER 38; 8.0 rounds per comparison" in out
    assert "slowdowns of 3 % found: 38 of 38" in out


def test_comparisons_never_overlap() -> None:
    """Each begins after the round that decided the one before, and has room for the last look."""
    rounds = rounds_of(100, noise=0.05)
    found = false_alarms.comparisons(rounds, (0, 1), PLANNED)
    used = sum(each.rounds for each in found)
    assert used <= 100 < used + PLANNED[-1]
    assert {each.rounds for each in found} <= set(PLANNED)
    assert found[0].wall == pytest.approx(found[0].rounds * 12.0 / 2)


def test_drift_slows_down_processes_in_the_order_in_which_they_started() -> None:
    """From the first to the last; both sides alike."""
    same = [false_alarms.Round((1.0, 1.0, 1.0, 1.0), 12.0, 0.5)] * 4
    first, second = false_alarms.drifting(same, (0, 1), 0.07)
    assert first == pytest.approx([1.0, 1.03, 1.04, 1.07])
    assert second == pytest.approx([1.01, 1.02, 1.05, 1.06])


def test_rounds_are_measured_until_there_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are stored as they come."""
    monkeypatch.setattr(false_alarms, "measured", lambda seconds: iter(rounds_of(1000)))
    file = tmp_path / "rounds.json"
    found = false_alarms.gathered(SimpleNamespace(rounds=file, seconds=0.5, comparisons=4), PLANNED)
    assert len(found) == 30
    assert false_alarms.read_rounds(file) == found


def test_only_rounds_of_all_four_processes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sweep is divided into blocks; a worker that failed ends the benchmark."""

    class Sweeps:
        sweeps = 0

        def __init__(self, request: Any, on_event: Any) -> None:
            assert len(request.settings) == 4

        def sweep(self, seconds: float) -> Iterator[Any]:
            self.sweeps += 1
            places = (
                [(0, 0), (1, 0), (2, 1), (0, 1), (0, 2), (3, 2)]
                if self.sweeps == 1
                else [(3, 3), (2, 3), (1, 3), (0, 3)]
            )
            error = "it died" if self.sweeps == 3 else None
            for group, number in places:
                yield SimpleNamespace(group=group, round=number, steady=(1.0 + group,), error=error)

    monkeypatch.setattr(false_alarms, "Rounds", Sweeps)
    rounds = false_alarms.measured(0.5)
    assert next(rounds).medians == (1.0, 2.0, 3.0, 4.0)
    with pytest.raises(SystemExit, match="it died"):
        next(rounds)
