"""Rows and ``[TARGET]`` lines follow from the runs, and say nothing that the runs do not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fake_runs import make

from modelzoo.results import summary
from modelzoo.results.store import Result, Run
from modelzoo.results.summary import Row
from modelzoo.setting import Setting

BF16 = Setting("bf16")
STEADY = [1.0, 1.01, 0.99, 1.0] * 10


def rows(*runs: Run) -> list[Row]:
    """The rows of these runs."""
    return summary.rows(Result((), "", runs).groups())


def pairs(ratio: float = 2.0, count: int = 3, **changes: Any) -> tuple[Run, ...]:
    """Rounds of fp32 and of bf16, which takes ``ratio`` times as long."""
    fp32 = [make([x * (1 + 0.001 * i) for x in STEADY], round=i) for i in range(count)]
    bf16 = [
        make([ratio * x * (1 + 0.001 * i) for x in STEADY], setting=BF16, round=i, bf16_method="autocast", **changes)
        for i in range(count)
    ]
    return (*fp32, *bf16)


def test_a_row_is_the_median_of_the_processes() -> None:
    """Latency, throughput of items, first call and sizes of one setting's runs."""
    (row,) = rows(make([1.0] * 5), make([3.0] * 5, round=1), make([1.5] * 5, round=2))
    assert row.latency is not None
    assert row.latency.value == 1.5
    assert row.throughput == pytest.approx(4 / 1.5)
    assert (row.batch, row.unit, row.processes, row.failed, row.samples, row.cold) == (4, "rows", 3, 0, 15, 9.0)
    assert row.speedup is None
    assert row.verdict is None


def test_the_first_setting_is_the_baseline() -> None:
    """The speedup is the baseline's time over the other's; its label says how bf16 was had."""
    fp32, bf16 = rows(*pairs(2.0))
    assert fp32.verdict is None
    assert bf16.speedup is not None
    assert bf16.verdict is not None
    assert bf16.speedup.value == pytest.approx(0.5)
    assert bf16.verdict.outcome == "SLOWER"
    assert (bf16.asked, bf16.label) == ("bf16", "bf16=autocast")


def test_a_against_a_is_the_same() -> None:
    """Equal runs are not told apart."""
    _, again = rows(*pairs(1.0))
    assert again.verdict is not None
    assert again.verdict.outcome == "SAME"


def test_only_rounds_that_both_sides_have_are_compared() -> None:
    """A failed run takes its partner out of the ratio, not out of its own latency."""
    runs = list(pairs(2.0))
    runs[0] = make(None, round=0, error="the worker died")
    fp32, bf16 = rows(*runs)
    assert (fp32.processes, fp32.failed, fp32.errors) == (2, 1, ("the worker died",))
    assert bf16.processes == 3
    assert bf16.verdict is not None
    assert bf16.verdict.outcome == "SLOWER"


def test_without_a_baseline_there_is_no_verdict() -> None:
    """All runs of the first setting failed: the other is shown, and not compared."""
    failed = [make(None, round=i, error="the worker died") for i in range(3)]
    fp32, bf16 = rows(*failed, *pairs()[3:])
    assert fp32.latency is None
    assert bf16.latency is not None
    assert bf16.speedup is None
    assert bf16.verdict is not None
    assert bf16.verdict.outcome == "AMBIGUOUS"


def test_a_baseline_that_is_not_fp32_refuses_the_speedup() -> None:
    """By the canary or by the kernels: a ratio over it would mean nothing."""
    fp32 = [make(STEADY, round=i, level="bf16", word="not fp32") for i in range(3)]
    _, bf16 = rows(*fp32, *pairs()[3:])
    assert bf16.speedup is None
    assert bf16.verdict is not None
    assert bf16.verdict.outcome == "REFUSED"
    assert "not fp32 by the canary: matmul bf16" in bf16.verdict.reason
    evidence = {"verdict": "NOT_FP32", "line": "gemm ran in bf16"}
    fp32 = [make(STEADY, round=i, evidence=evidence) for i in range(3)]
    _, bf16 = rows(*fp32, *pairs()[3:])
    assert bf16.verdict is not None
    assert "not fp32 by its kernels: gemm ran in bf16" in bf16.verdict.reason


def test_other_weights_refuse_the_speedup() -> None:
    """Two sides that ran different weights are not one comparison."""
    other = {"kind": "random", "name": "", "path": "", "sha256": "xyz", "reason": "", "seed": 0}
    _, bf16 = rows(*pairs(weights=other))
    assert bf16.verdict is not None
    assert (bf16.verdict.outcome, bf16.verdict.reason) == ("REFUSED", "the two sides ran different weights")


def test_other_work_refuses_the_speedup() -> None:
    """A detector whose two sides had other numbers of candidates did not do the same work."""

    def counted(value: float) -> list[dict[str, Any]]:
        return [{"name": "candidates", "value": value, "low": 0, "high": 1, "source": ""}]

    fp32 = [make(STEADY, round=i, counts=counted(1000)) for i in range(3)]
    for value, refused in ((995, False), (300, True)):
        _, bf16 = rows(*fp32, *pairs(counts=counted(value))[3:])
        assert bf16.verdict is not None
        assert (bf16.verdict.outcome == "REFUSED") is refused
        if refused:
            assert bf16.verdict.reason == "the two sides did different work: candidates 1000 and 300"


def test_runs_that_could_not_be_timed_have_no_latency() -> None:
    """Under an emulator there is no time, no throughput and no TARGET line."""
    found = rows(make(None))
    assert found[0].latency is None
    assert found[0].throughput is None
    assert found[0].canary == "fp32"
    assert summary.target_lines(found) == []


def test_warnings_are_merged_by_code() -> None:
    """The same warning of several processes is said once, with how many said it."""
    words = ("OUTLIERS", "3 of 40 samples", "look")
    (row,) = rows(make(STEADY, advice=[words]), make(STEADY, round=1, advice=[words]), make(STEADY, round=2))
    assert [(a.code, a.message) for a in row.advice] == [("OUTLIERS", "3 of 40 samples (in 2 of 3 processes)")]


def test_one_process_and_processes_that_differ_are_warned_of() -> None:
    """Neither shows in a run alone, so the summary adds them."""
    (row,) = rows(make(STEADY))
    assert [a.code for a in row.advice] == ["ONE_PROCESS"]
    (row,) = rows(make([1.0] * 5), make([1.2] * 5, round=1), make([1.1] * 5, round=2))
    assert [a.code for a in row.advice] == ["PROCESSES_DIFFER"]
    (row,) = rows(make([1.0] * 5), make([1.05] * 5, round=1), make([1.01] * 5, round=2))
    assert row.advice == ()


def test_target_lines_are_what_scripts_grep_for() -> None:
    """A workload's first setting has its plain name; what differs is appended to the others."""
    cast = Setting("bf16", "cast", "compile", channels_last=True)
    found = rows(
        make([0.056123] * 5),
        make([1.5] * 5, setting=BF16, bf16_method="autocast"),
        make([2.0] * 5, setting=cast, bf16_method="cast"),
        make([3.0] * 5, workload="other", setting=BF16),
    )
    assert summary.target_lines(found) == [
        "[TARGET] toy Time 0.05612",
        "[TARGET] toy-bf16 Time 1.500",
        "[TARGET] toy-bf16-cast-compile-channels-last Time 2.000",
        "[TARGET] other Time 3.000",
    ]
    assert all(re.fullmatch(r"\[TARGET\] \S+ Time [0-9.]+", line) for line in summary.target_lines(found))


def test_a_failed_first_setting_leaves_its_name_unused() -> None:
    """Another setting's time must not be taken for that of the first."""
    found = rows(make(None, error="the worker died"), make([1.5] * 5, setting=BF16))
    assert summary.target_lines(found) == ["[TARGET] toy-bf16 Time 1.500"]


def proven(verdict: str, share: float = 0.0) -> dict[str, Any]:
    """Evidence with this verdict."""
    return {"verdict": verdict, "line": f"evidence says {verdict}", "reference_share": share}


@pytest.mark.parametrize(
    ("setting", "evidence", "objection"),
    [
        (Setting(), proven("FP32"), None),
        (BF16, proven("ACTIVE"), None),
        (Setting(), proven("NOT_FP32"), "toy fp32: evidence says NOT_FP32"),
        (BF16, proven("PARTLY_ACTIVE"), "toy bf16: evidence says PARTLY_ACTIVE"),
        (BF16, proven("NOT_ACTIVE"), "toy bf16: evidence says NOT_ACTIVE"),
        (BF16, proven("ACTIVE", 0.3), "toy bf16: reference kernels took 30.0% of the time"),
        (BF16, proven("ACTIVE", 0.005), None),
        (Setting(), None, "toy fp32: no kernel evidence was taken (--no-audit?)"),
    ],
)
def test_strict_objects_to_what_is_not_proven(
    setting: Setting, evidence: dict[str, Any] | None, objection: str | None
) -> None:
    """One line for each setting whose precision was not shown, or that ran reference kernels."""
    found = summary.unproven(rows(make(STEADY, setting=setting, evidence=evidence)))
    assert found == ([objection] if objection else [])


@pytest.mark.parametrize(
    ("bound", "emulator", "words"),
    [
        (None, None, "5.5 GFLOP a batch; its share of this machine's limit is shown once 'modelzoo doctor' has"),
        (None, "qemu", "5.5 GFLOP a batch"),
        (
            {"gflops": 50.0, "share_of_ceiling": 0.25, "precision": "fp32", "word": "compute"},
            None,
            "5.5 GFLOP a batch, 50 GFLOP/s, 25% of this machine's measured fp32 ceiling, bound by compute",
        ),
    ],
)
def test_the_limit_is_told_where_it_can_be_known(bound: Any, emulator: str | None, words: str) -> None:
    """An emulated machine has no limit to measure, so nobody is sent to measure it."""
    report = {"flops": {"total": 5.5e9}, "bound": bound, "machine": {"emulator": emulator}}
    said = summary.limit_words(report)
    assert said.startswith(words)
    assert ("doctor" in said) is (bound is None and emulator is None)
