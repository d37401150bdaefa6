"""Benchmarks that measure only have to fit the package; what is replayed or simulated finds what is planted."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from random import Random

import build_checks
import pytest
import timing_pictures
from build_checks import is_red, scaled
from places import ROOT
from programs import ran

SCRIPTS = sorted(
    path.name for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_can_be_called(script: str, tmp_path: Path) -> None:
    """Its imports exist, torch is not among them, and ``--help`` says what it measures."""
    (tmp_path / "torch.py").write_text("raise ImportError('torch was imported')")
    done = ran(sys.executable, ROOT / "benchmarks" / script, "--help", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"benchmarks/{script}" in done.stdout


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


TIMING_PAGE = (ROOT / "docs" / "timing.md").read_text()
PASSES = {
    "events, read at the end": {"by_events": True},
    "a synchronization after each stage": {"by_events": True, "synchronized": True},
    "the host's clock, without events": {"by_events": False},
}


@pytest.mark.parametrize("title", PASSES)
def test_the_table_of_stages_is_what_the_simulated_device_gives(title: str) -> None:
    """End-to-end time, stages and sum, in milliseconds."""
    found = timing_pictures.timed_pass(**PASSES[title])
    (row,) = re.findall(rf"\| {re.escape(title)} \| (.*) \|", TIMING_PAGE)
    shown = [int(cell.strip().removesuffix(" ms")) for cell in row.split("|")]
    expected = [found.milliseconds, *found.stages.values(), sum(found.stages.values())]
    assert shown == [round(value) for value in expected]


def test_the_spans_are_those_that_the_page_names() -> None:
    """5 ms to issue, 21 ms until it is done."""
    _, sample = timing_pictures.spans_of_a_call()
    assert f"it is {1e3 * sample['issue']:.0f} ms, and the call takes {1e3 * sample['latency']:.0f} ms" in TIMING_PAGE


def test_the_pictures_of_the_simulated_device_are_current(tmp_path: Path) -> None:
    """If this fails, run the command of the page."""
    timing_pictures.main(["--output", str(tmp_path)])
    for name in ("spans.svg", "stages.svg"):
        assert (tmp_path / name).read_text() == (ROOT / "docs" / "pictures" / name).read_text()
