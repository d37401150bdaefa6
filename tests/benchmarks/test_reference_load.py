"""benchmarks/reference_load.py: turns with and without the reference load."""

from __future__ import annotations

import fake_runs
import pytest
import reference_load
from places import ROOT

from modelzoo.records.run import Turn
from modelzoo.setting import Setting


def test_turns_with_and_without_the_reference_load() -> None:
    """A real worker of a small model; its turns are divided by what came before them."""
    setting = Setting(weights="random", threads=1, options={"depth": 1})
    claim = reference_load.compare(str(ROOT / "examples" / "mlp"), 2, 1.0, setting)
    assert "mlp: with the reference load ÷ without it" in claim.what
    assert "from 2 processes" in claim.what


def test_samples_are_divided_by_turn() -> None:
    """With, without, without, with, with …; a worker that took one turn cannot be compared."""
    turns = tuple(Turn(float(i), i + 0.5, count) for i, count in enumerate((2, 1, 3, 1, 1)))
    run = fake_runs.make(tuple(map(float, range(1, 9))), turns=turns)
    assert reference_load.divided(run) == ([1.0, 2.0, 7.0, 8.0], [3.0, 4.0, 5.0, 6.0])
    with pytest.raises(SystemExit, match="too few turns"):
        reference_load.divided(fake_runs.make((1.0,), turns=(Turn(0.0, 0.5, 1),)))
    with pytest.raises(SystemExit, match="it died"):
        reference_load.divided(fake_runs.make(None, error="it died"))


def test_the_claim_about_the_reference_load_needs_its_whole_interval() -> None:
    """A ratio near 1 whose interval is wide shows nothing."""
    level = [[1.0]] * 4
    assert reference_load.judged("x", (level, [[1.001], [0.999], [1.002], [1.0]])).holds is True
    assert reference_load.judged("x", (level, [[1.1], [0.9], [1.1], [0.91]])).holds is None
    assert reference_load.judged("x", ([[1.05]] * 4, [[1.001], [0.999], [1.002], [1.0]])).holds is False
