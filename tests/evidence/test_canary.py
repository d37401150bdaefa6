"""The canary tells by errors alone in which precision operators really ran."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch

from modelzoo.evidence import canary
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Two spinning threads on a busy machine take many times as long as one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def levels(found: Canary) -> dict[str, str]:
    """Level by operator."""
    return {check.operator: check.level for check in found.operators}


def test_fp32_is_seen_as_fp32() -> None:
    """Plain operators err by 1e-7 or so."""
    found = canary.run_canary()
    assert levels(found) == {"matmul": "fp32", "linear": "fp32", "conv": "fp32"}
    assert found.verdict("fp32") == "fp32"
    assert found.verdict("bf16") == "not active"
    assert all(check.error is not None and 0 < check.error < 1e-5 for check in found.operators)


def test_autocast_and_cast_are_seen_as_bf16() -> None:
    """Both ways err as 8 significant bits must."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = canary.run_canary()
    for found in (under_autocast, canary.run_canary(is_cast=True)):
        assert set(levels(found).values()) == {"bf16"}
        assert found.verdict("bf16") == "active"
        assert found.verdict("fp32") == "not fp32"


def test_autocast_that_does_nothing_is_not_active() -> None:
    """Asking is not getting: disabled autocast is seen as fp32."""
    with torch.autocast("cpu", enabled=False):
        assert canary.run_canary().verdict("bf16") == "not active"


def test_the_canary_leaves_the_random_state_alone() -> None:
    """A seeded run gets the same numbers with and without it, and it sees the same inputs each time."""
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    first = canary.run_canary()
    assert torch.rand(1).equal(expected)
    assert levels(canary.run_canary()) == levels(first)


@pytest.mark.parametrize(
    ("error", "level"),
    [(0.0, "fp32"), (7e-7, "fp32"), (2e-4, "reduced"), (1.8e-3, "bf16"), (2.9e-3, "bf16"), (0.5, "broken")],
)
def test_errors_speak_of_precisions(error: float, level: str) -> None:
    """fp32, TF32-like, bf16 (1.8e-3 was measured with ACL's fast math) and wrong results are apart."""
    assert canary.level_of(error) == level


@pytest.mark.parametrize(
    ("matmul", "conv", "bf16", "fp32"),
    [
        ("bf16", "bf16", "active", "not fp32"),
        ("fp32", "bf16", "partly", "not fp32"),
        ("fp32", "fp32", "not active", "fp32"),
        ("reduced", "fp32", "not active", "not fp32"),
        ("failed", "bf16", "partly", "not fp32"),
        ("broken", "broken", "not active", "not fp32"),
    ],
)
def test_the_word_sums_the_operators_up(matmul: str, conv: str, bf16: str, fp32: str) -> None:
    """active only where all are, fp32 only where all are."""
    found = Canary((OperatorCheck("matmul", 1e-3, CanaryLevel(matmul)), OperatorCheck("conv", 1e-3, CanaryLevel(conv))))
    assert found.verdict("bf16") == bf16
    assert found.verdict("fp32") == fp32


def test_nan_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN compares with nothing; it must not pass for any precision."""
    monkeypatch.setattr(torch, "mm", lambda a, b: torch.full((256, 256), float("nan"), dtype=a.dtype))
    assert levels(canary.run_canary())["matmul"] == "broken"


def test_an_operator_that_raises_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build without a kernel is a finding, not a crash; its message is kept in one line."""
    real = torch.mm

    def refuse(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if a.dtype == torch.float64:
            return real(a, b)
        raise RuntimeError("could not create a primitive\nmore lines")

    monkeypatch.setattr(torch, "mm", refuse)
    found = canary.run_canary(is_cast=True)
    check = found.operators[0]
    assert (check.level, check.error, check.detail) == ("failed", None, "could not create a primitive")
    assert found.verdict("bf16") == "partly"
    assert "matmul failed (could not create a primitive)" in found.summary
    dataclasses.asdict(found)
