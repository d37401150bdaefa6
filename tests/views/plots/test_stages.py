"""The stages of pipelines as bars and as a table."""

from __future__ import annotations

from drawn import check, svg, texts
from fake_runs import result_of as result
from pipelines import pipeline_run

from modelzoo.records.timing import LATENCY, MODEL
from modelzoo.results.pipeline import pipelines
from modelzoo.views.plots import stages
from modelzoo.views.plots.stages import StageBars

COLUMNS = {LATENCY: [0.1], "decode": [0.02], MODEL: [0.07], "answer": [0.01]}
DATA = StageBars("toy", tuple(pipelines(result(pipeline_run(COLUMNS)))))


def test_every_stage_is_in_the_plot_with_its_place() -> None:
    """The bar has the sum of the stages above it."""
    drawing = svg(stages.plot(DATA))
    check(drawing)
    shown = texts(drawing)
    assert {"1 decode, on the host", "2 model, on the device", "3 answer, on the host"} <= set(shown)
    assert "fp32 stages: 100.0 ms" in shown


def test_the_table_has_seconds_and_shares() -> None:
    """One column per setting."""
    cells = {column.title: column.cells for column in stages.columns(DATA)}
    assert cells["stage"] == ("decode", MODEL, "answer")
    assert cells["on"] == ("host", "device", "host")
    assert cells["fp32 stages"] == ("20.00 ms (20.0 %)", "70.00 ms (70.0 %)", "10.00 ms (10.0 %)")
