"""Rows and ``[TARGET]`` lines follow from the runs, and claim nothing beyond them."""

from __future__ import annotations

import math

import pytest
from fake_runs import evidence, make, result_of, warning
from fake_runs import shown as rows

from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Latency, SettingRequest
from modelzoo.records.timing import Design, StopReason
from modelzoo.records.workload import Count, WeightsKind
from modelzoo.results import summary
from modelzoo.results.summary import RowWarning
from modelzoo.setting import Setting
from modelzoo.stats import Outcome
from modelzoo.views.kinds import objections

BF16 = Setting("bf16")
STEADY = [1.0, 1.01, 0.99, 1.0] * 10


def counted(number: float) -> tuple[Count, ...]:
    """Candidates of a detector."""
    return (Count("candidates", number, 0, 1, ""),)


def test_a_row_is_the_geometric_mean_of_the_processes() -> None:
    """Latency, throughput of items, first call and sizes of one setting's runs."""
    (row,) = rows(make([1.0] * 5), make([3.0] * 5, round=1), make([1.5] * 5, round=2))
    assert (row.latency.value, row.throughput.value) == pytest.approx((4.5 ** (1 / 3), 4 / 4.5 ** (1 / 3)))
    assert (row.batch, row.unit, row.processes, row.failed, len(row.samples)) == (4, "rows", 3, 0, 15)
    assert (row.cold_start, row.weights, row.peak_memory) == (9.0, WeightsKind.RANDOM, 1 << 30)


def test_items_per_second_are_those_that_were_processed() -> None:
    """Of skewed latencies the median says less: here five calls took 9 s, so 20 items took 9 s."""
    steady = [1.0, 1.0, 1.0, 1.0, 5.0]
    (row,) = rows(make(steady), make(steady, round=1), make(steady, round=2))
    assert row.latency.value == pytest.approx(1.0)
    assert row.throughput.value == pytest.approx(20 / 9)
    (single,) = rows(make([*steady, *steady[::-1]]))
    assert single.throughput.value == pytest.approx(20 / 9)
    assert single.throughput.low < 20 / 9 < single.throughput.high


def test_an_interval_that_ended_the_sampling_is_widened() -> None:
    """Of eight processes by 9 %, as ``stats.level_interval`` documents; other endings leave it as it is."""
    result = result_of(*(make([1 + 0.01 * i] * 5, round=i) for i in range(8)))
    widths = []
    for stop_reason in (StopReason.BUDGET, StopReason.PRECISE):
        (row,) = summary.rows(replace(result, payload=Latency((Design("toy", 0.05, stop_reason=stop_reason),))))
        widths.append(math.log(row.latency.high / row.latency.value))
    assert widths[1] / widths[0] == pytest.approx(1 + 0.75 / 8)


def test_a_against_a_is_the_same_and_stays_two_groups() -> None:
    """Equal settings asked for twice are two rows, whose times are not told apart."""
    runs = [make(STEADY, group=group, round=number) for number in range(3) for group in range(2)]
    found = summary.rows(result_of(*runs, requested=[SettingRequest("toy", Setting())] * 2))
    assert [(row.label, row.processes) for row in found] == [("fp32", 3), ("fp32 #2", 3)]
    assert found[1].speed.verdict.outcome is Outcome.SAME
    assert [line.split()[1] for line in summary.target_lines(found)] == ["toy", "toy-fp32-2"]


def test_settings_are_told_apart_by_whatever_differs() -> None:
    """Batch, threads, device, weights and options appear in labels and in names of ``[TARGET]`` lines."""
    settings = (Setting(), Setting(batch=8), Setting(threads=2, options={"size": "large"}))
    found = rows(*(make([1.0], setting=setting) for setting in settings))
    assert [row.label for row in found][1:] == [
        "fp32 batch=8 threads=default",
        "fp32 batch=default threads=2 size=large",
    ]
    names = ["toy", "toy-fp32-batch-8-threads-default", "toy-fp32-batch-default-threads-2-size-large"]
    assert [line.split()[1] for line in summary.target_lines(found)] == names


def test_only_rounds_that_both_sides_have_are_compared() -> None:
    """A failed run removes its partner from the ratio, not from the partner's own latency."""
    fp32, bf16 = rows(
        make(None, error="the worker died"),
        *(make([1.0] * 5, round=number) for number in (1, 2)),
        *(make([2.0 + 0.01 * number] * 5, setting=BF16, round=number) for number in range(3)),
    )
    assert (fp32.processes, fp32.failed, fp32.errors, bf16.processes) == (2, 1, ("the worker died",), 3)
    assert bf16.speed.verdict.outcome is Outcome.SLOWER


def test_an_interrupted_baseline_does_not_lend_its_place() -> None:
    """The baseline has not run at all: the other setting's time must not appear under the workload's plain name."""
    requested = [SettingRequest("toy", Setting()), SettingRequest("toy", BF16)]
    found = summary.rows(result_of(make([1.0] * 5, setting=BF16, group=1), requested=requested))
    assert summary.target_lines(found) == ["[TARGET] toy-bf16 Time 1.000"]


def test_warnings_are_merged_by_code() -> None:
    """With the number of processes; of those that were checked: audits and counts are of the first process only."""
    words = (warning("OUTLIERS", "3 of 40 samples"),)
    (row,) = rows(make(STEADY, warnings=words), make(STEADY, round=1, warnings=words), make(STEADY, round=2))
    assert row.warnings == (RowWarning(words[0], 2, 3),)
    words = (warning("MISMATCHED_COUNTS"), warning("MISMATCHED_COUNTS"), warning("REFERENCE_KERNELS"))
    proof = evidence(ProofVerdict.ACTIVE, reference_share=0.3)
    first = make(STEADY, counts=counted(300), evidence=proof, warnings=words)
    others = [make(STEADY, round=1), make(STEADY, round=2), make(None, round=3, error="died")]
    audited = make(STEADY, round=1, counts=counted(3000), evidence=replace(proof, reference_share=0.0))
    for runs, checked in (((first, *others), 1), ((first, audited, *others[1:]), 2)):
        (row,) = rows(*runs)
        assert [(each.processes, each.checked) for each in row.warnings[:2]] == [(1, checked)] * 2


@pytest.mark.parametrize(
    ("medians", "codes"),
    [
        ([1.0], ["ONE_PROCESS"]),
        ([1.0, 1.2, 1.1], ["PROCESSES_DIFFER"]),
        ([1.0, 1.2, 404.0, 20.0], ["PROCESSES_DISAGREE"]),
        ([1.0, 1.05, 1.01], []),
        ([1.0, 1.001, 0.999, 1.3, 1.0, 1.002], ["ODD_PROCESS"]),
        ([1.0, 1.001, 0.999, 11.7, 1.0, 1.002], ["STALLED_PROCESS"]),
        ([1.0, 1.0, 1.0, 1.01, 1.0, 1.0], []),
    ],
)
def test_one_process_and_processes_that_differ_are_warned_about(medians: list[float], codes: list[str]) -> None:
    """Neither shows in a run alone, so the summary adds them."""
    (row,) = rows(*(make([median] * 5, round=i) for i, median in enumerate(medians)))
    assert [each.warning.code for each in row.warnings] == codes


def test_target_lines_are_what_scripts_parse() -> None:
    """A workload's first setting has its plain name, which stands for the model alone; what differs is appended."""
    cast = Setting("bf16", "cast", mode="compile", channels_last=True)
    found = rows(
        make([0.056123] * 5),
        make([1.5] * 5, setting=BF16),
        make([2.0] * 5, setting=cast),
        make([3.0] * 5, workload="other", setting=BF16),
        make([0.5] * 5, workload="whole", setting=Setting(stages=True)),
        make([0.25] * 5, workload="whole", setting=Setting(stages=True, mode="compile")),
        make(None, workload="emulated"),
    )
    assert summary.target_lines(found) == [
        "[TARGET] toy Time 0.05612",
        "[TARGET] toy-bf16 Time 1.500",
        "[TARGET] toy-bf16-cast-compile-channels-last Time 2.000",
        "[TARGET] other Time 3.000",
        "[TARGET] whole-stages Time 0.5000",
        "[TARGET] whole-fp32-compile-stages Time 0.2500",
    ]


def test_strict_objects_to_what_is_not_proven() -> None:
    """One line for each setting whose precision was not proven, or that ran reference kernels; none for a failure."""
    active, share = evidence(ProofVerdict.ACTIVE), "toy bf16=autocast: reference kernels took 30.0 % of the time"
    for setting, proof, objection in (
        (Setting(), evidence(ProofVerdict.FP32), None),
        (BF16, active, None),
        (Setting(), evidence(ProofVerdict.NOT_FP32), "toy fp32 is not verified: fp32: NOT FP32 ("),
        (BF16, evidence(ProofVerdict.PARTLY), "toy bf16=autocast is not verified: bf16: PARTLY ("),
        (BF16, evidence(ProofVerdict.UNKNOWN), "toy bf16=autocast is not verified: bf16: UNKNOWN ("),
        (BF16, replace(active, reference_share=0.3), share),
        (BF16, replace(active, reference_share=0.005), None),
        (Setting(), None, "toy fp32 is not verified: no kernel evidence was collected (--no-audit?)"),
    ):
        found = rows(make(STEADY, setting=setting, evidence=proof), make(None, workload="other", error="died"))
        assert [line[: len(objection or line)] for line in objections(found)] == ([objection] if objection else [])
        assert summary.is_unproven(found[0]) == (objection is not None)


def test_strict_looks_at_every_process() -> None:
    """bf16 that ran in the first process only is not proven, whatever the order; nor is a run with other threads."""
    active, not_active = evidence(ProofVerdict.ACTIVE), evidence(ProofVerdict.NOT_ACTIVE)
    for order in ((active, active, not_active), (not_active, active, active)):
        found = rows(*(make(STEADY, setting=BF16, round=i, evidence=each) for i, each in enumerate(order)))
        (objection,) = objections(found)
        assert objection.startswith("toy bf16=autocast is not verified: bf16: REQUESTED, NOT ACTIVE (")
        assert "; the processes disagree: " in objection
    other = warning("OTHER_THREADS", "2 threads")
    (row,) = rows(make(STEADY, evidence=evidence(ProofVerdict.FP32), warnings=(other,)))
    assert (summary.is_unproven(row), objections([row])) == (True, ["toy fp32: 2 threads"])
