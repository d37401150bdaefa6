"""The lines of ``--details``."""

from __future__ import annotations

import pytest
from fake_runs import evidence, make, result_of, warning

from modelzoo.records.evidence import ProofVerdict
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.views.details import detail_lines


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
