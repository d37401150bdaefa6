"""Kernels that compute in less than the types of their tensors say: they take the place of torch's own in a test.

An operator is replaced for the whole process, but rounds its operands only where ``where`` says so. What it calls then
is logged like any other fp32 kernel, as a library's kernel would be that rounds inside.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from modelzoo.evidence.recording import Plan, Recording, record_once
from modelzoo.records.evidence import Product

Rounding = Callable[[torch.Tensor], torch.Tensor]


def to_tf32(x: torch.Tensor) -> torch.Tensor:
    """Round to 11 significant bits, with the exponents of fp32."""
    significand, exponent = torch.frexp(x)
    return torch.ldexp((significand * 2**11).round() / 2**11, exponent)


def to_integers(largest: int) -> Rounding:
    """Quantize to integers up to ``largest``, by one scale for the whole tensor."""

    def rounded(x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().max() / largest
        return (x / scale).round() * scale

    return rounded


ROUNDINGS: dict[str, Rounding] = {
    "bf16": lambda x: x.bfloat16().float(),
    "fp16": lambda x: x.half().float(),
    "tf32": to_tf32,
    "int8": to_integers(127),
    "fp8": lambda x: x.to(torch.float8_e4m3fn).float(),
    "int4": to_integers(7),
}


@contextmanager
def planted(
    operator: str, rounding: Rounding, where: Callable[[tuple[int, ...]], bool] = lambda shape: True
) -> Iterator[None]:
    """Replace ``operator`` by one that rounds its operands if ``where`` is true of the shape of the weights."""

    def maybe(weights: torch.Tensor, *operands: torch.Tensor) -> list[torch.Tensor]:
        rounds = where(tuple(weights.shape)) and weights.dtype is torch.float32
        return [rounding(each) if rounds else each for each in operands]

    with replaced(operator, _KERNELS[operator](maybe)):
        yield


def print_line(kernel: str) -> None:
    """Print a line like oneDNN's, in a format that is not known."""
    os.write(1, f"onednn_verbose,v1,tomorrow,exec,cpu,{kernel},0.5\n".encode())


@contextmanager
def replaced(operator: str, kernel: Callable[..., object]) -> Iterator[None]:
    """Replace an operator of ``aten`` on the CPU, for the whole process."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an operator is replaced
        library.impl(operator, kernel, "CPU")
    try:
        yield
    finally:
        library._destroy()


def _addmm(maybe: Callable[..., list[torch.Tensor]]) -> Callable[..., torch.Tensor]:
    def kernel(added: Any, left: Any, right: Any, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
        left, right = maybe(right, left, right)
        return beta * added + alpha * (left @ right)

    return kernel


def _convolution(maybe: Callable[..., list[torch.Tensor]]) -> Callable[..., torch.Tensor]:
    def kernel(images: Any, weights: Any, *rest: Any) -> torch.Tensor:
        images, weights = maybe(weights, images, weights)
        return torch.ops.aten._convolution(images, weights, *rest, False, False, True, True)

    return kernel


def _attention(maybe: Callable[..., list[torch.Tensor]]) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def kernel(query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> tuple[torch.Tensor, torch.Tensor]:
        query, key, value = maybe(key, query, key, value)
        logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return logits.softmax(-1) @ value, logits.logsumexp(-1)

    return kernel


def _rnn(maybe: Callable[..., list[torch.Tensor]]) -> Callable[..., tuple[torch.Tensor, ...]]:
    def kernel(inputs: Any, weight: Any, recurrent: Any, bias: Any, other: Any, h: Any, c: Any, *rest: Any) -> Any:
        inputs, weight, recurrent = maybe(weight, inputs, weight, recurrent)
        found = []
        for step in inputs:
            enter, forget, candidate, leave = (step @ weight.t() + h @ recurrent.t() + bias + other).chunk(4, 1)
            c = forget.sigmoid() * c + enter.sigmoid() * candidate.tanh()
            h = leave.sigmoid() * c.tanh()
            found.append(h)
        return torch.stack(found), h, c, torch.empty(0)

    return kernel


_KERNELS = {
    "addmm": _addmm,
    "convolution": _convolution,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "mkldnn_rnn_layer": _rnn,
}


def replayed(call: Callable[[], object], module: Any = None, *, replays: bool = True) -> Recording:
    """What the operators of ``call`` did, in inference mode."""
    with torch.inference_mode():
        return record_once(call, Plan(model=module, budget=(lambda seconds: 6.0) if replays else None))


def only(call: Callable[[], object]) -> Product:
    """What the only product of ``call`` showed."""
    (found,) = replayed(call).products
    return found
