"""Calls of operators, what they must compute in fp64, and how far rounding explains that they do not.

The bound. Operands are rounded to the precision first, so the exact result is that of the rounded ones. A sum of n
products in arithmetic with unit roundoff v is off by at most g(n)·(|A|·|B|), with g(n) = n·v / (1 - n·v), in whatever
order it is added (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, sections 3.1 and 3.5). Kernels
for bf16 and fp16 add in fp32, so v = 2**-24. The product, what is added to it, and the sum of both may each be rounded
to the precision, whose unit roundoff is u. Hence |found - exact| <= c·u·(|A|·|B|) with c = 3 + g(n + 2) / u; the two
further terms are what is added, and alpha and beta. fp32 has 100 in place of 3, because Winograd's algorithm loses up
to two digits (Lavin and Gray 2016). Results below the smallest normal number may become 0. A kernel that adds in bf16
or fp16 exceeds the bound if the sum is long.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

NOISE, ONES, NAN_ADDED = "noise", "ones", "NaN added"
NAN_ROW, INFINITE_ROW = "NaN in one row", "inf and -inf in one row"
CONTIGUOUS, CHANNELS_LAST, PERMUTED, SLICED = "contiguous", "channels last", "permuted", "sliced"


class Call(msgspec.Struct, frozen=True):
    """A call of an operator with operands that follow from it.

    Attributes:
        operator: a name in ``OPERATORS``.
        shapes: of the operands, in their order; ``None`` if one is left out.
        precision: torch's name of their data type, or ``int8``.
        arguments: further ones, by name.
        layout: PERMUTED has the memory of a tensor with the axes reversed, SLICED begins at an odd address.
        fill: with what the operands are filled; a row is one of the left operand.
        seed: of the noise.
    """

    operator: str
    shapes: tuple[tuple[int, ...] | None, ...]
    precision: str
    arguments: dict[str, Any] = {}
    layout: str = CONTIGUOUS
    fill: str = NOISE
    seed: int = 0

    def __str__(self) -> str:
        shapes = ["×".join(map(str, shape)) for shape in self.shapes if shape is not None]
        named = [f"{name}={value}" for name, value in self.arguments.items()]
        extra = [each for each in (self.layout, self.fill) if each not in (CONTIGUOUS, NOISE)]
        return f"{self.operator} in {self.precision}, {', '.join([*shapes, *named, *extra])}"


def bound(magnitude: Any, terms: int, dtype: Any, roundings: float = 3) -> Any:
    """Return the largest error that rounding explains.

    Args:
        magnitude: |A|·|B| of each output, in fp64.
        terms: how many products an output is the sum of.
        dtype: of operands and output.
        roundings: to that type, of intermediate results and of the output.
    """
    import torch

    u, sums = torch.finfo(dtype).eps / 2, (terms + 2) * 2.0**-24
    c = (100 if dtype is torch.float32 else roundings) + sums / (1 - sums) / u
    return c * u * magnitude + torch.finfo(dtype).tiny


def wrong(found: Any, exact: Any, allowed: Any) -> str:
    """Say what is wrong with outputs; nothing if rounding explains it, or the same ones are NaN or infinite."""
    found, finite = found.double(), exact.isfinite()
    ratio = ((found - exact).abs() / allowed).masked_fill(~finite, 0)
    other = ~finite & (found != exact) & ~(found.isnan() & exact.isnan())
    bad = ~(ratio <= 1) | other
    if not bad.any():
        return ""
    where = tuple(bad.nonzero()[0].tolist())
    first = f"{int(bad.sum())} of {bad.numel()} outputs; at {list(where)} {found[where]:.4g}, not {exact[where]:.4g}"
    if (found.isfinite() != finite).any() or other.any():
        return f"not finite where fp64 is, or the reverse: {first}"
    error = (found - exact)[finite].norm() / exact[finite].norm()
    return f"relative error {error:.1e}, at most {ratio.max():.1e} times its bound: {first}"


Judged = tuple[Any, Any, Any]
"""What an operator returned, what is exact, and by how much they may differ."""


def _doubles(operands: Iterable[Any]) -> list[Any]:
    return [None if each is None else each.double().contiguous() for each in operands]


def product(call: Call, operands: list[Any]) -> Judged:
    """A sum of products, compared with the same operator in fp64, which neither oneDNN nor NNPACK computes."""
    import torch

    name = call.operator
    run: Callable[..., Any] = getattr(torch.nn.functional if hasattr(torch.nn.functional, name) else torch, name)
    doubles, named = _doubles(operands), dict(call.arguments)
    if named.get("beta") == 0:
        doubles[0] = torch.zeros_like(doubles[0])  # whatever is there must be left out
    exact = run(*doubles, **named)
    found = run(*operands, **named)
    named.update({each: abs(named[each]) for each in ("alpha", "beta") if each in named})
    magnitude = run(*(each if each is None else each.abs() for each in doubles), **named)
    return found, exact, bound(magnitude, terms(call), operands[0].dtype, 3 + additions(call))


def additions(call: Call) -> int:
    """How many of its additions may be made in the precision itself.

    A transposed convolution may add the positions of the kernel that meet in an output to that output (ATen's
    ``col2im``, which is what runs where oneDNN has no kernel for bf16 or fp16).
    """
    if "transpose" not in call.operator:
        return 0
    return math.prod(-(-each // int(call.arguments.get("stride", 1))) for each in (call.shapes[1] or ())[2:])


def terms(call: Call) -> int:
    """How many products an output of a convolution or a matrix product is the sum of."""
    right = call.shapes[1] if "conv" in call.operator or "linear" in call.operator else call.shapes[-1]
    assert right is not None
    if "transpose" in call.operator:
        return math.prod(right[2:]) * right[0] // int(call.arguments.get("groups", 1))
    if "conv" in call.operator:
        return math.prod(right[1:])
    return right[-1] if "linear" in call.operator else right[max(len(right) - 2, 0)]


def elementwise(call: Call, operands: list[Any]) -> Judged:
    """MKL's and SLEEF's functions are off by less than 4 units, their outputs by one rounding."""
    import torch

    run = getattr(torch, call.operator)
    exact = run(operands[0].double())
    return run(operands[0]), exact, bound(exact.abs(), 1, operands[0].dtype)


def attention(call: Call, operands: list[Any]) -> Judged:
    """softmax(q·kᵀ / √size + mask)·v; where all is masked, torch says 0.

    Logits that are off by d change weights by a factor of up to exp(2·d). They are off by the bound of their product,
    with two roundings more for the scale, and by what a fast exp is off by: 32 units in fp32.
    """
    import torch

    query, key, value = operands[0] / 4, *operands[1:]  # large logits would make the bound wide
    length, keys, kind = query.shape[-2], key.shape[-2], call.arguments["mask"]
    mask = torch.zeros(length, keys, dtype=query.dtype)
    if kind == "causal":
        mask = mask.masked_fill(~torch.ones(length, keys, dtype=torch.bool).tril(), -math.inf)
    if kind == "keys and one row":
        mask[:, : keys // 3] = mask[length // 2] = -math.inf
    given: dict[str, Any] = {"is_causal": True} if kind == "causal" else {"attn_mask": None if kind == "none" else mask}
    found = torch.nn.functional.scaled_dot_product_attention(query, key, value, **given)
    q, k, v = _doubles([query, key, value])
    scale = 1 / math.sqrt(q.shape[-1])
    off = bound(q.abs() @ k.abs().mT * scale, q.shape[-1], query.dtype, roundings=5).amax(-1, True) + 2.0**-19
    weights = (q @ k.mT * scale + mask).softmax(-1).nan_to_num(0)
    magnitude = weights @ v.abs()
    return found, weights @ v, torch.expm1(2 * off) * magnitude + bound(magnitude, keys, query.dtype)


def lstm(call: Call, operands: list[Any]) -> Judged:
    """Of one layer, with a running error analysis (Higham, section 3.3): slopes are at most 1, the logistic's 1/4."""
    import torch

    inputs, weight, recurrent, bias = operands
    size = recurrent.shape[1]
    layer = torch.nn.LSTM(inputs.shape[-1], size).to(inputs.dtype)
    values = [weight / math.sqrt(weight.shape[1]), recurrent / math.sqrt(size), bias, torch.zeros_like(bias)]
    for parameter, each in zip(layer.parameters(), values):
        parameter.copy_(each)
    found = layer(inputs)[0]
    w, r, b = _doubles(values[:3])
    h = c = off_h = off_c = torch.zeros(inputs.shape[1], size, dtype=torch.float64)
    exact, off = [], []
    for x in inputs.double():
        magnitude = x.abs() @ w.abs().t() + h.abs() @ r.abs().t() + b.abs()
        off_z = bound(magnitude, inputs.shape[-1] + size, inputs.dtype) + off_h @ r.abs().t()
        u = bound(1, 1, inputs.dtype)  # of results of functions, which are at most 1
        off_i, off_f, off_g, off_o = (z * slope + u for z, slope in zip(off_z.chunk(4, -1), (0.25, 0.25, 1, 0.25)))
        i, f, g, o = (x @ w.t() + h @ r.t() + b).chunk(4, -1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        off_c = (f + off_f) * off_c + c.abs() * off_f + (i + off_i) * off_g + g.abs() * off_i
        c = f * c + i * g
        off_c, h = off_c + u * (c.abs() + 1), o * c.tanh()
        off_h = (o + off_o) * off_c + c.tanh().abs() * off_o + u
        exact.append(h)
        off.append(off_h)
    return found, torch.stack(exact), torch.stack(off)


def quantized(call: Call, operands: list[Any]) -> Judged:
    """Exact in integers; the output is off by half a step, and by the bias's rounding to the product of the scales.

    Inputs have 7 bits, as torch's engines require where a CPU has no 8-bit dot products (``reduce_range``).
    """
    import torch

    named, name = dict(call.arguments), call.operator.removeprefix("quantized ")
    torch.backends.quantized.engine = named.pop("engine")
    inputs, weight, bias = (*operands, None)[:3]
    zero, scale, weight_scale, middle = 50, 0.05, 0.01, 128
    x, w = (inputs * 30 + zero).round().clamp(0, 127), (weight * 50).round().clamp(-127, 127)
    exact = getattr(torch.nn.functional, name)((x - zero).double(), w.double(), **named) * (scale * weight_scale)
    exact += 0 if bias is None else bias.double().reshape(-1, *[1] * (exact.dim() - 2))
    step = max(float(exact.abs().max()), scale) / 120
    packed = torch._make_per_tensor_quantized_tensor
    arguments = packed(x.to(torch.uint8), scale, zero), packed(w.to(torch.int8), weight_scale, 0), bias
    run = getattr(torch.ao.nn.quantized.functional, name)
    found = run(*arguments, **named, scale=step, zero_point=middle).int_repr()
    allowed = torch.full_like(exact, 0.5 + scale * weight_scale / step + 1e-3)  # 1e-3: the scale in fp32
    return found, (exact / step + middle).clamp(0, 255), allowed


CONVOLUTIONS = [f"conv{transpose}{axes}d" for transpose in ("", "_transpose") for axes in (1, 2, 3)]
PRODUCTS = [*CONVOLUTIONS, "mm", "bmm", "addmm", "baddbmm", "linear", "mv"]
ELEMENTWISE = ("exp", "tanh")
QUANTIZED = [f"quantized {name}" for name in ("linear", "conv1d", "conv2d")]
OPERATORS: dict[str, Callable[[Call, list[Any]], Judged]] = {
    **dict.fromkeys(PRODUCTS, product),
    **dict.fromkeys(ELEMENTWISE, elementwise),
    "attention": attention,
    "lstm": lstm,
    **dict.fromkeys(QUANTIZED, quantized),
}


def operands_of(call: Call) -> list[Any]:
    """Its operands, rounded to its precision."""
    import torch

    generator = torch.Generator().manual_seed(call.seed)
    dtype = getattr(torch, call.precision) if call.precision != "int8" else torch.float32
    operands: list[Any] = []
    for shape in call.shapes:
        each = None if shape is None else torch.randn(shape, generator=generator).to(dtype)
        each = torch.ones_like(each) if call.fill == ONES else each
        if each is not None and call.layout == CHANNELS_LAST and each.dim() in (4, 5):
            each = each.contiguous(memory_format=(torch.channels_last, torch.channels_last_3d)[each.dim() - 4])
        elif each is not None and call.layout == PERMUTED:
            each = each.permute(*reversed(range(each.dim()))).contiguous().permute(*reversed(range(each.dim())))
        elif each is not None and call.layout == SLICED:
            each = torch.cat([each[..., :1], each], -1)[..., 1:]
        operands.append(each)
    left = operands[1 if call.operator in ("addmm", "baddbmm") else 0]
    if call.fill in (NAN_ROW, INFINITE_ROW):
        row = left[left.shape[0] // 2] if "conv" in call.operator else left[..., left.shape[-2] // 2, :]
        if call.fill == NAN_ROW:
            row.fill_(math.nan)
        else:
            row[..., 0], row[..., -1] = math.inf, -math.inf
    if call.fill == NAN_ADDED:
        operands[0].fill_(math.nan)
    return operands


# The calls of a search for wrong kernels: those of known faults, random ones, and grids around one fault

PRECISIONS = ("float32", "bfloat16", "float16")
Shapes = tuple[tuple[int, ...], ...]
SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 200, 256, 513)
KERNELS = {1: (1, 2, 3, 5, 8, 15, 16, 31, 32, 64, 128), 2: (1, 2, 3, 4, 5, 7, 8, 16), 3: (1, 2, 3, 5)}


def recorded(engines: Sequence[str]) -> Iterator[Call]:
    """Calls of faults that were reported publicly (docs/wrong_kernels.md), those of a process's first calls first."""
    for name in ELEMENTWISE:
        yield Call(name, ((1_000_000,),), "float32")
    for precision in PRECISIONS:
        yield Call("conv2d", ((1, 1, 8, 8), (1, 1, 2, 2)), precision, fill=ONES)
        yield Call("mm", ((8, 4096), (4096, 8)), precision)
        for seed, k in enumerate((32, 33, 48, 64, 100)):
            yield Call("mm", ((64, k), (k, 64)), precision, fill=NAN_ROW, seed=seed)
            yield Call("mm", ((64, k), (k, 64)), precision, fill=INFINITE_ROW, seed=seed)
            yield Call("bmm", ((4, 100, k), (4, k, 64)), precision, fill=NAN_ROW, seed=seed)
        for seed in range(20):
            yield Call(
                "baddbmm", ((4, 16, 64), (4, 16, 32), (4, 32, 64)), precision, {"beta": 0}, fill=NAN_ADDED, seed=seed
            )
        for each, k in ((each, k) for each in (4, 8, 48) for k in (3, 16, 33, 64, 128)):
            arguments, channels = {"padding": k // 2, "groups": 16}, 16 * each
            yield Call("conv1d", ((1, channels, 49), (channels, each, k), (channels,)), precision, arguments)
        for k in (8, 16, 31, 32, 64):
            yield Call("conv1d", ((1, 2, 200), (2, 1, k)), precision, {"groups": 2})
        yield Call("conv2d", ((1, 1, 32, 32), (16, 1, 3, 3)), precision, {"padding": 1}, layout=CHANNELS_LAST)
        for batch in (1, 16):
            yield Call("conv2d", ((batch, 16, 20, 20), (32, 16, 3, 3)), precision, {"padding": 1}, layout=PERMUTED)
        yield Call("attention", ((2, 4, 100, 64),) * 3, precision, {"mask": "keys and one row"})
    for engine in engines:
        yield Call(QUANTIZED[0], ((5, 64), (10, 64), (10,)), "int8", {"engine": engine})
        yield Call(QUANTIZED[2], ((2, 3, 32, 32), (24, 3, 3, 3), (24,)), "int8", {"engine": engine})


def drawn(operator: str, dice: random.Random, engines: Sequence[str]) -> Call:
    """A call with a random shape, layout and fill."""
    name = operator.removeprefix("quantized ")
    shapes, arguments = _convolution(name, dice) if "conv" in name else _matrices(name, dice)
    layout = dice.choice((CONTIGUOUS, CONTIGUOUS, CHANNELS_LAST, PERMUTED, SLICED))
    fill = NAN_ROW if name not in ("attention", "lstm", "mv") and dice.random() < 0.15 else NOISE
    call = Call(operator, shapes, PRECISIONS[0], arguments, layout, fill, dice.randrange(2**31))
    if operator not in QUANTIZED:
        return call
    return replace(
        call, precision="int8", arguments={**arguments, "engine": dice.choice(engines)}, layout=CONTIGUOUS, fill=NOISE
    )


def _matrices(name: str, dice: random.Random) -> tuple[Shapes, dict[str, Any]]:
    m, k, n, batch = dice.choice(SIZES), dice.choice(SIZES), dice.choice(SIZES), dice.choice((1, 2, 3, 12))
    if name == "attention":
        mask, size = dice.choice(("none", "causal", "keys and one row")), dice.choice((16, 20, 64, 80))
        keys = (2, 3, m if mask == "causal" else n, size)
        return ((2, 3, m, size), keys, keys), {"mask": mask}
    if name == "lstm":
        size, inputs = dice.choice((8, 17, 32, 64)), dice.choice((8, 17, 32, 64))
        return ((3, batch, inputs), (4 * size, inputs), (4 * size, size), (4 * size,)), {}
    shapes: dict[str, Shapes] = {
        "mm": ((m, k), (k, n)),
        "mv": ((m, k), (k,)),
        "bmm": ((batch, m, k), (batch, k, n)),
        "linear": ((m, k), (n, k), (n,))[: dice.choice((2, 3))],
        "addmm": (dice.choice(((n,), (m, n))), (m, k), (k, n)),
        "baddbmm": ((batch, m, n), (batch, m, k), (batch, k, n)),
    }
    scales = {"alpha": dice.choice((1.0, 0.5, -2.0)), "beta": dice.choice((1.0, 0.0, 0.5))}
    return shapes[name], scales if "add" in name else {}


def _convolution(name: str, dice: random.Random) -> tuple[Shapes, dict[str, Any]]:
    """A plain, grouped or depthwise one, a third of each, of at most four million products."""
    axes, small = int(name[-2]), (1, 2, 3, 4, 8, 16, 17, 32, 48)
    while True:
        kind = dice.choice(("plain", "grouped", "depthwise"))
        inputs, outputs = dice.choice(small), dice.choice(small)
        groups = dice.choice((2, 3, 4, 16)) if kind == "grouped" else 1
        if kind == "depthwise":
            inputs, outputs, groups = 1, dice.choice((1, 1, 2)), dice.choice((2, 3, 8, 16, 33, 64))
        kernel = tuple(dice.choice(KERNELS[axes]) for _ in range(axes))
        dilation = dice.choice((1, 1, 1, 2, 3))
        size = [dilation * (each - 1) + dice.choice((1, 2, 5, 9, 16, 30)[: 8 - 2 * axes]) for each in kernel]
        channels = (inputs * groups, outputs) if "transpose" in name else (outputs * groups, inputs)
        images, weight = (dice.choice((1, 1, 2, 3, 17)), inputs * groups, *size), (*channels, *kernel)
        if math.prod(weight) * images[0] * math.prod(size) <= 4_000_000:
            break
    # A transposed convolution that is padded may have no output.
    padding = 0 if "transpose" in name else dice.choice((0, 1, min(kernel) // 2))
    arguments = {"stride": dice.choice((1, 1, 2, 3)), "padding": padding, "dilation": dilation, "groups": groups}
    return (images, weight, (outputs * groups,))[: dice.choice((2, 3, 3))], arguments


def chosen(operators: Sequence[str], shapes: int, seed: int, engines: Sequence[str]) -> Iterator[Call]:
    """The recorded calls of operators, and so many random shapes of each."""
    yield from (call for call in recorded(engines) if call.operator in operators)
    dice = random.Random(seed)
    for operator in operators:
        for call in (drawn(operator, dice, engines) for _ in range(0 if operator in ELEMENTWISE else shapes)):
            precisions = PRECISIONS if operator not in QUANTIZED else (call.precision,)
            yield from (replace(call, precision=precision) for precision in precisions)


def mapped() -> Iterator[Call]:
    """The grids of ``--map``."""
    for precision in PRECISIONS[1:]:
        for stride in (1, 2):
            for each in (1, 2, 4, 8, 16, 32, 64, 128):
                arguments = {"stride": stride, "groups": 128 // each}
                for k in (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 64, 96, 127, 128, 129):
                    yield Call("conv1d", ((1, 128, 49), (128, each, k)), precision, {**arguments, "padding": k // 2})
                for k in (1, 2, 3, 4, 5, 7, 8, 11, 16):
                    yield Call(
                        "conv2d", ((1, 128, 9, 9), (128, each, k, k)), precision, {**arguments, "padding": k // 2}
                    )
