"""Measuring a workload that generates tokens, from its preparation to its report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable

import pytest
import torch
from evidence_samples import sentence
from generating_workload import (
    KEPT,
    LATE_BF16,
    LATE_NOTICE,
    LATE_NUMPY,
    LOCKED,
    LOCKED_LATER,
    NOTICED_TOKENS,
    generating_workload,
)
from measure.test_measurement import report_of
from toy_workloads import RANDOM

from modelzoo.evidence.audit import log_operations
from modelzoo.measure.generation import Generating
from modelzoo.measure.preparation import prepare
from modelzoo.records.evidence import ProofVerdict
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


def test_an_audit_counts_what_a_step_reads_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audited generation shows it, so none is run for it alone."""
    given: list[int] = []
    bytes_read = Generating.bytes_read
    monkeypatch.setattr(Generating, "bytes_read", lambda own, cache: given.append(len(cache)) or bytes_read(own, cache))
    report, _ = report_of(RANDOM, generating_workload(tmp_path), audit=True, full_audit=True)
    assert given == [4]
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


def test_other_processes_list_a_prefill_and_a_step(tmp_path: Path) -> None:
    """Two products of the five that a generation of five tokens has; the first process lists them, too."""
    for full_audit in (True, False):
        report, _ = report_of(RANDOM, generating_workload(tmp_path), audit=True, full_audit=full_audit)
        assert report.observed.kernels is not None
        assert sum(each.count for each in report.observed.kernels.kernels) == 2


def test_a_step_that_cannot_be_repeated_is_not_audited_alone(tmp_path: Path) -> None:
    """The whole generation is audited then, and the reason is recorded in one line."""
    report, _ = report_of(RANDOM, generating_workload(tmp_path, LOCKED), audit=True, full_audit=True)
    evidence = report.observed.evidence
    assert evidence is not None and evidence.verdict is ProofVerdict.FP32
    for phase in report.observed.phases:
        assert phase.evidence is None
        assert phase.evidence_problem == "the state of a generation cannot be copied: cannot copy a lock"


def test_a_state_that_does_not_fit_twice_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process would be killed, and what was timed would be lost."""
    monkeypatch.setattr("modelzoo.measure.generation.available_memory", lambda: 191)
    report, _ = report_of(RANDOM, generating_workload(tmp_path), audit=True, full_audit=True)
    assert report.timing is not None and report.observed.evidence is not None
    problem = "the state of a generation cannot be copied: 3 copies take 192 bytes, and 191 are free"
    assert {phase.evidence_problem for phase in report.observed.phases} == {problem}


def test_steps_in_another_precision_than_the_audited_one_are_found(tmp_path: Path) -> None:
    """bf16 from the third step on: the prefill and the second step are fp32, and the whole is not VERIFIED."""
    report, _ = report_of(RANDOM, generating_workload(tmp_path, LATE_BF16), audit=True, full_audit=True)
    evidence = report.observed.evidence
    assert evidence is not None and evidence.coverage is not None
    assert (evidence.verdict, evidence.coverage.beyond_parts) == (ProofVerdict.UNKNOWN, ("bf16", "fp32"))
    said = "the products of the whole generation in bf16, fp32 are not those that its audited phases account for"
    assert said in sentence(evidence)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (LATE_NUMPY, "the products of the whole generation in fp32 are not those that its audited phases account for"),
        (
            LATE_NOTICE,
            "the products of the whole generation in bf16, fp32 are not those that its audited phases account for",
        ),
        (NOTICED_TOKENS, "the model computed other outputs while it was observed"),
    ],
)
def test_what_only_steps_do_that_are_not_audited_is_found(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    """Products outside torch, bf16 while no operator is intercepted, and other tokens while they are.

    Only a kernel log shows products of late steps that are not intercepted, and CPUs without AVX-512 log none in bf16.
    """
    bf16 = torch.ones(64, 64, dtype=torch.bfloat16)
    if changes is LATE_NOTICE and "bf16" not in (log_operations(lambda: bf16 @ bf16) or ()):
        pytest.skip("no library logs a product in bf16 on this CPU")
    report, _ = report_of(RANDOM, generating_workload(tmp_path, changes), audit=True, full_audit=True)
    evidence = report.observed.evidence
    assert evidence is not None and evidence.verdict is ProofVerdict.UNKNOWN
    assert reason in sentence(evidence)


def test_a_copy_that_fails_later_loses_nothing(tmp_path: Path) -> None:
    """The first copy of a state succeeds, the one that a step needs does not."""
    report, _ = report_of(RANDOM, generating_workload(tmp_path, LOCKED_LATER), audit=True, full_audit=True)
    assert report.timing is not None
    problem = "the state of a generation cannot be copied: cannot copy a lock"
    assert {phase.evidence_problem for phase in report.observed.phases} == {problem}


def test_a_state_that_is_used_again_is_given_back_before_each_prefill(tmp_path: Path) -> None:
    """Otherwise a prefill that is audited would go on from the generation before."""
    report, _ = report_of(RANDOM, generating_workload(tmp_path, KEPT), audit=True, full_audit=True)
    evidence = report.observed.evidence
    assert evidence is not None and evidence.verdict is ProofVerdict.FP32
    assert report.observed.decoding == DecodingBytes(64 * 64 * 4, 2 * 8 * (4 + 5 + 6 + 7) / 4)


def test_the_step_in_the_middle_is_audited(tmp_path: Path) -> None:
    """Of four steps, the second: it reads four tokens, and a copy of the state is made before it, not during it."""
    work = generating_workload(tmp_path)
    assert work.generate is not None
    generation = work.generate({"prompt-tokens": 3, "new-tokens": 5})
    lengths: list[int] = []

    class Watched:
        def __init__(self, compose: Callable[[Any], Any] | None = None) -> None:
            self.call = self.forward if compose is None else compose(self.forward)

        def composed(self, compose: Callable[[Any], Any]) -> Watched:
            return Watched(compose)

        def forward(self, ids: torch.Tensor, cache: list[torch.Tensor]) -> torch.Tensor:
            lengths.append(sum(each.shape[1] for each in cache))
            cache.append(ids)
            return torch.eye(64)[:2]

    generating = Generating(generation, Watched(), (torch.zeros(2, 3, dtype=torch.long),))  # type: ignore[arg-type]
    with generating.phases() as (prefill, step):
        lengths.clear()
        for part in (prefill, step, step):
            part.ready()
            with forbidden_copies():
                part.model.call(*part.args)
    assert lengths == [0, 4, 4]
    assert (prefill.times, step.times) == (1, 4)


@contextmanager
def forbidden_copies() -> Iterator[None]:
    """No state may be copied here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("modelzoo.measure.generation.deepcopy", lambda state: pytest.fail("a copy during a step"))
        yield


def test_an_audited_step_has_the_same_outputs_every_time(tmp_path: Path) -> None:
    """It goes on from a copy of the same state, so outputs can be compared with those that nobody observed."""
    report, _ = report_of(RANDOM, generating_workload(tmp_path), audit=True, full_audit=True)
    for phase in report.observed.phases:
        assert phase.evidence is not None and phase.evidence.coverage is not None
        assert not phase.evidence.coverage.outputs_differ
        assert not any("differ from pass to pass" in problem for problem in phase.evidence.problems)
