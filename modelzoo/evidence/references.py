"""What operators must compute, in fp64 and from their definitions rather than by the operators themselves.

The exact result is computed for a sample of the outputs only, which makes it cheap: seconds for a whole network.
Every channel is in it, and so are the first and the last row and position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product as combinations
from typing import Any, NamedTuple

from modelzoo.evidence.kernel_names import base_name
from modelzoo.evidence.probes import Operand

_ROWS, _COLUMNS, _BATCHES = 32, 64, 4
"""The outputs that are computed, of each axis at most."""
_WHOLE_ROWS, _CHUNK = 3, 4096
"""Rows of which every output is computed, so many columns at a time: a channel may be wrong by itself."""


class Expected(NamedTuple):
    """The exact values of a sample of the outputs, in fp64, and what takes the same sample from an output."""

    exact: Any
    sample: Callable[[Any], Any]


class Rule(NamedTuple):
    """What is known of an operator.

    Attributes:
        expected: computes the exact outputs from the arguments, by position and by name.
        factors: positions of the two arguments that are multiplied; empty if it is no plain product of two.
        kept: arguments whose values stay as they are, by position and by name.
        scales: by what noise is multiplied, by position, so that no non-linear function saturates.
        rows: position of the argument whose rows are those of the output, each computed from its own alone.
        is_linear: whether an output is a sum of products, so that its error is bounded by that of the absolute values.
    """

    expected: Callable[..., Expected]
    factors: tuple[int, ...] = ()
    kept: tuple[object, ...] = ()
    scales: Callable[..., Mapping[int, float]] = lambda *args, **named: {}
    rows: int | None = None
    is_linear: bool = True


def rule_of(operator: str) -> Rule | None:
    """Return what is known of an operator, such as ``aten::addmm``; ``None`` if that is nothing."""
    if not operator.startswith(("aten::", "mkl::", "mkldnn::", "modelzoo::")):
        return None
    name = base_name(operator)
    return RULES.get(name) or RULES.get(name.removesuffix("_"))


def _spread(size: int, most: int) -> list[int]:
    """At most so many of the positions below ``size``, evenly spread, the first and the last among them."""
    count = min(size, most)
    return sorted({round(each * (size - 1) / max(count - 1, 1)) for each in range(count)})


def _product(left: Any, right: Any, added: Any = None, *, beta: Any = 1, alpha: Any = 1, **named: Any) -> Expected:
    """(…, m, k) by (…, k, n), with ``added`` broadcast to (…, m, n); vectors are matrices of one column."""
    import torch

    if right.dim() == 1:
        right, added = right[:, None], added if added is None else added[..., None]
    left = left.reshape(-1, *left.shape[-2:]) if left.dim() > 1 else left[None, None]
    right = right[None] if right.dim() == 2 else right
    size = batches, length, width = left.shape[0], left.shape[1], right.shape[-1]
    blocks: list[tuple[list[int], Any]] = [(_spread(length, _ROWS), _spread(width, _COLUMNS))]
    if width > _COLUMNS:
        whole = _spread(length, _WHOLE_ROWS)
        blocks += [(whole, slice(begin, begin + _CHUNK)) for begin in range(0, width, _CHUNK)]
    places = [(item, *block) for item in _spread(batches, _BATCHES) for block in blocks]
    added = torch.broadcast_to(added, size) if added is not None and beta != 0 else None
    exact = []
    for item, rows, columns in places:
        found = alpha * (left[item][rows].double() @ right[item][:, columns].double())
        found = found if added is None else found + beta * added[item][rows][:, columns].double()
        exact.append(found.flatten())

    def sample(output: Any) -> Any:
        output = output.reshape(size)
        return torch.cat([output[item][rows][:, columns].flatten() for item, rows, columns in places])

    return Expected(torch.cat(exact), sample)


def _added(added: Any, left: Any, right: Any, **named: Any) -> Expected:
    return _product(left, right, added, **named)


def _addmm_activation(*args: Any, use_gelu: bool = False, **named: Any) -> Expected:
    from torch.nn import functional

    found = _added(*args, **named)
    return found._replace(exact=functional.gelu(found.exact) if use_gelu else found.exact.relu())


def _linear(rows: Any, weight: Any, bias: Any = None, *rest: Any) -> Expected:
    """(…, k) by the transposed (n, k), which may be packed for oneDNN."""
    return _product(rows.reshape(-1, rows.shape[-1]), _unpacked(weight).t(), bias)


def _unpacked(weight: Any) -> Any:
    return weight.to_dense() if weight.is_mkldnn else weight


def _linear_pointwise(rows: Any, *args: Any) -> Expected:
    """``_linear`` with a function of the output, or with an addend in front of the weights, in compiled code."""
    added, (weight, bias, *fused) = (args[:1], args[1:]) if isinstance(args[3], str) else ((), args)
    return _fused(_linear(rows, weight, bias), added, fused)


def _fused(product: Expected, added: Sequence[Any], fused: Sequence[Any]) -> Expected:
    """What compiled code computes in the kernel of a product: how something is added, and a function of the sum."""
    from torch.nn import functional

    exact = product.exact
    if added:
        how, *fused = fused
        if how not in ("add", "sum"):
            raise NotImplementedError(f"a product with {how} behind it")
        exact, fused = exact + product.sample(added[0]).double(), fused[1:]
    name, _, algorithm = fused or ("none", (), "")
    if name in _FUNCTIONS:
        options = {"approximate": algorithm} if name == "gelu" else {}
        exact = getattr(functional, _FUNCTIONS[name])(exact, **options)
    elif name not in ("none", "", None):
        raise NotImplementedError(f"a product with {name} behind it")
    return product._replace(exact=exact)


_FUNCTIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "hardswish": "hardswish"}
"""By compiled code's names, as torch calls them. None of them makes an error more than 1.13 times as large, and all
leave a large number as it is: an error is bounded by that of the absolute values behind the function, too."""


def weight_place(args: Sequence[Any]) -> int:
    """The position of a convolution's weights: a bias and a list follow them, whatever stands in front."""
    return next(place for place, each in enumerate(args) if isinstance(each, (list, tuple))) - 2


def _convolution_pointwise(*args: Any) -> Expected:
    """A convolution with a function of the output, or with an addend behind the images, in compiled code."""
    place = weight_place(args)
    weight, bias, padding, stride, dilation, groups, *fused = args[place:]
    found = _convolution(args[0], _unpacked(weight), bias, stride, padding, dilation, False, [0], groups)
    return _fused(found, args[1:place], fused)


def _convolution(
    images: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *rest: Any,
) -> Expected:
    """Each output is the sum over channels of a group and positions of the kernel.

    An output at o meets the input at i through position k of the kernel where i = o·stride - padding + k·dilation; in a
    transposed convolution, where o = i·stride - padding + k·dilation.
    """
    import torch

    kernel, inputs = weight.shape[2:], images.shape[2:]
    axes = range(len(kernel))
    stride, padding, dilation, output_padding = (
        tuple(each) * (1 if len(each) == len(kernel) else len(kernel))
        for each in (stride, padding, dilation, output_padding)
    )
    reach = [dilation[a] * (kernel[a] - 1) for a in axes]
    if transposed:
        size = [(inputs[a] - 1) * stride[a] - 2 * padding[a] + reach[a] + output_padding[a] + 1 for a in axes]
    else:
        size = [(inputs[a] + 2 * padding[a] - reach[a] - 1) // stride[a] + 1 for a in axes]
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    places = _places(images.shape[0], size)
    taps = torch.tensor(list(combinations(*map(range, kernel))))  # (kernel positions, axes)
    where, inside = [], torch.ones(len(places), len(taps), dtype=torch.bool)
    for a in axes:
        output, tap = torch.tensor([place[1 + a] for place in places])[:, None], taps[:, a] * dilation[a]
        if transposed:
            index = output + padding[a] - tap
            inside &= index % stride[a] == 0
            index = index // stride[a]
        else:
            index = output * stride[a] - padding[a] + tap
        inside &= (index >= 0) & (index < inputs[a])
        where.append(index.clamp(0, inputs[a] - 1)[:, None, :])
    item = torch.tensor([place[0] for place in places])[:, None, None]
    read = (item, torch.arange(images.shape[1])[None, :, None], *where)
    patches = images[read].double() * inside[:, None, :]  # (places, channels, kernel positions)
    patches = patches.reshape(len(places), groups, -1).transpose(0, 1)
    filters = weight.double().reshape(groups, -1, *weight.shape[1:2], len(taps))
    filters = filters.transpose(1, 2) if transposed else filters
    exact = patches @ filters.flatten(2).transpose(1, 2)  # (groups, places, channels of a group)
    exact = exact.transpose(0, 1).reshape(len(places), outputs)
    if bias is not None:
        exact = exact + bias.double()

    sampled = [(place[0], slice(None), *place[1:]) for place in places]

    def sample(output: Any) -> Any:
        return torch.stack([output[each] for each in sampled])

    return Expected(exact, sample)


def _places(items: int, size: Sequence[int]) -> list[tuple[int, ...]]:
    """Some outputs, by item and position, all corners among them."""
    import numpy as np

    whole = (items, *size)
    found = set(combinations(*({0, length - 1} for length in whole))) if math.prod(whole) else set()
    found.update(tuple(map(int, np.unravel_index(flat, whole))) for flat in _spread(math.prod(whole), _ROWS))
    return sorted(found)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *rest: Any,
    attn_mask: Any = None,
    scale: float | None = None,
) -> Expected:
    """Of (batch, heads, length, size): softmax(q·kᵀ·scale + mask)·v. Of CUDA devices, return_debug_mask follows."""
    import torch

    batch, heads, length, size = query.shape
    keys, scale = key.shape[2], 1 / math.sqrt(size) if scale is None else scale
    # Every head has channels of its own.
    pairs = sorted(
        {(head * (batch - 1) // max(heads - 1, 1), head) for head in range(heads)}.union(
            divmod(each, heads) for each in _spread(batch * heads, _BATCHES)
        )
    )
    rows = _spread(length, _ROWS)
    exact = []
    for item, head in pairs:
        of_keys = head * key.shape[1] // heads  # several heads may share keys
        logits = query[item, head][rows].double() @ key[item, of_keys].double().t() * scale
        if is_causal:
            logits = logits.masked_fill(torch.arange(keys) > torch.tensor(rows)[:, None], -math.inf)
        if attn_mask is not None:
            mask = torch.broadcast_to(attn_mask, (batch, heads, length, keys))[item, head][rows]
            logits = logits.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else logits + mask.double()
        exact.append(logits.softmax(-1) @ value[item, of_keys].double())

    def sample(output: Any) -> Any:
        return torch.stack([output[item, head][rows] for item, head in pairs])

    return Expected(torch.stack(exact), sample)


def _biased_attention(query: Any, key: Any, value: Any, bias: Any, *rest: Any, scale: float | None = None) -> Expected:
    """Of CUDA devices; ``rest`` are compute_log_sumexp, dropout_p, is_causal …."""
    return _attention(query, key, value, is_causal=len(rest) > 2 and rest[2], attn_mask=bias, scale=scale)


def _attention_scales(query: Operand, *rest: Any, scale: float | None = None, **named: Any) -> Mapping[int, float]:
    """Logits of a standard deviation of 1."""
    size = query.shape[-1]
    return {0: 1 / (math.sqrt(size) * scale)} if scale else {}


_LSTM = 2
_MOST_STEPS = 64


def _rnn(
    inputs: Any,
    weight: Any,
    recurrent: Any,
    bias: Any,
    recurrent_bias: Any,
    hidden: Any,
    cell: Any,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    *rest: Any,
) -> Expected:
    """An LSTM over (steps, items, size): of one item, the steps that come first."""
    import torch

    if mode != _LSTM or len(batch_sizes):
        raise NotImplementedError("of recurrent layers, only the LSTM over sequences of one length is known")
    steps = list(range(inputs.shape[0]))[:: -1 if reverse else 1][:_MOST_STEPS]
    state = tuple(each.double().reshape(1, -1, each.shape[-1])[:, :1] for each in (hidden, cell))
    weights = [each.double() for each in (weight, recurrent, bias, recurrent_bias)]
    exact = torch.lstm(inputs[steps, :1].double(), state, weights, True, 1, 0.0, False, False, False)[0]
    return Expected(exact[:, 0], lambda output: output[steps, 0])


_CONVOLUTION = Rule(_convolution, (0, 1))
_FLASH = Rule(_attention, kept=("attn_mask",), scales=_attention_scales, rows=0, is_linear=False)
_BIASED = Rule(_biased_attention, kept=(3,), scales=_attention_scales, rows=0, is_linear=False)
RULES = {
    "mm": Rule(_product, (0, 1), rows=0),
    "addmm": Rule(_added, (1, 2), rows=1),
    "_addmm_activation": Rule(_addmm_activation, (1, 2), is_linear=False),
    "bmm": Rule(_product, (0, 1), rows=0),
    "baddbmm": Rule(_added, (1, 2), rows=1),
    "mv": Rule(_product, (0, 1)),
    "addmv": Rule(_added, (1, 2)),
    "dot": Rule(_product, (0, 1)),
    "linear": Rule(_linear, (0, 1), rows=0),
    "onednn_linear": Rule(_linear, rows=0),
    "_mkl_linear": Rule(lambda rows, packed, *rest: _linear(rows, *rest), kept=(2,), rows=0),
    "_linear_pointwise": Rule(_linear_pointwise),
    "_convolution_pointwise": Rule(_convolution_pointwise),
    "_convolution_pointwise_": Rule(lambda added, images, *rest: _convolution_pointwise(images, added, *rest)),
    "convolution": _CONVOLUTION,
    "_convolution": _CONVOLUTION,
    "_scaled_dot_product_flash_attention_for_cpu": _FLASH,
    "_scaled_dot_product_flash_attention": _FLASH,
    "_scaled_dot_product_efficient_attention": _BIASED,
    "_scaled_dot_product_cudnn_attention": _BIASED,
    "mkldnn_rnn_layer": Rule(
        _rnn,
        scales=lambda inputs, *weights: {n + 1: 1 / math.sqrt(each.shape[-1]) for n, each in enumerate(weights[:2])},
        is_linear=False,
    ),
}
