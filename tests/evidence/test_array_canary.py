"""The canary's operators for engines that do not import torch."""

from __future__ import annotations

import numpy as np
import pytest

from modelzoo.evidence.canary import CanaryCase, canary_cases, check_output
from modelzoo.records.canary import CanaryLevel

OPERATORS = ("matmul", "linear", "conv", "pointwise")


def by_name(operator: str) -> CanaryCase:
    return next(case for case in canary_cases() if case.operator == operator)


@pytest.mark.parametrize("operator", OPERATORS)
def test_exact_outputs_are_those_of_torch_in_fp64(operator: str) -> None:
    """The fp64 reference has to be right, or every engine would look inexact."""
    torch = pytest.importorskip("torch")
    case = by_name(operator)
    operands = [torch.from_numpy(each).double() for each in (*case.inputs, *case.constants)]
    functions = {"matmul": torch.mm, "linear": torch.nn.functional.linear}
    if operator in functions:
        expected = functions[operator](*operands)
    else:
        expected = torch.nn.functional.conv2d(*operands, padding=operands[1].shape[-1] // 2)
    np.testing.assert_allclose(case.exact, expected.numpy(), rtol=1e-9, atol=1e-9)


def test_operands_are_the_same_in_every_process() -> None:
    """Errors of two processes can only be compared if they have the same operands."""
    first = canary_cases()
    canary_cases.cache_clear()
    for before, after in zip(first, canary_cases()):
        assert before.operator == after.operator
        np.testing.assert_array_equal(before.exact, after.exact)


@pytest.mark.parametrize(
    ("kept_bits", "level"),
    [(32, CanaryLevel.FP32), (19, CanaryLevel.REDUCED), (16, CanaryLevel.BF16), (10, CanaryLevel.BROKEN)],
)
def test_the_error_shows_to_how_many_bits_operands_were_rounded(kept_bits: int, level: CanaryLevel) -> None:
    """Operands cut to bf16 (16 bits), TF32 (19 bits) or less must be recognised by the error alone."""
    case = by_name("matmul")
    mask = np.uint32((0xFFFFFFFF << (32 - kept_bits)) & 0xFFFFFFFF)
    half = np.uint32(0 if kept_bits == 32 else 1 << (31 - kept_bits))
    left, right = (((each.view(np.uint32) + half) & mask).view(np.float32) for each in case.inputs)
    assert check_output("matmul", case.exact, left @ right).level is level


def test_an_output_that_is_not_finite_is_broken() -> None:
    """NaN must not pass as a small error."""
    case = by_name("linear")
    output = case.exact.astype(np.float32)
    output[0, 0] = np.nan
    check = check_output("linear", case.exact, output)
    assert check.level is CanaryLevel.BROKEN
    assert check.error is None
