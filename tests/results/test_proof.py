"""What proves a setting's precision is merged over all of its processes."""

from __future__ import annotations

import pytest
from fake_runs import canary, evidence, make

from modelzoo.records.canary import CanaryLevel, CanaryVerdict
from modelzoo.records.evidence import KernelCalls, KernelDigest, ProofVerdict
from modelzoo.records.run import RunReport
from modelzoo.records.workload import MatchedDetections, OutputAgreement, OutputError
from modelzoo.results.proof import OtherKernels, UnexplainedOutputs, merged_proof
from modelzoo.setting import Setting

ACTIVE, PARTLY, UNKNOWN = ProofVerdict.ACTIVE, ProofVerdict.PARTLY, ProofVerdict.UNKNOWN
NOT_ACTIVE, FP32, NOT_FP32 = ProofVerdict.NOT_ACTIVE, ProofVerdict.FP32, ProofVerdict.NOT_FP32


def report(verdict: ProofVerdict | None, **changes: object) -> RunReport:
    """The report of a process with this evidence."""
    run = make([1.0], setting=Setting("bf16"), evidence=evidence(verdict) if verdict else None, **changes)
    assert run.report is not None
    return run.report


def kernels(name: str = "oneDNN matmul brg", count: int = 73, shapes: str = "") -> KernelDigest:
    """The digest of a process that called one kernel."""
    return KernelDigest(f"{name} {count} {shapes}", (KernelCalls(name, "bf16", count),))


def test_processes_that_agree_have_one_verdict() -> None:
    """It follows from an audit, and there is no warning."""
    proof = merged_proof([report(ACTIVE)] * 3)
    assert (proof.ground, proof.verdict, proof.warning) == (evidence(ACTIVE), ACTIVE, None)
    assert (proof.verdicts, proof.processes, proof.audited) == (((ACTIVE, 3),), 3, 3)


@pytest.mark.parametrize(
    ("verdicts", "worst", "counts"),
    [
        ((ACTIVE, ACTIVE, PARTLY), PARTLY, "2 × ACTIVE, 1 × PARTLY"),
        ((NOT_ACTIVE, ACTIVE, PARTLY), NOT_ACTIVE, "1 × NOT_ACTIVE, 1 × ACTIVE, 1 × PARTLY"),
        ((FP32, NOT_FP32), NOT_FP32, "1 × FP32, 1 × NOT_FP32"),
        ((PARTLY, UNKNOWN), UNKNOWN, "1 × PARTLY, 1 × UNKNOWN"),
        ((NOT_ACTIVE, ProofVerdict.WRONG_RESULTS), ProofVerdict.WRONG_RESULTS, "1 × NOT_ACTIVE, 1 × WRONG_RESULTS"),
    ],
)
def test_the_least_favourable_verdict_decides(
    verdicts: tuple[ProofVerdict, ...], worst: ProofVerdict, counts: str
) -> None:
    """The disagreement is a warning."""
    proof = merged_proof([report(verdict) for verdict in verdicts])
    assert proof.verdict is worst
    assert proof.ground == evidence(worst)
    assert proof.warning is not None
    assert proof.warning.code == "PROOF_DIFFERS"
    assert counts in proof.warning.message


def test_a_process_without_evidence_proves_nothing() -> None:
    """If the audit of one process failed, the setting is not proven by the others."""
    proof = merged_proof([report(ACTIVE), report(None, evidence_problem="the profiler failed")])
    assert proof.verdict is UNKNOWN
    assert (proof.ground, proof.verdicts) == ("the profiler failed", ((ACTIVE, 1), (UNKNOWN, 1)))


def test_without_any_evidence_there_is_no_verdict() -> None:
    """The reason is given if there is one; without an audit there is none."""
    assert merged_proof([report(None), report(None)]).ground is None
    proof = merged_proof([report(None, evidence_problem="the engine has no proof")] * 2)
    assert (proof.ground, proof.verdict, proof.warning) == ("the engine has no proof", None, None)
    assert merged_proof([]).verdict is None


def test_the_largest_share_of_reference_kernels_counts() -> None:
    """One slow process is enough to be named."""
    run = make([1.0], evidence=evidence(FP32, reference_share=0.2))
    assert run.report is not None
    assert merged_proof([report(FP32), run.report]).reference_share == 0.2


def test_canaries_that_disagree_are_named() -> None:
    """The errors shown are those of the process that differs from the others."""
    reports = [report(None), report(None), report(None, level=CanaryLevel.FP32)]
    verdicts = [str(each.observed.canary.verdict("bf16")) for each in reports if each.observed.canary]
    assert verdicts == ["active", "active", "not active"]
    proof = merged_proof(reports)
    assert proof.canaries == (CanaryVerdict.ACTIVE, CanaryVerdict.NOT_ACTIVE)
    assert proof.canary == canary(CanaryLevel.FP32)


def test_an_engine_without_a_canary_has_none() -> None:
    """Nothing is claimed that was not checked."""
    proof = merged_proof([report(None, canary=None, canary_verdict=None)])
    assert (proof.canaries, proof.canary) == ((), None)


def test_processes_with_the_kernels_of_an_audited_one_share_its_verdict() -> None:
    """They ran the same ones in all processes."""
    proof = merged_proof([report(ACTIVE, kernels=kernels())] * 2 + [report(None, kernels=kernels())] * 6)
    assert (proof.verdict, proof.warning) == (ACTIVE, None)
    assert (proof.processes, proof.audited, proof.listed, proof.kernel_lists) == (8, 2, 8, 1)


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"kernels": kernels(count=72)}, OtherKernels(("oneDNN matmul brg", "bf16"), (72, 73))),
        ({"kernels": kernels("MKL sgemm")}, OtherKernels(("oneDNN matmul brg", "bf16"), (0, 73))),
        ({"kernels": kernels(shapes="other")}, OtherKernels()),
        ({"kernels": kernels(), "level": CanaryLevel.FP32}, OtherKernels(checks=("matmul", "linear", "conv"))),
    ],
)
def test_a_process_with_other_kernels_is_not_proven(changes: dict[str, object], difference: OtherKernels) -> None:
    """It is a disagreement, and it is known what differs."""
    proof = merged_proof([report(ACTIVE, kernels=kernels())] * 2 + [report(None, **changes)])
    assert (proof.verdict, proof.ground, proof.verdicts) == (UNKNOWN, difference, ((ACTIVE, 2), (UNKNOWN, 1)))
    assert proof.warning is not None


def test_the_audited_process_with_the_same_kernels_counts() -> None:
    """Of several, the one with the least favourable verdict."""
    first, second = kernels(), kernels("MKL sgemm")
    audited = [report(ACTIVE, kernels=first), report(NOT_ACTIVE, kernels=second)]
    proof = merged_proof([*audited, report(None, kernels=first)])
    assert (proof.ground, proof.verdicts) == (evidence(NOT_ACTIVE), ((ACTIVE, 2), (NOT_ACTIVE, 1)))
    alike = [report(ACTIVE, kernels=first), report(PARTLY, kernels=first)]
    assert merged_proof([*alike, report(None, kernels=first)]).verdicts == ((ACTIVE, 1), (PARTLY, 2))


def test_audited_processes_with_different_kernels_are_named() -> None:
    """Their verdict is the same, but what was measured is not."""
    proof = merged_proof([report(ACTIVE, kernels=kernels()), report(ACTIVE, kernels=kernels("MKL gemm_bf16"))])
    assert (proof.verdict, proof.warning) == (ACTIVE, None)
    assert proof.kernel_lists == 2


def test_kernels_without_any_audit_prove_nothing() -> None:
    """If the audited processes failed, there is nothing to compare the others with."""
    proof = merged_proof([report(None, kernels=kernels())] * 3)
    assert (proof.ground, proof.verdict, proof.listed) == (None, None, 3)


def test_an_audited_process_without_a_list_of_kernels_vouches_for_none() -> None:
    """Another process cannot be compared with it."""
    proof = merged_proof([report(ACTIVE), report(None, kernels=kernels())])
    assert proof.verdict is UNKNOWN
    assert proof.ground == OtherKernels(is_listed=False)


def off(*errors: tuple[float | None, float | None], has_bound: bool = False, changed: float = 0.0) -> OutputAgreement:
    """Outputs with these errors and what rounding causes, and of all of them what slightly changed inputs cause."""
    arrays = (OutputError("0", 9, error, 1.0, error, changed, rounding) for error, rounding in errors)
    return OutputAgreement(tuple(arrays), has_bound)


@pytest.mark.parametrize(
    ("outputs", "is_explained"),
    [
        (off((1e-6, None), has_bound=True), True),
        (off((1e-6, None), (2e-5, None), has_bound=True), False),
        (off((None, None), has_bound=True), False),
        (off((1e-3, None), has_bound=True, changed=2e-5), None),
        (OutputAgreement((), True, MatchedDetections(0, 0, 0)), None),
        (off((2e-2, 1e-2)), True),
        (off((2e-2, 1e-2), (0.0, 0.0)), True),
        (off((1e-2, 1e-4)), True),
        (off((4e-2, 1e-2)), False),
        (off((2e-2, 1e-2), (None, 1e-2)), False),
        (off((1e-6, 1e-2)), False),
        (off((0.0, 0.0)), None),
        (off((0.3, None)), None),
    ],
)
def test_outputs_must_be_off_as_the_precision_explains(outputs: OutputAgreement, is_explained: bool | None) -> None:
    """In fp32 within the bound, in bf16 beyond it and near what rounding causes, unless they show nothing."""
    assert outputs.is_explained is is_explained
    verdict = FP32 if outputs.has_bound else ACTIVE
    proof = merged_proof([report(verdict, agreement=outputs), report(verdict)])
    assert proof.outputs == outputs
    if is_explained is not False:
        assert (proof.verdict, proof.ground) == (verdict, evidence(verdict))
    else:
        assert (proof.verdict, proof.ground) == (UNKNOWN, UnexplainedOutputs("bf16", outputs))
    assert merged_proof([report(NOT_FP32, agreement=outputs)]).verdict is NOT_FP32
