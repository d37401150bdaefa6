"""Values that records derive from what they hold."""

from __future__ import annotations

import pytest
from example_machine import TWO_CORES
from fake_runs import timing
from pipelines import pipeline_run

from modelzoo.frozen import replace
from modelzoo.records.accelerator import bound_by_launching
from modelzoo.records.partial import LayerError, MatchedPair
from modelzoo.records.profile import Gemm
from modelzoo.records.timing import LATENCY, MODEL, model_times
from modelzoo.records.workload import Count


@pytest.mark.parametrize(
    ("issue", "device", "kernels", "expected"),
    [
        (1e-3, 1.05e-3, None, True),
        (1e-3, 1.05e-3, 0.2e-3, True),
        # The kernels fill the device time, so the host waited for the device: a full queue, a value that was read.
        (1e-3, 1.05e-3, 1.0e-3, False),
        (0.1e-3, 1e-3, None, False),
        (0.8e-3, 1e-3, None, True),
        (1e-3, 0.0, None, False),
    ],
)
def test_issue_time_near_device_time(issue: float, device: float, kernels: float | None, expected: bool) -> None:
    """The call is bound by launching, unless the device was busy all the time."""
    assert bound_by_launching(issue, device, kernels) is expected


@pytest.mark.parametrize(("value", "is_typical"), [(4.9, False), (5, True), (100, True), (101, False)])
def test_a_count_is_compared_with_the_range_of_trained_weights(value: float, is_typical: bool) -> None:
    """Both ends belong to the range."""
    assert Count("detections per image", value, 5, 100, "a source").is_typical is is_typical


def test_the_excess_of_a_layer_and_a_box_that_has_moved() -> None:
    """A scale without a value exceeds nothing; a pair below an IoU of nine tenths has moved."""
    assert LayerError("a", "Conv2d", None, None, None, 0.004, 0.0, False).excess_scale == 0.0
    layer = LayerError("a", "Conv2d", 0.008, 0.05, 0.01, 0.004, 0.01, True)
    assert (layer.ratio, layer.excess_scale) == (2, pytest.approx(0.01))
    assert MatchedPair(0, 1, 3, 0.75, 0.5, 0.89, (0, 0, 0, 0)).moved


def test_the_time_of_the_model_is_that_of_its_stage() -> None:
    """Shares of the machine's ceiling are not taken from the whole pipeline."""
    assert model_times(timing([3.0, 4.0])) == (3.0, 4.0)
    run = pipeline_run({LATENCY: [3.0], MODEL: [2.0], "decode": [0.5], "answer": [0.5]})
    assert model_times(run.report.timing) == (2.0,)


def test_the_ceiling_is_the_best_of_all_sizes_and_operators() -> None:
    """For the precision and the threads; scaling compares the same operator, or it would be overstated."""
    assert (TWO_CORES.gflops("fp32"), TWO_CORES.gflops("fp32", 1), TWO_CORES.gflops("bf16", 1)) == (300, 150, None)
    assert (TWO_CORES.gb_per_second(), TWO_CORES.scaling("bf16")) == (20, None)
    gemm = [Gemm("fp32", 1, 64, "mm", 100.0), Gemm("fp32", 2, 64, "mm", 190.0), Gemm("fp32", 2, 64, "conv", 400.0)]
    found = replace(TWO_CORES, gemm=tuple(gemm), threads=2)
    assert (found.gflops("fp32"), found.scaling()) == (400.0, 0.95)


@pytest.mark.parametrize(("other_cores", "quiet"), [(None, True), (0.1, True), (0.11, False)])
def test_a_tenth_of_a_core_counts_as_quiet(other_cores: float | None, quiet: bool) -> None:
    """More other load makes the figures useless for later."""
    assert replace(TWO_CORES, other_cores=other_cores).quiet is quiet
