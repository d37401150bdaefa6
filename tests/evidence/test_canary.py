"""The canary finds the precision of operators from their errors alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from modelzoo.evidence import canary
from modelzoo.evidence.canary import canary_case, canary_cases, check_output
from modelzoo.records.canary import Canary, CanaryLevel


def levels(found: Canary) -> dict[str, str]:
    """Level by operator."""
    return {check.operator: check.level for check in found.operators}


@pytest.mark.parametrize(
    ("dtype", "autocast", "level", "right"),
    [
        (None, False, "fp32", ["fp32"]),
        (None, True, "bf16", ["bf16"]),
        (torch.bfloat16, False, "bf16", ["bf16"]),
        # fp16 and TF32 have 11 significant bits; asking for either makes that level the right one.
        (torch.float16, False, "reduced", ["tf32", "fp16"]),
    ],
)
def test_the_error_of_torch_shows_its_precision(
    dtype: torch.dtype | None, autocast: bool, level: str, right: list[str]
) -> None:
    """By a cast, by autocast, or plain; the random state of the process stays as it is."""
    before = torch.get_rng_state()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        found = canary.run_canary(dtype=dtype)
    assert levels(found) == dict.fromkeys(("matmul", "linear", "conv"), level)
    assert [each for each in ("fp32", "tf32", "bf16", "fp16") if found.verdict(each) in ("active", "fp32")] == right
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("error", "level"), [(7e-7, "fp32"), (2.9e-3, "bf16"), (1.4e-2, "int8"), (2.2e-2, "int8"), (0.5, "broken")]
)
def test_level_of_the_error_of_a_quantized_operator(error: float, level: str) -> None:
    """8 and 7 bits (measured: QNNPACK 1.4e-2, FBGEMM and oneDNN 2.2e-2), or what was not quantized after all."""
    assert canary.level_of(error, is_quantized=True) == level


def test_the_quantized_canary_checks_what_is_quantized() -> None:
    """Linear alone; a recipe that does nothing is at fp32's level, and one that cannot run has failed."""

    def refuse(layer: Any, rows: Any) -> Any:
        raise RuntimeError("no engine\nmore")

    found = canary.run_canary(quantize=lambda layer, rows: layer)
    assert levels(found) == {"linear": "fp32"}
    assert found.verdict("int8") == "not active"
    (check,) = canary.run_canary(quantize=refuse).operators
    assert (check.level, check.detail) == ("failed", "no engine")


def test_nan_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN shows no precision; JSON cannot store it, so the record says why there is no error."""
    monkeypatch.setattr(torch, "mm", lambda a, b: torch.full((256, 256), float("nan"), dtype=a.dtype))
    check = canary.run_canary().operators[0]
    assert (check.level, check.error, check.detail) == ("broken", None, "the output is not finite")


def test_an_operator_that_raises_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that raises gives a result, not an error; the first line of its message is kept."""

    def refuse(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("could not create a primitive\nmore lines")

    monkeypatch.setattr(torch, "mm", refuse)
    found = canary.run_canary(dtype=torch.bfloat16)
    check = found.operators[0]
    assert (check.level, check.error, check.detail) == ("failed", None, "could not create a primitive")
    assert found.verdict("bf16") == "partly"
    assert "matmul failed (could not create a primitive)" in found.summary


@pytest.mark.parametrize("operator", ["matmul", "linear", "conv", "pointwise"])
def test_exact_outputs_are_those_of_torch_in_fp64(operator: str) -> None:
    """The fp64 reference has to be right, or every engine would look inexact."""
    case = canary_case(operator)
    operands = [torch.from_numpy(each).double() for each in (*case.inputs, *case.constants)]
    functions = {"matmul": torch.mm, "linear": torch.nn.functional.linear}
    if operator in functions:
        expected = functions[operator](*operands)
    else:
        expected = torch.nn.functional.conv2d(*operands, padding=operands[1].shape[-1] // 2)
    np.testing.assert_allclose(case.exact, expected.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("kept_bits", "level"),
    [(32, CanaryLevel.FP32), (19, CanaryLevel.REDUCED), (16, CanaryLevel.BF16), (10, CanaryLevel.BROKEN)],
)
def test_the_error_shows_to_how_many_bits_operands_were_rounded(kept_bits: int, level: CanaryLevel) -> None:
    """Operands cut to bf16 (16 bits), TF32 (19 bits) or less must be recognized by the error alone."""
    case = canary_case("matmul")
    mask = np.uint32((0xFFFFFFFF << (32 - kept_bits)) & 0xFFFFFFFF)
    half = np.uint32(0 if kept_bits == 32 else 1 << (31 - kept_bits))
    left, right = (((each.view(np.uint32) + half) & mask).view(np.float32) for each in case.inputs)
    assert check_output(case, left @ right).level is level


def test_operands_are_the_same_in_every_process() -> None:
    """Errors of two processes can only be compared if they have the same operands."""
    first = canary_cases()[0].exact
    canary_cases.cache_clear()
    np.testing.assert_array_equal(first, canary_cases()[0].exact)
