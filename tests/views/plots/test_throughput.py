"""The plot of throughput against latency."""

from __future__ import annotations

from drawn import check, marks, svg, texts
from instances import configuration, ran, result

from modelzoo.records.run import Result
from modelzoo.records.serving import LatencyBound
from modelzoo.views.plots import throughput

OWN = [configuration(1), configuration(2), configuration(4), configuration(4, batch=4)]
SECONDS = [0.10, 0.11, 0.5, 0.3]


def measured(bound: LatencyBound | None = None) -> Result:
    """Four configurations, of which the third is beaten by others."""
    runs = [ran(i, each, n, [SECONDS[i]] * each.instances) for i, each in enumerate(OWN) for n in range(2)]
    return result(OWN, runs, bound)


def test_every_configuration_has_a_numbered_mark() -> None:
    """Those on the frontier are blue; each is in the legend as well."""
    data = throughput.of_result(measured())
    assert data is not None
    text = svg(throughput.plot(data))
    check(text)
    assert marks(text, "--plot-blue") == 6
    assert marks(text, "--plot-faint") == 2
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
    shown = texts(svg(throughput.plot(data)))
    assert {"1: 1 × 1 core, batch 1 (meets the bound)", "p75=200ms"} <= set(shown)
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


def test_one_configuration_is_drawn_and_nothing_is_not() -> None:
    """A result in which nothing ran has no plot."""
    assert throughput.of_result(result(OWN, [])) is None
    single = throughput.of_result(result(OWN[:1], [ran(0, OWN[0], 0, [0.1])]))
    assert single is not None
    check(svg(throughput.plot(single)))


def test_an_interval_that_is_too_wide_does_not_stretch_the_axis() -> None:
    """It ends in an arrow; without an interval, the legend says so."""
    wide = result(OWN[:1], [ran(0, OWN[0], n, [seconds]) for n, seconds in enumerate((0.1, 0.4))])
    data = throughput.of_result(wide)
    assert data is not None
    (mark,) = data.marks
    assert mark.high is not None and mark.high > 1e3 * mark.rate
    assert throughput.highest(data) < 3 * mark.rate
    once = throughput.of_result(result(OWN[:1], [ran(0, OWN[0], 0, [0.1])]))
    assert once is not None
    assert "(one round: no interval)" in " ".join(texts(svg(throughput.plot(once))))
