"""The roofline plot."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from example_machine import TWO_CORES
from fake_runs import make, result_of

from modelzoo.records.roofline import Bound, BoundBy
from modelzoo.report import roofline
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


def test_a_result_has_one_mark_per_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes of a setting share a mark, a failed one has none, and without any there is no plot."""
    bound = Bound("fp32", 150.0, 300.0, 0.5, 40.0, 15.0, 0.5, BoundBy.COMPUTE)
    runs = [make([1.0], round=number, bound=bound, ceilings=TWO_CORES) for number in range(2)]
    drawn: list[RooflinePoint] = []
    monkeypatch.setattr(roofline, "plot_roofline", lambda points, ceilings, path: drawn.extend(points))
    path = tmp_path / "roof.svg"
    assert roofline.plot_result(result_of(make(None, error="killed"), *runs), path) == path
    assert drawn == [RooflinePoint("toy fp32", "fp32", 40.0, 150.0)]
    assert roofline.plot_result(result_of(make([1.0])), path) is None
