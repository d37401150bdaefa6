"""The roofline plot: settings below the measured limits of their machine (Williams et al., Roofline, 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from modelzoo.document import theme
from modelzoo.formatting import MISSING, counted, share, significant
from modelzoo.records.profile import Bound, Ceilings
from modelzoo.records.run import Result
from modelzoo.results.summary import labels_as_run
from modelzoo.views.plots.plot import Plot, add_legend, columns, log_scale, number_marks, wrapped
from modelzoo.views.plots.scatter import HEIGHT, LEGEND

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = {"fp32": "o", "bf16": "s", "tf32": "^", "fp16": "v", "int8": "D"}
_DASHES: dict[str, tuple[float, ...]] = {
    "fp32": (),
    "bf16": (5, 2),
    "tf32": (2, 1),
    "fp16": (8, 2, 1, 2),
    "int8": (1, 1),
}
_MEMORY_DASHES = (1.5, 1.5)


def of_result(result: Result, names: Mapping[int, str] | None = None) -> Plot | None:
    """Return the plot of one run of each setting; ``None`` if none can be placed under a roofline.

    Args:
        result: of a session.
        names: of the settings, by group; by default workload and label.
    """
    points: dict[int, tuple[str, Bound]] = {}
    ceilings: Ceilings | None = None
    labels = labels_as_run(result)
    for run in result.runs:
        report = run.report
        bound = report.bound if report is not None else None
        if report is None or bound is None or not bound.intensity:
            continue
        # One plot shows the limits of one device.
        if ceilings is not None and report.ceilings is not None and report.ceilings.device != ceilings.device:
            continue
        label = f"{run.workload} {labels[run.group]}" if names is None else names[run.group]
        points.setdefault(run.group, (label, bound))
        ceilings = ceilings or report.ceilings
    return plot(list(points.values()), ceilings) if ceilings is not None else None


def plot(points: Sequence[tuple[str, Bound]], ceilings: Ceilings) -> Plot:
    """Return the plot: the limits, and one numbered mark for each setting, which has a name and an intensity."""
    places = [(bound.intensity or 0.0, bound.gflops) for _, bound in points]
    peaks = {precision: speed for precision in _MARKERS if (speed := ceilings.gflops(precision))}
    highest, bandwidth = max(peaks.values(), default=1.0), ceilings.gb_per_second()
    ridge = highest / (bandwidth or highest)
    # Every setting and both slopes of the roof.
    left = min(min((each for each, _ in places), default=ridge) / 3, ridge / 10)
    right = max(max((each for each, _ in places), default=ridge) * 4, ridge * 10)
    named = {precision: f"{significant(peak, 3)} GFLOP/s" for precision, peak in peaks.items()}
    copies = f"{significant(bandwidth, 3)} GB/s" if bandwidth and peaks else ""

    def draw(figure: Figure) -> float:
        label = "arithmetic intensity in FLOP per byte (log scale)"
        axes: Axes = figure.add_subplot(xlabel=label, ylabel="GFLOP/s (log scale)")
        speeds = [highest, *(speed for _, speed in places)]
        log_scale(axes.xaxis, left, right)
        log_scale(axes.yaxis, min(min(speeds) / 2.5, highest / 12), max(speeds) * 1.8)
        for precision, peak in peaks.items():
            start = max(left, peak / bandwidth) if bandwidth else left
            (line,) = axes.plot((start, right), (peak, peak), lw=1.7, ls=(0, _DASHES[precision] or None))
            line.set(color=theme.precision_style(precision)[0], label=f"{precision} matrix product: {named[precision]}")
        if bandwidth and copies:
            (line,) = axes.plot((left, ridge), (left * bandwidth, highest), color=theme.INK, lw=1.7)
            line.set(ls=(0, _MEMORY_DASHES), label=f"memory copy: {copies}")
        for number, ((label, bound), (x, y)) in enumerate(zip(points, places), 1):
            name = wrapped(f"{number} {label}: {significant(y, 3)} GFLOP/s", LEGEND)
            colour, marker = theme.precision_style(bound.precision)[0], _MARKERS.get(bound.precision, "D")
            axes.plot(x, y, ls="none", color=colour, marker=marker, label=name, clip_on=False, zorder=4)
        number_marks(axes, places, HEIGHT)
        add_legend(figure)
        return HEIGHT

    rows = [
        (
            label,
            bound.precision,
            f"{significant(speed, 3)} GFLOP/s",
            significant(intensity, 3),
            MISSING if bound.share_of_roof is None else share(bound.share_of_roof, 0),
        )
        for (label, bound), (intensity, speed) in zip(points, places)
    ]
    rows += [(f"limit: {each} matrix product", each, speed, MISSING, MISSING) for each, speed in named.items()]
    rows += [("limit: memory copy", "", copies, MISSING, MISSING)] if copies else []
    titles = ("", "precision", "speed", "FLOP per byte", "of the limit there")
    caption = (
        "Speed of each setting below the limits that were measured on this machine: matrix products, and copies in "
        "memory. The bytes are those of all inputs and outputs, so what stays in a cache counts as well."
    )
    where = ceilings.device or counted(ceilings.threads, "thread")
    return Plot(f"Roofline, {where}", caption, columns(titles, rows, numbers=titles[2:]), draw)
