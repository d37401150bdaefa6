"""What is known of ONNX Runtime's operators by name."""

from __future__ import annotations

import pytest

from modelzoo.engines.onnxruntime.profile_log import moves_memory, multiplies_nothing, named_precision, operator_class
from modelzoo.records.evidence import OperatorClass


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
