"""What proves a precision, in words; what the verdicts follow from is in ``tests/evidence`` and ``test_proof``."""

from __future__ import annotations

import pytest
from fake_runs import canary, evidence

from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel, OperatorCheck
from modelzoo.records.evidence import (
    Disagreement,
    InexactCanary,
    NotUsed,
    OperatorClass,
    Product,
    ProofVerdict,
)
from modelzoo.records.workload import OutputAgreement, OutputError
from modelzoo.results.proof import OtherKernels, Proof, UnexplainedOutputs
from modelzoo.results.refusals import Different, Incomparable, OtherWork
from modelzoo.views import proof

ACTIVE, UNKNOWN = ProofVerdict.ACTIVE, ProofVerdict.UNKNOWN
AUDITED = Proof(verdict=ACTIVE, ground=evidence(ACTIVE), verdicts=((ACTIVE, 8),), processes=8, audited=2, listed=8)
OTHER = Proof(verdict=UNKNOWN, verdicts=((ACTIVE, 2), (UNKNOWN, 1)), processes=3, audited=2, listed=3)
DIFFERS = "a process that was not audited differs from those that were: "
SAID = "bf16: ACTIVE (bf16 kernels took 100 % of the time in matrix products, 90 % of the pass)"
CONTRADICT = "the outputs do not confirm what the products show: mean error ÷ mean |output| "
DISAGREE = "; the processes disagree: 2 × ACTIVE, 1 × UNKNOWN"


def off(error: float, *, has_bound: bool = False, **known: float) -> OutputAgreement:
    """One array with this error."""
    return OutputAgreement((OutputError("0", 9, error, 1.0, error, **known),), has_bound)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Proof(), None),
        (Proof(processes=3, listed=3, kernel_lists=1), "no process was audited in full"),
        (Proof(ground="the engine has no proof"), "the engine has no proof"),
        (
            replace(AUDITED, kernel_lists=1),
            f"{SAID}; the same kernels ran in all 8 processes, 2 of them audited in full",
        ),
        (replace(AUDITED, kernel_lists=2), f"{SAID}; not all processes ran the same kernels"),
        (replace(AUDITED, audited=8, kernel_lists=1), SAID),
        (OTHER, f"no kernel evidence was collected{DISAGREE}"),
        (replace(OTHER, ground="the profiler failed"), f"the profiler failed{DISAGREE}"),
        (
            replace(OTHER, ground=OtherKernels(("MKL sgemm", "fp32"), (72, 73))),
            f"{DIFFERS}MKL sgemm (fp32) was called 72 times, and 73 times there{DISAGREE}",
        ),
        (replace(OTHER, ground=OtherKernels()), f"{DIFFERS}the same kernels ran on other shapes{DISAGREE}"),
        (
            replace(OTHER, ground=OtherKernels(checks=("matmul", "conv"))),
            f"{DIFFERS}the precision of the canary's matmul, conv{DISAGREE}",
        ),
        (
            replace(OTHER, ground=OtherKernels(is_listed=False)),
            f"{DIFFERS}the audited process has no list of kernels{DISAGREE}",
        ),
        (
            Proof(verdict=UNKNOWN, ground=UnexplainedOutputs("fp32", off(2e-3, has_bound=True))),
            f"fp32: UNKNOWN ({CONTRADICT}2.0e-03, mean error 2.0e-03; at most 1.0e-05 of mean |output| is rounding)",
        ),
        (
            Proof(verdict=UNKNOWN, ground=UnexplainedOutputs("bf16", off(0.1, rounding=0.02))),
            f"bf16: UNKNOWN ({CONTRADICT}1.0e-01, mean error 1.0e-01; rounding explains 2.0e-02)",
        ),
        (
            replace(AUDITED, audited=8, kernel_lists=1, outputs=off(1e-3, has_bound=True, sensitivity=2e-5)),
            f"{SAID}; its outputs confirm nothing, because the network magnifies rounding",
        ),
    ],
)
def test_what_proves_a_setting(found: Proof, said: str | None) -> None:
    """An audit, the other processes with the same kernels, and what they disagree about."""
    assert proof.sentence(found) == said


@pytest.mark.parametrize(
    ("reason", "method", "said"),
    [
        (NotUsed("fp32", ("a",), "MLAS", False), "fastmath", "MLAS was never allowed bf16, a ran"),
        (NotUsed("fp32", ("a",), "oneDNN", None), None, "no product went through oneDNN, a ran"),
        (NotUsed("fp32", ("a",), "oneDNN", None), "cast", "operands stayed in fp32: a"),
    ],
)
def test_why_nothing_ran_in_bf16(reason: NotUsed, method: str | None, said: str) -> None:
    """What the log shows was allowed, and which kernels ran; with the error of a canary that shows the same."""
    found = replace(evidence(ProofVerdict.NOT_ACTIVE), reason=reason, bf16_method=method)
    assert proof.audit(found) == f"bf16: REQUESTED, NOT ACTIVE ({said})"
    classes = tuple(replace(each, canary_error=3e-7, canary_level=CanaryLevel.FP32) for each in found.classes)
    said = f"bf16: REQUESTED, NOT ACTIVE ({said}; canary error 3e-07 is fp32's)"
    assert proof.audit(replace(found, classes=classes)) == said


PRODUCT = Product("aten::mm", OperatorClass.MATMUL, ((4, 8), (8, 2)), "fp32", 1, error=2e-7, shown="fp32", share=0.5)


def test_a_log_that_an_error_contradicts() -> None:
    """The first product, and how many more there are; a result may have been edited so that there is none."""
    odd = replace(PRODUCT, logged="fp32", error=2e-3, shown="bf16")
    found = replace(evidence(ProofVerdict.NOT_FP32), reason=Disagreement((odd, odd, replace(odd, error=None))))
    said = "the kernel log names fp32 for aten::mm, and its error 2e-03 shows bf16"
    assert proof.audit(found) == f"fp32: NOT FP32 ({said}; likewise for 2 more products)"
    named = replace(found, reason=Disagreement((replace(odd, layers=("head", "tail")),)))
    assert proof.audit(named) == f"fp32: NOT FP32 ({said.replace('aten::mm', 'head (aten::mm)')})"
    none = replace(found, reason=Disagreement(()))
    assert proof.audit(none) == "fp32: NOT FP32 (the kernel log and the errors of products disagree)"


def test_what_an_observed_pass_did_otherwise() -> None:
    """Other outputs, and numbers from outside of torch."""
    known = replace(evidence(ProofVerdict.FP32).coverage, foreign=4096, outputs_differ=True)
    found = replace(evidence(ProofVerdict.FP32), verdict=ProofVerdict.UNKNOWN, reason=None, coverage=known)
    assert proof.audit(found) == (
        "fp32: UNKNOWN (the model computed other outputs, or in other precisions, while it was observed; "
        "operators read 4,096 numbers that no operator computed)"
    )


def test_a_canary_that_is_not_fp32() -> None:
    """Each operator with its error; one that is not finite has none."""
    checks = (OperatorCheck("conv", 2e-3, CanaryLevel.BF16), OperatorCheck("linear", None, CanaryLevel.BROKEN))
    found = replace(evidence(ProofVerdict.NOT_FP32), reason=InexactCanary(checks))
    said = "fp32: NOT FP32 (canary conv error 2e-03 is bf16, canary linear error nan is broken)"
    assert proof.audit(found) == said


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (Different.WEIGHTS, "baseline and candidate ran different weights"),
        (Different.DECLARATION, "baseline and candidate have different versions of workload.py"),
        (OtherWork("boxes", 100.0, 140.0), "baseline and candidate did different work: boxes 100 and 140"),
        (evidence(ProofVerdict.NOT_FP32), "the fp32 baseline is not fp32 according to its kernels: fp32: NOT FP32 ("),
        (canary(CanaryLevel.BF16), "the fp32 baseline is not fp32 according to the canary: matmul bf16 (2.9e-03), "),
    ],
)
def test_why_a_speedup_is_refused(reason: Incomparable, said: str) -> None:
    """Other work, or a baseline that is not what it says."""
    assert proof.incomparable(reason).startswith(said)
