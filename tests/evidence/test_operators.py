"""What the names of operators say."""

from __future__ import annotations

import pytest

from modelzoo.evidence.kernel_names import base_name, operator_class
from modelzoo.records.evidence import OperatorClass

CONV, LINEAR, MATMUL, ATTENTION = OperatorClass


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::mkldnn_convolution", CONV),
        ("aten::conv2d", CONV),
        ("aten::_convert_to", None),
        ("aten::upsample_conv", None),
        ("aten::addmm", LINEAR),
        ("mkldnn::_linear_pointwise", LINEAR),
        ("aten::bmm", MATMUL),
        ("aten::dot", MATMUL),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", ATTENTION),
        ("aten::resolve_conj", None),
        ("aten::relu", None),
        ("linear", None),
    ],
)
def test_operator_class(name: str, kind: OperatorClass | None) -> None:
    """The class follows from the name; names without a namespace are not operators."""
    assert operator_class(name) is kind


def test_base_name() -> None:
    """Neither namespace nor overload."""
    assert base_name("aten::add_.Tensor") == "add_"
