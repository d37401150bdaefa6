"""What the files of ONNX Runtime's profiler say: which nodes ran, and which precision that proves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from evidence_samples import checked, sentence
from places import ROOT

from modelzoo.engines.onnxruntime.profile_log import NO_WEIGHTS, Weights, read_profile
from modelzoo.engines.protocol import Unavailable
from modelzoo.evidence.coverage import Node
from modelzoo.evidence.kernel_names import PASS_EVENT, UNKNOWN, UNKNOWN_KERNEL
from modelzoo.evidence.verdict import judge_nodes, node_digest
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary
from modelzoo.records.coverage import MOVEMENT, NATIVE
from modelzoo.records.evidence import Evidence, LogSource, OperatorClass, ProofSource, ProofVerdict
from modelzoo.records.profile import Flops, Shape

pytest.importorskip("onnx", reason="onnx is not installed")

RECORDED = (ROOT / "tests/data/onnxruntime_1.32.0_x86_64_profile.json").read_bytes()
"""Two calls of a model with a 3×3 and a 1×1 convolution, Gemm, products with and without constant weights, and a Loop
whose body multiplies matrices twice."""
OPERATORS = ("matmul", "linear", "conv", "pointwise", "projection")
EXACT, ALL_BF16 = (checked(**dict.fromkeys(OPERATORS, level)) for level in ("fp32", "bf16"))


def canary(**levels: str) -> Canary:
    """All operators in fp32, but for those named."""
    return checked(**{**dict.fromkeys(OPERATORS, "fp32"), **levels})


def renamed(operator: str, other: str) -> bytes:
    """The recording with ``other`` in place of an operator."""
    return RECORDED.replace(f'"op_name" : "{operator}"'.encode(), f'"op_name" : "{other}"'.encode())


def judged(
    text: bytes = RECORDED,
    checks: Canary | None = EXACT,
    *,
    bf16: bool = False,
    counted: Flops | None = None,
    only: Sequence[str] = (),
    without: str = "",
) -> Evidence:
    """The evidence of the last run, or of some of its operators."""
    listed = read_profile(text, 1, fast_math=bf16)
    nodes = tuple(each for each in listed.parts if (not only or each.operator in only) and each.operator != without)
    asked = ("bf16", "fastmath") if bf16 else ("fp32", None)
    return judge_nodes(replace(listed, parts=nodes), checks, *asked, counted)


def test_fp32_is_proven_if_the_canary_confirms_every_class() -> None:
    """By the data types and the canary together; the engine reports its kernels itself."""
    evidence = judged()
    assert evidence.verdict is ProofVerdict.FP32
    decided = {source for each in evidence.classes for source in each.decided_by}
    assert decided == {ProofSource.BOTH, ProofSource.DATA_TYPES}
    assert evidence.log_source is LogSource.ENGINE
    classes = {OperatorClass.CONV, OperatorClass.LINEAR, OperatorClass.MATMUL}
    assert {each.operator_class for each in evidence.classes} == classes
    others = {"memory movement", "other operators", "control flow", "between operators"}
    kernels = {"MLAS NCHWc Conv", "MLAS NCHWc Conv 1×1", "MLAS Gemm", "MLAS MatMul"}
    assert {share.name for share in evidence.by_implementation} >= kernels | others
    assert sum(share.seconds for share in evidence.by_implementation) == pytest.approx(evidence.seconds)


BF16_TENSORS = RECORDED.replace(b'"float"', b'"bfloat16"')


@pytest.mark.parametrize(
    ("text", "checks", "facts", "verdict"),
    [
        # The data types of the tensors do not show whether a kernel rounds inside.
        (RECORDED, None, {}, ProofVerdict.UNKNOWN),
        # One operator of the canary in bf16 disproves fp32, whichever it is, and so do tensors of another type.
        *((RECORDED, canary(**{each: "bf16"}), {}, ProofVerdict.NOT_FP32) for each in OPERATORS if each != "linear"),
        (BF16_TENSORS, EXACT, {}, ProofVerdict.NOT_FP32),
        # Tensors stay fp32 with fast math, so the canary decides.
        (RECORDED, ALL_BF16, {"bf16": True, "without": "FusedMatMul"}, ProofVerdict.ACTIVE),
        (RECORDED, EXACT, {"bf16": True}, ProofVerdict.NOT_ACTIVE),
    ],
)
def test_data_types_and_canary_decide(
    text: bytes, checks: Canary | None, facts: dict[str, Any], verdict: ProofVerdict
) -> None:
    """If bf16 was allowed and did not run, the line names the library and the error of the canary."""
    evidence = judged(text, checks, **facts)
    assert evidence.verdict is verdict
    if verdict is ProofVerdict.ACTIVE:
        assert {each.decided_by for each in evidence.classes} == {(ProofSource.CANARY,)}
    if verdict is ProofVerdict.NOT_ACTIVE:
        assert "ONNX Runtime was allowed bf16, yet MLAS" in sentence(evidence)
        assert "canary error 2e-07 is fp32's" in sentence(evidence)


@pytest.mark.parametrize("operator", ["FusedMatMul", "Attention", "ConvTranspose", "LSTM"])
def test_what_the_canary_does_not_run_is_not_concluded_from_it(operator: str) -> None:
    """With fast math these may stay in fp32 beside a ``MatMul`` in bf16; without it their tensors are fp32."""
    text = renamed("FusedMatMul", operator)
    bf16 = judged(text, ALL_BF16, bf16=True, only=[operator])
    assert (bf16.verdict, bf16.operators[0].precision) == (ProofVerdict.UNKNOWN, UNKNOWN)
    fp32 = judged(text, only=[operator])
    assert (fp32.verdict, fp32.operators[0].precision) == (ProofVerdict.FP32, "fp32")
    in_groups = one_node("Conv", [(1, 8, 6, 6), (8, 1, 3, 3)], (1, 8, 6, 6))
    assert judged(in_groups, ALL_BF16, bf16=True).operators[0].precision == UNKNOWN


def test_bf16_is_partly_active_if_only_some_kernels_have_it() -> None:
    """1×1 convolutions have a bf16 kernel in versions in which 3×3 ones have none."""
    evidence = judged(checks=canary(pointwise="bf16"), bf16=True)
    assert evidence.verdict is ProofVerdict.PARTLY
    precisions = {use.implementation: use.precision for use in evidence.operators}
    assert precisions["MLAS NCHWc Conv 1×1"] == "bf16"
    assert precisions["MLAS NCHWc Conv"] == "fp32"


def test_another_provider_is_a_problem_of_the_audit() -> None:
    """It is named, also beside the kernel, whose precision nobody knows."""
    evidence = judged(RECORDED.replace(b'"CPUExecutionProvider"', b'"ACLExecutionProvider"'))
    assert evidence.problems == ("not all nodes ran on CPUExecutionProvider: ACLExecutionProvider",)
    (layer,) = (use for use in evidence.operators if use.operator == "Gemm")
    assert (layer.implementation, layer.precision) == ("MLAS ACLExecutionProvider Gemm", UNKNOWN)


@pytest.mark.parametrize(
    ("operator", "other", "verdict", "said"),
    [
        # An operator of an extension may multiply anything; a product may have weights in a precision of their own.
        ("ReorderInput", "Fancy", ProofVerdict.UNKNOWN, "Fancy"),
        ("Gemm", "MatMulTomorrow", ProofVerdict.UNKNOWN, "MatMulTomorrow"),
        # The weights of quantized products may be packed, so that the name decides.
        ("Gemm", "MatMulNBits", ProofVerdict.NOT_FP32, "ran in int4: MLAS MatMulNBits"),
        ("Gemm", "DynamicQuantizeMatMul", ProofVerdict.NOT_FP32, "ran in int8: MLAS DynamicQuantizeMatMul"),
        ("Gemm", "QAttention", ProofVerdict.NOT_FP32, "ran in int8: MLAS QAttention"),
        ("Gemm", "QLinearConv", ProofVerdict.NOT_FP32, "ran in int8: MLAS QLinearConv"),
    ],
)
def test_the_names_of_other_operators_decide(operator: str, other: str, verdict: ProofVerdict, said: str) -> None:
    """What nobody knows is unknown, and what is quantized is not fp32."""
    evidence = judged(renamed(operator, other), only=[other])
    assert evidence.verdict is verdict
    assert said in sentence(evidence)


def test_a_count_of_torch_that_the_nodes_do_not_reach_is_unknown() -> None:
    """If the sizes of all products are known, they must be what torch counts in the same model."""
    pixels, square = 2 * 8 * 8, 16 * 16
    conv, rest = 2 * pixels * square * (9 + 1), 3 * 2 * 2 * square + 2 * 2 * 16 * square
    counted = Flops(conv + rest, 0, {"aten::convolution": conv, "aten::mm": rest})
    assert judged(counted=counted).verdict is ProofVerdict.FP32
    more = Flops(2 * (conv + rest), 0, {"aten::convolution": conv, "aten::mm": conv + 2 * rest})
    assert judged(counted=more).verdict is ProofVerdict.UNKNOWN


def test_digests_differ_if_kernels_or_shapes_do_and_not_by_time_or_number_of_items() -> None:
    """Equal digests prove that a process ran what another one was audited for."""
    first = node_digest(read_profile(RECORDED, 1).parts)
    assert [each.count for each in first.kernels] == [1, 1, 3, 1, 1]
    other = RECORDED.replace(b"[2,16,8,8]", b"[3,16,8,8]").replace(b'"dur" :61', b'"dur" :99')
    assert node_digest(read_profile(other, 1).parts) == first
    assert node_digest(read_profile(RECORDED, 1, fast_math=True).parts) != first
    for changed in (RECORDED.replace(b"_nchwc_kernel", b"_kernel"), RECORDED.replace(b"16,3,3]", b"16,5,5]")):
        assert node_digest(read_profile(changed, 1).parts) != first
    assert node_digest([each for each in read_profile(RECORDED, 1).parts if each.operator == "Flatten"]) is None


def test_only_the_last_calls_count_and_the_thread_that_runs_them() -> None:
    """A node that ends after the run is cut off there; a profiled session begins with calls to warm up."""
    run = {"cat": "Session", "name": "model_run", "ts": 100, "dur": 200, "tid": 1}
    times = [(0, 50, 1), (120, 80, 1), (130, 60, 1), (130, 60, 2), (290, 15, 1)]
    nodes = [
        {"cat": "Node", "name": "a_kernel_time", "ts": ts, "dur": dur, "tid": tid, "args": {"op_name": "Relu"}}
        for ts, dur, tid in times
    ]
    found = read_profile(json.dumps([*nodes, run]).encode(), 1).parts
    assert [round(each.seconds * 1e6) for each in found] == [200 - 80 - 10, 20, 60, 10]
    one, two = read_profile(RECORDED, 1).parts, read_profile(RECORDED, 2).parts
    assert (len(two), two[len(one) :]) == (2 * len(one), one)
    calls = sum(entry["dur"] for entry in json.loads(RECORDED) if entry["name"] == "model_run")
    assert sum(node.seconds for node in two) == pytest.approx(calls / 1e6), "a loop does not count beside its body"


@pytest.mark.parametrize(
    ("text", "passes", "reason"),
    [(RECORDED[:5000], 1, "cannot be read"), (RECORDED, 3, "has 2 runs instead of 3"), (b"[]", 1, "has 0 runs")],
)
def test_incomplete_files_are_refused(text: bytes, passes: int, reason: str) -> None:
    """The reason is one line."""
    found = read_profile(text, passes)
    assert isinstance(found, Unavailable)
    assert reason in found.reason
    assert "\n" not in found.reason


def one_node(
    operator: str, inputs: list[Shape], *outputs: Shape, constants: int = 0, name: str = "node", dtype: str = "float"
) -> bytes:
    """A run of one node on fp32 tensors, with ``constants`` bytes of inputs that are constants."""
    arguments = {
        "op_name": operator,
        "provider": "CPUExecutionProvider",
        "parameter_size": str(constants),
        "input_type_shape": [{dtype: list(shape)} for shape in inputs],
        "output_type_shape": [{dtype: list(shape)} for shape in outputs],
    }
    node = {"cat": "Node", "name": f"{name}_kernel_time", "ts": 1, "dur": 1, "args": arguments}
    return json.dumps([{"cat": "Session", "name": "model_run", "ts": 0, "dur": 3}, node]).encode()


def node_of(text: bytes, weights: Weights = NO_WEIGHTS) -> Node:
    """The node of a run of one node."""
    run, node = read_profile(text, 1, weights).parts
    assert run.operator == PASS_EVENT
    return node


@pytest.mark.parametrize(
    ("operator", "category"),
    [
        ("Transpose", MOVEMENT),
        ("Relu", NATIVE),
        ("Swish", NATIVE),  # of ONNX
        ("QuickGelu", NATIVE),  # of ONNX Runtime
        ("DFT", UNKNOWN_KERNEL),
        ("InventedTomorrow", UNKNOWN_KERNEL),
    ],
)
def test_operators_of_onnx_without_the_name_of_a_product_are_none(operator: str, category: str) -> None:
    """One of an extension or of a later version may be, and so may a transform."""
    found = node_of(one_node(operator, [(4, 4)], (4, 4)))
    assert (found.operator_class, found.precision) == (None, category)


@pytest.mark.parametrize(
    ("known", "flop"),
    [({"node_conv": (64, 3, 7, 7)}, 2 * 112 * 112 * 64 * 147), ({}, 0), ({"node_conv": (32, 3, 7, 7)}, 0)],
)
def test_packed_weights_of_a_convolution_are_those_of_the_node_in_the_model(known: Weights, flop: int) -> None:
    """Their shape is not in the profile (recorded with 1.32); one that does not fit is not believed."""
    inputs: list[Shape] = [(1, 224, 224, 3), (), (), (64,), (64,)]
    text = one_node("QLinearConv", inputs, (1, 112, 112, 64), name="node_conv_token_1", dtype="uint8")
    assert node_of(text, known).flop == (flop or None)


@pytest.mark.parametrize(
    ("operator", "inputs", "output", "flop"),
    [
        ("Conv", [(1, 8, 6, 6), (4, 2, 3, 3)], (1, 4, 6, 6), 2 * 144 * 18),
        ("ConvTranspose", [(1, 8, 3, 3), (8, 4, 2, 2)], (1, 4, 6, 6), 2 * 72 * 16),
        ("Gemm", [(3, 5), (7,)], (3, 7), 2 * 3 * 7 * 5),
        ("MatMul", [(2, 3, 5), (2, 5, 7)], (2, 3, 7), 2 * 2 * 3 * 7 * 5),
        ("FusedMatMul", [(5, 3), (5, 7)], (3, 7), 2 * 3 * 7 * 5),
        ("Attention", [(1, 4, 6), (1, 9, 6), (1, 9, 6)], (1, 4, 6), 2 * 9 * (24 + 24)),
        ("Conv", [(1, 8, 6, 6), (4,)], (1, 4, 6, 6), None),
        ("Conv", [], (1, 4, 6, 6), None),
        ("LSTM", [(1, 2, 3)], (1, 2, 3), None),
    ],
)
def test_products_have_formulas(operator: str, inputs: list[Shape], output: Shape, flop: int | None) -> None:
    """Grouped, transposed and batched ones too; the weights of a layer may be missing. Unknown sizes count nothing."""
    assert node_of(one_node(operator, inputs, output)).flop == flop
