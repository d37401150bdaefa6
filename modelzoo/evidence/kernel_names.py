"""What the names of operators and kernels say: which multiply matrices, in which precision, in which library. Pure.

What is known of operators are lists of what is allowed, because an operator that is added tomorrow, or comes from an
extension, may be a product in a precision of its own. An operator that is in none of them is unknown.

The pointwise operators and the reductions are those with torch's tags of these names (``torch.Tag``, version 2.10). The
others have no such tag and were chosen by hand from torch's ``native_functions.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from modelzoo.records.evidence import OperatorClass

UNKNOWN = "unknown precision"
UNKNOWN_KERNEL = "unknown kernel"
"""Category of an operator that may or may not multiply matrices."""
UNATTRIBUTED = "unattributed"
"""Time that nothing explains."""

UNREAD_KERNEL = "kernel log not readable"
"""What is shown in place of a kernel during which a line was logged that could not be read."""
BETWEEN_OPERATORS = "between operators"
"""Time in Python, in TorchScript's interpreter and in anything else that the profiler does not record."""
INDUCTOR = "inductor C++ kernels"

_TYPES = {
    "fp64": "double, float64, f64",
    "fp32": "float, float32, f32",
    "tf32": "tf32",
    "bf16": "bfloat16, bf16",
    "fp16": "float16, fp16, f16",
    "fp8": "float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, f8_e4m3, f8_e5m2, e4m3, e5m2",
    "fp4": "f4_e2m1",
    "int32": "s32",
    "int8": "int8, uint8, qint8, quint8, s8, u8, i8",
    "int4": "quint4x2, int4, uint4, s4, u4, i4",
}
_PRECISION_OF = {name: precision for precision, names in _TYPES.items() for name in names.split(", ")}


def precision_of(dtype: str) -> str | None:
    """Return the precision of a data type that products have, ``None`` for any other.

    Args:
        dtype: its name in torch (``bfloat16``), in ONNX Runtime (``float``), in OpenVINO and oneDNN (``f32``), or in
            names of CUDA kernels (``e4m3``).
    """
    return _PRECISION_OF.get(dtype)


COARSE = "narrower than bf16"
"""What an error shows that no type of 8 significant bits explains, and no other type that is known here either."""
ELEVEN_BITS = "tf32 or fp16"
"""What an error shows of a product whose operands cannot tell these two apart."""
_WIDTHS = ("fp64", "fp32", "tf32", "fp16, bf16", "fp8, int8, int8 weight-only", "fp4, int4, int4 weight-only")
_RANK = {name: rank for rank, names in enumerate(_WIDTHS) for name in names.split(", ")}
_RANK[COARSE], _RANK[ELEVEN_BITS] = _RANK["int8"], _RANK["tf32"]


def is_narrower(precision: str, requested: str) -> bool:
    """Return whether ``precision`` keeps fewer bits than ``requested``; not if either is no precision.

    >>> is_narrower("int8", "bf16"), is_narrower("fp16", "bf16"), is_narrower("unknown precision", "bf16")
    (True, False, False)
    """
    return _RANK.get(precision, 0) > _RANK.get(requested, len(_WIDTHS))


PASS_EVENT = "modelzoo::pass"
"""The profiler event around one audited pass; its self time is spent in Python, between operators."""
_CLASS_PATTERNS = (
    (OperatorClass.ATTENTION, re.compile(r"attention|sdpa|flash_att")),
    (OperatorClass.CONV, re.compile(r"conv(?!ert|_tbc_backward)")),
    (OperatorClass.LINEAR, re.compile(r"(^|_|q)linear(_|$)|addmm|addmv|(^|_)(lstm|gru|rnn)(_|$)")),
    (
        OperatorClass.MATMUL,
        re.compile(r"(^|_)(mm|bmm|matmul|baddbmm|addbmm|mv|dot|vdot|ger|addr)(_|$)|\d(pack_)?mm(_|$)"),
    ),
)
_NOT_COMPUTE_NAME = re.compile(r"upsample|interpolate|resolve_conj|backward|_fused_(lstm|gru)_cell|reorder")


@cache  # an intercepted generation asks a hundred thousand times
def operator_class(name: str) -> OperatorClass | None:
    """Return the class of an operator that multiplies matrices, or calls one that does; otherwise ``None``."""
    base = base_name(name)
    if "::" not in name or _NOT_COMPUTE_NAME.search(base):
        return None
    return next((kind for kind, pattern in _CLASS_PATTERNS if pattern.search(base)), None)


def has_weights(name: str, kind: OperatorClass | None) -> bool:
    """Return whether one factor of a product may be the weights of a layer, which a recipe for int8 quantizes.

    Attention multiplies activations, fused or in batches of matrices. Engines that run graphs know what is constant:
    their products with weights are those of layers.

    Args:
        name: of an operator of torch (``aten::bmm``), or of a node of a graph.
        kind: its class.
    """
    if kind is OperatorClass.ATTENTION:
        return False
    return base_name(name) not in _BATCHED if "::" in name else kind is not OperatorClass.MATMUL


_BATCHED = ("bmm", "baddbmm", "addbmm")


def converts_back(name: str, dtypes: Sequence[str]) -> bool:
    """Return whether an operator turns integers of 8 bits or fewer into floating point, as dequantizing does.

    Args:
        name: of the operator.
        dtypes: those of its tensors, with the output, in torch's names.
    """
    base, precisions = base_name(name), set(map(precision_of, dtypes))
    if base.startswith("dequantize"):
        return True
    is_mixed = precisions & {"fp32", "bf16", "fp16"} and precisions & {"int4", "int8"}
    return bool(is_mixed) and base in ("_to_copy", "copy_", "mul", "mul_")


def base_name(name: str) -> str:
    """A name such as ``aten::add_.Tensor`` without namespace and overload."""
    return name.split("::")[-1].split(".")[0]


_POINTWISE = """
    __ilshift__ __ixor__ __lshift__ __rshift__ __xor__ __and__ __or__ __iand__ __ior__ __irshift__ abs absolute acos
    acosh add addcdiv addcmul angle arccos arcsin arctan asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min clip complex
    conj_physical _conj_physical copysign cos cosh deg2rad digamma div divide elu eq equal erf erfc erfinv exp exp2
    expm1 fix float_power floor floor_divide fmax fmin fmod frac frexp gcd ge gelu glu greater greater_equal gt
    hardshrink hardsigmoid hardswish hardtanh heaviside hypot i0 igamma igammac isclose isfinite isinf isin isnan
    isneginf isposinf isreal lcm ldexp le leaky_relu lerp less less_equal lgamma log log10 log1p log2 log_sigmoid
    log_sigmoid_forward logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt masked_fill maximum
    minimum mish mul multiply mvlgamma nan_to_num ne neg negative nextafter not_equal polar polygamma positive pow prelu
    _prelu_kernel rad2deg reciprocal relu relu6 remainder round rrelu rsqrt rsub selu sgn sigmoid sign signbit silu sin
    sinc sinh softplus softshrink special_erf special_expit special_exp2 special_log1p sqrt square sub subtract tan tanh
    threshold true_divide trunc where xlogy
"""
_REDUCTIONS = """
    all allclose amax amin aminmax _aminmax any argmax argmin count_nonzero cummax cummin cumprod cumsum
    _cummax_helper _cummin_helper frobenius_norm kthvalue linalg_norm linalg__powsum linalg_vector_norm logcumsumexp
    _logcumsumexp logsumexp max mean median min mode nanmean nanmedian nansum norm prod quantile std std_mean sum var
    var_mean _is_all_true _is_any_true
"""
_NORMALIZATION = """
    _batch_norm_impl_index _batch_norm_no_update _fused_rms_norm _log_softmax _native_batch_norm_legit
    _nested_tensor_softmax_with_shape _transform_bias_rescale_qkv
    _thnn_fused_gru_cell _thnn_fused_lstm_cell
    _native_batch_norm_legit_no_training _safe_softmax _masked_softmax _softmax _weight_norm _weight_norm_interface
    batch_norm cosine_similarity cross_entropy_loss cudnn_batch_norm group_norm instance_norm layer_norm log_softmax
    native_batch_norm native_group_norm native_layer_norm native_norm normalize pairwise_distance rms_norm softmax
    special_log_softmax special_softmax
"""
_POOLING_AND_RESAMPLING = """
    _adaptive_avg_pool2d _adaptive_avg_pool3d _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d __interpolate adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d affine_grid_generator avg_pool1d
    avg_pool2d avg_pool3d fractional_max_pool2d fractional_max_pool3d grid_sampler grid_sampler_2d grid_sampler_3d
    max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices
    max_unpool2d max_unpool3d mkldnn_adaptive_avg_pool2d mkldnn_max_pool2d mkldnn_max_pool3d upsample_bicubic2d
    upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
"""
_SORTING_AND_SEARCHING = """
    _unique _unique2 argsort argwhere bincount bucketize histc msort nonzero nonzero_numpy nonzero_static one_hot
    searchsorted sort topk unique_consecutive unique_dim unique_dim_consecutive
"""
_MOVEMENT = """
    _cat _chunk_cat _conj _embedding_bag _embedding_bag_forward_only _index_put_impl_ _local_scalar_dense
    _mkldnn_reshape _mkldnn_transpose _nested_from_padded _nested_tensor_from_mask
    _nested_tensor_from_mask_left_aligned _neg_view _pack_padded_sequence _pad_packed_sequence _pad_circular _pad_enum
    _pin_memory _reshape_alias _reshape_copy _resize_output _shape_as_tensor _stack _to_copy _to_dense _unsafe_index
    _unsafe_index_put _unsafe_view _values adjoint alias arange as_strided as_strided_copy as_strided_scatter atleast_1d
    atleast_2d atleast_3d block_diag broadcast_tensors broadcast_to cartesian_prod cat channel_shuffle chunk clone
    col2im column_stack concat concatenate conj constant_pad_nd contiguous copy copy_ cpu detach detach_copy diag
    diag_embed diagflat diagonal diagonal_copy dropout dsplit dstack embedding embedding_bag empty empty_like
    empty_permuted empty_strided expand expand_as expand_copy eye feature_dropout fill fill_diagonal flatten flip fliplr
    flipud from_file full full_like gather hsplit hstack im2col index index_add index_copy index_fill index_put
    index_select item lift lift_fresh lift_fresh_copy linspace logspace mH mT masked_scatter masked_select meshgrid
    mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight moveaxis movedim narrow narrow_copy native_channel_shuffle
    native_dropout new_empty new_empty_strided new_full new_ones new_zeros numpy_T ones ones_like pad pad_sequence
    permute permute_copy pin_memory pixel_shuffle pixel_unshuffle put ravel reflection_pad1d reflection_pad2d
    reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d reshape reshape_as
    resize resize_ resize_as resolve_conj resolve_neg roll rot90 row_stack scalar_tensor scatter scatter_add
    scatter_reduce select select_copy select_scatter set set_ slice slice_copy slice_scatter split split_copy
    split_with_sizes split_with_sizes_copy squeeze squeeze_copy stack swapaxes swapdims t t_copy take take_along_dim
    tensor tensor_split tile to to_dense to_mkldnn to_padded_tensor transpose transpose_copy tril tril_indices triu
    triu_indices type_as unbind unbind_copy unflatten unfold unfold_copy unsafe_chunk unsafe_split
    unsafe_split_with_sizes unsqueeze unsqueeze_copy view view_as view_as_complex view_as_complex_copy view_as_real
    view_as_real_copy view_copy vsplit vstack zero zeros zeros_like
"""
_QUANTIZATION = """
    choose_qparams_optimized dequantize fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask
    fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask int_repr q_per_channel_scales
    q_per_channel_zero_points q_scale q_zero_point qscheme quantize_per_channel quantize_per_tensor
    quantize_per_tensor_dynamic
"""
_QUANTIZATION_OF_GRAPHS = """
    choose_qparams choose_qparams_per_token choose_qparams_per_token_asymmetric choose_qparams_symmetric
    convert_element_type dequantize_per_channel dequantize_per_channel_group dequantize_per_tensor dequantize_per_token
    quantize_per_channel quantize_per_channel_group quantize_per_tensor quantize_per_token
"""
_RANDOM = """
    alpha_dropout bernoulli cauchy exponential geometric log_normal multinomial normal poisson rand rand_like randint
    randint_like randn randn_like random randperm rrelu_with_noise uniform
"""
_FACTS = """
    _assert_async _assert_scalar _assert_tensor_metadata _debug_has_internal_overlap _fused_sdp_choice
    cudnn_is_acceptable
    _has_compatible_shallow_copy_type _nnpack_available can_cast data dense_dim dim element_size is_coalesced is_complex
    is_conj is_contiguous is_floating_point is_inference is_leaf is_neg is_nonzero is_pinned is_same_size is_set_to
    is_signed numel promote_types requires_grad result_type size storage_offset stride sym_constrain_range
    sym_constrain_range_for_size sym_is_contiguous sym_numel sym_size sym_storage_offset sym_stride warn
"""
_TORCHVISION = """
    _interpolate_bicubic2d_aa _interpolate_bilinear2d_aa decode_image decode_jpeg decode_png nms ps_roi_align
    ps_roi_pool roi_align roi_pool
"""


def _words(*groups: str) -> frozenset[str]:
    return frozenset(word for group in groups for word in group.split())


_CALLERS_IN_KERNELS = _words(
    "aten::_grouped_mm aten::_native_multi_head_attention aten::_transformer_encoder_layer_fwd"
)
"""Operators whose kernels for the CPU call others: those of ``nn.MultiheadAttention`` and ``nn.TransformerEncoder`` in
inference (``aten/src/ATen/native/transformers/``), and products of groups of rows, as of a mixture of experts."""
_PRODUCTS = _words(
    """
    aten::_addmm_activation aten::_conv_depthwise2d aten::_convolution aten::_nnpack_spatial_convolution
    aten::_scaled_dot_product_cudnn_attention aten::_scaled_dot_product_efficient_attention
    aten::_scaled_dot_product_flash_attention aten::_scaled_dot_product_flash_attention_for_cpu
    aten::_slow_conv2d_forward aten::addbmm aten::addmm aten::addmv
    aten::addr aten::baddbmm aten::bmm aten::conv_depthwise3d aten::convolution aten::dot aten::ger
    aten::mkldnn_convolution aten::mkldnn_linear aten::mkldnn_rnn_layer aten::mm aten::mv
    aten::slow_conv3d_forward aten::slow_conv_dilated2d
    aten::slow_conv_dilated3d aten::slow_conv_transpose2d aten::slow_conv_transpose3d aten::vdot mkl::_mkl_linear
    mkldnn::_convolution_pointwise mkldnn::_convolution_pointwise_ mkldnn::_convolution_transpose_pointwise
    mkldnn::_linear_pointwise mkldnn_prepacked::conv2d_run
    """
)
_NARROW = (
    ("int4 weight-only", re.compile(r"^aten::_weight_int4pack_mm|^quantized::int4mm_packed_weight")),
    ("int8 weight-only", re.compile(r"^aten::_weight_int8pack_mm")),
    ("fp16", re.compile(r"^quantized::\w*_fp16|fbgemm_linear_fp16")),
    ("int4", re.compile(r"int4|_4bit")),
    ("fp8", re.compile(r"^aten::_scaled_(grouped_)?mm|fp8|float8")),
    ("int8", re.compile(r"^quantized::|^onednn::q|int8|^aten::(_int_mm|_wrapped_quantized|quantized_(lstm|gru|rnn))")),
)
"""Operators that quantize their operands, or take quantized ones that are packed, so that no data type shows it."""

_MOVEMENT_NAMES = _words(_MOVEMENT)
_KNOWN = {
    "aten": _MOVEMENT_NAMES
    | _words(_POINTWISE, _REDUCTIONS, _NORMALIZATION, _POOLING_AND_RESAMPLING, _SORTING_AND_SEARCHING, _RANDOM, _FACTS)
    | _words(_QUANTIZATION),
    "torchvision": _words(_TORCHVISION),
    "quantized": _words("max_pool2d"),
    "quantized_decomposed": _words(_QUANTIZATION_OF_GRAPHS),
    "torchao": _words("choose_qparams_affine quantize_affine dequantize_affine"),
}
_IN_PLACE = re.compile(r"(?<=[^_])_$")


@cache
def multiplies_nothing(name: str) -> bool:
    """Return whether an operator, such as ``aten::add_.Tensor``, is known to multiply no matrices."""
    return _is_in(name, _KNOWN.get(name.partition("::")[0], frozenset()))


def moves_memory(name: str) -> bool:
    """Return whether an operator is known to create, copy or rearrange tensors only."""
    return name.startswith("aten::") and _is_in(name, _MOVEMENT_NAMES)


def calls_operators(name: str) -> bool:
    """Return whether an operator's kernel for the CPU computes its products by calling other operators."""
    return name.partition(".")[0] in _CALLERS_IN_KERNELS


def shows_its_operands(name: str) -> bool:
    """Return whether the data types of the arguments are those of the operands that are multiplied.

    Operators that are not listed may hold weights in a precision of their own: packed, as opaque or untyped bytes.
    """
    name = name.partition(".")[0]
    return name in _PRODUCTS or name.removesuffix("_") in _PRODUCTS


@cache
def named_precision(name: str) -> str | None:
    """Return the precision that the name of an operator says its products have, ``None`` if it says none."""
    if operator_class(name) is None:
        return None
    return next((precision for precision, pattern in _NARROW if pattern.search(name)), None)


def _is_in(name: str, known: frozenset[str]) -> bool:
    base = name.partition("::")[2].partition(".")[0]
    return base in known or _IN_PLACE.sub("", base) in known
