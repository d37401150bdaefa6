"""Kernels of operators without a oneDNN primitive are named by operator, data type and BLAS."""

from __future__ import annotations

import onednn_recordings as recordings
import pytest
from evidence_samples import ALL_BF16, blas_audit, gemm_event

from modelzoo.evidence.kernel_names import (
    BETWEEN_OPERATORS,
    DISPATCH,
    INDUCTOR,
    MOVEMENT,
    NATIVE,
    PASS_EVENT,
    UNKNOWN_KERNEL,
    base_name,
    display_name,
    leaves_it_to_others,
    library_kernel,
    moves_memory,
    multiplies_nothing,
    named_precision,
    operand_type,
    operator_class,
    other_kernel,
    product_type,
    shows_its_operands,
)
from modelzoo.evidence.mkl_log import BlasCall
from modelzoo.evidence.observation import Event
from modelzoo.evidence.verdict import build_evidence
from modelzoo.frozen import replace
from modelzoo.records.evidence import LogSource, OperatorClass


def test_recordings_name_the_library() -> None:
    """With oneDNN switched off, convolutions run MKL's sgemm; with it on, oneDNN's kernels."""
    by_mode = {
        path.stem.split("_")[-1]: recordings.load_recording(path)
        for path in recordings.OWN_RECORDINGS
        if "x86_64_torch2.10" in path.name
    }

    def kernels(mode: str) -> set[str]:
        found = by_mode[mode]
        rows = build_evidence(found.audit, found.canary, found.requested, found.bf16_method).by_implementation
        return {row.name for row in rows}

    assert "im2col and mkl sgemm" in kernels("off")
    assert not any(name.startswith("oneDNN") for name in kernels("off"))
    assert {"oneDNN jit:avx512_core", "mkl sgemm", "flash attention over mkl sgemm"} <= kernels("fp32")
    assert "flash attention over mkl gemm_bf16bf16f32" in kernels("autocast")
    assert "flash attention over oneDNN brg_matmul:avx512_core" in kernels("fastmath")
    assert "inductor C++ kernels" in kernels("compile")
    assert "oneDNN jit:avx512_core" in kernels("frozen")


def test_mkl_names_its_function() -> None:
    """MKL's own log names the function; if no function of that type was called, the product is native."""
    audit = blas_audit(blas="mkl 2024.2", blas_calls=(BlasCall("SGEMM", 1, 0.1),))
    assert library_kernel(gemm_event("aten::mm", "float"), OperatorClass.MATMUL, audit) == "mkl sgemm"
    assert library_kernel(gemm_event("aten::mm", "double"), OperatorClass.MATMUL, audit) == "native fp64"


@pytest.mark.parametrize(
    ("sbgemm", "name"),
    [(True, "openblas sbgemm"), (False, "native bf16"), (None, "openblas sbgemm or native bf16")],
)
def test_bf16_products_outside_onednn(sbgemm: bool | None, name: str) -> None:
    """OpenBLAS's sbgemm_ if torch calls it, otherwise ATen's own loops; both are named if it is unknown."""
    audit = blas_audit(gemm_event("aten::mm", "c10::BFloat16"), blas="openblas 0.3.30 neoversen2", sbgemm=sbgemm)
    evidence = build_evidence(audit, ALL_BF16, "bf16", "cast")
    assert evidence.by_implementation[0].name == name


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("float", "float"), "fp32"),
        (("c10::BFloat16", "c10::BFloat16", "float"), "bf16"),
        (("float", "c10::BFloat16"), "unknown"),
        (("float", "signed char"), "int8"),
        (("float", "c10::quint4x2"), "int4"),
        (("c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float"), "fp8"),
        (("c10::quint8", "c10::qint8"), "int8"),
        (("Scalar", "double", "double"), "fp64"),
        ((), "unknown"),
    ],
)
def test_operand_type(dtypes: tuple[str, ...], expected: str) -> None:
    """The first two floating-point tensors must agree; a quantized one decides wherever it is."""
    assert operand_type(Event("aten::mm", 1.0, 0, (), dtypes)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("quantized::linear_dynamic", "int8"),
        ("quantized::conv2d_relu", "int8"),
        ("quantized::linear_dynamic_fp16", "fp16"),
        ("aten::_weight_int8pack_mm", "int8 weight-only"),
        ("aten::_weight_int4pack_mm_for_cpu", "int4 weight-only"),
        ("aten::_dyn_quant_matmul_4bit", "int4"),
        ("aten::_int_mm", "int8"),
        ("aten::_scaled_mm", "fp8"),
        ("onednn::qlinear_pointwise", "int8"),
        ("onednn::qconv2d_pointwise", "int8"),
        ("aten::fbgemm_linear_fp16_weight", "fp16"),
        ("aten::mm", "fp32"),
        ("aten::_weight_tomorrow_mm", "unknown"),
        ("myextension::linear", "unknown"),
    ],
)
def test_the_name_of_a_product_counts_more_than_its_types(name: str, expected: str) -> None:
    """Weights may be packed as fp32 or bytes; only operators that are known multiply what their arguments show."""
    assert product_type(Event(name, 1.0, 0, (), ("float", "float"))) == expected


def test_a_gemv_in_bf16_is_native() -> None:
    """torch calls sbgemm for two matrices only; a vector goes through its own loops."""
    audit = blas_audit(blas="openblas 0.3.30 neoversen2", sbgemm=True)
    vector = gemm_event("aten::mv", "c10::BFloat16")
    assert library_kernel(vector, OperatorClass.MATMUL, audit) == "native bf16"
    assert library_kernel(replace(vector, name="aten::mm"), OperatorClass.MATMUL, audit) == "openblas sbgemm"


@pytest.mark.parametrize(
    ("name", "kernel", "category"),
    [
        (PASS_EVENT, BETWEEN_OPERATORS, DISPATCH),
        ("some region", BETWEEN_OPERATORS, DISPATCH),
        ("aten::linear", "dispatch", DISPATCH),
        ("aten::copy_", "native memory movement", MOVEMENT),
        ("aten::_to_copy", "native memory movement", MOVEMENT),
        ("aten::relu_", "native", NATIVE),
        ("## Call CompiledFxGraph fabc123 ##", INDUCTOR, NATIVE),
        ("cpp_fused_add_0", INDUCTOR, NATIVE),
        ("torchvision::nms", "native", NATIVE),
        ("aten::invented_tomorrow", "aten::invented_tomorrow", UNKNOWN_KERNEL),
        ("myextension::norm", "myextension::norm", UNKNOWN_KERNEL),
    ],
)
def test_operators_that_are_not_products(name: str, kernel: str, category: str) -> None:
    """Movement, dispatch and arithmetic without products are told apart by name; what is not known is unknown."""
    assert other_kernel(Event(name, 1.0, -1)) == (kernel, category)


def test_compiled_graphs_share_a_name() -> None:
    """The hash in the name of a compiled graph differs between processes."""
    assert display_name(Event("## Call CompiledFxGraph fabc123 ##", 1.0, -1)) == "CompiledFxGraph"
    assert display_name(Event("aten::mm", 1.0, -1)) == "aten::mm"


def test_kernels_of_convolution_and_attention() -> None:
    """They wrap a matrix product; NNPACK has its own; without a kernel log nothing is claimed."""
    audit = blas_audit()
    event = Event("aten::_slow_conv2d_forward", 1.0, 0, (), ("float", "float"))
    flash = replace(event, name="aten::_scaled_dot_product_flash_attention_for_cpu")
    assert library_kernel(event, OperatorClass.CONV, audit) == "im2col and openblas sgemm"
    assert library_kernel(flash, OperatorClass.ATTENTION, audit) == "flash attention over openblas sgemm"
    assert (
        library_kernel(replace(event, name="aten::_nnpack_spatial_convolution"), OperatorClass.CONV, audit) == "nnpack"
    )
    assert library_kernel(event, OperatorClass.CONV, replace(audit, log_source=LogSource.NONE)) == "no kernel log"


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
