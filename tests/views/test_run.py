"""What is printed of a run beyond what ``tests/snapshots`` shows."""

from __future__ import annotations

import pytest
from fake_runs import evidence, make, result_of, warning
from generated_results import generation_run
from printed import headings, printed

from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run_report import PREFILL, GenerationPhase
from modelzoo.results import summary
from modelzoo.views import run


def test_a_condition_that_invalidates_is_called_so() -> None:
    """It is not a mere warning, and never left out; without ``--details``, notes are."""
    codes = ("FP32_NOT_FP32", "NUMA", "SMT", "OUTLIERS")
    found = tuple(warning(code, f"{code} [bold]happened[/]") for code in codes)
    samples = [0.05] * 6
    runs = [make(samples, round=n) for n in (0, 1)]
    runs += [make(samples, workload="other", round=n, warnings=found) for n in (0, 1)]
    result = result_of(*runs)
    text = printed(run.document(result, summary.rows(result)))
    assert "invalid: other: FP32_NOT_FP32 [bold]happened[/]\n" in text, "brackets are text"
    assert [code in text for code in codes] == [True, True, False, False]
    assert text.endswith("\n\n2 more: --details\n")


@pytest.mark.parametrize(
    ("phases", "title"),
    [
        ((), "kernels of 2 audited passes"),
        (("",), "kernels of a prefill and 1 step of decoding"),
        (("the state of a generation cannot be copied: no",), "kernels of 2 audited passes"),
    ],
)
def test_a_generation_that_was_audited_as_a_whole_is_called_so(phases: tuple[str, ...], title: str) -> None:
    """Also if that is because its phases could not be audited alone; one that was has tables of its own."""
    audit = evidence(ProofVerdict.FP32)
    alone = tuple(GenerationPhase(PREFILL, None if problem else audit, problem) for problem in phases)
    found = result_of(generation_run(0.4, [0.04], phases=alone, evidence=audit))
    assert headings(run.kernels(found))[0] == f"llm fp32: {title}"
