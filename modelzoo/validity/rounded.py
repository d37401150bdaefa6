"""Compute a model in fp32 with its numbers rounded to a narrower precision, as correct kernels would round them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

OPERANDS_ONLY = ("tf32",)
"""Precisions in which kernels round the operands of products and nothing else: tensors stay fp32."""
PRODUCTS = {
    "addmm": (1, 2),
    "addmv": (1, 2),
    "baddbmm": (1, 2),
    "bmm": (0, 1),
    "convolution": (0, 1),
    "dot": (0, 1),
    "mm": (0, 1),
    "mv": (0, 1),
    "_addmm_activation": (1, 2),
}
"""Which arguments of ATen's products are multiplied. Others, such as ``linear`` and ``einsum``, consist of these."""


@contextlib.contextmanager
def rounded_to(precision: str, model: Any) -> Iterator[None]:
    """Round the operands and results of products, and the inputs and outputs of every leaf layer of ``model``.

    Products are also found outside of layers: attention has two, and the softmax between them magnifies the rounding
    error. ``scaled_dot_product_attention`` and ``MultiheadAttention`` are computed product by product. In TF32 only the
    operands of products are rounded.

    Args:
        precision: ``bf16``, ``fp16`` or ``tf32``.
    """
    import torch

    with contextlib.ExitStack() as stack:
        if precision not in OPERANDS_ONLY:
            for module in model.modules():
                if list(module.children()):
                    continue
                before = module.register_forward_pre_hook(
                    lambda _, inputs: tuple(rounded(each, precision) for each in inputs)
                )
                after = module.register_forward_hook(lambda _, __, output: rounded(output, precision))
                stack.callback(before.remove)
                stack.callback(after.remove)
        stack.enter_context(_without_fused_attention())
        if any(isinstance(module, torch.nn.RNNBase) for module in model.modules()):
            # oneDNN's are fused. ``mkldnn.flags`` would set the precision switches as well.
            stack.callback(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
            torch._C._set_mkldnn_enabled(False)
        stack.enter_context(_rounded_products(precision))
        yield


def rounded(value: Any, precision: str) -> Any:
    """Round an fp32 tensor to ``precision``; anything else is returned unchanged."""
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return value
    if precision == "tf32":  # 13 bits fewer than fp32; ties away from 0, as cvt.rna.tf32.f32 rounds
        return ((value.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
    return value.to({"bf16": torch.bfloat16, "fp16": torch.float16}[precision]).to(torch.float32)


@contextlib.contextmanager
def _without_fused_attention() -> Iterator[None]:
    """Compute attention by its products, not by one fused operator; releases of torch differ in which they have."""
    import torch

    owner = torch.backends.cuda
    switches = [(owner, f"{name}_sdp_enabled", f"enable_{name}_sdp") for name in ("flash", "mem_efficient", "cudnn")]
    switches.append((getattr(torch.backends, "mha", None), "get_fastpath_enabled", "set_fastpath_enabled"))
    with contextlib.ExitStack() as stack:
        for where, getter, setter in switches:
            if hasattr(where, getter):
                change = getattr(where, setter)
                stack.callback(change, getattr(where, getter)())
                change(False)
        yield


def _rounded_products(precision: str) -> contextlib.AbstractContextManager[Any]:
    """A context in which products round their operands and, unless only those are rounded, their results."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class RoundedProducts(TorchDispatchMode):  # type: ignore[misc]  # torch has no types here
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = kwargs or {}
            operands = PRODUCTS.get(func.overloadpacket.__name__)
            if operands is None:
                with self:  # in inference mode, operators arrive before they are taken apart
                    found = func.decompose(*args, **named)
                return func(*args, **named) if found is NotImplemented else found
            inputs = [rounded(each, precision) if place in operands else each for place, each in enumerate(args)]
            found = func(*inputs, **named)
            return found if precision in OPERANDS_ONLY else rounded(found, precision)

    mode: contextlib.AbstractContextManager[Any] = RoundedProducts()
    return mode
