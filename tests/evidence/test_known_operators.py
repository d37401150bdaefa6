"""What is known of operators by name."""

from __future__ import annotations

import pytest

from modelzoo.evidence.kernel_names import (
    leaves_it_to_others,
    moves_memory,
    multiplies_nothing,
    named_precision,
    operator_class,
    shows_its_operands,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::add_.Tensor", True),
        ("aten::__ixor__", True),
        ("aten::_softmax", True),
        ("aten::native_layer_norm", True),
        ("torchvision::roi_align", True),
        ("aten::mm", False),
        ("aten::linear", False),
        ("aten::_weight_int4pack_mm_for_cpu", False),
        ("aten::invented_tomorrow", False),
        ("quantized::add", False),
        ("torchvision::deform_conv2d", False),
        ("myextension::add", False),
        ("add", False),
    ],
)
def test_what_multiplies_nothing_is_a_list(name: str, expected: bool) -> None:
    """An operator of an extension may do anything, whatever it is called."""
    assert multiplies_nothing(name) is expected


def test_every_pointwise_operator_and_reduction_of_torch_is_listed() -> None:
    """They are the operators with torch's own tags; the few others are special functions and backward passes."""
    import torch

    tags = {torch.Tag.pointwise, getattr(torch.Tag, "reduction", torch.Tag.pointwise)}
    missing = set()
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, base = schema.name.partition("::")
        if namespace != "aten":
            continue
        overload = getattr(getattr(torch.ops.aten, base, None), schema.overload_name or "default", None)
        if tags & set(getattr(overload, "tags", ())) and not multiplies_nothing(schema.name):
            missing.add(base)
    assert {name for name in missing if not name.startswith("special_") and not name.endswith("_backward")} == set()


def test_no_operator_is_both_a_product_and_none() -> None:
    """A name that multiplies matrices, or says so, is not among those that multiply nothing."""
    import torch

    names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    both = {name for name in names if multiplies_nothing(name) and operator_class(name) is not None}
    assert both == set()


def test_products_and_their_callers() -> None:
    """A wrapper leaves the multiplying to what it calls; an unknown operator may multiply something itself."""
    assert leaves_it_to_others("aten::linear")
    assert leaves_it_to_others("aten::mv")
    assert not leaves_it_to_others("myextension::linear")
    assert shows_its_operands("aten::addmm_")
    assert shows_its_operands("mkldnn::_convolution_pointwise_.binary")
    assert not shows_its_operands("aten::linear")
    assert moves_memory("aten::copy_")
    assert not moves_memory("aten::relu")
    assert named_precision("quantized::add") is None
