"""The roofline plot."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn import HOSTILE, check, marks, svg, texts
from example_machine import TWO_CORES
from fake_runs import make, result_of

from modelzoo.frozen import replace
from modelzoo.records.profile import Bound, BoundBy
from modelzoo.views.plots import scatter

BOUND = Bound("fp32", 150.0, 300.0, 0.5, 40.0, 15.0, 0.5, BoundBy.COMPUTE)
POINTS = [
    ("resnet50 fp32", replace(BOUND, gflops=146.0, share_of_roof=0.49)),
    ("ssd fp32", replace(BOUND, intensity=44.0)),
    ("bert bf16", replace(BOUND, precision="bf16", intensity=240.0, gflops=130.0, share_of_roof=None)),
    ("embedding", replace(BOUND, precision="int8", intensity=0.5, gflops=8.0)),
]


def test_every_setting_has_a_numbered_mark_and_every_limit_its_speed() -> None:
    """Each mark is on the plot and in the list, with its number in both; the table has settings and limits."""
    plot = scatter.roofline(POINTS, TWO_CORES)
    text = svg(plot)
    check(text)
    counts = {name: marks(text, f"--plot-{name}") for name in ("blue", "vermillion", "purple")}
    assert counts == {"blue": 4, "vermillion": 2, "purple": 2}
    shown = {"1", "2", "3", "4", "1 resnet50 fp32: 146 GFLOP/s", "memory copy: 20.0 GB/s"}
    assert {*shown, "arithmetic intensity in FLOP per byte (log scale)"} <= set(texts(text))
    found = {column.title: column.cells for column in plot.columns}
    assert found["speed"][0] == "146 GFLOP/s" and found["of the limit there"][:3] == ("49 %", "50 %", "–")
    assert found[""][-1] == "limit: memory copy" and found["speed"][-1] == "20.0 GB/s"


def test_the_limits_can_be_drawn_without_settings_and_without_bandwidth() -> None:
    """Without a measured copy there are only the flat limits; hostile names are text."""
    check(svg(scatter.roofline([], TWO_CORES)))
    flat = scatter.roofline([(HOSTILE, replace(BOUND, precision=HOSTILE))], replace(TWO_CORES, bandwidth=()))
    text = svg(flat)
    check(text)
    assert not any("memory copy" in each for each in texts(text))
    assert "<script>" in "".join(texts(text))
    assert len(flat.columns[0].cells) == 3


def test_a_result_has_one_point_per_setting(tmp_path: Path) -> None:
    """Two processes of a setting share a point, a failed one has none, and without any there is no plot."""
    runs = [make([1.0], round=number, bound=BOUND, ceilings=TWO_CORES) for number in range(2)]
    plot = scatter.roofline_of(result_of(make(None, error="killed"), *runs))
    assert plot is not None
    assert plot.columns[0].cells == (
        "toy fp32",
        "limit: fp32 matrix product",
        "limit: bf16 matrix product",
        "limit: memory copy",
    )
    assert scatter.roofline_of(result_of(make([1.0]))) is None
    with pytest.raises(OSError):
        plot.write(tmp_path / "missing" / "roof.svg")
