"""The lines of ``--details``, and what is said of accelerators."""

from __future__ import annotations

import pytest
from fake_runs import evidence, make, result_of, timing, warning
from printed import cells

from modelzoo.frozen import replace
from modelzoo.records.accelerator import Accelerator, AcceleratorUse, Copies, Phase, Reading
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run
from modelzoo.records.timing import DEVICE, ISSUE, Series
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.views import findings, results_table
from modelzoo.views.details import accelerator_lines, accelerator_text, detail_lines, lacking


def test_each_number_that_the_table_leaves_out_is_there() -> None:
    """First call, percentiles, each process, the verdict's reason, the proof, and every warning."""
    proof = evidence(ProofVerdict.FP32)
    slow = warning("SLOW", "it was slow")
    starts = ((2.0, 11.0, 7), (0.5, 1.0, 0), (0.5, 1.2, 0))
    runs = [
        make(
            [0.05 + 0.01 * i] * 60,
            round=i,
            evidence=proof,
            warnings=(slow,),
            compile_seconds=compiling,
            first_answer_seconds=first,
            compiled_libraries=libraries,
        )
        for i, (compiling, first, libraries) in enumerate(starts)
    ]
    runs += [make([0.1 + 0.01 * i] * 60, setting=Setting("bf16"), group=1, round=i) for i in range(3)]
    result = result_of(*runs)
    first, second = summary.rows(result)
    text = "\n".join(detail_lines(first))
    for words in (
        "; 3 × 60 samples",
        "first answer after the weights were loaded: 11.00 s, compiling included; 1.100 s with compiled code from ",
        "all samples: p50 60.00 ms, p90 70.00 ms",
        "medians of the processes: 50.0, 60.0, 70.0 ms",
        "fp32: VERIFIED",
        "canary fp32: matmul fp32",
        "SLOW: it was slow",
        "peak memory of a process 1.00 GiB",
    ):
        assert words in text
    assert any(line.startswith("SLOWER (unproven): p") for line in detail_lines(second))


@pytest.mark.parametrize(
    ("precision", "size", "expected"),
    [("int8", 26 << 20, "weights 26.0 MiB"), ("int8", None, "weights UNKNOWN"), ("fp32", None, "")],
)
def test_the_size_of_weights(precision: str, size: int | None, expected: str) -> None:
    """Of a quantized model always, known or not."""
    setting = Setting(precision, recipe="dynamic-x86" if precision == "int8" else None)
    [row] = summary.rows(result_of(make([0.1], setting=setting, weight_bytes=size)))
    assert [line for line in detail_lines(row) if line.startswith("weights ")] == ([expected] if expected else [])


def test_what_a_static_recipe_was_calibrated_on() -> None:
    """By the first digits of the digest."""
    digest = "0123456789ab" + 52 * "0"
    [row] = summary.rows(result_of(make([0.1], setting=Setting("int8", recipe="static"), calibration_digest=digest)))
    assert "ranges from other inputs of the workload, SHA-256 0123456789ab" in list(detail_lines(row))


def test_a_failed_row_has_no_details() -> None:
    """Nothing is known of it."""
    result = result_of(make(None, error="died"))
    (row,) = summary.rows(result)
    assert detail_lines(row) == []


GPU = Accelerator("cuda", 1, "NVIDIA H100", "9.0", "550.54.15", "CUDA 12.8, cuDNN 9.10.2", 80 << 30)
USE = AcceleratorUse(
    device=GPU,
    peak_memory=3 << 30,
    copies=Copies(1.5e-3, 0.2e-3),
    sensors="NVML",
    readings=(
        Reading(Phase.BEFORE, 0, mhz=345, watts=70, celsius=33),
        Reading(Phase.STEADY, 9, mhz=1980, watts=300, celsius=50),
        Reading(Phase.STEADY, 12, mhz=1755, watts=690, celsius=64, throttled=("power cap",)),
        Reading(Phase.AFTER, 12, mhz=1980, watts=120, celsius=60),
    ),
    throttled_samples=(1, 2),
    joules_per_call=1.25,
    locked_mhz=1980,
)


def on_gpu(issue: float, setting: Setting | None = None, **changes: object) -> list[Run]:
    """Three processes with calls of 2 ms on the host and 1.9 ms on the device."""
    found = timing([2e-3] * 60)
    spans = {ISSUE: issue, DEVICE: 1.9e-3}
    series = [Series(name, (value,) * 60) for name, value in spans.items()]
    timed = replace(found, series=(*found.series, *series))
    setting = setting or Setting(device="cuda:1")
    return [
        make([2e-3] * 60, setting=setting, round=i, **{"timing": timed, "accelerator": USE, **changes})
        for i in range(3)
    ]


def test_a_device_in_one_line() -> None:
    """Everything that decides its speed, as far as it is known."""
    assert accelerator_text(GPU) == (
        "cuda:1: NVIDIA H100, compute capability 9.0, 80 GiB, driver 550.54.15, CUDA 12.8, cuDNN 9.10.2"
    )
    assert accelerator_text(Accelerator("npu", 0, "Ascend910B")) == "npu:0: Ascend910B"
    assert [line[:24] for line in lacking(replace(GPU, lacks=("timed events", "memory figures")))] == [
        "no time on the device: i",
        "no peak memory of the de",
    ]


def test_the_details_of_a_run_on_a_gpu() -> None:
    """Spans, memory, copies, sensors by phase, throttling, energy and locked clocks."""
    assert list(accelerator_lines(on_gpu(0.3e-3)))[1:] == [
        "the host issued it in 300.0 µs, the device took 1.900 ms",
        "peak memory on the device 3.00 GiB",
        "copying the inputs to the device 1.500 ms, the outputs back 200.0 µs, not in the latency (--include-copies)",
        "clocks locked at 1980 MHz",
        "NVML: before 345 MHz, 70 W, 33 °C; steady 1755 to 1980 MHz, 300 to 690 W, 50 to 64 °C, throttled by power "
        "cap; after 1980 MHz, 120 W, 60 °C",
        "energy of one forward batch 1.250 J",
    ]
    assert list(accelerator_lines([make([1.0] * 3)])) == []


def test_the_table_has_the_three_spans() -> None:
    """Beside the latency; a table of runs on a CPU has no such columns."""
    result = result_of(*on_gpu(0.3e-3), *[make([0.1] * 60, round=i) for i in range(3)])
    found = cells(results_table.table(summary.rows(result)))
    assert found["issue"] == ("300.0 µs", "–")
    assert found["device time"] == ("1.900 ms", "–")
    plain = result_of(*[make([0.1] * 60, round=i) for i in range(3)])
    assert "issue" not in cells(results_table.table(summary.rows(plain)))


def test_a_setting_that_is_bound_by_launching_is_said() -> None:
    """With what helps, in the sentence of its workload and in its details; not if copies made the host wait."""
    result = result_of(*on_gpu(1.85e-3))
    hint = "launch-bound (use --mode compile or graph, or a larger --batch)"
    assert findings.remarks(summary.rows(result)) == {"toy": hint}
    assert any("launch-bound" in line for line in accelerator_lines(on_gpu(1.85e-3)))
    copying = on_gpu(1.85e-3, setting=Setting(device="cuda:1", include_copies=True))
    assert "the host issued it, waiting for copies, in 1.850 ms, the device took 1.900 ms" in accelerator_lines(copying)
    result = result_of(*on_gpu(0.3e-3))
    assert "launch-bound" not in str(findings.remarks(summary.rows(result)))
