"""The plot of a search under load."""

from __future__ import annotations

from pathlib import Path

from load_results import load, measured, result

from modelzoo.report.plots import canvas
from modelzoo.report.plots import load as plot


def test_the_runs_of_a_search_are_drawn(tmp_path: Path) -> None:
    """Two marks each, the bound, and the answer; the table has every run."""
    found = measured(load(is_search=True, rate=None, repeats=2, queries=662))
    data = plot.of_result(result(found))
    assert data is not None
    assert [each.rate for each in data.points] == sorted(each.rate for each in data.points)
    assert data.found is not None
    columns = {column.title: column.cells for column in plot.columns(data)}
    assert len(columns["p99"]) == len(found.runs)
    for width in (canvas.NARROW, canvas.WIDE):
        drawn = plot.svg(data, "load", width)
        assert "p99=50ms" in drawn
        assert "requests per second" in drawn
    path = plot.write_file(result(found), tmp_path / "load.svg")
    assert path is not None
    assert path.read_text().startswith("<?xml")


def test_a_single_rate_has_no_plot(tmp_path: Path) -> None:
    """There is no curve to see."""
    found = result(measured(load(queries=300)))
    assert plot.of_result(found) is None
    assert plot.write_file(found, tmp_path / "load.svg") is None
    assert not list(tmp_path.iterdir())
