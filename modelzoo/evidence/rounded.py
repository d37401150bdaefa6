"""Compute a model in fp32 with its numbers rounded to a narrower precision, as correct kernels would round them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from modelzoo.evidence.references import RULES

OPERANDS_ONLY = ("tf32", "int8")
"""Precisions in which kernels round the operands of products and nothing else: tensors stay fp32."""
WITH_WEIGHTS = ("addmm", "mm")
"""The products of Linear layers, which every recipe for int8 quantizes. The second factor is the weights."""
_CONSISTING = ("linear", "_convolution")
PRODUCTS = {name: rule.factors for name, rule in RULES.items() if rule.factors and name not in _CONSISTING}
"""Which arguments of ATen's products are multiplied. Others, such as ``linear`` and ``einsum``, consist of these."""


def _to_steps(value: Any, steps: int, *, is_symmetric: bool = True, keep: int | None = None) -> Any:
    """Round an fp32 tensor to the numbers that an operand in int8 can have: equidistant, in a range that follows from
    the operand itself.

    Args:
        value: the operand.
        steps: from the smallest to the largest number of the range.
        is_symmetric: whether 0 is in the middle of the range.
        keep: the dimension whose indices have ranges of their own; ``None``: the range is that of the whole tensor.
    """
    import torch

    others = [each for each in range(value.dim()) if keep is not None and each != keep % value.dim()]
    where = {"dim": others, "keepdim": True} if others else {}
    low, high = value.amin(**where).clamp(max=0), value.amax(**where).clamp(min=0)
    if is_symmetric:
        scale = (2 * torch.maximum(-low, high) / steps).clamp(min=_TINY)
        lowest, highest = -((steps + 1) // 2), steps // 2  # -128 and 127
        # Kernels multiply by the reciprocal, which decides about the largest number: it is at 127.5 steps.
        return (value * (1 / scale)).round().clamp(lowest, highest) * scale
    scale = ((high - low) / steps).clamp(min=_TINY)
    zero = (-low / scale).round()
    return ((value / scale).round() + zero).clamp(0, steps).sub(zero) * scale


_TINY = 1e-30
"""The step of a tensor of zeros."""
Rounding = Callable[[Any], Any]
_PER_LAYER, _PER_CHANNEL = partial(_to_steps, steps=255), partial(_to_steps, steps=255, keep=-1)
_8_BITS, _7_BITS = (partial(_to_steps, steps=steps, is_symmetric=False) for steps in (255, 127))
_RANGES: dict[str, tuple[Rounding | None, Rounding]] = {
    "weight-only": (None, _PER_CHANNEL),
    "weight-only-packed": (None, _PER_CHANNEL),
    "dynamic-per-tensor": (_8_BITS, partial(_to_steps, steps=254)),
    "dynamic-per-channel": (_8_BITS, partial(_to_steps, steps=254, keep=-1)),
    "torchao": (partial(_to_steps, steps=255, keep=0), _PER_CHANNEL),
    "dynamic-x86": (_7_BITS, _PER_LAYER),
    "dynamic-onednn": (_7_BITS, _PER_LAYER),
    "dynamic-qnnpack": (_8_BITS, _PER_LAYER),
}
"""The activations and the weights of each recipe. ``quantize_dynamic`` calls its kernels with ``reduce_range``: 7 bits
for activations, so that sums of two products fit into 16 bits; QNNPACK ignores it.

``static`` is missing: its ranges come from other inputs, and it also quantizes what lies between layers, so its
rounding error does not follow from the model and the inputs that are judged."""


def is_predictable(precision: str, recipe: str | None) -> bool:
    """Whether ``rounded_to`` rounds as correct kernels do."""
    return precision != "int8" or recipe in _RANGES


@contextlib.contextmanager
def rounded_to(precision: str, model: Any, recipe: str | None = None) -> Iterator[None]:
    """Round the operands and results of products, and the inputs and outputs of every leaf layer of ``model``.

    Products are also found outside of layers: attention has two, and the softmax between them magnifies the rounding
    error. ``scaled_dot_product_attention`` and ``MultiheadAttention`` are computed product by product. In TF32 only the
    operands of products are rounded, in int8 those of the quantized layers.

    Args:
        precision: ``bf16``, ``fp16``, ``tf32`` or ``int8``.
        recipe: by which a model in int8 is quantized; see ``is_predictable``.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    narrow: Rounding = partial(rounded, precision=precision)
    how = (narrow, narrow) if recipe is None else _RANGES[recipe]
    roundings = {  # which arguments of each product, and how
        name: [(place, each) for place, each in zip(PRODUCTS[name], how) if each is not None]
        for name in (PRODUCTS if recipe is None else WITH_WEIGHTS)
    }

    class RoundedProducts(TorchDispatchMode):  # type: ignore[misc]  # torch has no types here
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = kwargs or {}
            name = func.overloadpacket.__name__
            if name not in PRODUCTS:
                with self:  # in inference mode, operators arrive before they are taken apart
                    found = func.decompose(*args, **named)
                return func(*args, **named) if found is NotImplemented else found
            inputs = list(args)
            for place, narrowed in roundings.get(name, ()):
                inputs[place] = narrowed(args[place])
            found = func(*inputs, **named)
            return found if precision in OPERANDS_ONLY else rounded(found, precision)

    # Attention is computed by its products, not by one fused operator.
    cuda = torch.backends.cuda
    switches = [(cuda, f"{name}_sdp_enabled", f"enable_{name}_sdp") for name in ("flash", "mem_efficient", "cudnn")]
    switches.append((torch.backends.mha, "get_fastpath_enabled", "set_fastpath_enabled"))
    if any(isinstance(module, torch.nn.RNNBase) for module in model.modules()):
        # oneDNN's are fused. ``mkldnn.flags`` would set the precision switches as well.
        switches.append((torch._C, "_get_mkldnn_enabled", "_set_mkldnn_enabled"))
    with contextlib.ExitStack() as stack:
        for module in model.modules() if precision not in OPERANDS_ONLY else ():
            if list(module.children()):
                continue
            before = module.register_forward_pre_hook(
                lambda _, inputs: tuple(rounded(each, precision) for each in inputs)
            )
            after = module.register_forward_hook(lambda _, __, output: rounded(output, precision))
            stack.callback(before.remove)
            stack.callback(after.remove)
        for owner, getter, setter in switches:
            stack.callback(getattr(owner, setter), getattr(owner, getter)())
            getattr(owner, setter)(False)
        stack.enter_context(RoundedProducts())
        yield


def rounded(value: Any, precision: str) -> Any:
    """Round an fp32 tensor to ``precision``; anything else is returned unchanged."""
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return value
    if precision == "tf32":  # 13 bits fewer than fp32; ties away from 0, as cvt.rna.tf32.f32 rounds
        return ((value.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
    return value.to({"bf16": torch.bfloat16, "fp16": torch.float16}[precision]).to(torch.float32)
