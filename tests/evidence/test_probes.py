"""Products that are subnormal in fp32 tell bf16 instructions, which flush them, from fp32 arithmetic."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from evidence_samples import called, gemm, judge, onednn_line, recording, sentence
from onednn_recordings import CALLS
from planted_kernels import only, replaced
from torch.nn import functional

from modelzoo.evidence import probes
from modelzoo.evidence.probes import factors_of, seen
from modelzoo.frozen import replace
from modelzoo.records.evidence import Evidence, LogSource, OperatorClass, Product, ProofVerdict, Subnormals

SMALLEST = 2.0**-126


@pytest.fixture(autouse=True)
def _all_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on x86, whatever CPU runs the tests."""
    monkeypatch.setattr(probes, "every_bf16_instruction_flushes", lambda: True)


def probed(call: Callable[[], object]) -> Subnormals | None:
    """What became of subnormal products in the only product of ``call``."""
    found = only(call)
    assert (found.operands, found.not_replayed) == ("bf16", None)
    return found.subnormals


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).bfloat16()


def flushed(products: torch.Tensor) -> torch.Tensor:
    """As VDPBF16PS does."""
    return products.where(products.abs() >= SMALLEST, 0.0)


def instruction(columns: int | None = None) -> Callable[..., torch.Tensor]:
    """A matrix product that flushes in bf16, of the first columns only if so many are given."""

    def kernel(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        products = left.double()[:, :, None] * right.double()
        if left.dtype is torch.bfloat16:
            products[..., :columns] = flushed(products[..., :columns])
        return products.sum(1).to(left.dtype)

    return kernel


EMULATED = instruction(columns=0)


def in_bf16(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """A matrix product whose sums have the type of its operands."""
    found = torch.zeros(left.shape[0], right.shape[1], dtype=left.dtype)
    for k in range(left.shape[1]):
        found += left[:, k, None] * right[None, k]
    return found


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (instruction(), Subnormals.FLUSHED),
        (instruction(columns=4), Subnormals.MIXED),
        (EMULATED, Subnormals.IN_FP32),
        (in_bf16, Subnormals.IN_FP32),
    ],
    ids=["instruction", "half", "emulated", "sums in bf16"],
)
def test_a_kernel_shows_whether_it_flushes(kernel: Callable[..., torch.Tensor], expected: Subnormals) -> None:
    """Of all outputs or of some; a kernel whose sums stagnate at 256 equal numbers does so at any scale."""
    left, right = noise(6, 600), noise(600, 8)
    with replaced("mm", kernel):
        assert probed(lambda: left @ right) is expected


def test_a_kept_sum_shows_nothing_where_bf16_instructions_may_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arm's BFMLALB, and BFDOT with FPCR.EBF = 1."""
    monkeypatch.setattr(probes, "every_bf16_instruction_flushes", lambda: False)
    left, right = noise(6, 32), noise(32, 8)
    with replaced("mm", EMULATED):
        assert probed(lambda: left @ right) is Subnormals.KEPT


def test_nothing_is_said_where_fp32_flushes_too() -> None:
    """If the process was told to, zeros show nothing."""
    left, right = noise(6, 32), noise(32, 8)
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush subnormal numbers")
    try:
        assert probed(lambda: left @ right) is None
    finally:
        torch.set_flush_denormal(False)


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **named: Any) -> Any:
    """Flash attention, which divides by the sum of weights last, and whose products of weights and values flush."""
    scores = query.float() @ key.float().transpose(-1, -2) / math.sqrt(query.shape[-1])
    weights = (scores - scores.amax(-1, keepdim=True)).exp().to(query.dtype).float()
    output = flushed(weights[..., None] * value.float()[:, :, None]).sum(-2) / weights.sum(-1, keepdim=True)
    return output.to(query.dtype), scores.logsumexp(-1)


def test_attention_has_operands_of_its_own() -> None:
    """Between its products there is a softmax."""
    operands = [noise(1, 2, 40, 16) for _ in range(3)]
    with replaced("_scaled_dot_product_flash_attention_for_cpu", attention):
        assert probed(lambda: functional.scaled_dot_product_attention(*operands)) is Subnormals.FLUSHED


def test_what_cannot_be_probed() -> None:
    """A mask may hide the first key; of one product, both it and its sum would have to be in the same range."""
    operands, mask = [noise(1, 2, 40, 16) for _ in range(3)], torch.ones(40, 40, dtype=torch.bool)
    assert probed(lambda: functional.scaled_dot_product_attention(*operands, attn_mask=mask)) is None
    assert probed(lambda: noise(6, 1) @ noise(1, 8)) is None


def judged(products: list[Product], requested: str = "bf16") -> Evidence:
    """A pass of matrix products of bf16 tensors, without a log of oneDNN."""
    calls = [gemm("aten::mm", "bfloat16") for _ in products]
    found = recording(*calls, products=tuple(products), replay_seconds=0.1, log_source=LogSource.NONE)
    return judge(found, None, requested, "cast" if requested == "bf16" else None)


def product(subnormals: Subnormals | None) -> Product:
    shapes = ((4, 16), (16, 8))
    return Product("aten::mm", OperatorClass.MATMUL, shapes, "bf16", 1, shown="bf16", subnormals=subnormals)


@pytest.mark.parametrize("path", CALLS, ids=lambda path: path.stem)
def test_recorded_products_are_judged_without_their_log(path: Path) -> None:
    """On an Intel CPU with AMX, bf16 is ACTIVE unless oneDNN's instruction set is capped below it."""
    recorded = json.loads(path.read_text())
    probes = [each["probe"] for each in recorded["calls"] if each["dtype"] == "bfloat16" and "probe" in each]
    assert len(probes) == 12
    exact = torch.tensor([SMALLEST])
    found = judged([product(seen(exact * each, exact)) for each in probes])
    is_capped = recorded["isa"] in ("AVX512_CORE", "AVX2")
    assert found.verdict is (ProofVerdict.NOT_ACTIVE if is_capped else ProofVerdict.ACTIVE)
    assert ("bf16: REQUESTED, NOT ACTIVE (bf16 tensors, fp32 arithmetic: " in sentence(found)) is is_capped
    assert "no log names" not in sentence(found)


@pytest.mark.parametrize(
    ("shown", "verdict"),
    [
        ([Subnormals.IN_FP32, None], ProofVerdict.NOT_ACTIVE),
        ([Subnormals.IN_FP32, Subnormals.FLUSHED], ProofVerdict.PARTLY),
        ([Subnormals.MIXED, Subnormals.MIXED], ProofVerdict.PARTLY),
        ([Subnormals.KEPT, None], ProofVerdict.ACTIVE),
    ],
)
def test_the_verdict_follows_from_subnormal_products(shown: list[Subnormals | None], verdict: ProofVerdict) -> None:
    """A product that was not tried is like the others; what shows nothing leaves the types of the operands."""
    assert judged([product(each) for each in shown]).verdict is verdict


@pytest.mark.parametrize(
    ("isa", "verdict"),
    [
        ("avx512_core_bf16", ProofVerdict.PARTLY),
        ("avx512_core", ProofVerdict.UNKNOWN),  # oneDNN emulates bf16
        (None, ProofVerdict.UNKNOWN),
    ],
)
def test_attention_in_fp32_says_nothing_about_other_products(isa: str | None, verdict: ProofVerdict) -> None:
    """MKL multiplies bf16 in fp32 on AMD CPUs, and oneDNN in bf16: where its products cannot be probed, as in compiled
    code, the instruction set in the kernel's name says so."""
    shapes = ((1, 1, 4, 16),) * 3
    attention = called("aten::_scaled_dot_product_flash_attention_for_cpu", "bfloat16", 1.0, *shapes)
    tried = replace(product(Subnormals.IN_FP32), operator=attention.call.name, operator_class=OperatorClass.ATTENTION)
    other = gemm(
        "aten::mm",
        "bfloat16",
        lines="" if isa is None else onednn_line("matmul", f"brg_matmul:{isa}", "bf16", milliseconds=50),
    )
    found = recording(attention, other, products=(tried, product(None)), replay_seconds=0.1)
    assert judge(found, None, "bf16", "cast").verdict is verdict


def test_bf16_operands_are_not_fp32_whatever_multiplied_them() -> None:
    """They were rounded."""
    assert judged([product(Subnormals.IN_FP32)], "fp32").verdict is ProofVerdict.NOT_FP32


@pytest.mark.parametrize("is_square", [False, True])
@pytest.mark.parametrize("terms", [1, 2, 3, 4, 9, 27, 576, 4608, 1 << 20])
def test_products_are_subnormal_and_their_sums_are_normal(terms: int, is_square: bool) -> None:
    """Of one term both cannot be; sums of an eighth of many terms are subnormal, too."""
    found = factors_of(terms, is_square=is_square)
    if terms < (4 if is_square else 2):
        assert found is None
        return
    assert found is not None
    left, right = found
    assert left * right < SMALLEST <= terms * left * right
    assert min(left, right) >= 2.0**-100  # far from subnormal
    assert terms < 64 or terms / 8 * left * right < SMALLEST
    assert left == right or not is_square
