"""The roofline plot."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn import HOSTILE, check, marks, parsed, svg, texts
from example_machine import TWO_CORES
from fake_runs import make, result_of

from modelzoo.frozen import replace
from modelzoo.records.profile import Bound, BoundBy
from modelzoo.views.plots import roofline
from modelzoo.views.plots.roofline import Roofline, RooflinePoint

POINTS = (
    RooflinePoint("resnet50 fp32", "fp32", 40, 146, 0.49),
    RooflinePoint("ssd fp32", "fp32", 44, 150, 0.5),
    RooflinePoint("bert bf16", "bf16", 240, 130),
    RooflinePoint("embedding", "int8", 0.5, 8),
)
BOUND = Bound("fp32", 150.0, 300.0, 0.5, 40.0, 15.0, 0.5, BoundBy.COMPUTE)


def test_every_setting_has_a_numbered_mark_and_every_limit_its_speed() -> None:
    """Each mark is on the plot and in the list, with its number in both."""
    text = svg(roofline.plot(Roofline(POINTS, TWO_CORES)))
    check(text)
    counts = {name: marks(text, f"--plot-{name}") for name in ("blue", "vermillion", "purple")}
    assert counts == {"blue": 4, "vermillion": 2, "purple": 2}
    shown = texts(text)
    assert {"1", "2", "3", "4", "1 resnet50 fp32: 146 GFLOP/s", "memory copy: 20.0 GB/s"} <= set(shown)
    assert "arithmetic intensity in FLOP per byte (log scale)" in shown


def test_the_limits_can_be_drawn_without_settings_and_without_bandwidth() -> None:
    """Without a measured copy there are only the flat limits."""
    check(svg(roofline.plot(Roofline((), TWO_CORES))))
    flat = Roofline(POINTS, replace(TWO_CORES, bandwidth=()))
    text = svg(roofline.plot(flat))
    check(text)
    assert not any("memory copy" in each for each in texts(text))
    assert len(roofline.columns(flat)[0].cells) == 6


def test_a_result_has_one_point_per_setting() -> None:
    """Two processes of a setting share a point, a failed one has none, and without any there is no plot."""
    runs = [make([1.0], round=number, bound=BOUND, ceilings=TWO_CORES) for number in range(2)]
    result = result_of(make(None, error="killed"), *runs)
    expected = Roofline((RooflinePoint("toy fp32", "fp32", 40.0, 150.0, 0.5),), TWO_CORES)
    assert roofline.of_result(result) == roofline.of_result(result, "toy") == expected
    assert roofline.of_result(result, "other") is None
    assert roofline.of_result(result_of(make([1.0]))) is None


def test_the_file_of_a_result_can_be_opened_anywhere(tmp_path: Path) -> None:
    """It is an SVG with a size, plain colours and without a date; without a point there is none."""
    path = tmp_path / "roof.svg"
    data = roofline.of_result(result_of(make([1.0], bound=BOUND, ceilings=TWO_CORES)))
    assert data is not None
    drawn = roofline.plot(data)
    assert drawn.write(path) == path
    first = path.read_bytes()
    root = parsed(first.decode())
    assert root.get("width") == "400" and b"var(" not in first and b"date" not in first
    drawn.write(path)
    assert path.read_bytes() == first
    assert roofline.of_result(result_of(make([1.0]))) is None
    with pytest.raises(OSError):
        drawn.write(tmp_path / "missing" / "roof.svg")


def test_the_table_has_settings_and_limits() -> None:
    """The share of the limit is that at the setting's intensity."""
    found = {column.title: column.cells for column in roofline.columns(Roofline(POINTS, TWO_CORES))}
    assert found["speed"][0] == "146 GFLOP/s" and found["of the limit there"][:3] == ("49 %", "50 %", "–")
    assert found[""][-1] == "limit: memory copy" and found["speed"][-1] == "20.0 GB/s"


def test_hostile_names_are_text() -> None:
    """In the legend."""
    text = svg(roofline.plot(Roofline((RooflinePoint(HOSTILE, HOSTILE, 40, 100),), TWO_CORES)))
    check(text)
    assert "<script>" in "".join(texts(text))
