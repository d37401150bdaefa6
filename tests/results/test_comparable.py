"""Whether two settings may be compared; what the reasons do to a table is in ``test_summary``."""

from __future__ import annotations

from typing import Any

import pytest
from exported_results import IN_BF16, SAME, exported
from exported_results import OTHER as WRONG_OUTPUTS
from fake_runs import WEIGHTS, canary, changed, evidence, make

from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run, RunReport
from modelzoo.records.workload import Count
from modelzoo.results.refusals import Different, Incomparable, OtherOutputs, OtherWork, other_outputs
from modelzoo.results.speed import refused
from modelzoo.setting import Setting

BF16 = Setting("bf16")
OTHER = replace(WEIGHTS, sha256="xyz")

WRONG = evidence(ProofVerdict.WRONG_RESULTS)
AUDITED = evidence(ProofVerdict.FP32)
REPLAYED = replace(AUDITED, classes=tuple(replace(each, is_replayed=True) for each in AUDITED.classes))
"""Every product showed its precision itself, whatever the canary shows at other shapes."""


def counted(*numbers: float) -> tuple[Count, ...]:
    """Counts of boxes."""
    return tuple(Count("boxes", number, 0, 1, "") for number in numbers)


@pytest.mark.parametrize(
    ("baseline", "runs", "expected"),
    [
        ([make([1.0])], [make([1.0], setting=BF16)], None),
        ([], [make([1.0])], None),
        ([make(None, error="died")], [make([1.0])], None),
        ([make([1.0], setting=BF16, level=CanaryLevel.FP32)], [make([1.0])], None),
        ([make([1.0], canary=None, canary_verdict=None)], [make([1.0])], None),
        ([make([1.0], level=CanaryLevel.REDUCED)], [make([1.0])], canary(CanaryLevel.REDUCED)),
        ([make([1.0], level=CanaryLevel.REDUCED, evidence=REPLAYED)], [make([1.0])], None),
        (
            [make([1.0]), make([1.0], round=1, evidence=evidence(ProofVerdict.NOT_FP32))],
            [make([1.0])],
            evidence(ProofVerdict.NOT_FP32),
        ),
        ([make([1.0])], [make([1.0], setting=BF16, evidence=WRONG)], WRONG),
        ([make([1.0], level=CanaryLevel.REDUCED, evidence=WRONG)], [make([1.0], weights=OTHER)], WRONG),
        ([make([1.0])], [make([1.0], weights=OTHER)], Different.WEIGHTS),
        ([make([1.0]), make([1.0], round=1)], [make([1.0]), make([1.0], round=1, weights=OTHER)], Different.WEIGHTS),
        ([make([1.0], digest="a")], [make([1.0], digest="b")], Different.DECLARATION),
        ([make([1.0], digest="a")], [make([1.0])], None),
        ([make([1.0], counts=counted(100))], [make([1.0], counts=counted(130))], None),
        ([make([1.0], counts=counted(100))], [make([1.0], counts=counted(140))], OtherWork("boxes", 100, 140)),
        ([make([1.0], counts=counted(9, 0))], [make([1.0], counts=counted(9, 8))], OtherWork("boxes", 0, 8)),
        ([make([1.0], counts=counted(0))], [make([1.0], counts=counted(0))], None),
        ([make([1.0])], [make([1.0], setting=Setting(seed=1), weights=OTHER)], None),
        ([make([1.0], counts=counted(100))], [make([1.0], setting=Setting(batch=8), counts=counted(140))], None),
        (
            [make([1.0], counts=counted(9))],
            [make([1.0], setting=Setting(options={"size": 2}), counts=counted(90))],
            None,
        ),
    ],
)
def test_a_speedup_is_refused_for_a_reason(baseline: list[Run], runs: list[Run], expected: Incomparable | None) -> None:
    """Not in fp32, other weights, other work, in any round, unless asked for; a bf16 baseline need not be fp32."""
    assert [each.fact for each in refused(baseline, runs)] == ([] if expected is None else [expected])


def report(precision: str = "fp32", **changes: Any) -> RunReport:
    """The report of a process that ran an exported model."""
    found = make([1.0]).report
    method = "cast" if precision == "bf16" else None
    setting = replace(found.setting, precision=precision, bf16_method=method)
    return changed(found, **{"setting": setting, **exported(), **changes})


EAGER = {"export": None}
"""torch itself, which exports nothing, and is compared with its own eager mode."""


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        # One process of a setting compares; in several sessions, one over the bound counts.
        ([report(agreement=SAME), report()], None),
        ([report(agreement=SAME), report(agreement=WRONG_OUTPUTS)], OtherOutputs("onnxruntime", WRONG_OUTPUTS)),
        # What was not compared is not known to be the same; the reason is given, if there is one.
        ([report()], OtherOutputs("onnxruntime", None)),
        ([report(agreement_problem="no arrays")], OtherOutputs("onnxruntime", None, "no arrays")),
        # What bf16 changes is judged by the task.
        ([report("bf16", agreement=IN_BF16)], None),
        ([report("bf16")], None),
        ([report(**EAGER)], None),
        ([report(**EAGER, agreement=SAME)], None),
        ([report(**EAGER, agreement=WRONG_OUTPUTS)], OtherOutputs("torch", WRONG_OUTPUTS)),
        ([], None),
    ],
)
def test_other_outputs_than_torch_are_found(reports: list[RunReport], expected: OtherOutputs | None) -> None:
    """Unless there is no bound."""
    assert other_outputs(reports) == expected
