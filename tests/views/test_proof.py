"""What proves a precision, in words; what the verdicts follow from is in ``tests/evidence`` and ``test_proof``."""

from __future__ import annotations

from collections.abc import Callable

from exported_results import DETECTS_SAME, SAME
from exported_results import OTHER as WORSE
from fake_runs import canary, evidence

from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel, OperatorCheck
from modelzoo.records.evidence import Disagreement, InexactCanary, NotUsed, OperatorClass, Product, ProofVerdict
from modelzoo.records.workload import MatchedDetections, OutputAgreement, OutputError
from modelzoo.results.proof import OtherKernels, Proof, UnexplainedOutputs
from modelzoo.results.refusals import Different, Obstacle, OtherOutputs, OtherWork, Refusal
from modelzoo.views import proof
from modelzoo.views.speed import refusal

ACTIVE, UNKNOWN = ProofVerdict.ACTIVE, ProofVerdict.UNKNOWN
AUDITED = Proof(verdict=ACTIVE, ground=evidence(ACTIVE), verdicts=((ACTIVE, 8),), processes=8, audited=2, listed=8)
OTHER = Proof(verdict=UNKNOWN, verdicts=((ACTIVE, 2), (UNKNOWN, 1)), processes=3, audited=2, listed=3)


def array(error: float | None, name: str = "0", mean: float = 1.0, **known: float) -> OutputError:
    """An array with this relative error, whose mean |output| is ``mean``."""
    return OutputError(name, 9, None if error is None else mean * error, mean, error, **known)


def off(*arrays: OutputError, has_bound: bool = True, matched: int = 0, values: float | None = None) -> OutputAgreement:
    """Outputs with these errors; with ``matched`` of 100 detections, whose values differ by ``values``."""
    errors = (array(values, "boxes"), array(0.0, "scores"))
    return OutputAgreement(arrays, has_bound, MatchedDetections(100, 100, matched, errors) if matched else None)


def test_what_proves_a_setting(approved: Callable[[str, str], None]) -> None:
    """An audit, the other processes with the same kernels, and what they disagree about."""
    unexplained = ("fp32", off(array(2e-3))), ("bf16", off(array(0.1, rounding=0.02), has_bound=False))
    proofs = (
        Proof(processes=3, listed=3, kernel_lists=1),
        Proof(ground="the engine has no proof"),
        *(replace(AUDITED, kernel_lists=number) for number in (1, 2)),
        replace(AUDITED, audited=8, kernel_lists=1),
        OTHER,
        replace(OTHER, ground="the profiler failed"),
        replace(OTHER, ground=OtherKernels(("MKL sgemm", "fp32"), (72, 73))),
        replace(OTHER, ground=OtherKernels()),
        replace(OTHER, ground=OtherKernels(checks=("matmul", "conv"))),
        replace(OTHER, ground=OtherKernels(is_listed=False)),
        *(Proof(verdict=UNKNOWN, ground=UnexplainedOutputs(*each)) for each in unexplained),
        replace(AUDITED, audited=8, kernel_lists=1, outputs=off(array(1e-3, sensitivity=2e-5))),
    )
    assert proof.sentence(Proof()) is None
    approved("said/proofs.txt", "".join(f"{proof.sentence(each)}\n" for each in proofs))


def test_why_a_precision_is_not_proven(approved: Callable[[str, str], None]) -> None:
    """What the log shows was allowed, and which kernels ran; errors that contradict it; what a pass did otherwise."""
    not_active, not_fp32 = evidence(ProofVerdict.NOT_ACTIVE), evidence(ProofVerdict.NOT_FP32)
    unused = (("MLAS", False, "fastmath"), ("oneDNN", None, None), ("oneDNN", None, "cast"))
    bare = [
        replace(not_active, reason=NotUsed("fp32", ("a",), library, allowed), bf16_method=method)
        for library, allowed, method in unused
    ]
    in_fp32 = {"canary_error": 3e-7, "canary_level": CanaryLevel.FP32}
    with_canary = [replace(each, classes=tuple(replace(one, **in_fp32) for one in each.classes)) for each in bare]
    odd = Product("aten::mm", OperatorClass.MATMUL, (), "fp32", 1, logged="fp32", error=2e-3, shown="bf16", share=0.5)
    contradicted = ((odd, odd, replace(odd, error=None)), (replace(odd, layers=("head", "tail")),), ())
    checks = (OperatorCheck("conv", 2e-3, CanaryLevel.BF16), OperatorCheck("linear", None, CanaryLevel.BROKEN))
    known = replace(evidence(ProofVerdict.FP32).coverage, foreign=4096, outputs_differ=True)
    audits = (
        *(*bare, *with_canary),
        *(replace(not_fp32, reason=Disagreement(each)) for each in contradicted),
        replace(not_fp32, reason=InexactCanary(checks)),
        replace(evidence(ProofVerdict.FP32), verdict=ProofVerdict.UNKNOWN, coverage=known),
    )
    approved("said/audits.txt", "".join(f"{proof.audit(each)}\n" for each in audits))


def test_the_worst_output_of_each_is_said(approved: Callable[[str, str], None]) -> None:
    """Relative and absolute error; detections by number and by the error of their values; of several, the ranges."""
    one = off(array(2.5e-7, mean=2.0))
    found = (
        [off(array(1e-7), array(3e-7, "1"))],
        [off(array(1e-7), array(None, "1"))],
        [off(matched=97)],
        [off()],
        [off(array(1e-4, sensitivity=2e-5))],
        [one, off(array(1e-6, mean=2.0))],
        [one, off()],
        [off(array(1e-6), values=value, matched=number) for value, number in ((3e-6, 97), (1e-6, 100))],
    )
    others = (("openvino", WORSE), ("torch", WORSE), ("openvino", None), ("openvino", None, "it is deaf"))
    said = [*map(proof.agreement_text, found), *(proof.other_outputs_text(OtherOutputs(*each)) for each in others)]
    said += map(proof.bounds_text, (SAME, DETECTS_SAME))
    approved("said/outputs.txt", "".join(f"{each}\n" for each in said))


def test_why_a_speedup_is_refused() -> None:
    """Other work, or a baseline that is not what it says."""
    reasons = (Different.DECLARATION, OtherWork("boxes", 100.0, 140.0), evidence(ProofVerdict.NOT_FP32))
    facts = (*reasons, canary(CanaryLevel.BF16))
    said = [refusal(Refusal(Obstacle.INACTIVE, fact=each)) for each in facts]
    assert said[:2] == [
        "baseline and candidate have different versions of workload.py",
        "baseline and candidate did different work: boxes 100 and 140",
    ]
    assert said[2].startswith("the fp32 baseline is not fp32 according to its kernels: fp32: NOT FP32 (")
    assert said[3].startswith("the fp32 baseline is not fp32 according to the canary: matmul bf16 (2.9e-03), ")
