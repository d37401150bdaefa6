"""Operations and bytes of one pass, from the nodes that ran."""

from __future__ import annotations

import pytest
from onnxruntime_recordings import recorded

from modelzoo.engines.onnxruntime.profile_log import NodeCall, Tensor, count_flops, parse_calls
from modelzoo.records.profile import Flops, Shape


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
