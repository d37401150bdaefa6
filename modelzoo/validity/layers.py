"""Errors by layer, compared with the expected rounding error.

Four passes over the same few inputs: the reference, the reference again (a model that differs from itself is none), the
model under test, and the *rounding baseline*. For precisions
narrower than fp32, the baseline is the reference computed in fp32 with its numbers rounded to that precision
(``modelzoo.evidence.rounded``), which measures how large the error of correct kernels must be. For fp32 it is the
reference for inputs that are changed by a few steps of fp32, which measures how much the network magnifies rounding.
The error of a fault is larger, or has a direction.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from modelzoo.engines.export.source import flatten, rebuild, slightly_changed
from modelzoo.evidence.rounded import is_predictable, rounded_to
from modelzoo.frozen import replace
from modelzoo.records.exhibits import CsvRows, Exhibit, ExplainedLayers, LayerErrorPlot
from modelzoo.records.partial import OUTPUT, LayerError, Unrepeatable
from modelzoo.records.validity import Check, WorstLayer
from modelzoo.records.workload import MAGNIFIED, ROUNDED
from modelzoo.validity.checks import FP32_DRIFT, SIGNIFICANT_BITS, check_value, limit, places, without_alike
from modelzoo.validity.task import Predictor, Task, TaskContext
from modelzoo.workload.initialization import temporary_hooks

T = TypeVar("T")
MAXIMUM_SAMPLE = 65_536
"""Elements kept of each output: its error is then accurate to three digits, and any model fits into memory."""
MINIMUM_FOR_SCALE = 2048
"""Elements that estimating a layer's scale requires; a 1×1 map of a few pictures has too few."""
BLOCKS = 16
EVERY_LAYER_ROUNDS = MAGNIFIED / ROUNDED
"""What the change of the inputs causes is taken this many times as the expected rounding error in fp32, so that the
largest error that passes is ``MAGNIFIED`` times as large, as when outputs are compared after the timing."""
PACKED = "_packed_params"
"""In torch's quantized layers: a module that holds the weights and is never called."""
CLOSEST = 5
"""Layers that are shown if none is suspect."""


class LayerOutput(msgspec.Struct, frozen=True):
    """What is kept of the output of a layer.

    Attributes:
        sample: a sample of its values, as an fp32 tensor on the CPU.
        not_finite: where the whole output is not (``modelzoo.validity.checks.places``).
        kind: class of the module.
    """

    sample: Any
    not_finite: str
    kind: str


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
    predictor: Predictor, args: tuple[Any, ...], wanted: Callable[[str], bool], output_tensor: Callable[[Any], Any]
) -> dict[str, LayerOutput]:
    """Run one pass; return the outputs of the leaf layers that are ``wanted``, in the order of execution, and of the
    model.

    A layer that is called more than once has an entry per call: ``name``, ``name#2`` …. Outputs that are no
    floating-point tensors are left out. ``output_tensor`` turns what the model returns into one tensor.
    """
    import torch

    observed, calls = dict[str, LayerOutput](), Counter[str]()

    def add(name: str, module: Any, output: Any) -> None:
        if not isinstance(output, torch.Tensor) or not output.is_floating_point():
            return
        calls[name] += 1
        flat = output.detach().reshape(-1)
        stride = -(-flat.numel() // MAXIMUM_SAMPLE) | 1  # odd, so that it does not sample one column of an image only
        # A view would keep the whole output in memory.
        sample = flat[::stride].to("cpu", torch.float32, copy=True)
        key = name if calls[name] == 1 else f"{name}#{calls[name]}"
        observed[key] = LayerOutput(sample, places(flat), type(module).__name__)

    hooks = (
        module.register_forward_hook(lambda it, _, output, name=name: add(name, it, output))
        for name, module in (predictor.model.named_modules() if is_observable(predictor) else ())
        if name and wanted(name) and (hasattr(module, PACKED) or not list(module.children()))
    )
    with torch.no_grad(), predictor.active(), temporary_hooks(hooks):
        output = predictor.call(*args)
    add(OUTPUT, output, output_tensor(output))
    return observed


ComparedLayers = tuple[tuple[LayerError, ...], Unrepeatable | None]
"""The errors of the layers, the output last, and how the reference differs from itself."""


def layer_errors(
    reference: Predictor,
    tested: Predictor,
    args: tuple[Any, ...],
    wanted: Callable[[str], bool],
    output_tensor: Callable[[Any], Any],
) -> ComparedLayers:
    """Compare both models layer by layer on ``args``, and the reference with itself, which must be equal but for
    rounding.

    If one of them cannot be observed (traced, compiled), the output alone is compared. If that is the reference, or
    if the rounding of the recipe cannot be predicted, the expected rounding error is unknown.
    """

    def seen(predictor: Predictor, given: tuple[Any, ...] = args) -> dict[str, LayerOutput]:
        return observe(predictor, given, wanted, output_tensor)

    expected, again, changes = seen(reference), seen(reference), dict[str, float]()
    for name, first in expected.items():
        second, change = again.get(name), math.nan
        if second and second.sample.shape == first.sample.shape and second.not_finite == first.not_finite:
            change = relative_error(second.sample, first.sample)
        if not change <= FP32_DRIFT:
            changes[name] = change
    unrepeatable = Unrepeatable(next(iter(changes)), _finite_or_none([*changes.values()][-1])) if changes else None
    observed, is_narrow = seen(tested), tested.precision in SIGNIFICANT_BITS
    baseline, floor, magnified = dict[str, LayerOutput](), FP32_DRIFT, 1.0
    if not is_narrow:
        structure, values = flatten(args)
        if (changed := slightly_changed(values)) is not None:
            magnified, baseline = EVERY_LAYER_ROUNDS, seen(reference, tuple(rebuild(structure, changed)))
    else:
        floor = 2.0 ** -SIGNIFICANT_BITS[tested.precision]
        if is_observable(reference) and is_predictable(tested.precision, tested.recipe):
            with rounded_to(tested.precision, reference.model, tested.recipe):
                baseline = seen(reference)
    errors = []
    for name, first in expected.items():
        sample, found = first.sample, observed.get(name)
        if found is None or found.sample.shape != sample.shape:
            continue
        # The expected rounding error; in fp32 the floor alone is one.
        explained, rounded = None if is_narrow else floor, None
        if name in baseline and baseline[name].sample.shape == sample.shape:
            rounded = baseline[name].sample
            error = relative_error(rounded, sample)
            explained = max(floor, magnified * error) if math.isfinite(error) else None
        scale, scale_error, baseline_scale = 0.0, 0.0, 0.0
        if explained is not None and sample.numel() >= MINIMUM_FOR_SCALE:
            scale, scale_error = scale_change(found.sample, sample)
            if rounded is not None:
                baseline_scale, baseline_error = scale_change(rounded, sample)
                scale_error = math.hypot(scale_error, baseline_error)
        errors.append(
            LayerError(
                name=name,
                kind=first.kind,
                error=_finite_or_none(relative_error(found.sample, sample)),
                scale=_finite_or_none(scale),
                scale_error=_finite_or_none(scale_error),
                baseline=explained,
                baseline_scale=baseline_scale,
                finite=found.not_finite == first.not_finite,
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


def padded(items: Sequence[T], size: int) -> list[T]:
    """``items`` with the last one repeated up to ``size``."""
    return [*items, *[items[-1]] * (size - len(items))]


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
        if drifts or not layer.finite or layer.excess_scale > largest_scale:
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

    def cell(value: float | None, missing: str = "nan") -> str:
        return missing if value is None else f"{value:.6g}"

    columns = ("layer", "kind", "error", "explained", "scale", "finite")
    rows = tuple(
        (each.name, each.kind, cell(each.error), cell(each.baseline, ""), cell(each.scale), str(each.finite))
        for each in layers
    )
    yield Exhibit("layers.csv", csv=CsvRows(columns, rows))
    largest_ratio, suspect = limit("layer_drift", request.tolerance), first_suspect(layers, request.tolerance)
    plot = LayerErrorPlot(tuple(layers), context.tested_name, largest_ratio, suspect)
    yield Exhibit("layers.png", layer_errors=plot)


def finite_check(nonfinite: int, layers: Sequence[LayerError]) -> Check:
    """No output under test, and no layer's, may hold other NaN or Inf than fp32's; there is no tolerance for it."""
    first = next((layer.name for layer in layers if not layer.finite), None)
    count = max(nonfinite, int(first is not None))
    about = None if first is None else WorstLayer(first)
    return Check("finite", float(count), "<=", 0.0, not count, None, about=about)


def layer_checks(layers: Sequence[LayerError], tolerance: Mapping[str, float], *, numeric_only: bool) -> list[Check]:
    """Check the largest change of scale and the largest error of all layers.

    Layers whose expected rounding error is unknown are left out. If they are all that is judged, the check is
    undecided.
    """
    drift = drift_check("layer_drift", layers, tolerance)
    if drift.undecided and not numeric_only:
        layers = [layer for layer in layers if layer.baseline is not None]
        drift = drift_check("layer_drift", layers, tolerance)
    if not layers:
        return [drift] if numeric_only else []
    largest = max(layers, key=lambda layer: layer.excess_scale)
    return [check_value("layer_scale", largest.excess_scale, tolerance, WorstLayer(largest.name)), drift]


def drift_check(name: str, layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> Check:
    """Check the largest error; undecided without layers, or if it passes and the baseline of some layer is unknown."""
    known = [layer for layer in layers if layer.baseline is not None or layer.error is None]
    unknown = WorstLayer(next((layer.name for layer in layers if layer.baseline is None), None))
    if not known:
        return replace(check_value(name, None, tolerance, unknown), undecided=True)
    worst = max(known, key=lambda layer: math.inf if layer.ratio is None else layer.ratio)
    check = check_value(name, worst.ratio, tolerance, WorstLayer(worst.name, worst.baseline))
    if check.passed and unknown.name is not None:
        return replace(check, passed=False, undecided=True, about=unknown)
    return check
