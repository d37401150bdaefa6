"""Errors by layer: their comparison, and what ``--explain`` shows of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from modelzoo.records.exhibits import CsvRows, Exhibit, ExplainedLayers, LayerErrorPlot
from modelzoo.records.partial import LayerError
from modelzoo.validity.layer_outputs import OUTPUT, is_observable
from modelzoo.validity.predictor import Predictor
from modelzoo.validity.prefetch import padded
from modelzoo.validity.protocol import JudgingTask, TaskContext
from modelzoo.validity.rounding import layer_errors
from modelzoo.validity.thresholds import LIMITS

CLOSEST = 5
"""Layers that are shown if none is suspect."""


def compare_layers(task: JudgingTask, reference: Predictor, tested: Predictor) -> tuple[LayerError, ...]:
    """Compare the layers on the first few items of the data set.

    A model that cannot be observed (compiled, traced) is given a whole batch instead, because another shape would
    cost a compilation.
    """
    size = task.probe_items if is_observable(tested) else task.context.request.batch
    rows: list[Any] = []
    for item in task.items[:size]:
        rows += task.prepare(item).rows
    rows = padded(rows[:size], size)
    layers = layer_errors(
        reference, tested, task.arguments(rows), task.comparable_layer, lambda output: task.output_tensor(output, rows)
    )
    if task.compares_output:
        return layers
    return tuple(layer for layer in layers if layer.name != OUTPUT) or layers


def first_suspect(layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> Optional[int]:
    """Index of the first layer, in the order of execution, whose error is beyond what rounding explains.

    A layer without a baseline is suspect only if its error has no value.
    """
    largest_ratio = tolerance.get("layer_drift", LIMITS["layer_drift"].value)
    largest_scale = tolerance.get("layer_scale", LIMITS["layer_scale"].value)
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
            _number(layer.error, ".6g"),
            "" if layer.baseline is None else f"{layer.baseline:.6g}",
            _number(layer.scale, ".6g"),
            str(layer.finite),
        )
        for layer in layers
    )
    yield Exhibit("layers.csv", csv=CsvRows(columns, rows))
    limit = request.tolerance.get("layer_drift", LIMITS["layer_drift"].value)
    plot = LayerErrorPlot(tuple(layers), context.tested_name, limit, first_suspect(layers, request.tolerance))
    yield Exhibit("layers.png", layer_errors=plot)


def _number(value: Optional[float], form: str) -> str:
    return "nan" if value is None else format(value, form)
