"""Whether the engine of a setting computes what torch computes, by its processes."""

from __future__ import annotations

from typing import Any

import pytest
from exported_results import IN_BF16, OTHER, SAME, exported
from fake_runs import changed, make

from modelzoo.frozen import replace
from modelzoo.records.run import RunReport
from modelzoo.results.refusals import OtherOutputs, other_outputs


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
        ([report(agreement=SAME), report(agreement=OTHER)], OtherOutputs("onnxruntime", OTHER)),
        # What was not compared is not known to be the same; the reason is given, if there is one.
        ([report()], OtherOutputs("onnxruntime", None)),
        ([report(agreement_problem="no arrays")], OtherOutputs("onnxruntime", None, "no arrays")),
        # What bf16 changes is judged by the task.
        ([report("bf16", agreement=IN_BF16)], None),
        ([report("bf16")], None),
        ([report(**EAGER)], None),
        ([report(**EAGER, agreement=SAME)], None),
        ([report(**EAGER, agreement=OTHER)], OtherOutputs("torch", OTHER)),
        ([], None),
    ],
)
def test_other_outputs_than_torch_are_found(reports: list[RunReport], expected: OtherOutputs | None) -> None:
    """Unless there is no bound."""
    assert other_outputs(reports) == expected
