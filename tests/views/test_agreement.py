"""How far outputs are from torch's, in words."""

from __future__ import annotations

import pytest
from exported_results import DETECTS_SAME, OTHER, SAME

from modelzoo.frozen import replace
from modelzoo.records.workload import MatchedDetections, OutputAgreement, OutputError
from modelzoo.results.refusals import OtherOutputs
from modelzoo.views.proof import agreement_text, bounds_text, other_outputs_text


def error(relative: float | None, name: str = "0", sensitivity: float | None = None) -> OutputError:
    """An array whose mean |output| is 2."""
    return OutputError(name, 10, None if relative is None else 2 * relative, 2.0, relative, sensitivity)


def agreement(*outputs: OutputError, values: float | None = None, matched: int = 0) -> OutputAgreement:
    """Of a detector if ``matched`` is given: with 100 detections on both sides, whose values differ by ``values``."""
    found = MatchedDetections(100, 100, matched, (error(values, "boxes"), error(0.0, "scores"))) if matched else None
    return OutputAgreement(outputs, True, found)


ONE = agreement(error(2.5e-7))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            [agreement(error(1e-7), error(3e-7, "1"))],
            "mean error ÷ mean |output| 3.0e-07, mean error 6.0e-07 (output 1)",
        ),
        ([agreement(error(1e-7), error(None, "1"))], "output 1 is not finite, or has another shape"),
        (
            [agreement(values=None, matched=97)],
            "the raw heads were not compared; 97 of 100 detections match (100 found), their error not finite",
        ),
        ([agreement()], "no outputs were compared"),
        (
            [agreement(error(1e-4, sensitivity=2e-5))],
            "mean error ÷ mean |output| 1.0e-04, mean error 2.0e-04, where inputs that differ by 1e-06 cause 2.0e-05",
        ),
        ([ONE, agreement(error(1e-6))], "mean error ÷ mean |output| 2.5e-07 to 1.0e-06, mean error 5.0e-07 to 2.0e-06"),
        ([ONE, agreement()], "mean error ÷ mean |output| 2.5e-07, mean error 5.0e-07; no outputs were compared"),
        (
            [agreement(error(1e-6), values=value, matched=number) for value, number in ((3e-6, 97), (1e-6, 100))],
            "mean error ÷ mean |output| 1.0e-06, mean error 2.0e-06 before NMS; 97 to 100 of 100 detections match (100 "
            "found), their error 1.0e-06 to 3.0e-06",
        ),
    ],
)
def test_the_worst_output_of_each_is_said(found: list[OutputAgreement], said: str) -> None:
    """Relative and absolute error; detections by number and by the error of their values; of several, the ranges."""
    assert agreement_text(found) == said


def test_what_is_not_the_same_is_said_with_the_bound() -> None:
    """Of an engine, and of torch in another mode."""
    errors = "mean error ÷ mean |output| 2.0e-03, mean error 2.0e-03; at most 1.0e-05 of mean |output| is rounding"
    assert other_outputs_text(OtherOutputs("openvino", OTHER)) == f"openvino does not compute what torch does: {errors}"
    said = f"torch does not compute what it does in eager mode: {errors}"
    assert other_outputs_text(OtherOutputs("torch", OTHER)) == said
    unknown = "it is not known whether openvino computes what torch does: "
    assert other_outputs_text(OtherOutputs("openvino", None)) == f"{unknown}no process compared them"
    assert other_outputs_text(OtherOutputs("openvino", None, "it is deaf")) == f"{unknown}it is deaf"


def test_the_bounds_of_a_detector_are_those_of_its_heads_and_of_its_detections() -> None:
    """Three numbers."""
    allowed = "at most 1.0e-05 of mean |output| is rounding"
    assert bounds_text(SAME) == bounds_text(replace(SAME, outputs=())) == allowed
    matched = "95 % of the detections must match, with an error of at most 1.0e-04"
    assert bounds_text(DETECTS_SAME) == f"{allowed}, and {matched}"
