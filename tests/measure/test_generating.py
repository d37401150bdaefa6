"""Measuring a workload that generates tokens, from its preparation to its report."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from generating_workload import generating_workload
from measure.test_measurement import report_of
from toy_workloads import RANDOM

from modelzoo.measure.preparation import prepare
from modelzoo.records.profile import DecodingBytes
from modelzoo.records.protocol import PrepareJob
from modelzoo.records.run_report import DECODE, PREFILL
from modelzoo.records.timing import BETWEEN_TOKENS, FIRST_TOKEN, LATENCY, PER_TOKEN, Generated
from modelzoo.setting import Setting


@pytest.fixture(autouse=True)
def _restored() -> None:
    """Measuring here sets this process's threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_every_call_is_a_generation(tmp_path: Path) -> None:
    """Its time is that of the first token and of the others, to a rounding error; the operations are of all tokens."""
    report, _ = report_of(RANDOM, generating_workload(tmp_path), audit=True)
    assert report.generation == Generated(3, 5)
    assert report.timing is not None
    whole, first, each = (report.timing.values(name) for name in (LATENCY, FIRST_TOKEN, PER_TOKEN))
    assert len(whole) == len(first) == len(each) == len(report.timing.steady)
    assert all(a == pytest.approx(b + 4 * c, rel=1e-9) for a, b, c in zip(whole, first, each))
    assert len(report.timing.values(BETWEEN_TOKENS)) == 4 * len(whole)
    assert report.observed.flops is not None
    assert report.observed.flops.total == 5 * 2 * 2 * 64 * 64


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        (Setting(mode="compile"), "--mode compile has no cache that grows; use --mode eager"),
        (Setting(engine="onnxruntime"), "--engine onnxruntime runs one forward pass; use --engine torch"),
    ],
)
def test_what_cannot_generate_is_refused_before_anything_is_made(
    tmp_path: Path, setting: Setting, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line that says what to use."""
    pytest.importorskip(setting.engine)
    work = generating_workload(tmp_path)
    (found,) = prepare(PrepareJob(str(work.directory), (setting,), 0), lambda message: None).settings
    assert found.error == f"generating generates tokens one by one, and {problem}"


def test_what_a_step_reads_is_counted(tmp_path: Path) -> None:
    """The weights as they are stored, and the cache, the mean over the steps, which each add a token to it."""
    report, _ = report_of(RANDOM, generating_workload(tmp_path))
    assert report.observed.decoding == DecodingBytes(64 * 64 * 4, 2 * 8 * (4 + 5 + 6 + 7) / 4)


def test_each_phase_is_audited_alone(tmp_path: Path) -> None:
    """A prefill and one step of decoding, which is a fifth of the products of a whole generation."""
    report, _ = report_of(RANDOM, generating_workload(tmp_path), audit=True, full_audit=True)
    assert report.observed.evidence is not None
    prefill, decode = report.observed.phases
    assert (prefill.name, decode.name) == (PREFILL, DECODE)
    for phase in (prefill, decode):
        assert phase.evidence is not None and phase.flops is not None
        assert phase.evidence.verdict is report.observed.evidence.verdict
        assert phase.flops.total == 2 * 2 * 64 * 64


def test_a_step_that_cannot_be_repeated_is_not_audited(tmp_path: Path) -> None:
    """What was timed is kept, and the reason is recorded."""
    report, _ = report_of(RANDOM, generating_workload(tmp_path, locked=True), audit=True, full_audit=True)
    assert report.timing is not None
    assert (report.observed.evidence, report.observed.phases) == (None, ())
    assert report.observed.evidence_problem == "the state of a generation cannot be copied: cannot copy a lock"


def test_an_audited_step_has_the_same_outputs_every_time(tmp_path: Path) -> None:
    """It goes on from a copy of the same state, so outputs can be compared with those that nobody observed."""
    report, _ = report_of(RANDOM, generating_workload(tmp_path), audit=True, full_audit=True)
    for phase in report.observed.phases:
        assert phase.evidence is not None and phase.evidence.coverage is not None
        assert not phase.evidence.coverage.outputs_differ
        assert not any("differ from pass to pass" in problem for problem in phase.evidence.problems)
