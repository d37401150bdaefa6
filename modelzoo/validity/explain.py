"""``--explain``: the error by layer as a table and a plot, and the first layer that drifts too far."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence

from modelzoo.validity.outcome import Job, Table, ValidityRequest
from modelzoo.validity.rounding import LayerError, suspect
from modelzoo.validity.thresholds import LIMITS


def first_suspect(layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> LayerError | None:
    """The first layer, in the order of execution, that drifts beyond what rounding explains."""
    drift = tolerance.get("layer_drift", LIMITS["layer_drift"].value)
    scale = tolerance.get("layer_scale", LIMITS["layer_scale"].value)
    return next((layer for layer in layers if suspect(layer, drift, scale)), None)


def tables(layers: Sequence[LayerError], request: ValidityRequest) -> tuple[Table, ...]:
    """The table of ``--explain``, where it was asked for."""
    return (table(layers, request.tolerance),) if request.explain else ()


def table(layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> Table:
    """The layers around the first suspect, or the worst ones where there is none."""
    if not layers:
        note = "the layers of a traced or compiled model cannot be seen; try --mode eager"
        return Table("Error by layer", ("layer",), (), note)
    culprit = first_suspect(layers, tolerance)
    if culprit is None:
        chosen = sorted(layers, key=lambda layer: -layer.ratio)[:5]
        note = "no layer drifts beyond what rounding explains; the five nearest to it"
    else:
        place = layers.index(culprit)
        chosen = list(layers[max(0, place - 2) : place + 4])
        note = f"first layer that drifts beyond what rounding explains: {culprit.name} ({culprit.kind})"
    rows = tuple(
        (
            ("→ " if layer is culprit else "") + layer.name,
            layer.kind,
            f"{layer.error:.2e}",
            f"{layer.explained:.2e}",
            f"{layer.ratio:.2f}",
            f"{100 * layer.scale:+.2f} %",
        )
        for layer in chosen
    )
    return Table("Error by layer", ("layer", "kind", "error", "rounding explains", "ratio", "scale"), rows, note)


def explained(layers: Sequence[LayerError], job: Job) -> list[str]:
    """Write ``<workload>_layers.csv`` and ``.png`` into the output directory; return their paths.

    Nothing is written where ``--explain`` was not given, or no layer could be seen.
    """
    request, workload = job.request, job.workload
    if not layers or not request.explain:
        return []
    request.output.mkdir(parents=True, exist_ok=True)
    listing, plot = (request.output / f"{workload}_layers.{kind}" for kind in ("csv", "png"))
    with listing.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("layer", "kind", "error", "explained", "scale", "finite"))
        for layer in layers:
            row = (f"{layer.error:.6g}", f"{layer.explained:.6g}", f"{layer.scale:.6g}", layer.finite)
            writer.writerow((layer.name, layer.kind, *row))

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    order = range(len(layers))
    factor = request.tolerance.get("layer_drift", LIMITS["layer_drift"].value)
    # A logarithm has no place for 0: layers that compute the same get no point.
    drawn = [layer.error or math.nan for layer in layers]
    axes.semilogy(order, drawn, ".-", label=f"{job.tested.name} against fp32 (no point: equal)")
    axes.semilogy(order, [layer.explained for layer in layers], color="grey", label="explained by rounding")
    axes.semilogy(order, [factor * x.explained for x in layers], "--", color="grey", label=f"{factor:g} × that")
    culprit = first_suspect(layers, request.tolerance)
    if culprit is not None:
        place = list(layers).index(culprit)
        axes.axvline(place, color="tab:red", label=f"first beyond: {culprit.name}")
    step = max(1, len(layers) // 40)
    axes.set_xticks(list(order)[::step], [layer.name for layer in layers[::step]], rotation=90, fontsize=6)
    axes.set_ylabel("relative error of the layer's output")
    axes.set_title(f"{workload}: error by layer")
    axes.legend(fontsize=8)
    figure.savefig(plot, dpi=150)
    return [str(listing), str(plot)]
