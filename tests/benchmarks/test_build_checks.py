"""benchmarks/build_checks.py: checks are replayed by the command's own comparison, and a wrong gate is noticed."""

from __future__ import annotations

from random import Random

import build_checks
import pytest
from build_checks import is_red, scaled

STEADY = [0.01, -0.01, 0.005, -0.005, 0.002, -0.002]


@pytest.mark.parametrize(("slower", "expected"), [(1.0, False), (1.1, True), (0.9, False)])
def test_a_slowdown_is_red_and_equal_sides_are_not(slower: float, expected: bool) -> None:
    """By ten times what rounds differ by; a speedup is no failure."""
    assert is_red([scaled(STEADY, 0.01), STEADY], slower, 8, Random(1)) is expected


def test_a_gate_without_correction_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is red at every difference."""
    monkeypatch.setattr("modelzoo.stats.comparison.LARGEST_P", 1.0)
    assert build_checks.main(["--checks", "20", "--rounds", "8"]) == 1
    assert "DOES NOT HOLD: epyc-2vcpu-long.json.gz, as recorded: at most 2.0 %" in capsys.readouterr().out
