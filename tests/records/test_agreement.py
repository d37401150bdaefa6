"""An engine computes the same as torch, or not, or has no bound."""

from __future__ import annotations

import pytest

from modelzoo.frozen import replace
from modelzoo.records.workload import FP32_BOUND, MatchedDetections, OutputAgreement, OutputError


def error(relative: float | None, name: str = "0") -> OutputError:
    """An array whose mean |output| is 2."""
    return OutputError(name, 10, None if relative is None else 2 * relative, 2.0, relative)


def detections(matched: int = 100, values: float | None = 1e-6) -> MatchedDetections:
    """100 detections on both sides."""
    return MatchedDetections(100, 100, matched, (error(values, "boxes"), error(0.0, "scores")))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (OutputAgreement((error(4e-7), error(1e-5)), True), True),
        (OutputAgreement((error(4e-7), error(1.1e-5)), True), False),
        (OutputAgreement((error(4e-7), error(None)), True), False),
        (OutputAgreement((), True), False),
        (OutputAgreement((error(1e-2),), False), None),
        (OutputAgreement((error(1e-6),), True, detections()), True),
        (OutputAgreement((error(1e-6),), True, detections(98)), True),
        (OutputAgreement((error(1e-6),), True, detections(97)), False),
        (OutputAgreement((error(1e-6),), True, MatchedDetections(5, 5, 4)), True),
        (OutputAgreement((error(1e-6),), True, MatchedDetections(5, 5, 3)), False),
        (OutputAgreement((error(1e-6),), True, MatchedDetections(1, 1, 0)), False),
        (OutputAgreement((error(1e-6),), True, MatchedDetections(0, 0, 0)), True),
        (OutputAgreement((error(1e-6),), True, detections(values=2e-4)), False),
        (OutputAgreement((error(1e-6),), True, detections(values=None)), False),
        (OutputAgreement((error(2e-5),), True, detections()), False),
    ],
)
def test_every_output_must_be_within_its_bound(found: OutputAgreement, expected: bool | None) -> None:
    """One array, one value of the detections or too few matches are enough; without arrays nothing is known."""
    assert found.is_same is expected


def test_a_network_that_magnifies_rounding_has_a_wider_bound() -> None:
    """Ten times what a small change of the inputs causes in torch, if that alone is over the usual bound."""
    usual, magnified = replace(error(1e-4), sensitivity=9e-6), replace(error(1e-4), sensitivity=2e-5)
    assert (usual.bound(FP32_BOUND), magnified.bound(FP32_BOUND)) == (FP32_BOUND, pytest.approx(2e-4))
    assert OutputAgreement((usual,), True).is_same is False
    found = OutputAgreement((magnified,), True)
    assert found.is_same is True
    assert replace(magnified, sensitivity=None).bound(FP32_BOUND) == FP32_BOUND
    assert replace(magnified, mean_error=2e-2).is_within(FP32_BOUND) is False


def test_the_worst_output_is_the_one_nearest_to_its_bound() -> None:
    """Not the one with the largest error, if that is allowed more."""
    sensitive, other = replace(error(1e-4), sensitivity=1e-4), error(9e-6, "1")
    assert OutputAgreement((sensitive, other), True).worst == other
