"""What is kept of a result: levels, spreads and costs, for settings that had enough processes."""

from __future__ import annotations

import math
from statistics import stdev

import pytest
from example_machine import QUIET
from fake_runs import WEIGHTS, changed, make, result_of
from kept_sessions import beside, kept

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.records.codec import decode, encode
from modelzoo.records.run import Latency, Result, Run, RunReport
from modelzoo.results.sessions import priors, session_levels, work_key
from modelzoo.setting import Setting

BF16 = Setting("bf16")
SHAPE = (1.0, 1.02, 0.98, 1.01, 0.99)
"""Samples of a process, times its level."""


def timed(run: Run, start: int, end: int) -> Run:
    """``run`` from one second of a minute to another."""
    return replace(run, started=f"2026-01-01T00:00:{start:02}+00:00", ended=f"2026-01-01T00:00:{end:02}+00:00")


def session(fp32: list[float], bf16: list[float], **changes: object) -> Result:
    """Two settings with processes of these levels in rounds of 20 s."""
    runs = []
    for number, levels in enumerate(zip(fp32, bf16)):
        for setting, level in zip((Setting(), BF16), levels):
            run = make([level * each for each in SHAPE], setting=setting, round=number, **changes)  # type: ignore[arg-type]
            runs.append(beside(timed(run, 0, 20), 0.002))
    return result_of(*runs)


FP32, BOTH = [0.1, 0.12, 0.11], [0.2, 0.25, 0.21]


def test_each_setting_is_kept_with_its_level_and_variances() -> None:
    """The geometric mean of the process medians, and the components of the nested design."""
    first, second = session_levels(replace(session(FP32, BOTH), payload=Latency(reference_load="the load")))
    assert (first.workload, first.label, second.label) == ("toy", "fp32", "bf16=autocast")
    assert first.level == pytest.approx(math.prod(FP32) ** (1 / 3))
    assert first.processes == 3
    assert first.sampled == pytest.approx(sum(FP32) / 3 * 5)
    found = stats.components([[level * each for each in SHAPE] for level in FP32])
    assert (first.between, first.tau2) == (found.between, found.tau2)
    assert (first.reference, first.reference_load) == (pytest.approx(0.002), "the load")


def test_the_cost_is_the_wall_time_of_a_process_without_its_samples() -> None:
    """A round of 20 s has two processes, so each of them takes 10 s."""
    for level in session_levels(session(FP32, BOTH)):
        assert level.cost == pytest.approx(10 - level.sampled)


def test_the_key_names_the_software_and_not_where_it_lies() -> None:
    """An interpreter's path may change; an image is software. Keys of versions that had neither field stay the same."""
    (run,) = session([0.1], [0.2]).runs[:1]
    assert run.report is not None
    report = run.report

    def key(**changes: object) -> str:
        return work_key(changed(report, setting=replace(report.setting, **changes)))  # type: ignore[arg-type]

    assert key() == key(python="/envs/a/bin/python")
    assert len({key(), key(image="zoo:a"), key(image="zoo:b")}) == 3
    stored = encode(report)
    del stored["prepared"]["setting"]["python"], stored["prepared"]["setting"]["image"]
    assert work_key(decode(RunReport, stored)) == key()


def test_a_cost_is_never_negative() -> None:
    """Stored times are in whole seconds."""
    result = session([10.0] * 3, [10.0] * 3)
    assert [level.cost for level in session_levels(result)] == [0.0, 0.0]


def test_the_spread_of_the_ratio_is_that_of_the_rounds() -> None:
    """What slows down both settings of a round is not in it; the baseline has none."""
    first, second = session_levels(session(FP32, BOTH))
    assert first.ratio_spread is None
    assert second.ratio_spread == pytest.approx(stdev(math.log(a / b) for a, b in zip(FP32, BOTH)))


def test_without_a_baseline_there_is_no_ratio() -> None:
    """Its processes failed."""
    result = session(FP32, BOTH)
    failed = [replace(run, report=None, error="died") if run.group == 0 else run for run in result.runs]
    (level,) = session_levels(replace(result, runs=tuple(failed)))
    assert (level.label, level.ratio_spread) == ("bf16=autocast", None)


def key(**changes: object) -> str:
    """The key of the first setting of a session with these changes to its reports."""
    return session_levels(session(FP32, BOTH, **changes))[0].key


def test_the_same_work_has_the_same_key() -> None:
    """Whatever its times are; the other setting of the session has another one."""
    fp32, bf16 = session_levels(session(FP32, BOTH))
    again, _ = session_levels(session(BOTH, BOTH))
    assert fp32.key == again.key
    assert fp32.key != bf16.key


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": replace(WEIGHTS, sha256="def")},
        {"digest": "another workload.py"},
        {"inputs_digest": "other inputs"},
        {"versions": {"torch": "2.11.0"}},
        {"engine": "onnxruntime"},
    ],
)
def test_other_work_has_another_key(changes: dict[str, object]) -> None:
    """Weights, workload, inputs, software and engine."""
    assert key(**changes) != key()


def test_the_order_of_versions_does_not_matter() -> None:
    """They are a set of facts."""
    assert key(versions={"a": "1", "b": "2"}) == key(versions={"b": "2", "a": "1"})


@pytest.mark.parametrize("processes", [0, 1, 2])
def test_few_processes_are_not_kept(processes: int) -> None:
    """They say nothing about how processes differ."""
    assert session_levels(session(FP32[:processes], BOTH[:processes])) == ()


def test_single_samples_are_not_kept() -> None:
    """``--iterations 1``: nothing is known about the variance within a process."""
    assert session_levels(result_of(*(make([0.1], round=number) for number in range(5)))) == ()


@pytest.mark.parametrize(("other", "kept_levels"), [(1.5, 0), (0.02, 2), (None, 2)])
def test_a_session_beside_other_programs_is_not_kept(other: float | None, kept_levels: int) -> None:
    """As with ceilings: neither the speed nor the noise is the machine's. An unknown load is taken for none."""
    usage = replace(QUIET, other_cores=other)
    assert len(session_levels(session(FP32, BOTH, usage=usage))) == kept_levels


def test_how_the_latency_followed_the_load_is_kept() -> None:
    """Of each setting, whether the load predicts it or not, so that later sessions can count it."""
    slow = (1.0, 1.2, 1.05)
    runs = [beside(make([0.1 * each] * 3, round=number), 0.002 * each) for number, each in enumerate(slow)]
    (level,) = session_levels(result_of(*runs))
    assert level.sums is not None
    assert (level.sums.pairs, level.sums.freedom) == (3, 2)
    assert level.sums.product == pytest.approx(level.sums.load)
    assert session_levels(result_of(*(make([0.1] * 3, round=number) for number in range(3))))[0].sums is None


def test_without_a_load_none_is_named() -> None:
    """An emulator, or the load has died."""
    without = result_of(*(make([0.1, 0.1], round=number) for number in range(3)))
    level, *_ = session_levels(replace(without, payload=Latency(reference_load="the load")))
    assert (level.reference, level.reference_load) == (None, "")


def test_priors_are_means_per_workload() -> None:
    """Over its settings and sessions."""
    levels = [kept(1, between=0.1, tau2=0.3), kept(2, between=0.3, tau2=0.5), kept(1, workload="other")]
    found = priors(levels)
    assert set(found) == {"toy", "other"}
    assert (found["toy"].between, found["toy"].tau2) == pytest.approx((0.2, 0.4))
    assert priors([]) == {}
