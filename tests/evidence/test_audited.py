"""Audits of parts become that of the whole: times, calls and operations are multiplied, and the rest is united."""

from __future__ import annotations

import pytest

from modelzoo.evidence.attribution import AttributedTime
from modelzoo.evidence.audited import AttributedAudit, Ran, beyond_parts, joined
from modelzoo.evidence.flops import Call
from modelzoo.evidence.observation import Replays
from modelzoo.evidence.verdict import judge_attributed
from modelzoo.frozen import replace
from modelzoo.records.evidence import (
    KernelCalls,
    KernelDigest,
    LogSource,
    OperatorClass,
    Product,
    ProofSource,
    ProofVerdict,
)
from modelzoo.records.profile import Flops

COUNTED = Flops(1000, 100, {"aten::linear": 1000})
SHAPES = {"prefill": ((128, 64), (64, 64)), "decode": ((1, 64), (64, 64))}


def part(name: str, seconds: float, precision: str) -> AttributedAudit:
    """The audit of a pass that is one product and something else that takes as long."""
    product = AttributedTime(
        operator="aten::linear",
        operator_class=OperatorClass.LINEAR,
        shapes=SHAPES[name],
        implementation=f"kernel of {name}",
        precision=precision,
        decided_by=ProofSource.KERNEL_NAME,
        seconds=seconds,
        flop=100,
        product=0,
        is_confirmed=True,
    )
    other = replace(
        product, operator="aten::add", operator_class=None, precision="no matrix arithmetic", product=None, flop=None
    )
    called = Product("aten::linear", OperatorClass.LINEAR, SHAPES[name], "fp32", 1, shown=precision)
    return AttributedAudit(
        parts=(product, other),
        iterations=1,
        log_source=LogSource.RUNTIME_SWITCH,
        library="oneDNN",
        bf16_allowed=None,
        counted=Flops(100, 10, {"aten::linear": 100}),
        replays=Replays((called,), (0,), 0.5),
        products=(called,),
    )


def test_times_and_operations_are_multiplied() -> None:
    """A prefill and nine steps: a step's seconds count nine times, and so do its calls."""
    whole = joined([(part("prefill", 3.0, "fp32"), 1), (part("decode", 1.0, "fp32"), 9)], COUNTED)
    found = judge_attributed(whole, None, "fp32")
    assert found.verdict is ProofVerdict.FP32
    assert found.seconds == 2 * (3.0 + 9 * 1.0)
    assert {use.shapes: (use.count, use.kernel_seconds) for use in found.operators} == {
        SHAPES["prefill"]: (1, 3.0),
        SHAPES["decode"]: (9, 9.0),
    }
    assert found.coverage is not None and (found.coverage.counted, found.coverage.seen_arithmetic) == (1000, 1.0)
    assert [(each.shapes, each.count, each.share) for each in found.products] == [
        (SHAPES["prefill"], 1, 3 / 24),
        (SHAPES["decode"], 9, 9 / 24),
    ]


def test_a_part_in_another_precision_shows_in_the_whole() -> None:
    """bf16 in the prefill only is PARTLY, by the share of the steps."""
    whole = joined([(part("prefill", 3.0, "bf16"), 1), (part("decode", 1.0, "fp32"), 9)], COUNTED)
    found = judge_attributed(whole, None, "bf16", "cast")
    assert found.verdict is ProofVerdict.PARTLY
    assert found.compute_bf16_share == pytest.approx(0.25)


def test_what_is_not_known_of_a_part_is_not_known_of_the_whole() -> None:
    """Neither its operations, nor what its products showed; problems and lines that could not be read add up."""
    unknown = replace(part("decode", 1.0, "fp32"), replays=None, problems=("no log",), unread=2)
    whole = joined([(replace(part("prefill", 3.0, "fp32"), unread=1), 1), (unknown, 9)], None)
    assert (whole.counted, whole.replays, whole.products) == (None, None, ())
    assert (whole.problems, whole.unread) == (("no log",), 3)
    assert judge_attributed(whole, None, "fp32").verdict is ProofVerdict.UNKNOWN


def test_only_single_passes_are_joined() -> None:
    """Otherwise a part would count as often as it was observed."""
    with pytest.raises(ValueError, match="only audits of one pass can be joined"):
        joined([(replace(part("decode", 1.0, "fp32"), iterations=2), 1)], None)


def ran(*kernels: KernelCalls, calls: tuple[tuple[str, int], ...] = ()) -> Ran:
    """What a call ran, by the log and by types of operands."""
    digest = KernelDigest("", kernels) if kernels else None
    return Ran(digest, [Call("aten::mm", (), flop, 0, (dtype, dtype)) for dtype, flop in calls])


SGEMM, BRGEMM = KernelCalls("MKL sgemm", "fp32", 10), KernelCalls("oneDNN brgemm", "bf16", 1)


@pytest.mark.parametrize(
    ("whole", "missing"),
    [
        (ran(replace(SGEMM, count=100)), ()),
        (ran(replace(SGEMM, count=104)), ()),
        (ran(replace(SGEMM, count=106)), ("fp32",)),
        (ran(replace(SGEMM, count=100), BRGEMM), ("bf16",)),
        (ran(calls=(("float32", 1000),)), ()),
        (ran(calls=(("float32", 1000), ("bfloat16", 1))), ("bf16",)),
        (ran(calls=(("float32", 1060),)), ("fp32",)),
        (ran(), ()),
    ],
)
def test_parts_must_account_for_the_whole(whole: Ran, missing: tuple[str, ...]) -> None:
    """In each precision to 5 %, by the log and by the operators; a precision that no part has is never left out."""
    parts = [(ran(SGEMM, calls=(("float32", 100),)), 1), (ran(SGEMM, calls=(("float32", 100),)), 9)]
    assert beyond_parts(whole, parts) == missing
