"""Errors by layer, compared with the expected rounding error.

Four passes over the same few inputs: the reference, the reference again (a model that differs from itself is none), the
model under test, and the *rounding baseline*. For precisions
narrower than fp32, the baseline is the reference computed in fp32 with its numbers rounded to that precision
(``modelzoo.evidence.rounded``), which measures how large the error of correct kernels must be. For fp32 it is the
reference for inputs that are changed by a few steps of fp32, which measures how much the network magnifies rounding.
The error of a fault is larger, or has a direction.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from modelzoo.engines.export.source import flatten, rebuild, slightly_changed
from modelzoo.evidence.rounded import is_predictable, rounded_to
from modelzoo.records.exhibits import CsvRows, Exhibit, ExplainedLayers, LayerErrorPlot
from modelzoo.records.partial import OUTPUT, LayerError, Unrepeatable
from modelzoo.records.workload import MAGNIFIED
from modelzoo.validity.checks import FP32_DRIFT, LIMITS, SIGNIFICANT_BITS, limit
from modelzoo.validity.finite import places, without_alike
from modelzoo.validity.prefetch import padded
from modelzoo.validity.protocol import Predictor, TaskContext
from modelzoo.validity.task import Task

MAXIMUM_SAMPLE = 65_536
"""Elements kept of each output: its error is then accurate to three digits, and any model fits into memory."""
MINIMUM_FOR_SCALE = 2048
"""Elements that estimating a layer's scale requires; a 1×1 map of a few pictures has too few."""
BLOCKS = 16
EVERY_LAYER_ROUNDS = MAGNIFIED / LIMITS["tensor_error"].value
"""What the change of the inputs causes is taken this many times as the expected rounding error in fp32, so that the
largest error that passes is ``MAGNIFIED`` times as large, as when outputs are compared after the timing."""
PACKED = "_packed_params"
"""In torch's quantized layers: a module that holds the weights and is never called."""
CLOSEST = 5
"""Layers that are shown if none is suspect."""


@dataclass
class LayerOutputs:
    """Samples of the outputs as fp32 tensors on the CPU, by layer, in the order of execution.

    ``not_finite`` says where the whole output is not (``modelzoo.validity.finite.places``); ``kinds`` are the classes
    of the modules. A layer that is called more than once has an entry per call: ``name``, ``name#2`` ….
    """

    samples: dict[str, Any] = field(default_factory=dict)
    not_finite: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    _calls: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, module: Any, output: Any) -> None:
        """Keep a sample of ``output`` if it is a floating-point tensor."""
        import torch

        if not isinstance(output, torch.Tensor) or not output.is_floating_point():
            return
        self._calls[name] = self._calls.get(name, 0) + 1
        key = name if self._calls[name] == 1 else f"{name}#{self._calls[name]}"
        flat = output.detach().reshape(-1)
        stride = -(-flat.numel() // MAXIMUM_SAMPLE) | 1  # odd, so that it does not sample one column of an image only
        # A view would keep the whole output in memory.
        self.samples[key] = flat[::stride].to("cpu", torch.float32, copy=True)
        self.not_finite[key] = places(flat)
        self.kinds[key] = type(module).__name__


def is_observable(predictor: Predictor) -> bool:
    """Whether the layers can be hooked: the model is an eager module, neither traced nor compiled."""
    import torch

    model = predictor.model
    return (
        isinstance(model, torch.nn.Module)
        and not isinstance(model, torch.jit.ScriptModule)
        and not hasattr(model, "_orig_mod")
    )


def observe(
    predictor: Predictor,
    args: tuple[Any, ...],
    wanted: Callable[[str], bool],
    output_tensor: Callable[[Any], Any] | None = None,
) -> LayerOutputs:
    """Run one pass; return the outputs of the leaf layers that are ``wanted``, and of the model.

    ``output_tensor`` turns what the model returns into one tensor; without it the model's output is left out.
    """
    import torch

    observed = LayerOutputs()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(predictor.active())
        for name, module in predictor.model.named_modules() if is_observable(predictor) else ():
            if name and wanted(name) and (hasattr(module, PACKED) or not list(module.children())):
                add = partial(observed.add, name)
                stack.callback(module.register_forward_hook(lambda it, _, out, add=add: add(it, out)).remove)
        output = predictor.call(*args)
    if output_tensor is not None:
        observed.add(OUTPUT, output, output_tensor(output))
    return observed


ComparedLayers = tuple[tuple[LayerError, ...], Unrepeatable | None]
"""The errors of the layers, the output last, and how the reference differs from itself."""


def layer_errors(
    reference: Predictor,
    tested: Predictor,
    args: tuple[Any, ...],
    wanted: Callable[[str], bool],
    output_tensor: Callable[[Any], Any] | None = None,
) -> ComparedLayers:
    """Compare both models layer by layer on ``args``, and the reference with itself, which must be equal but for
    rounding.

    If one of them cannot be observed (traced, compiled), the output alone is compared. If that is the reference, or
    if the rounding of the recipe cannot be predicted, the expected rounding error is unknown.
    """
    expected = observe(reference, args, wanted, output_tensor)
    again, changes = observe(reference, args, wanted, output_tensor), dict[str, float]()
    for name, sample in expected.samples.items():
        is_same = name in again.samples and again.samples[name].shape == sample.shape
        is_same = is_same and expected.not_finite[name] == again.not_finite[name]
        change = relative_error(again.samples[name], sample) if is_same else math.nan
        if not change <= FP32_DRIFT:
            changes[name] = change
    unrepeatable = Unrepeatable(next(iter(changes)), _finite_or_none([*changes.values()][-1])) if changes else None
    observed = observe(tested, args, wanted, output_tensor)
    baseline, floor, magnified = LayerOutputs(), 2.0 ** -SIGNIFICANT_BITS.get(tested.precision, 0), 1.0
    if tested.precision not in SIGNIFICANT_BITS:
        floor, (structure, values) = FP32_DRIFT, flatten(args)
        if (changed := slightly_changed(values)) is not None:
            magnified = EVERY_LAYER_ROUNDS
            baseline = observe(reference, tuple(rebuild(structure, changed)), wanted, output_tensor)
    elif is_observable(reference) and is_predictable(tested.precision, tested.recipe):
        with rounded_to(tested.precision, reference.model, tested.recipe):
            baseline = observe(reference, args, wanted, output_tensor)
    errors = []
    for name, sample in expected.samples.items():
        found, rounded = observed.samples.get(name), baseline.samples.get(name)
        if found is None or found.shape != sample.shape:
            continue
        # The expected rounding error; in fp32 the floor alone is one.
        explained = None if tested.precision in SIGNIFICANT_BITS else floor
        if rounded is not None and rounded.shape != sample.shape:
            rounded = None
        if rounded is not None:
            error = relative_error(rounded, sample)
            explained = max(floor, magnified * error) if math.isfinite(error) else None
        scale, scale_error, baseline_scale = 0.0, 0.0, 0.0
        if explained is not None and sample.numel() >= MINIMUM_FOR_SCALE:
            scale, scale_error = scale_change(found, sample)
            if rounded is not None:
                baseline_scale, baseline_error = scale_change(rounded, sample)
                scale_error = math.hypot(scale_error, baseline_error)
        errors.append(
            LayerError(
                name=name,
                kind=expected.kinds[name],
                error=_finite_or_none(relative_error(found, sample)),
                scale=_finite_or_none(scale),
                scale_error=_finite_or_none(scale_error),
                baseline=explained,
                baseline_scale=baseline_scale,
                finite=observed.not_finite[name] == expected.not_finite[name],
            )
        )
    return tuple(errors), unrepeatable


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def relative_error(tested: Any, reference: Any) -> float:
    """‖tested − reference‖ ÷ ‖reference‖; NaN if either is not finite where the other is not the same."""
    tested, reference = without_alike(tested, reference)
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

    tested, reference = (each.double() for each in without_alike(tested, reference))
    size = (reference**2).sum().item()
    if not size or not math.isfinite(size):
        return 0.0, 0.0
    factor = (tested * reference).sum().item() / size
    residuals = (tested - factor * reference) * reference
    blocks = torch.stack([block.sum() for block in residuals.chunk(BLOCKS)])
    return factor - 1, (blocks**2).sum().sqrt().item() / size


def compare_layers(task: Task, reference: Predictor, tested: Predictor) -> ComparedLayers:
    """Compare the layers on the first few items of the data set.

    A model that cannot be observed (compiled, traced) is given a whole batch instead, because another shape would
    cost a compilation.
    """
    size = task.probe_items if is_observable(tested) else task.context.request.batch
    rows: list[Any] = []
    for item in task.items[:size]:
        rows += task.prepare(item).rows
    rows = padded(rows[:size], size)
    errors, unrepeatable = layer_errors(
        reference, tested, task.batch_arguments(rows), task.layers, lambda output: task.output_tensor(output, rows)
    )
    others = tuple(layer for layer in errors if task.compares_output or layer.name != OUTPUT)
    return others or errors, unrepeatable


def first_suspect(layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> int | None:
    """Index of the first layer, in the order of execution, whose error is beyond the expected rounding error.

    A layer without a baseline is suspect only if its error has no value.
    """
    largest_ratio, largest_scale = limit("layer_drift", tolerance), limit("layer_scale", tolerance)
    for index, layer in enumerate(layers):
        drifts = layer.error is None or (layer.ratio is not None and layer.ratio > largest_ratio)
        within = not drifts and layer.excess_scale <= largest_scale
        if not (layer.finite and within):
            return index
    return None


def explained(layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> ExplainedLayers:
    """The layers around the first suspect, or those with the largest errors if none is suspect."""
    suspect = first_suspect(layers, tolerance)
    if suspect is None:
        return ExplainedLayers(tuple(sorted(layers, key=lambda layer: -(layer.ratio or 0.0))[:CLOSEST]))
    start = max(0, suspect - 2)
    return ExplainedLayers(tuple(layers[start : suspect + 4]), suspect - start)


def exhibits(layers: Sequence[LayerError], context: TaskContext) -> Iterator[Exhibit]:
    """A CSV file with every layer and a plot, if ``--explain`` was given and layers were observed."""
    request = context.request
    if not layers or not request.explain:
        return
    columns = ("layer", "kind", "error", "explained", "scale", "finite")
    rows = tuple(
        (
            layer.name,
            layer.kind,
            "nan" if layer.error is None else f"{layer.error:.6g}",
            "" if layer.baseline is None else f"{layer.baseline:.6g}",
            "nan" if layer.scale is None else f"{layer.scale:.6g}",
            str(layer.finite),
        )
        for layer in layers
    )
    yield Exhibit("layers.csv", csv=CsvRows(columns, rows))
    largest_ratio, suspect = limit("layer_drift", request.tolerance), first_suspect(layers, request.tolerance)
    plot = LayerErrorPlot(tuple(layers), context.tested_name, largest_ratio, suspect)
    yield Exhibit("layers.png", layer_errors=plot)
