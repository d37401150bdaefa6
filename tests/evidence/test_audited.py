"""Audits of parts become that of the whole: times, calls and operations are multiplied, and the rest is united."""

from __future__ import annotations

import pytest
from evidence_samples import ALL_FP32, gemm_event, sentence

from modelzoo.evidence.attribution import AttributedTime
from modelzoo.evidence.audited import AttributedAudit, Ran, compared_with_parts, joined
from modelzoo.evidence.coverage import WholeCall
from modelzoo.evidence.flops import Call
from modelzoo.evidence.kernel_names import PASS_EVENT, UNREAD_KERNEL
from modelzoo.evidence.observation import RANDOM_OUTPUTS, Audit, Event, Replays
from modelzoo.evidence.onednn_log import parse_onednn
from modelzoo.evidence.precision import UNKNOWN
from modelzoo.evidence.verdict import build_evidence, judge_attributed
from modelzoo.frozen import replace
from modelzoo.records.evidence import (
    Evidence,
    LogSource,
    NotReplayed,
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
    unknown = replace(part("decode", 1.0, "fp32"), replays=None, problems=("no log",), unread=("y", "z"))
    whole = joined([(replace(part("prefill", 3.0, "fp32"), unread=("x",)), 1), (unknown, 9)], None)
    assert (whole.counted, whole.replays, whole.products) == (None, None, ())
    assert (whole.problems, whole.unread) == (("no log",), ("x", "y", "z"))
    found = judge_attributed(whole, None, "fp32")
    assert (found.verdict, found.coverage.unread) == (ProofVerdict.UNKNOWN, 3)


def unread_line(kernel: str, milliseconds: float) -> str:
    """A line in a format that is not known."""
    return f"onednn_verbose,v1,tomorrow,exec,cpu,{kernel},{milliseconds}"


def with_unread(
    *kernels: str, not_replayed: NotReplayed | None = None, iterations: int = 1, count: int = 1
) -> Evidence:
    """The verdict on a Linear in fp32 that printed unreadable lines of ``a``, ``b`` and twice ``c`` in one call, if
    the audited passes printed such lines of ``kernels``.
    """
    events = (Event(PASS_EVENT, 0.1, -1), *[gemm_event("aten::addmm", "float")] * iterations * count)
    log = parse_onednn("\n".join(unread_line(each, time + 0.5) for time, each in enumerate(kernels)))
    audit = Audit(iterations, 1.0, events, log, LogSource.RUNTIME_SWITCH, "openblas")
    product = Product(
        "aten::addmm", OperatorClass.LINEAR, events[1].shapes, "fp32", count, kernels=(), error=1e-7, shown="fp32"
    )
    printed = tuple(each.rpartition(",")[0] for each in (unread_line(kernel, 1) for kernel in "abcc"))
    product = replace(product, not_replayed=not_replayed, shown=None if not_replayed else "fp32")
    replays = Replays((product,), (0,) * count, 0.5, unread=(printed,))
    flop = 2 * 4 * 16 * 8 * count
    return build_evidence(audit, ALL_FP32, "fp32", counted=Flops(flop, 0, {"aten::addmm": flop}), replays=replays)


@pytest.mark.parametrize(("iterations", "count"), [(1, 1), (2, 1), (1, 3)])
def test_lines_that_a_replayed_product_printed_cost_only_the_name_of_its_kernel(iterations: int, count: int) -> None:
    """Its operands are known, and its error was measured."""
    found = with_unread(*"abcc" * iterations * count, iterations=iterations, count=count)
    assert (found.verdict, found.coverage.unread) == (ProofVerdict.FP32, 0)
    assert [each.implementation for each in found.operators] == [UNREAD_KERNEL]
    assert [each.rpartition(",")[0] for each in found.unread_lines] == [
        unread_line(kernel, 1).rpartition(",")[0] for kernel in "abc"
    ]


def test_lines_that_nothing_explains_leave_the_whole_unknown() -> None:
    """Those of no product, those of a product that was not replayed, and more than it printed; they are shown first."""
    outside = with_unread(*"abccd")
    assert (outside.verdict, outside.coverage.unread) == (ProofVerdict.UNKNOWN, 1)
    assert "1 lines of the kernel log could not be read" in sentence(outside)
    assert len(outside.unread_lines) == 3
    assert ",d," in outside.unread_lines[0]
    more = with_unread(*"abccc")
    assert (more.verdict, more.coverage.unread) == (ProofVerdict.UNKNOWN, 1)
    silent = with_unread(*"abcc", not_replayed=NotReplayed.BUDGET)
    assert (silent.verdict, silent.coverage.unread) == (ProofVerdict.UNKNOWN, 4)


def test_only_single_passes_are_joined() -> None:
    """Otherwise a part would count as often as it was observed."""
    with pytest.raises(ValueError, match="only audits of one pass can be joined"):
        joined([(replace(part("decode", 1.0, "fp32"), iterations=2), 1)], None)


def ran(*logged: tuple[str, int], calls: tuple[tuple[str, int], ...] = ()) -> Ran:
    """What a call ran, by the log and by types of operands."""
    return Ran(dict(logged) or None, [Call("aten::mm", (), flop, 0, (dtype, dtype)) for dtype, flop in calls])


LOGGED = ("fp32", 100)


@pytest.mark.parametrize(
    ("whole", "missing"),
    [
        (ran(LOGGED, calls=(("float32", 1000),)), ()),
        (ran(LOGGED, calls=(("float32", 1040),)), ()),
        (ran(LOGGED, calls=(("float32", 1060),)), ("fp32",)),
        (ran(LOGGED, calls=(("float32", 940),)), ("fp32",)),
        (ran(LOGGED, ("bf16", 0), calls=(("float32", 1000),)), ("bf16",)),
        (ran(LOGGED, calls=(("float32", 1000), ("bfloat16", 1))), ("bf16",)),
        (ran(LOGGED, calls=(("float32", 1000), ("complex64", 1))), (UNKNOWN,)),
        (Ran({"fp32": 100}, None), ()),
    ],
)
def test_parts_must_account_for_the_whole(whole: Ran, missing: tuple[str, ...]) -> None:
    """The operations to 5 %, no fewer and no more; a precision that no part has counts however rare it is."""
    parts = [(ran(LOGGED, calls=(("float32", 100),)), 1), (ran(LOGGED, calls=(("float32", 100),)), 9)]
    assert compared_with_parts(whole, parts) == WholeCall(missing)


def test_a_whole_without_a_log_is_not_known() -> None:
    """If the parts have one: its steps may have run other kernels. Without any, nothing is missing."""
    whole, parts = ran(calls=(("float32", 100),)), [(ran(LOGGED, calls=(("float32", 100),)), 1)]
    compared = compared_with_parts(whole, parts)
    assert compared == WholeCall(is_logged=False)
    assert compared_with_parts(whole, [(replace(parts[0][0], logged=None), 1)]) == WholeCall()
    audits = [(part("prefill", 3.0, "fp32"), 1), (part("decode", 1.0, "fp32"), 9)]
    found = judge_attributed(joined(audits, COUNTED, compared), None, "fp32")
    assert found.verdict is ProofVerdict.UNKNOWN
    assert "there is no kernel log of the whole generation, or it cannot be read" in sentence(found)


def test_the_log_is_compared_by_shares() -> None:
    """Of the operations, because libraries log those of one product several times, or only in part."""
    parts = [(ran(("fp32", 100), ("bf16", 100)), 1)]
    assert compared_with_parts(ran(("fp32", 208), ("bf16", 192)), parts) == WholeCall()
    assert compared_with_parts(ran(("fp32", 224), ("bf16", 176)), parts) == WholeCall(("bf16", "fp32"))


def test_random_outputs_are_recorded() -> None:
    """They differ while the model is observed, and also while it is not: nothing can be compared."""
    whole = compared_with_parts(Ran(None, None, outputs_differ=True, is_random=True), [])
    assert not whole.outputs_differ
    assert joined([(part("decode", 1.0, "fp32"), 9)], COUNTED, whole).problems == (RANDOM_OUTPUTS,)


def test_a_product_whose_weights_are_packed_is_known_by_its_name() -> None:
    """It shows no tensor but the fp32 input, and computes in int8."""
    packed = Ran(None, [Call("quantized::linear_dynamic", (), 100, 0, ("float32",))])
    assert compared_with_parts(packed, [(ran(calls=(("float32", 100),)), 1)]) == WholeCall(("fp32", "int8"))


def test_a_whole_that_computes_otherwise_while_it_is_observed_is_not_known() -> None:
    """Even if neither part does."""
    parts = [(part("prefill", 3.0, "fp32"), 1), (part("decode", 1.0, "fp32"), 9)]
    found = judge_attributed(joined(parts, COUNTED, WholeCall(outputs_differ=True)), None, "fp32")
    assert found.verdict is ProofVerdict.UNKNOWN
    assert "the model computed other outputs while it was observed" in sentence(found)


def test_slow_kernels_with_little_of_the_arithmetic_are_partly_used() -> None:
    """bf16 has 95 % of the time and 0.5 % of the operations: it ran, so it is not NOT ACTIVE."""
    slow = replace(part("decode", 1.0, "bf16"), counted=Flops(20_000, 200, {"aten::linear": 20_000}))
    (most, _) = slow.parts
    rest = replace(most, seconds=0.05, precision="fp32", implementation="another kernel", flop=19_900, product=None)
    found = judge_attributed(replace(slow, parts=(most, rest)), None, "bf16", "cast")
    assert found.verdict is ProofVerdict.PARTLY
