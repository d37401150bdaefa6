"""Throughput against latency, latency under load, and rooflines."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn import checked, columns, marks, svg, texts
from example_machine import TWO_CORES
from fake_runs import make, result_of
from instances import configuration, ran, result
from load_results import load, measured

from modelzoo.frozen import replace
from modelzoo.records.profile import Bound, BoundBy
from modelzoo.records.run import Result
from modelzoo.records.serving import LatencyBound
from modelzoo.views.plots import scatter

OWN = [configuration(1), configuration(2), configuration(4), configuration(4, batch=4)]
SECONDS = [0.10, 0.11, 0.5, 0.3]


def instances(bound: LatencyBound | None = None) -> Result:
    """Four configurations, of which the third is beaten by others."""
    runs = [ran(i, each, n, [SECONDS[i]] * each.instances) for i, each in enumerate(OWN) for n in range(2)]
    return result(OWN, runs, bound)


def test_every_configuration_has_a_numbered_mark() -> None:
    """Those on the frontier are blue; each is in the legend and in the table as well, in the order of the axis."""
    plot = scatter.frontier(instances())
    text = checked(plot)
    assert (marks(text, "--plot-blue"), marks(text, "--plot-faint")) == (6, 2)
    assert {"1", "2", "3", "4", "1: 1 × 1 core, batch 1", "rows per second"} <= set(texts(text))
    assert columns(plot)["configuration"][0] == "1 × 1 core, batch 1"
    assert columns(plot)["frontier"] == ("yes", "yes", "yes", "–")


def test_with_a_bound_its_percentile_is_drawn_if_all_have_it() -> None:
    """Otherwise the axis would mix percentiles and medians."""
    shown = texts(svg(scatter.frontier(instances(LatencyBound(75, 0.2)))))
    assert {"1: 1 × 1 core, batch 1 (meets the bound)", "p75=200ms"} <= set(shown)
    assert any("(over the bound)" in each for each in shown)
    assert any("p75 latency" in each for each in shown)
    rare = texts(svg(scatter.frontier(instances(LatencyBound(99.9, 0.2)))))
    assert any("median latency" in each for each in rare)


def test_an_interval_that_is_too_wide_does_not_stretch_the_axis() -> None:
    """It ends in an arrow; without an interval, the legend says so; where nothing ran there is no plot."""
    wide = checked(scatter.frontier(result(OWN[:1], [ran(0, OWN[0], n, [s]) for n, s in enumerate((0.1, 0.4))])))
    assert marks(wide, "--plot-blue") == 3, "the mark, its entry, and the arrow"
    once = checked(scatter.frontier(result(OWN[:1], [ran(0, OWN[0], 0, [0.1])])))
    assert "(one round: no interval)" in " ".join(texts(once))
    assert scatter.frontier(result(OWN, [])) is None


def test_the_runs_of_a_search_are_drawn() -> None:
    """The bound, and the answer; the table has every run."""
    found = measured(load(is_search=True, rate=None, repeats=2, queries=662))
    plot = scatter.load_curve(found)
    rates = [float(each) for each in columns(plot)["requests/s"]]
    assert (len(rates), rates) == (len(found.runs), sorted(rates))
    drawn = texts(checked(plot))
    assert {"the bound, p99=50ms", "p50", "p99"} <= set(drawn)
    assert any("which every repeat sustained" in each for each in drawn)


BOUND = Bound("fp32", 150.0, 300.0, 0.5, 40.0, 15.0, 0.5, BoundBy.COMPUTE)
POINTS = [
    ("resnet50 fp32", replace(BOUND, gflops=146.0, share_of_roof=0.49)),
    ("ssd fp32", replace(BOUND, intensity=44.0)),
    ("bert bf16", replace(BOUND, precision="bf16", intensity=240.0, gflops=130.0, share_of_roof=None)),
    ("embedding", replace(BOUND, precision="int8", intensity=0.5, gflops=8.0)),
]


def test_every_setting_has_a_numbered_mark_and_every_limit_its_speed() -> None:
    """Each mark is on the plot and in the list, with its number in both; without a copy there are flat limits only."""
    plot = scatter.roofline(POINTS, TWO_CORES)
    text = checked(plot)
    counts = {name: marks(text, f"--plot-{name}") for name in ("blue", "vermillion", "purple")}
    assert counts == {"blue": 4, "vermillion": 2, "purple": 2}
    assert {"1", "2", "3", "4", "1 resnet50 fp32: 146 GFLOP/s", "memory copy: 20.0 GB/s"} <= set(texts(text))
    found = columns(plot)
    assert found["speed"][0] == "146 GFLOP/s" and found["of the limit there"][:3] == ("49 %", "50 %", "–")
    assert found[""][-1] == "limit: memory copy" and found["speed"][-1] == "20.0 GB/s"
    checked(scatter.roofline([], TWO_CORES))
    flat = scatter.roofline([("toy", replace(BOUND, precision="unknown"))], replace(TWO_CORES, bandwidth=()))
    assert not any("memory copy" in each for each in texts(checked(flat)))


def test_a_result_has_one_point_per_setting(tmp_path: Path) -> None:
    """Two processes of a setting share a point, a failed one has none, and without any there is no plot."""
    runs = [make([1.0], round=number, bound=BOUND, ceilings=TWO_CORES) for number in range(2)]
    plot = scatter.roofline_of(result_of(make(None, error="killed"), *runs))
    assert [each for each in columns(plot)[""] if not each.startswith("limit")] == ["toy fp32"]
    assert scatter.roofline_of(result_of(make([1.0]))) is None
    with pytest.raises(OSError):
        plot.write(tmp_path / "missing" / "roof.svg")
