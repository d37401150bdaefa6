"""Errors by layer, compared with what rounding explains.

Three passes over the same few inputs: the reference, the model under test, and the *rounding baseline*. For precisions
narrower than fp32, the baseline is the reference computed in fp32 with its numbers rounded to that precision
(``modelzoo.validity.rounded``), which measures how large the error of correct kernels must be. For fp32 it is the
reference for inputs that are changed by a few steps of fp32, which measures how much the network magnifies rounding.
The error of a fault is larger, or has a direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Optional

from modelzoo.engines.export.source import flatten, rebuild, slightly_changed
from modelzoo.records.agreement import MAGNIFIED
from modelzoo.records.partial import LayerError
from modelzoo.validity.layer_outputs import LayerOutputs, is_observable, observe
from modelzoo.validity.predictor import Predictor
from modelzoo.validity.rounded import rounded_to
from modelzoo.validity.thresholds import FP32_DRIFT, LIMITS, SIGNIFICANT_BITS

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

    If one of them cannot be observed (traced, compiled), the output alone is compared. If that is the reference,
    nothing says what rounding explains.
    """
    expected = observe(reference, args, wanted, output_tensor)
    observed = observe(tested, args, wanted, output_tensor)
    baseline, floor, magnified = LayerOutputs(), 2.0 ** -SIGNIFICANT_BITS.get(tested.precision, 0), 1.0
    if tested.precision not in SIGNIFICANT_BITS:
        floor, changed = FP32_DRIFT, _slightly_changed(args)
        if changed is not None:
            baseline, magnified = observe(reference, changed, wanted, output_tensor), EVERY_LAYER_ROUNDS
    elif is_observable(reference):
        with rounded_to(tested.precision, reference.model):
            baseline = observe(reference, args, wanted, output_tensor)
    explains = _Explained(baseline, floor, magnified, is_known=tested.precision not in SIGNIFICANT_BITS)
    return tuple(
        _layer_error(name, expected, observed, explains)
        for name, sample in expected.samples.items()
        if name in observed.samples and observed.samples[name].shape == sample.shape
    )


@dataclass(frozen=True)
class _Explained:
    """What rounding explains: ``magnified`` times the error of ``baseline``, at least ``floor``.

    ``is_known`` says whether ``floor`` alone is explained for a layer that ``baseline`` lacks.
    """

    baseline: LayerOutputs
    floor: float
    magnified: float
    is_known: bool


def _slightly_changed(args: tuple[Any, ...]) -> Optional[tuple[Any, ...]]:
    structure, values = flatten(args)
    changed = slightly_changed(values)
    return None if changed is None else tuple(rebuild(structure, changed))


def _layer_error(name: str, expected: LayerOutputs, observed: LayerOutputs, explains: _Explained) -> LayerError:
    reference, tested = expected.samples[name], observed.samples[name]
    rounded = explains.baseline.samples.get(name)
    if rounded is not None and rounded.shape != reference.shape:
        rounded = None
    explained = explains.floor if explains.is_known else None
    if rounded is not None:
        error = relative_error(rounded, reference)
        explained = max(explains.floor, explains.magnified * error) if math.isfinite(error) else None
    scale, scale_error, baseline_scale = 0.0, 0.0, 0.0
    if explained is not None and reference.numel() >= MINIMUM_FOR_SCALE:
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
