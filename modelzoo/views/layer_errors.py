"""The plot of ``--explain``: the error of each layer, with what rounding explains."""

from __future__ import annotations

import math
from pathlib import Path

from modelzoo.records.exhibits import LayerErrorPlot

NAMED_LAYERS = 40
"""Layers with a name on the axis."""
INCHES_PER_CHARACTER = 0.05
"""Of a name on the axis; the names are vertical."""


def write_plot(plot: LayerErrorPlot, workload: str, path: Path) -> None:
    """Write the plot as PNG.

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    layers = plot.layers
    name_height = max(len(layer.name) for layer in layers) * INCHES_PER_CHARACTER
    figure = Figure(figsize=(10, 4 + name_height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    order = range(len(layers))
    # A logarithmic axis has no place for 0: layers with equal outputs get no point.
    errors = [layer.error or math.nan for layer in layers]
    baseline = [math.nan if layer.baseline is None else layer.baseline for layer in layers]
    axes.semilogy(order, errors, ".-", label=f"{plot.tested_name} compared with fp32 (no point: equal)")
    axes.semilogy(order, baseline, color="grey", label="explained by rounding")
    limits = [plot.limit * each for each in baseline]
    axes.semilogy(order, limits, "--", color="grey", label=f"{plot.limit:g} × that")
    if plot.first_suspect is not None:
        name = layers[plot.first_suspect].name
        axes.axvline(plot.first_suspect, color="tab:red", label=f"first beyond the limit: {name}")
    step = max(1, len(layers) // NAMED_LAYERS)
    axes.set_xticks(list(order)[::step], [layer.name for layer in layers[::step]], rotation=90, fontsize=6)
    axes.set_ylabel("relative error of the layer's output")
    axes.set_title(f"{workload}: error by layer")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150, format="png")
