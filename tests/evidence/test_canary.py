"""The canary finds the precision of operators from their errors alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from modelzoo.evidence import canary
from modelzoo.evidence.canary import CanaryCase, canary_cases, check_output
from modelzoo.records.canary import Canary, CanaryLevel


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """On a busy machine two spinning threads take much longer than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def levels(found: Canary) -> dict[str, str]:
    """Level by operator."""
    return {check.operator: check.level for check in found.operators}


def test_fp32_is_seen_as_fp32() -> None:
    """Plain operators have errors of about 1e-7."""
    found = canary.run_canary()
    assert levels(found) == {"matmul": "fp32", "linear": "fp32", "conv": "fp32"}
    assert found.verdict("fp32") == "fp32"
    assert found.verdict("bf16") == "not active"
    assert all(check.error is not None and 0 < check.error < 1e-5 for check in found.operators)


def test_autocast_and_cast_are_seen_as_bf16() -> None:
    """Both methods show the error of 8 significant bits."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = canary.run_canary()
    for found in (under_autocast, canary.run_canary(dtype=torch.bfloat16)):
        assert set(levels(found).values()) == {"bf16"}
        assert found.verdict("bf16") == "active"
        assert found.verdict("fp32") == "not fp32"


def test_fp16_is_seen_as_less_than_fp32_and_more_than_bf16() -> None:
    """fp16 and TF32 have 11 significant bits; asking for either makes that level the right one."""
    found = canary.run_canary(dtype=torch.float16)
    assert set(levels(found).values()) == {"reduced"}
    assert [found.verdict(name) for name in ("fp16", "tf32", "bf16", "fp32")] == [
        "active",
        "active",
        "not active",
        "not fp32",
    ]


def test_autocast_that_does_nothing_is_not_active() -> None:
    """Disabled autocast is recognized as fp32."""
    with torch.autocast("cpu", enabled=False):
        assert canary.run_canary().verdict("bf16") == "not active"


def test_the_canary_leaves_the_random_state_alone() -> None:
    """A seeded run draws the same numbers with and without the canary, whose inputs are always the same."""
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    first = canary.run_canary()
    assert torch.rand(1).equal(expected)
    assert levels(canary.run_canary()) == levels(first)


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (0.0, "fp32"),
        (7e-7, "fp32"),
        (2e-4, "reduced"),
        (1.8e-3, "bf16"),
        (2.9e-3, "bf16"),
        (1.6e-2, "broken"),
        (0.5, "broken"),
    ],
)
def test_level_of_an_error(error: float, level: str) -> None:
    """fp32, TF32-like, bf16 (1.8e-3 was measured with ACL's fast math) and wrong results differ."""
    assert canary.level_of(error) == level


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

    found = canary.run_quantized_canary(lambda layer, rows: layer)
    assert levels(found) == {"linear": "fp32"}
    assert found.verdict("int8") == "not active"
    (check,) = canary.run_quantized_canary(refuse).operators
    assert (check.level, check.detail) == ("failed", "no engine")


def test_nan_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN shows no precision; JSON cannot store it, so the record says why there is no error."""
    monkeypatch.setattr(torch, "mm", lambda a, b: torch.full((256, 256), float("nan"), dtype=a.dtype))
    check = canary.run_canary().operators[0]
    assert (check.level, check.error, check.detail) == ("broken", None, "the output is not finite")


def test_an_operator_that_raises_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that raises gives a result, not an error; the first line of its message is kept."""
    real = torch.mm

    def refuse(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if a.dtype == torch.float64:
            return real(a, b)
        raise RuntimeError("could not create a primitive\nmore lines")

    monkeypatch.setattr(torch, "mm", refuse)
    found = canary.run_canary(dtype=torch.bfloat16)
    check = found.operators[0]
    assert (check.level, check.error, check.detail) == ("failed", None, "could not create a primitive")
    assert found.verdict("bf16") == "partly"
    assert "matmul failed (could not create a primitive)" in found.summary


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
    """Operands cut to bf16 (16 bits), TF32 (19 bits) or less must be recognized by the error alone."""
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
