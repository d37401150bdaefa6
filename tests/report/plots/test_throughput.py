"""The plot of throughput against latency."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn import check, marks, texts
from instances import configuration, ran, result

from modelzoo.records.bounds import LatencyBound
from modelzoo.records.run import Result
from modelzoo.report.plots import canvas, throughput

OWN = [configuration(1), configuration(2), configuration(4), configuration(4, batch=4)]
SECONDS = [0.10, 0.11, 0.5, 0.3]


def measured(bound: LatencyBound | None = None) -> Result:
    """Four configurations, of which the third is beaten by others."""
    runs = [ran(i, each, n, [SECONDS[i]] * each.instances) for i, each in enumerate(OWN) for n in range(2)]
    return result(OWN, runs, bound)


@pytest.mark.parametrize("width", [canvas.NARROW, canvas.WIDE])
def test_every_configuration_has_a_numbered_mark(width: float) -> None:
    """Those on the frontier are blue; each number is explained below."""
    data = throughput.of_result(measured())
    assert data is not None
    text = throughput.svg(data, "a", width)
    check(text)
    assert marks(text, "--plot-blue") == 3
    assert marks(text, "--plot-faint") == 1
    shown = texts(text)
    assert {"1", "2", "3", "4", "rows per second"} <= set(shown)
    assert "1: 1 × 1 core, batch 1" in shown
    assert "median latency of a batch in ms (log scale)" in shown
    assert [mark.on_frontier for mark in data.marks] == [True, True, True, False]


def test_with_a_bound_its_percentile_is_drawn_if_all_have_it() -> None:
    """Otherwise the axis would mix percentiles and medians."""
    data = throughput.of_result(measured(LatencyBound(75, 0.2)))
    assert data is not None
    assert data.latency_name == "p75"
    shown = texts(throughput.svg(data, "a"))
    assert {"1: 1 × 1 core, batch 1 (meets the bound)", "dashed line: p75=200ms"} <= set(shown)
    assert any("(over the bound)" in each for each in shown)
    rare = throughput.of_result(measured(LatencyBound(99.9, 0.2)))
    assert rare is not None
    assert rare.latency_name == "median"


def test_the_table_has_the_numbers_of_the_marks() -> None:
    """In the order of the axis."""
    data = throughput.of_result(measured())
    assert data is not None
    columns = throughput.columns(data)
    assert columns[0].cells == ("1", "2", "3", "4")
    assert columns[1].cells[0] == "1 × 1 core, batch 1"
    assert columns[4].cells == ("yes", "yes", "yes", "–")


def test_the_file_is_complete_and_nothing_gives_none(tmp_path: Path) -> None:
    """A result in which nothing ran has no plot."""
    path = throughput.write_file(measured(), tmp_path / "a.svg")
    assert path is not None
    assert path.read_text(encoding="utf-8").startswith("<?xml")
    assert throughput.write_file(result(OWN, []), tmp_path / "b.svg") is None
    single = result(OWN[:1], [ran(0, OWN[0], 0, [0.1])])
    assert throughput.write_file(single, tmp_path / "c.svg") is not None
