"""Whether the engine of a setting computes what torch computes, by its processes."""

from __future__ import annotations

from typing import Any

from exported_results import DETECTS_SAME, IN_BF16, OTHER, SAME, exported
from fake_runs import changed, make

from modelzoo.frozen import replace
from modelzoo.records.run import RunReport
from modelzoo.results.agreement import agreement_of, bounds, other_outputs


def report(precision: str = "fp32", **changes: Any) -> RunReport:
    """The report of a process that ran an exported model."""
    found = make([1.0]).report
    assert found is not None
    method = "cast" if precision == "bf16" else None
    setting = replace(found.setting, precision=precision, bf16_method=method)
    return changed(found, **{"setting": setting, **exported(), **changes})


def test_one_process_of_a_setting_compares() -> None:
    """The others have nothing to add; in several sessions, one over the bound counts."""
    assert agreement_of([report(), report(agreement=SAME)]) == SAME
    assert agreement_of([report(agreement=SAME), report(agreement=OTHER)]) == OTHER
    assert agreement_of([report()]) is None


def test_other_outputs_are_said_with_the_error_and_the_bound() -> None:
    """Nothing is said of an engine that computes the same."""
    assert other_outputs([report(agreement=SAME), report()]) is None
    said = "onnxruntime does not compute what torch does: mean error ÷ mean |output| 2.0e-03, mean error 2.0e-03"
    assert other_outputs([report(agreement=OTHER)]) == f"{said}; at most 1e-05 of mean |output| is rounding"


def test_what_was_not_compared_is_not_known_to_be_the_same() -> None:
    """The reason is given, if there is one."""
    found = other_outputs([report(agreement_problem="the engine returns no arrays")])
    assert found == "it is not known whether onnxruntime computes what torch does: the engine returns no arrays"
    assert other_outputs([report()]) is not None


def test_bf16_and_torch_itself_have_no_bound() -> None:
    """What bf16 changes is judged by the task; torch exports nothing."""
    assert other_outputs([report("bf16", agreement=IN_BF16)]) is None
    assert other_outputs([report("bf16")]) is None
    assert other_outputs([report(export=None)]) is None
    assert other_outputs([]) is None


def test_a_compiled_setting_that_computes_something_else_is_said() -> None:
    """torch is compared with its own eager mode."""
    said = "torch does not compute what it does in eager mode: mean error"
    assert (other_outputs([report(export=None, agreement=OTHER)]) or "").startswith(said)
    assert other_outputs([report(export=None, agreement=SAME)]) is None


def test_the_bounds_of_a_detector_are_those_of_its_heads_and_of_its_detections() -> None:
    """Three numbers."""
    assert bounds(DETECTS_SAME).endswith(
        "is rounding, and 95 % of the detections must match, with an error of at most 1e-04"
    )
