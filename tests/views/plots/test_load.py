"""The plot of a search under load."""

from __future__ import annotations

from pathlib import Path

from drawn import check, svg, texts
from load_results import load, measured

from modelzoo.views.plots import load as plot


def test_the_runs_of_a_search_are_drawn(tmp_path: Path) -> None:
    """Two marks each, the bound, and the answer; the table has every run."""
    found = measured(load(is_search=True, rate=None, repeats=2, queries=662))
    data = plot.of_load(found)
    assert data is not None
    assert [each.rate for each in data.points] == sorted(each.rate for each in data.points)
    assert data.found is not None
    columns = {column.title: column.cells for column in plot.columns(data)}
    assert len(columns["p99"]) == len(found.runs)
    drawn = svg(plot.plot(data))
    check(drawn)
    assert {"the bound, p99=50ms", "requests per second", "p50", "p99"} <= set(texts(drawn))
    assert plot.plot(data).write(tmp_path / "load.svg").read_text().startswith("<?xml")


def test_a_single_rate_has_no_plot() -> None:
    """There is no curve to see."""
    assert plot.of_load(measured(load(queries=300))) is None
