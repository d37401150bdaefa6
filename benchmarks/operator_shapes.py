"""The calls of a search for wrong kernels: those of known faults, random ones, and grids around one fault."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace
from operator_calls import (
    CHANNELS_LAST,
    CONTIGUOUS,
    ELEMENTWISE,
    INFINITE_ROW,
    NAN_ADDED,
    NAN_ROW,
    NOISE,
    ONES,
    PERMUTED,
    QUANTIZED,
    SLICED,
    Call,
)

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
