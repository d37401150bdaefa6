"""Audits, events and canaries made up for the tests of the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from modelzoo.evidence.flops import product_flop
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.matching import classify
from modelzoo.evidence.mkl_log import BlasCall
from modelzoo.evidence.observation import Audit, Event
from modelzoo.evidence.onednn_log import OneDnnLog
from modelzoo.evidence.verdict import build_evidence
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.evidence import Evidence, LogSource, OperatorClass
from modelzoo.records.profile import Flops
from modelzoo.views import proof

_ERRORS = {
    CanaryLevel.FP32: 2e-7,
    CanaryLevel.REDUCED: 2e-4,
    CanaryLevel.BF16: 2e-3,
    CanaryLevel.BROKEN: 0.5,
}


def canary(matmul: str, linear: str, conv: str, *, kernels: Mapping[str, str] | None = None) -> Canary:
    """A canary with these levels, each with an error typical of it.

    ``kernels`` are those of oneDNN by operator; all others ran outside it.
    """
    levels = {"matmul": CanaryLevel(matmul), "linear": CanaryLevel(linear), "conv": CanaryLevel(conv)}
    ran = {name: (kernel,) for name, kernel in (kernels or {}).items()}
    return Canary(
        tuple(
            OperatorCheck(name, _ERRORS.get(level), level, kernels=ran.get(name, ())) for name, level in levels.items()
        )
    )


def judge(audit: Audit, canary: Canary | None, requested: str, bf16_method: str | None = None) -> Evidence:
    """Judge an audit whose products are all that the eager model was counted to do in a pass."""
    return build_evidence(audit, canary, requested, bf16_method, counted=counted(audit))


def counted(audit: Audit) -> Flops:
    """The operations of the products among the events of an audit of one pass."""
    by_operator: Counter[str] = Counter()
    for event, kind in zip(audit.events, classify(audit.events)):
        if kind is OperatorClass.CONV:
            by_operator[event.name] += CONV_FLOP
        elif kind is not None:
            by_operator[event.name] += product_flop(event.name, event.shapes) or 0
    return Flops(sum(by_operator.values()), 0, dict(by_operator))


CONV_FLOP = 2 * 8 * 8 * 8 * 8 * 3 * 3
"""Of ``conv_event``."""


ALL_FP32 = canary("fp32", "fp32", "fp32")
ALL_BF16 = canary("bf16", "bf16", "bf16")


def adds_up(evidence: Evidence) -> bool:
    """Whether the shares of each table add up to 1."""
    tables = (evidence.by_implementation, evidence.by_precision, evidence.by_operator)
    return all(sum(row.share for row in rows) == pytest.approx(1.0, abs=1e-9) for rows in tables)


def conv_line(kernel: str, dtype: str, milliseconds: float) -> str:
    """oneDNN's line for the convolution of ``conv_event``."""
    tensors = f"src:{dtype}::blocked:abcd::f0 wei:{dtype}::blocked:abcd::f0 dst:{dtype}::blocked:abcd::f0"
    sizes = "alg:convolution_direct,mb1_ic8oc8_ih8oh8kh3_iw8ow8kw3"
    kind = f"convolution,{kernel},forward_training"
    return f"onednn_verbose,v1,primitive,exec,cpu,{kind},{tensors},attr-scratchpad:user,{sizes},{milliseconds}"


def conv_event(seconds: float, dtype: str = "float") -> Event:
    """A 3×3 convolution of 8 channels, 8×8 pixels."""
    return Event("aten::mkldnn_convolution", seconds, 0, ((1, 8, 8, 8), (8, 8, 3, 3)), (dtype, dtype))


def gemm_event(name: str, dtype: str, seconds: float = 1.0) -> Event:
    """A matrix product (4×16 by 16×8), with a bias if the operator adds one."""
    shapes = ((8,), (4, 16), (16, 8)) if "add" in name else ((4, 16), (16, 8))
    return Event(name, seconds, 0, shapes, (dtype,) * len(shapes))


def blas_audit(
    *events: Event,
    blas: str = "openblas 0.3.29 neoversen2",
    sbgemm: bool | None = None,
    blas_calls: tuple[BlasCall, ...] = (),
) -> Audit:
    """One pass with these events and without a oneDNN primitive."""
    seconds = sum(event.seconds for event in events)
    return Audit(
        iterations=1,
        seconds=seconds,
        events=(Event(PASS_EVENT, 0.0, -1), *events),
        log=OneDnnLog("3"),
        log_source=LogSource.RUNTIME_SWITCH,
        blas=blas,
        sbgemm=sbgemm,
        blas_calls=blas_calls,
    )


def sentence(evidence: Evidence) -> str:
    """The verdict with its reason, as people read it."""
    return str(proof.audit(evidence))
