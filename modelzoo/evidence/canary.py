"""Run three small operators and compare them with fp64: the error shows the precision they really computed in.

A library may report bf16 and compute in fp32, or the reverse; the error shows which. The shapes are large enough to
reach every backend's real kernels (oneDNN skips very small convolutions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck

if TYPE_CHECKING:
    from numpy.typing import NDArray


FP32_BELOW = 3e-5
"""Errors are root-mean-square, relative to the exact output. fp32 gives 1e-7 to 1e-6, with Winograd's algorithm too;
TF32 and fp16 (10 fraction bits) about 2e-4."""
BF16_FROM = 6e-4
BF16_BELOW = 4.5e-3
"""Errors from here on are not bf16's.

Rounding to nearest changes a number by at most the unit roundoff u (Higham, Accuracy and Stability of Numerical
Algorithms, section 2.2), 2**-8 with bf16's 8 significant bits, and normal numbers by 0.43 u root-mean-square (the mean
over their significands; a test draws them). One rounded operand gives 1.7e-3, two and a rounded output 0.43 u √3 =
2.9e-3; attention, which also rounds its weights, and a logit from two operands, 3.7e-3; an LSTM, whose functions make
errors smaller, 1.2e-3. Eight-bit integers, scaled to the largest of a row, give 4.5e-3 (rows of 16) and more.
"""
QUANTIZED_FROM = 4e-3
QUANTIZED_BELOW = 5e-2
"""Of quantized operators. Numbers in a range of r are rounded to steps of r/255, an error of r/255/√12 root-mean-square
(uniform over a step). r is 6 to 9 standard deviations of the normal numbers here: 0.7 to 1 % for one operand, 1.0 to
1.4 % for both, and 2.2 % if one of them has 7 bits, as with ``reduce_range``."""
Kernels = Callable[[], tuple[str, ...] | None]
"""Returns which kernels ran so far, as in ``OperatorCheck.kernels``."""
Watch = Callable[[], AbstractContextManager[Kernels]]
"""Returns the context in which an operator runs, if it is to be known which kernels ran."""


def level_of(error: float, *, is_quantized: bool = False) -> CanaryLevel:
    """Return the precision that a relative root-mean-square error shows, of an operator that may be quantized."""
    if is_quantized and error >= QUANTIZED_FROM:
        return CanaryLevel.INT8 if error < QUANTIZED_BELOW else CanaryLevel.BROKEN
    if error < FP32_BELOW:
        return CanaryLevel.FP32
    if error < BF16_FROM:
        return CanaryLevel.REDUCED
    return CanaryLevel.BF16 if error < BF16_BELOW else CanaryLevel.BROKEN


@dataclass(frozen=True)
class CanaryCase:
    """An operator with its operands in fp32.

    Attributes:
        operator: ``matmul``, ``linear``, ``conv`` (3×3, padded by 1) or ``pointwise`` (a 1×1 convolution).
        inputs: what the model is given: one matrix, picture batch …, or the two factors of ``matmul``.
        constants: what is a constant of the model: weight and bias, shaped as in torch. Empty for ``matmul``.
        exact: the output in fp64.
    """

    operator: str
    inputs: tuple[NDArray[Any], ...]
    constants: tuple[NDArray[Any], ...]
    exact: NDArray[Any]


@lru_cache(maxsize=1)
def canary_cases() -> tuple[CanaryCase, ...]:
    """Return the operators: a matrix product (256×256), a linear layer (128×256 to 128), and convolutions
    (4×32×56×56 to 64 channels). Their operands are always the same."""
    import numpy as np

    generator = np.random.default_rng(0)

    def array(*shape: int) -> NDArray[Any]:
        return generator.standard_normal(shape, dtype=np.float32)

    matmul = (array(256, 256), array(256, 256))
    rows, linear = array(128, 256), (array(128, 256), array(128))
    images, conv, pointwise = array(4, 32, 56, 56), (array(64, 32, 3, 3), array(64)), (array(64, 32, 1, 1), array(64))
    return (
        CanaryCase("matmul", matmul, (), matmul[0].astype(np.float64) @ matmul[1]),
        CanaryCase("linear", (rows,), linear, rows.astype(np.float64) @ linear[0].T + linear[1]),
        CanaryCase("conv", (images,), conv, _convolution(images, *conv)),
        CanaryCase("pointwise", (images,), pointwise, _convolution(images, *pointwise)),
    )


def canary_case(operator: str) -> CanaryCase:
    """Return one of ``canary_cases``."""
    return next(case for case in canary_cases() if case.operator == operator)


def _convolution(images: NDArray[Any], weight: NDArray[Any], bias: NDArray[Any]) -> NDArray[Any]:
    """The convolution in fp64, padded so that height and width stay the same."""
    import numpy as np

    height, width = weight.shape[2:]
    padding = ((0, 0), (0, 0), (height // 2, height // 2), (width // 2, width // 2))
    padded = np.pad(images.astype(np.float64), padding)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
    # (items, height, width, outputs): all that a window and a weight have in common is summed up.
    product = np.tensordot(windows, weight.astype(np.float64), axes=((1, 4, 5), (1, 2, 3)))
    return np.asarray(product.transpose(0, 3, 1, 2) + bias[:, None, None])


def check_output(
    case: CanaryCase, output: NDArray[Any], *, is_quantized: bool = False, kernels: tuple[str, ...] | None = None
) -> OperatorCheck:
    """Compare what an operator returned with the exact output: root-mean-square error, relative."""
    import numpy as np

    rms = math.sqrt(float(np.mean((output.astype(np.float64) - case.exact) ** 2)) / float(np.mean(case.exact**2)))
    if not math.isfinite(rms):
        return OperatorCheck(case.operator, None, CanaryLevel.BROKEN, "the output is not finite", kernels)
    return OperatorCheck(case.operator, rms, level_of(rms, is_quantized=is_quantized), kernels=kernels)


def compared(cases: Sequence[CanaryCase], outputs: Iterable[NDArray[Any]], *, is_quantized: bool = False) -> Canary:
    """Compare what an engine returned for each of ``cases`` with the exact outputs."""
    return Canary(tuple(check_output(case, output, is_quantized=is_quantized) for case, output in zip(cases, outputs)))


def linear_layer() -> tuple[Any, Any]:
    """Return the linear layer of ``canary_cases`` as a ``torch.nn.Linear``, and its inputs."""
    import torch

    case = canary_case("linear")
    weight, bias = map(torch.from_numpy, case.constants)
    layer = torch.nn.Linear(*weight.shape[::-1])
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer, torch.from_numpy(case.inputs[0])


def run_canary(
    device: str = "cpu",
    dtype: Any = None,
    watch: Watch | None = None,
    quantize: Callable[[Any, Any], Callable[..., Any]] | None = None,
) -> Canary:
    """Run the operators in torch, but the pointwise convolution, with the setting under test in force.

    Args:
        device: where the operators run.
        dtype: the data type of the operators' tensors, as in a model cast to it; ``None``: fp32.
        watch: the context in which each operator runs, if it is to be known which kernels ran.
        quantize: takes a ``torch.nn.Linear`` and its inputs, and returns its quantized form. Only that runs then: what
            is not quantized runs as in fp32.
    """
    import torch
    from torch.nn import functional

    functions: dict[str, Callable[..., Any]] = {
        "matmul": torch.mm,
        "linear": functional.linear,
        "conv": lambda images, weight, bias: functional.conv2d(images, weight, bias, padding=1),
    }
    checks = []
    for case in map(canary_case, functions if quantize is None else ["linear"]):
        function = functions[case.operator]
        operands = [torch.from_numpy(each).to(device, dtype) for each in (*case.inputs, *case.constants)]
        try:
            if quantize is not None:
                layer, rows = linear_layer()
                function, operands = quantize(layer, rows), [rows]
            with torch.inference_mode(), watch() if watch is not None else nullcontext(lambda: None) as ran:
                result = function(*operands)
                kernels = ran()
            output = result.double().cpu().numpy()
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            checks.append(OperatorCheck(case.operator, None, CanaryLevel.FAILED, reason))
        else:
            checks.append(check_output(case, output, is_quantized=quantize is not None, kernels=kernels))
    return Canary(tuple(checks))
