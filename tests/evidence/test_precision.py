"""What a product shows itself, beside what the log says of it."""

from __future__ import annotations

import pytest
from evidence_samples import canary, gemm, judge, recording, sentence

from modelzoo.evidence.kernel_names import UNKNOWN
from modelzoo.evidence.logs import LoggedCall, logged_call, parse_mkl, parse_onednn
from modelzoo.evidence.precision import (
    PrecisionProof,
    operand_precision,
    own_proof,
)
from modelzoo.frozen import replace
from modelzoo.records.evidence import (
    Disagreement,
    Evidence,
    NotReplayed,
    OperatorClass,
    Product,
    ProofSource,
    ProofVerdict,
)

MM = Product("aten::mm", OperatorClass.MATMUL, ((4, 16), (16, 8)), "fp32", 1, kernels=(), error=1e-7, shown="fp32")
LINEAR = replace(MM, operator="aten::addmm", operator_class=OperatorClass.LINEAR, shapes=((8,), (4, 16), (16, 8)))


@pytest.mark.parametrize(
    ("operands", "logged", "shown", "expected"),
    [
        ("fp32", "fp32", "fp32", PrecisionProof("fp32", ProofSource.BOTH)),
        ("fp32", "fp32", "bf16", PrecisionProof("bf16", ProofSource.REPLAY)),
        ("fp32", "bf16", "fp32", PrecisionProof(UNKNOWN, ProofSource.NOTHING)),
        ("bf16", "bf16", "bf16", None),
        ("bf16", None, "fp32", None),
        ("bf16", "bf16", "int8", PrecisionProof("int8", ProofSource.REPLAY)),
    ],
)
def test_own_proof(operands: str, logged: str | None, shown: str | None, expected: PrecisionProof | None) -> None:
    """Log and error of fp32 operands must agree; bf16 operands show only that nothing narrower was multiplied."""
    assert own_proof(replace(MM, operands=operands, logged=logged, shown=shown)) == expected


LINE = (
    "onednn_verbose,v1,primitive,exec,cpu,matmul,{kernel},undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 "
    "dst:f32::blocked:ab::f0,{attributes},,4x16:16x8,{milliseconds}"
)
SGEMM = "MKL_VERBOSE SGEMM(T,N,8,4,16,{pointer},0x1,768) {time}us CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:2"


def line(kernel: str, *, allowed: bool = False, milliseconds: float = 0.5) -> str:
    attributes = "attr-fpmath:bf16" if allowed else ""
    return LINE.format(kernel=kernel, attributes=attributes, milliseconds=milliseconds)


def logged(text: str) -> LoggedCall:
    return logged_call(parse_onednn(text), parse_mkl(text))


def test_calls_that_ran_the_same_are_equal() -> None:
    """Times and addresses differ at every call; kernels, sizes and attributes decide."""
    one, other = line("gemm:acl"), line("gemm:acl", milliseconds=7)
    assert logged(one) == logged(other)
    assert logged(line("gemm:acl", allowed=True)).precision is None, "the kernel may use bf16 or not"
    assert logged(SGEMM.format(pointer="0x7f", time=1)) == logged(SGEMM.format(pointer="0x8f", time=2))
    for different in (line("brgemm"), line("gemm:acl", allowed=True), one + "\n" + one, one.replace("16x8", "16x9")):
        assert logged(one) != logged(different)


def judged(*products: Product, requested: str = "fp32", method: str | None = None, checks: str = "fp32") -> Evidence:
    """Two products outside oneDNN, and a canary of which every operator showed ``checks``."""
    calls = (gemm("aten::addmm", "float32", 3.0), gemm("aten::mm", "float32", 1.0))
    seen = canary(checks, checks, checks)
    return judge(recording(*calls, products=products, replay_seconds=0.1), seen, requested, method)


def test_each_product_answers_for_itself() -> None:
    """Whatever the canary shows at shapes of its own; shares are of the time of the passes."""
    found = judged(LINEAR, MM, checks="bf16")
    assert found.verdict is ProofVerdict.FP32
    assert found.is_replayed
    assert [(each.precision, each.known_by, each.share) for each in found.products] == [
        ("fp32", ProofSource.REPLAY, 0.75),
        ("fp32", ProofSource.REPLAY, 0.25),
    ]
    assert {each.canary_level for each in found.classes} == {None}
    assert sentence(found) == (
        "fp32: VERIFIED (no bf16 kernel in the audit, largest error in the replays of 2 products 1e-07)"
    )


def test_the_canary_speaks_for_those_that_were_not_replayed() -> None:
    """It is enough in its own class, as without replays."""
    silent = replace(MM, error=None, shown=None, not_replayed=NotReplayed.BUDGET)
    assert judged(LINEAR, silent).verdict is ProofVerdict.FP32
    assert "largest error in the replays of 1 of 2 products 1e-07, canary error 2e-07" in sentence(
        judged(LINEAR, silent)
    )
    assert judged(LINEAR, silent, checks="bf16").verdict is ProofVerdict.NOT_FP32


@pytest.mark.parametrize(
    ("logged", "shown", "requested", "method", "verdict"),
    [
        ("fp32", "bf16", "fp32", None, ProofVerdict.NOT_FP32),
        ("bf16", "fp32", "fp32", None, ProofVerdict.UNKNOWN),
        ("fp32", "bf16", "bf16", "fastmath", ProofVerdict.UNKNOWN),
        ("bf16", "fp32", "bf16", "fastmath", ProofVerdict.UNKNOWN),
    ],
)
def test_log_and_error_that_disagree_are_a_finding(
    logged: str, shown: str, requested: str, method: str | None, verdict: ProofVerdict
) -> None:
    """Neither is believed; but an error below fp32 is not fp32, whatever the kernel is called."""
    odd = replace(MM, error=2e-3 if shown == "bf16" else 1e-7, logged=logged, shown=shown)
    found = judged(LINEAR, odd, requested=requested, method=method)
    assert found.verdict is verdict
    assert isinstance(found.reason, Disagreement)
    assert [each.operator for each in found.reason.products] == ["aten::mm"]
    assert f"the kernel log names {logged} for aten::mm, and its error" in sentence(found)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("float32", "float32"), "fp32"),
        (("bfloat16", "bfloat16", "float32"), "bf16"),
        (("float32", "bfloat16"), "unknown"),
        (("float32", "int8"), "int8"),
        (("float8_e4m3fn", "float8_e4m3fn", "float32"), "fp8"),
        (("int64", "float64", "float64"), "fp64"),
        ((), "unknown"),
    ],
)
def test_operand_precision(dtypes: tuple[str, ...], expected: str) -> None:
    """The first two floating-point tensors must agree; a quantized one decides wherever it is."""
    assert operand_precision(dtypes) == expected
