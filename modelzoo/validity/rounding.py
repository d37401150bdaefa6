"""Errors by layer, compared with what rounding explains.

Three passes over the same few inputs: the reference, the model under test, and the *rounding baseline*. For bf16, the
baseline is the reference computed in fp32 with the weights, inputs and outputs of its layers rounded to bf16, which
measures how large the error of correct bf16 kernels must be. For other precisions it is the reference for inputs that
are changed by a few steps of fp32, which measures how much the network magnifies rounding. The error of a fault is
larger, or has a direction.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, Callable, Optional

from modelzoo.engines.export.source import slightly_changed
from modelzoo.engines.export.structure import flatten, rebuild
from modelzoo.records.agreement import MAGNIFIED
from modelzoo.records.partial import LayerError
from modelzoo.validity.layer_outputs import LayerOutputs, is_observable, observe
from modelzoo.validity.predictor import Predictor
from modelzoo.validity.thresholds import BF16_STEP, FP32_DRIFT, LIMITS

UNOBSERVED_BASELINE = 8 * BF16_STEP
"""Error that bf16 explains if the reference cannot be observed, so that there is no baseline: 3 %."""
MINIMUM_FOR_SCALE = 2048
"""Elements that estimating a layer's scale requires; a 1×1 map of a few pictures has too few."""
BLOCKS = 16
EVERY_LAYER_ROUNDS = MAGNIFIED / LIMITS["tensor_error"].value
"""What the change of the inputs causes is taken this many times as what rounding explains in fp32, so that the largest
error that passes is ``MAGNIFIED`` times as large, as when outputs are compared after the timing."""


def layer_errors(
    reference: Predictor,
    tested: Predictor,
    args: tuple[Any, ...],
    wanted: Callable[[str], bool],
    output_tensor: Optional[Callable[[Any], Any]] = None,
) -> tuple[LayerError, ...]:
    """Compare both models layer by layer on ``args``, the output last.

    If one of them cannot be observed (traced, compiled), the output alone is compared. The reference's weights are
    rounded during one pass and restored.
    """
    expected = observe(reference, args, wanted, output_tensor)
    observed = observe(tested, args, wanted, output_tensor)
    baseline, floor, magnified = LayerOutputs(), FP32_DRIFT, 1.0
    if tested.precision == "bf16":
        if is_observable(reference):
            with rounded_to_bf16(reference.model):
                baseline = observe(reference, args, wanted, output_tensor)
        floor = BF16_STEP if baseline.samples else UNOBSERVED_BASELINE
    else:
        changed = _slightly_changed(args)
        if changed is not None:
            baseline, magnified = observe(reference, changed, wanted, output_tensor), EVERY_LAYER_ROUNDS
    return tuple(
        _layer_error(name, expected, observed, baseline, floor, magnified)
        for name, sample in expected.samples.items()
        if name in observed.samples and observed.samples[name].shape == sample.shape
    )


def _slightly_changed(args: tuple[Any, ...]) -> Optional[tuple[Any, ...]]:
    structure, values = flatten(args)
    changed = slightly_changed(values)
    return None if changed is None else tuple(rebuild(structure, changed))


def _layer_error(
    name: str,
    expected: LayerOutputs,
    observed: LayerOutputs,
    baseline: LayerOutputs,
    floor: float,
    magnified: float,
) -> LayerError:
    reference, tested, rounded = expected.samples[name], observed.samples[name], baseline.samples.get(name)
    if rounded is not None and rounded.shape != reference.shape:
        rounded = None
    explained = floor
    if rounded is not None:
        explained = max(floor, magnified * relative_error(rounded, reference))
    scale, scale_error, baseline_scale = 0.0, 0.0, 0.0
    if reference.numel() >= MINIMUM_FOR_SCALE:
        scale, scale_error = scale_change(tested, reference)
        if rounded is not None:
            baseline_scale, baseline_error = scale_change(rounded, reference)
            scale_error = math.hypot(scale_error, baseline_error)
    return LayerError(
        name=name,
        kind=expected.kinds[name],
        error=_finite_or_none(relative_error(tested, reference)),
        scale=_finite_or_none(scale),
        scale_error=_finite_or_none(scale_error),
        baseline=explained,
        baseline_scale=baseline_scale,
        finite=observed.finite[name],
    )


def _finite_or_none(value: float) -> Optional[float]:
    return value if math.isfinite(value) else None


def relative_error(tested: Any, reference: Any) -> float:
    """‖tested − reference‖ ÷ ‖reference‖ over all elements; NaN if either is not finite."""
    difference = (tested - reference).double().norm().item()
    size = reference.double().norm().item()
    if not math.isfinite(difference) or not math.isfinite(size):
        return math.nan
    return float(difference / size) if size else float(difference > 0)


def scale_change(tested: Any, reference: Any) -> tuple[float, float]:
    """Return the factor between two flat tensors, minus 1, and its standard error.

    Least squares through the origin, ⟨tested, reference⟩ ÷ ⟨reference, reference⟩. The errors of neighbouring
    elements are correlated, hence the cluster-robust standard error (Liang and Zeger 1986) over ``BLOCKS`` blocks.
    """
    import torch

    tested, reference = tested.double(), reference.double()
    size = (reference**2).sum().item()
    if not size or not math.isfinite(size):
        return 0.0, 0.0
    factor = (tested * reference).sum().item() / size
    residuals = (tested - factor * reference) * reference
    blocks = torch.stack([block.sum() for block in residuals.chunk(BLOCKS)])
    return factor - 1, (blocks**2).sum().sqrt().item() / size


@contextlib.contextmanager
def rounded_to_bf16(model: Any) -> Iterator[None]:
    """Round weights, inputs and outputs of every leaf layer to bf16 while the model computes in fp32.

    Matrix products outside of layers are rounded as well. Attention that is written out (transformers without
    ``scaled_dot_product_attention``) has them, and the softmax behind them amplifies their rounding error.
    """
    import torch

    handles, weights = [], []
    for module in model.modules():
        if list(module.children()):
            continue
        handles.append(module.register_forward_pre_hook(lambda _, inputs: tuple(_rounded(x) for x in inputs)))
        handles.append(module.register_forward_hook(lambda _, __, output: _rounded(output)))
        if isinstance(module, (torch.nn.Linear, torch.nn.modules.conv._ConvNd)):
            weights.append((module.weight, module.weight.data))
            module.weight.data = _rounded(module.weight.data)
    try:
        with _rounded_products():
            yield
    finally:
        for handle in handles:
            handle.remove()
        for weight, data in weights:
            weight.data = data


def _rounded(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
        return value.to(torch.bfloat16).to(torch.float32)
    return value


def _rounded_products() -> contextlib.AbstractContextManager[Any]:
    """A context in which operands and results of ``matmul`` and ``bmm`` are rounded."""
    import torch
    from torch.overrides import TorchFunctionMode

    products = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.bmm, torch.Tensor.bmm)

    class RoundedProducts(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in products:
                return _rounded(func(*(_rounded(x) for x in args), **(kwargs or {})))
            return func(*args, **(kwargs or {}))

    mode: contextlib.AbstractContextManager[Any] = RoundedProducts()
    return mode
