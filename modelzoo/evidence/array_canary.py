"""The canary's operators as numpy arrays, for engines that do not import torch.

Each engine builds a small model of these operators, runs it under the setting, and passes its outputs to
``check_output``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from modelzoo.evidence.canary import level_of
from modelzoo.records.canary import CanaryLevel, OperatorCheck

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    """Return the operators, of the shapes that ``modelzoo.evidence.canary`` gives them; their operands are seeded."""
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


def check_output(operator: str, exact: NDArray[Any], output: NDArray[Any]) -> OperatorCheck:
    """Compare what an operator returned with the exact output: root-mean-square error, relative."""
    import numpy as np

    rms = math.sqrt(float(np.mean((output.astype(np.float64) - exact) ** 2)) / float(np.mean(exact**2)))
    if not math.isfinite(rms):
        return OperatorCheck(operator, None, CanaryLevel.BROKEN, "the output is not finite")
    return OperatorCheck(operator, rms, level_of(rms))
