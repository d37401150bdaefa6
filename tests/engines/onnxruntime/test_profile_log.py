"""What is read from the files of ONNX Runtime's profiler."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from onnxruntime_recordings import recorded

from modelzoo.engines.onnxruntime.profile_log import (
    NodeCall,
    ProfileLogError,
    Tensor,
    Weights,
    count_flops,
    fixed_sizes,
    marks_of,
    moves_memory,
    multiplies_nothing,
    named_precision,
    operator_class,
    operator_of,
    parse_calls,
    parse_profile,
)
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.profiler import nested_events
from modelzoo.frozen import replace
from modelzoo.records.evidence import OperatorClass
from modelzoo.records.profile import Flops, Shape


def test_the_nodes_of_one_call_are_named_by_operator_layout_and_operands() -> None:
    """Converted convolutions are told from plain ones, and products with constant weights from others."""
    events = nested_events(parse_profile(recorded(), 1))
    assert Counter(event.name for event in events) == {
        PASS_EVENT: 1,
        "ReorderInput": 1,
        "Conv [NCHWc]": 2,
        "GlobalAveragePool [NCHWc]": 1,
        "ReorderOutput": 1,
        "Flatten": 1,
        "Gemm": 1,
        "MatMul [constant]": 1,
        "FusedMatMul": 1,
        "Loop": 1,
        "Identity": 2,
        "MatMul": 2,
    }


def test_shapes_and_types_are_those_of_the_inputs() -> None:
    """Constant weights that were packed are missing; those of convolutions are there."""
    spans = parse_profile(recorded(), 1)
    convolution = next(span for span in spans if span.name == "Conv [NCHWc]")
    assert convolution.shapes == ((2, 16, 8, 8), (16, 16, 3, 3))
    assert convolution.dtypes == ("float", "float")
    product = next(span for span in spans if span.name == "MatMul [constant]")
    assert product.shapes == ((2, 16),)


def test_the_time_of_a_loop_does_not_count_twice() -> None:
    """Its body's nodes are its children, and all self times add up to the two calls."""
    entries = json.loads(recorded())
    events = nested_events(parse_profile(recorded(), 2))
    calls = sum(entry["dur"] for entry in entries if entry["name"] == "model_run")
    assert sum(event.seconds for event in events) == pytest.approx(calls / 1e6)
    assert {events[event.parent].name for event in events if event.name == "MatMul"} == {"Loop"}


def test_earlier_calls_are_left_out() -> None:
    """A profiled session begins with calls to warm up."""
    one, two = nested_events(parse_profile(recorded(), 1)), nested_events(parse_profile(recorded(), 2))
    assert [event.name for event in two] == [event.name for event in one] * 2
    assert one == tuple(
        replace(event, parent=event.parent - len(one) * (event.parent >= 0)) for event in two[len(one) :]
    )


@pytest.mark.parametrize(
    ("text", "passes", "reason"),
    [(recorded()[:5000], 1, "cannot be read"), (recorded(), 3, "has 2 runs instead of 3"), (b"[]", 1, "has 0 runs")],
)
def test_incomplete_files_are_refused(text: bytes, passes: int, reason: str) -> None:
    """The reason is one line."""
    with pytest.raises(ProfileLogError, match=reason) as caught:
        parse_profile(text, passes)
    assert "\n" not in str(caught.value)


def test_calls_have_inputs_and_outputs() -> None:
    """Those of the last run; a scalar has an empty shape."""
    calls = parse_calls(recorded())
    assert len(calls) == 14
    layer = next(call for call in calls if call.operator == "Gemm")
    assert layer == NodeCall("Gemm", (Tensor("float", (2, 16)), Tensor("float", (16,))), (Tensor("float", (2, 16)),))
    loop = next(call for call in calls if call.operator == "Loop")
    assert loop.inputs[0] == Tensor("int64", ())


def test_another_provider_is_part_of_the_name() -> None:
    """So that it cannot pass for the CPU's."""
    text = recorded().replace(b'"CPUExecutionProvider"', b'"ACLExecutionProvider"')
    names = {span.name for span in parse_profile(text, 1)}
    assert "Gemm [ACLExecutionProvider]" in names
    assert "Conv [NCHWc, ACLExecutionProvider]" in names


def test_names_can_be_taken_apart() -> None:
    """Into operator and marks."""
    assert (operator_of("Conv [NCHWc, X]"), tuple(marks_of("Conv [NCHWc, X]"))) == ("Conv", ("NCHWc", "X"))
    assert (operator_of("Gemm"), tuple(marks_of("Gemm"))) == ("Gemm", ())


def test_the_number_of_items_is_not_a_fixed_size() -> None:
    """The first size of each shape is left out; scalars stay."""
    assert fixed_sizes(((2, 3), (), (4,))) == ((3,), (), ())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Conv [NCHWc]", OperatorClass.CONV),
        ("FusedConv", OperatorClass.CONV),
        ("ConvTranspose", OperatorClass.CONV),
        ("Gemm", OperatorClass.LINEAR),
        ("MatMul [constant]", OperatorClass.LINEAR),
        ("FusedMatMul", OperatorClass.MATMUL),
        ("MultiHeadAttention", OperatorClass.ATTENTION),
        ("ReorderInput", None),
        ("Softmax", None),
        ("modelzoo::pass", None),
    ],
)
def test_classes_follow_the_operator_and_its_operands(name: str, kind: OperatorClass | None) -> None:
    """A product with constant weights is a layer."""
    assert operator_class(name) is kind


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("MatMulNBits", "int4"),
        ("MatMulInteger", "int8"),
        ("QLinearConv", "int8"),
        ("QAttention", "int8"),
        ("DynamicQuantizeLSTM", "int8"),
        ("MatMul", None),
    ],
)
def test_the_names_of_quantized_products_say_so(operator: str, expected: str | None) -> None:
    """Each is a product, whose weights may be packed."""
    assert operator_class(operator) is not None
    assert named_precision(operator) == expected


def test_what_multiplies_nothing_is_a_list() -> None:
    """An operator of an extension or a later version is not in it, and neither is a product."""
    assert multiplies_nothing("Relu")
    assert multiplies_nothing("Transpose")
    assert moves_memory("Transpose")
    assert not moves_memory("Relu")
    assert not any(map(multiplies_nothing, ("MatMul", "FusedConv", "InventedTomorrow")))


def call(operator: str, inputs: list[Shape], *outputs: Shape) -> NodeCall:
    """A call on fp32 tensors."""
    return NodeCall(
        operator,
        tuple(Tensor("float", shape) for shape in inputs),
        tuple(Tensor("float", shape) for shape in outputs),
    )


def test_a_recorded_pass_is_counted_by_operator() -> None:
    """Two convolutions, a layer, and five products, two of them in the body of a loop."""
    found = count_flops(parse_calls(recorded()))
    pixels, square = 2 * 8 * 8, 16 * 16
    assert found.by_operator == {
        "Conv": 2 * pixels * square * (9 + 1),
        "Gemm": 2 * 2 * square,
        "MatMul": 2 * 2 * square + 2 * 2 * 16 * square,
        "FusedMatMul": 2 * 2 * square,
    }
    assert found.total == sum(found.by_operator.values())
    assert found.missing == ()


@pytest.mark.parametrize(
    ("operator", "inputs", "output", "flop"),
    [
        ("Conv", [(1, 8, 6, 6), (4, 2, 3, 3)], (1, 4, 6, 6), 2 * 144 * 18),
        ("ConvTranspose", [(1, 8, 3, 3), (8, 4, 2, 2)], (1, 4, 6, 6), 2 * 72 * 16),
        ("Gemm", [(3, 5), (7,)], (3, 7), 2 * 3 * 7 * 5),
        ("MatMul", [(2, 3, 5), (2, 5, 7)], (2, 3, 7), 2 * 2 * 3 * 7 * 5),
        ("FusedMatMul", [(5, 3), (5, 7)], (3, 7), 2 * 3 * 7 * 5),
        ("MatMul", [(5,), (5, 7)], (7,), 2 * 7 * 5),
        ("Attention", [(1, 4, 6), (1, 9, 6), (1, 9, 6)], (1, 4, 6), 2 * 9 * (24 + 24)),
    ],
)
def test_products_have_formulas(operator: str, inputs: list[Shape], output: Shape, flop: int) -> None:
    """Grouped, transposed and batched ones too; the weights of a layer may be missing."""
    assert count_flops([call(operator, inputs, output)]).total == flop


@pytest.mark.parametrize(
    ("known", "flop"),
    [({"node_conv": (64, 3, 7, 7)}, 2 * 112 * 112 * 64 * 147), ({}, 0), ({"node_conv": (32, 3, 7, 7)}, 0)],
)
def test_packed_weights_of_a_convolution_are_those_of_the_node_in_the_model(known: Weights, flop: int) -> None:
    """Their shape is not in the profile (recorded with 1.32); one that does not fit is not believed."""
    inputs = [{"uint8": [1, 224, 224, 3]}, {"float": []}, {"uint8": []}, {"float": [64]}, {"int8": [64]}]
    arguments = {
        "op_name": "QLinearConv",
        "provider": "CPUExecutionProvider",
        "input_type_shape": inputs,
        "output_type_shape": [{"uint8": [1, 112, 112, 64]}],
    }
    node = {"cat": "Node", "name": "node_conv_token_1_kernel_time", "ts": 1, "dur": 1, "args": arguments}
    text = json.dumps([{"cat": "Session", "name": "model_run", "ts": 0, "dur": 3}, node]).encode()
    found = count_flops(parse_calls(text, known))
    assert (found.total, found.missing) == (flop, () if flop else ("QLinearConv",))
    (event,) = (each for each in parse_profile(text, 1, known) if each.name == "QLinearConv")
    assert event.flop == (flop or None)


@pytest.mark.parametrize("inputs", [[], [(1, 8, 6, 6)], [(1, 8, 6, 6), (4,)]])
def test_a_product_without_known_shapes_is_named(inputs: list[Shape]) -> None:
    """Rather than left out."""
    assert count_flops([call("Conv", inputs, (1, 4, 6, 6))]).missing == ("Conv",)
    assert count_flops([call("LSTM", [(1, 2, 3)], (1, 2, 3))]).missing == ("LSTM",)


def test_bytes_are_those_of_inputs_and_outputs() -> None:
    """With the weights that have been packed; reshaping moves nothing, and a lookup reads what it writes."""
    assert count_flops([call("Gemm", [(3, 5), (7,)], (3, 7))]).bytes == 4 * (15 + 7 + 21 + 35)
    assert count_flops([call("Gemm", [(3, 5), (5, 7), (7,)], (3, 7))]).bytes == 4 * (15 + 7 + 21 + 35)
    assert count_flops([call("Add", [(2, 3), (3,)], (2, 3))]).bytes == 4 * (6 + 3 + 6)
    assert count_flops([call("Reshape", [(2, 3)], (6,))]) == Flops(0, 0)
    indices = Tensor("int64", (2,))
    gather = NodeCall("Gather", (Tensor("float", (1000, 4)), indices), (Tensor("float", (2, 4)),))
    assert count_flops([gather]).bytes == 2 * 4 * 8 + 16
