"""What the names of operators say."""

from __future__ import annotations

import re

import pytest
import torch

from modelzoo.evidence.kernel_names import UNKNOWN, calls_operators, multiplies_nothing, named_precision, operator_class
from modelzoo.evidence.logs import OneDnnLog
from modelzoo.evidence.precision import PrecisionProver
from modelzoo.records.evidence import OperatorClass, Product


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("quantized::linear_dynamic_fp16", "fp16"),
        ("onednn::qlinear_pointwise", "int8"),
        ("aten::fbgemm_linear_fp16_weight", "fp16"),
        ("aten::mm", "fp32"),
        ("aten::_weight_tomorrow_mm", "unknown"),
        ("myextension::linear", "unknown"),
    ],
)
def test_the_name_of_a_product_counts_more_than_its_types(name: str, expected: str) -> None:
    """Weights may be packed as fp32 or bytes; only operators that are known multiply what their arguments show."""
    product = Product(name, OperatorClass.MATMUL, (), named_precision(name) or "fp32", 1)
    proof = PrecisionProver(None, None).prove_product(product, OneDnnLog(), (), True)
    assert proof.precision == (UNKNOWN if expected == "unknown" else expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::add_.Tensor", True),
        ("torchvision::roi_align", True),
        ("aten::mm", False),
        ("aten::_weight_int4pack_mm_for_cpu", False),
        ("aten::invented_tomorrow", False),
        ("quantized::add", False),
        ("myextension::add", False),
    ],
)
def test_what_multiplies_nothing_is_a_list(name: str, expected: bool) -> None:
    """An operator of an extension may do anything, whatever it is called."""
    assert multiplies_nothing(name) is expected


LEFT_UNKNOWN = {
    "of training": r"""backward|grad|jvp|loss|fake_quantize|binary_cross_entropy|_functional$|_fw_primal|^_make_dual
        ^_foreach_|^_amp_|^_fused_(ada|sgd|dropout|moving)|^batch_norm_|_batch_norm_with_update""",
    "special functions and distributions": r"""^special_|_standard_gamma|_sample_|_window$|^binomial|^range
        ^fft_r?fftfreq""",
    "that may multiply inside": r"""linalg|cholesky|^(geqrf|ormqr|lu_unpack|triangular_solve|_trilinear|trace)
        ^_fft_|_cdist_|_pdist_|_dist$|^dist|renorm""",
    "of sparse, nested and quantized tensors": r"""sparse|nested|indices|values|jagged|_spdiags|_coalesce|quantized
        ^_make_per_|_4bit_weight|int4pack""",
    "of other devices, of autograd and of tests": r"""cudnn|miopen|_test_|_foobar|_print|_copy_from|_lazy_clone
        _dep_token|_efficientzero|_has_same_storage|^_functional_""",
    "of rare use": r"""_add_relu|_cpu_fallback|histogram|hash_tensor|index_reduce|_index_put_impl|_unsafe_masked
        _masked_scale|segment_reduce|diagonal_scatter|slice_inverse|_new_zeros_with_same|_copy$""",
}
"""Operators that no model is known to call in inference, by what they are: a verdict is UNKNOWN if one does."""


def test_every_operator_of_torch_for_the_cpu_is_classified() -> None:
    """One that a new torch adds must be put where it belongs: among the products, those that are none, or here."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    left, missing = re.compile("|".join("|".join(each.split()) for each in LEFT_UNKNOWN.values())), set()
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, base = schema.name.partition("::")
        full = f"{schema.name}.{schema.overload_name}".rstrip(".")
        if namespace != "aten" or not torch._C._dispatch_has_kernel(full):
            continue  # TorchScript's own
        runs = any(has_kernel(full, key) for key in ("CPU", "CompositeExplicitAutograd"))
        is_known = operator_class(schema.name) or multiplies_nothing(schema.name) or calls_operators(schema.name)
        if runs and not has_kernel(full, "CompositeImplicitAutograd") and not is_known and not left.search(base):
            missing.add(base)
    assert missing == set()


def test_no_operator_is_both_a_product_and_none() -> None:
    """A name that multiplies matrices, or says so, is not among those that multiply nothing."""
    names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    both = {name for name in names if multiplies_nothing(name) and operator_class(name) is not None}
    assert both == set()
