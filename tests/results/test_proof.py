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
    return run.report


def kernels(name: str = "oneDNN matmul brg", count: int = 73, shapes: str = "") -> KernelDigest:
    """The digest of a process that called one kernel."""
    return KernelDigest(f"{name} {count} {shapes}", (KernelCalls(name, "bf16", count),))


LISTED = {"kernels": kernels()}
OTHERS = {"kernels": kernels("MKL sgemm")}


@pytest.mark.parametrize(
    ("reports", "verdict", "ground"),
    [
        ([report(ACTIVE)] * 3, ACTIVE, evidence(ACTIVE)),
        # If the audit of one process failed, the setting is not proven by the others.
        ([report(ACTIVE), report(None, evidence_problem="it failed")], UNKNOWN, "it failed"),
        # Without any evidence there is no verdict, with the reason if there is one.
        ([report(None)] * 2, None, None),
        ([report(None, evidence_problem="the engine has no proof")] * 2, None, "the engine has no proof"),
        ([], None, None),
        # Processes with the kernels of an audited one share its verdict; of several, the least favourable.
        ([report(ACTIVE, **LISTED)] * 2 + [report(None, **LISTED)] * 6, ACTIVE, evidence(ACTIVE)),
        ([report(ACTIVE, **LISTED), report(NOT_ACTIVE, **OTHERS)], NOT_ACTIVE, evidence(NOT_ACTIVE)),
        ([report(ACTIVE, **LISTED), report(PARTLY, **LISTED), report(None, **LISTED)], PARTLY, evidence(PARTLY)),
        # Nothing vouches for other kernels, and it is known what differs.
        (
            [report(ACTIVE, **LISTED), report(None, kernels=kernels(count=72))],
            UNKNOWN,
            OtherKernels(("oneDNN matmul brg", "bf16"), (72, 73)),
        ),
        (
            [report(ACTIVE, **LISTED), report(None, **OTHERS)],
            UNKNOWN,
            OtherKernels(("oneDNN matmul brg", "bf16"), (0, 73)),
        ),
        ([report(ACTIVE, **LISTED), report(None, kernels=kernels(shapes="other"))], UNKNOWN, OtherKernels()),
        (
            [report(ACTIVE, **LISTED), report(None, **LISTED, level=CanaryLevel.FP32)],
            UNKNOWN,
            OtherKernels(checks=("matmul", "linear", "conv")),
        ),
        ([report(ACTIVE), report(None, **LISTED)], UNKNOWN, OtherKernels(is_listed=False)),
        ([report(None, **LISTED)] * 3, None, None),
    ],
)
def test_a_setting_has_the_verdict_that_holds_for_all_of_its_processes(
    reports: list[RunReport], verdict: ProofVerdict | None, ground: object
) -> None:
    """With its ground; a disagreement is a warning."""
    proof = merged_proof(reports)
    assert (proof.verdict, proof.ground) == (verdict, ground)
    assert (proof.warning is not None) is (len(proof.verdicts) > 1)


def test_the_least_favourable_verdict_decides() -> None:
    """The disagreement is a warning."""
    for verdicts, worst, counts in (
        ((ACTIVE, ACTIVE, PARTLY), PARTLY, "2 × ACTIVE, 1 × PARTLY"),
        ((NOT_ACTIVE, ACTIVE, PARTLY), NOT_ACTIVE, "1 × NOT_ACTIVE, 1 × ACTIVE, 1 × PARTLY"),
        ((FP32, NOT_FP32), NOT_FP32, "1 × FP32, 1 × NOT_FP32"),
        ((PARTLY, UNKNOWN), UNKNOWN, "1 × PARTLY, 1 × UNKNOWN"),
        ((NOT_ACTIVE, ProofVerdict.WRONG_RESULTS), ProofVerdict.WRONG_RESULTS, "1 × NOT_ACTIVE, 1 × WRONG_RESULTS"),
    ):
        proof = merged_proof([report(verdict) for verdict in verdicts])
        assert (proof.verdict, proof.ground) == (worst, evidence(worst))
        assert proof.warning.code == "PROOF_DIFFERS"
        assert counts in proof.warning.message


def test_the_largest_share_of_reference_kernels_counts() -> None:
    """One slow process is enough to be named."""
    run = make([1.0], evidence=evidence(FP32, reference_share=0.2))
    assert merged_proof([report(FP32), run.report]).reference_share == 0.2


def test_canaries_that_disagree_are_named() -> None:
    """The errors shown are those of the process that differs from the others."""
    proof = merged_proof([report(None), report(None), report(None, level=CanaryLevel.FP32)])
    assert proof.canaries == (CanaryVerdict.ACTIVE, CanaryVerdict.NOT_ACTIVE)
    assert proof.canary == canary(CanaryLevel.FP32)


def test_audited_processes_with_different_kernels_are_named() -> None:
    """Their verdict is the same, but what was measured is not."""
    proof = merged_proof([report(ACTIVE, **LISTED), report(ACTIVE, **OTHERS)])
    assert (proof.verdict, proof.warning, proof.kernel_lists) == (ACTIVE, None, 2)


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
