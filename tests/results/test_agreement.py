"""Whether the engine of a setting computes what torch computes, by its processes."""

from __future__ import annotations

from typing import Any

from exported_results import IN_BF16, OTHER, SAME, exported
from fake_runs import changed, make

from modelzoo.frozen import replace
from modelzoo.records.run import RunReport
from modelzoo.results.refusals import OtherOutputs, agreement_of, other_outputs


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


def test_other_outputs_than_torch_are_found() -> None:
    """An engine that computes the same is not among them."""
    assert other_outputs([report(agreement=SAME), report()]) is None
    assert other_outputs([report(agreement=OTHER)]) == OtherOutputs("onnxruntime", OTHER)


def test_what_was_not_compared_is_not_known_to_be_the_same() -> None:
    """The reason is given, if there is one."""
    found = other_outputs([report(agreement_problem="the engine returns no arrays")])
    assert found == OtherOutputs("onnxruntime", None, "the engine returns no arrays")
    assert other_outputs([report()]) == OtherOutputs("onnxruntime", None)


def test_bf16_and_torch_itself_have_no_bound() -> None:
    """What bf16 changes is judged by the task; torch exports nothing."""
    assert other_outputs([report("bf16", agreement=IN_BF16)]) is None
    assert other_outputs([report("bf16")]) is None
    assert other_outputs([report(export=None)]) is None
    assert other_outputs([]) is None


def test_a_compiled_setting_that_computes_something_else_is_found() -> None:
    """torch is compared with its own eager mode."""
    assert other_outputs([report(export=None, agreement=OTHER)]) == OtherOutputs("torch", OTHER)
    assert other_outputs([report(export=None, agreement=SAME)]) is None
