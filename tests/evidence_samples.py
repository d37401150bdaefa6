"""Audits, events and canaries made up for the tests of the evidence."""

from __future__ import annotations

from typing import Any

import pytest

from modelzoo.evidence.attribution import attribute_recording
from modelzoo.evidence.flops import Call, product_flop
from modelzoo.evidence.kernel_names import named_precision, operator_class, precision_of
from modelzoo.evidence.logs import logged_call, parse_mkl, parse_onednn
from modelzoo.evidence.recording import Printed, RecordedCall, Recording
from modelzoo.evidence.verdict import judge_attributed
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.evidence import Evidence, LogSource, Product
from modelzoo.views import proof

_ERRORS = {
    CanaryLevel.FP32: 2e-7,
    CanaryLevel.REDUCED: 2e-4,
    CanaryLevel.BF16: 2e-3,
    CanaryLevel.BROKEN: 0.5,
}


def checked(**levels: str) -> Canary:
    """A canary with these levels by operator, each with an error typical of it; all ran outside oneDNN."""
    found = ((name, CanaryLevel(level)) for name, level in levels.items())
    return Canary(tuple(OperatorCheck(name, _ERRORS.get(level), level, kernels=()) for name, level in found))


def canary(matmul: str, linear: str, conv: str) -> Canary:
    """That of torch."""
    return checked(matmul=matmul, linear=linear, conv=conv)


def judge(recording: Recording, canary: Canary | None, requested: str, bf16_method: str | None = None) -> Evidence:
    """Judge a recorded pass."""
    return judge_attributed(attribute_recording(recording, canary, bf16_method), canary, requested, bf16_method)


def called(
    name: str, dtype: str, seconds: float, *shapes: tuple[int, ...], flop: int | None = None, lines: str = ""
) -> RecordedCall:
    """A call of an operator with tensors of these shapes, during which ``lines`` were printed."""
    kind, factors = operator_class(name), shapes["add" in name :]
    if flop is None and kind is not None and len(factors) > 1:
        flop = product_flop(kind, factors, (*factors[0][:-1], factors[-1][-1]))
    call = Call(name, shapes, flop, 0, (dtype,) * len(shapes))
    return RecordedCall(call, seconds, printed=Printed(parse_onednn(lines), parse_mkl(lines)))


def recording(*calls: RecordedCall, outside: str = "", seconds: float = 0.0, **facts: Any) -> Recording:
    """A pass of these calls that took at least ``seconds``; each product is a distinct one, and none was replayed."""
    products: list[Product] = []
    placed = []
    for each in calls:
        kind = operator_class(each.call.name)
        placed.append(replace(each, product=len(products) if kind is not None else None))
        if kind is not None:
            logged = logged_call(each.printed.log, each.printed.blas_calls)
            types = {precision_of(dtype) or "unknown" for dtype in each.call.dtypes}
            operands = named_precision(each.call.name) or (types.pop() if len(types) == 1 else "unknown")
            products.append(
                Product(each.call.name, kind, each.call.shapes, operands, 1, (), logged.kernels, logged.precision)
            )
    found = Recording(
        calls=tuple(placed),
        outside=(Printed(parse_onednn(outside), parse_mkl(outside)),) if outside else (),
        products=tuple(products),
        seconds={"": max(seconds, sum(each.seconds for each in calls))},
        log_source=LogSource.RUNTIME_SWITCH,
        blas="openblas 0.3.29 neoversen2",
        onednn_version="3",
        eager=tuple(("", each.call) for each in calls),
    )
    return replace(found, **facts)


ALL_FP32 = canary("fp32", "fp32", "fp32")
ALL_BF16 = canary("bf16", "bf16", "bf16")


def adds_up(evidence: Evidence) -> bool:
    """Whether the shares of each table add up to 1."""
    tables = (evidence.by_implementation, evidence.by_precision, evidence.by_operator)
    return all(sum(row.share for row in rows) == pytest.approx(1.0, abs=1e-9) for rows in tables)


SGEMM = "MKL_VERBOSE SGEMM(T,N,8,4,16,0x7ffe,0x1,768) 1.2ms CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:2"


def onednn_line(
    kind: str, kernel: str, types: str, sizes: str = "4x16:16x8", milliseconds: float = 0.5, attributes: str = ""
) -> str:
    """oneDNN's line for a primitive with tensors of these types, as ``src:f32 wei:f32 dst:f32``, or all of one."""
    named = types if ":" in types else f"src:{types} wei:{types} dst:{types}"
    tensors = " ".join(f"{each}::blocked:ab::f0" for each in named.split())
    return f"onednn_verbose,v1,primitive,exec,cpu,{kind},{kernel},undef,{tensors},{attributes},,{sizes},{milliseconds}"


def conv_line(kernel: str, dtype: str, milliseconds: float, attributes: str = "") -> str:
    """oneDNN's line for the convolution of ``conv``."""
    return onednn_line("convolution", kernel, dtype, "mb1_ic8oc8_ih8oh8kh3_iw8ow8kw3", milliseconds, attributes)


def conv(seconds: float, lines: str = "") -> RecordedCall:
    """A 3×3 convolution of 8 channels, 8×8 pixels."""
    flop = 2 * 8 * 8 * 8 * 8 * 3 * 3
    return called("aten::convolution", "float32", seconds, (1, 8, 8, 8), (8, 8, 3, 3), flop=flop, lines=lines)


def gemm(name: str, dtype: str, seconds: float = 1.0, *, rows: int = 4, lines: str = "") -> RecordedCall:
    """A matrix product (rows×16 by 16×8), with a bias if the operator adds one."""
    shapes = ((rows, 16), (16, 8))
    return called(name, dtype, seconds, *(((8,), *shapes) if "add" in name else shapes), lines=lines)


def sentence(evidence: Evidence) -> str:
    """The verdict with its reason, as people read it."""
    return str(proof.audit(evidence))
