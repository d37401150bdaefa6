"""Values that records derive from what they hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from example_machine import TWO_CORES
from fake_runs import make, result_of, timing
from pipelines import pipeline_run
from places import ROOT

from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.equipment import bound_by_launching
from modelzoo.records.partial import LayerError, MatchedPair
from modelzoo.records.profile import Gemm
from modelzoo.records.run import Result, Run, SettingRequest
from modelzoo.records.timing import LATENCY, MODEL, model_times
from modelzoo.records.workload import FP32_BOUND, Count, MatchedDetections, OutputAgreement, OutputError
from modelzoo.setting import Setting


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


def error(relative: float | None, name: str = "0") -> OutputError:
    """An array whose mean |output| is 2."""
    return OutputError(name, 10, None if relative is None else 2 * relative, 2.0, relative)


def detections(matched: int = 100, values: float | None = 1e-6) -> MatchedDetections:
    """100 detections on both sides."""
    return MatchedDetections(100, 100, matched, (error(values, "boxes"), error(0.0, "scores")))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (OutputAgreement((error(4e-7), error(1e-5)), True), True),
        (OutputAgreement((error(4e-7), error(1.1e-5)), True), False),
        (OutputAgreement((error(4e-7), error(None)), True), False),
        (OutputAgreement((), True), False),
        (OutputAgreement((error(1e-2),), False), None),
        (OutputAgreement((error(1e-6),), True, detections()), True),
        (OutputAgreement((error(1e-6),), True, detections(98)), True),
        (OutputAgreement((error(1e-6),), True, detections(97)), False),
        (OutputAgreement((error(1e-6),), True, MatchedDetections(5, 5, 4)), True),
        (OutputAgreement((error(1e-6),), True, MatchedDetections(5, 5, 3)), False),
        (OutputAgreement((error(1e-6),), True, MatchedDetections(1, 1, 0)), False),
        (OutputAgreement((error(1e-6),), True, MatchedDetections(0, 0, 0)), True),
        (OutputAgreement((error(1e-6),), True, detections(values=2e-4)), False),
        (OutputAgreement((error(1e-6),), True, detections(values=None)), False),
        (OutputAgreement((error(2e-5),), True, detections()), False),
    ],
)
def test_every_output_must_be_within_its_bound(found: OutputAgreement, expected: bool | None) -> None:
    """One array, one value of the detections or too few matches are enough; without arrays nothing is known."""
    assert found.is_same is expected


def test_a_network_that_magnifies_rounding_has_a_wider_bound() -> None:
    """Ten times what a small change of the inputs causes in torch, if that alone is over the usual bound."""
    usual, magnified = replace(error(1e-4), sensitivity=9e-6), replace(error(1e-4), sensitivity=2e-5)
    assert (usual.bound(FP32_BOUND), magnified.bound(FP32_BOUND)) == (FP32_BOUND, pytest.approx(2e-4))
    assert OutputAgreement((usual,), True).is_same is False
    found = OutputAgreement((magnified,), True)
    assert found.is_same is True
    assert replace(magnified, sensitivity=None).bound(FP32_BOUND) == FP32_BOUND
    assert replace(magnified, mean_error=2e-2).is_within(FP32_BOUND) is False


def test_the_worst_output_is_the_one_nearest_to_its_bound() -> None:
    """Not the one with the largest error, if that is allowed more."""
    sensitive, other = replace(error(1e-4), sensitivity=1e-4), error(9e-6, "1")
    assert OutputAgreement((sensitive, other), True).worst == other


@pytest.mark.parametrize(
    ("matmul", "conv", "bf16", "fp32"),
    [
        ("bf16", "bf16", "active", "not fp32"),
        ("fp32", "bf16", "partly", "not fp32"),
        ("fp32", "fp32", "not active", "fp32"),
        ("reduced", "fp32", "not active", "not fp32"),
        ("failed", "bf16", "partly", "not fp32"),
        ("broken", "broken", "not active", "not fp32"),
    ],
)
def test_verdict(matmul: str, conv: str, bf16: str, fp32: str) -> None:
    """bf16 is active, and fp32 is fp32, only if all operators are."""
    checks = (OperatorCheck("matmul", 1e-3, CanaryLevel(matmul)), OperatorCheck("conv", 1e-3, CanaryLevel(conv)))
    assert Canary(checks).verdict("bf16") == bf16
    assert Canary(checks).verdict("fp32") == fp32


def test_image_builds_need_two_files(tmp_path: Path) -> None:
    """Builds mount the record and the module that runs the operators, and nothing else of the package."""
    for name in ("records/canary.py", "evidence/canary.py"):
        target = tmp_path / "modelzoo" / name
        target.parent.mkdir(parents=True)
        target.write_bytes((ROOT / "modelzoo" / name).read_bytes())
    # -S hides the installed packages, which may include modelzoo.
    command = [sys.executable, "-S", "-c", "from modelzoo.evidence.canary import level_of; print(level_of(1e-7))"]
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "fp32\n", done.stderr


BF16 = Setting("bf16")
DIED = make(None, error="the worker died")


def test_groups_are_sorted_by_round_and_empty_ones_left_out() -> None:
    """Groups come in the order asked for, whichever run ended first."""
    requested = tuple(SettingRequest("toy", setting) for setting in (Setting(), BF16, Setting(batch=8)))
    runs = (make([1.0], group=2), make([1.0], group=0, round=1), make([1.0], group=0))
    groups = Result((), "", requested, runs).groups()
    assert {group: [run.round for run in found] for group, found in groups.items()} == {0: [0, 1], 2: [0]}
    assert list(groups) == [0, 2]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((), None),
        ((DIED,), DIED),
        ((DIED, make(None, error="the worker died", setting=BF16)), DIED),
        ((DIED, make(None, error="out of memory", setting=BF16)), None),
        ((DIED, make([1.0], setting=BF16)), None),
        ((make([1.0]),), None),
    ],
)
def test_one_error_for_all_runs_is_found(runs: tuple[Run, ...], expected: Run | None) -> None:
    """Only if nothing ran, and everything failed for the same reason."""
    assert result_of(*runs).only_error() == expected
