"""The roofline plot."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from example_machine import TWO_CORES

from modelzoo.report.roofline import RooflinePoint, _label_sides, _Limits, plot_roofline

POINTS = [
    RooflinePoint("resnet50", "fp32", 40, 146),
    RooflinePoint("ssd", "fp32", 44, 150),
    RooflinePoint("bert bf16", "bf16", 240, 130),
    RooflinePoint("embedding", "fp32", 0.5, 8),
]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plot_writes_a_picture(tmp_path: Path, ending: str) -> None:
    """PNG and SVG are written, the SVG without a date, so that equal results give equal files."""
    path = tmp_path / f"roof.{ending}"
    plot_roofline(POINTS, TWO_CORES, path, title="machine")
    assert path.stat().st_size > 2000
    if ending == "svg":
        assert "<!-- machine -->" in path.read_text()
        assert "<dc:date>" not in path.read_text()


def test_plot_without_runs_and_without_bandwidth(tmp_path: Path) -> None:
    """The roofs can be drawn without runs, and without a measured copy only the flat ones."""
    plot_roofline([], TWO_CORES, tmp_path / "a.png")
    plot_roofline(POINTS, dataclasses.replace(TWO_CORES, bandwidth=()), tmp_path / "b.png")
    assert (tmp_path / "b.png").exists()


def test_labels_do_not_overlap() -> None:
    """Two neighbouring marks have their labels on different sides."""
    sides = _label_sides(POINTS[:2], _Limits(0.1, 1000, 1, 1000))
    assert sides[0] != sides[1]
