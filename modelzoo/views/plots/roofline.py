"""The roofline plot: settings below the measured limits of their machine (Williams et al., Roofline, 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from modelzoo.document import Text, theme
from modelzoo.formatting import MISSING, counted, share, significant
from modelzoo.records.profile import Bound, Ceilings
from modelzoo.records.run import Result
from modelzoo.results.summary import labels_as_run
from modelzoo.views.plots.plot import Plot, columns
from modelzoo.views.plots.scatter import Scale, Series, draw

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
    placed = [(label, bound, bound.intensity or 0.0) for label, bound in points]
    peaks = {precision: ceilings.gflops(precision) or 0.0 for precision in _MARKERS}
    highest, bandwidth = max(peaks.values()) or 1.0, ceilings.gb_per_second()
    ridge = highest / (bandwidth or highest)
    # Every setting and both slopes of the roof.
    left = min(min((each for _, _, each in placed), default=ridge) / 3, ridge / 10)
    right = max(max((each for _, _, each in placed), default=ridge) * 4, ridge * 10)
    speeds = [highest, *(bound.gflops for _, bound, _ in placed)]
    x = Scale("arithmetic intensity in FLOP per byte (log scale)", left, right, is_log=True)
    y = Scale("GFLOP/s (log scale)", min(min(speeds) / 2.5, highest / 12), max(speeds) * 1.8, is_log=True)
    series, limits = [], []
    for precision, peak in peaks.items():
        if peak:
            name, speed = f"{precision} matrix product", f"{significant(peak, 3)} GFLOP/s"
            start = max(left, peak / bandwidth) if bandwidth else left
            colour = theme.precision_style(precision)[0]
            series.append(Series((start, right), (peak, peak), colour, f"{name}: {speed}", dashes=_DASHES[precision]))
            limits.append((f"limit: {name}", precision, speed, MISSING, MISSING))
    if bandwidth and any(peaks.values()):
        xs, ys = (left, highest / bandwidth), (left * bandwidth, highest)
        speed = f"{significant(bandwidth, 3)} GB/s"
        series.append(Series(xs, ys, theme.INK, f"memory copy: {speed}", dashes=_MEMORY_DASHES))
        limits.append(("limit: memory copy", "", speed, MISSING, MISSING))
    rows = []
    for number, (label, bound, intensity) in enumerate(placed, 1):
        speed, of_roof = f"{significant(bound.gflops, 3)} GFLOP/s", bound.share_of_roof
        colour, marker = theme.precision_style(bound.precision)[0], _MARKERS.get(bound.precision, "D")
        series.append(Series([intensity], [bound.gflops], colour, f"{number} {label}: {speed}", marker))
        known = share(of_roof, 0) if of_roof is not None else MISSING
        rows.append((label, bound.precision, speed, significant(intensity, 3), known))
    titles = ("", "precision", "speed", "FLOP per byte", "of the limit there")
    caption = (
        "Speed of each setting below the limits that were measured on this machine: matrix products, and copies in "
        "memory. The bytes are those of all inputs and outputs, so what stays in a cache counts as well."
    )
    threads = ceilings.threads
    where = ceilings.device or counted(threads, "thread")
    places = [(intensity, bound.gflops) for _, bound, intensity in placed]
    table = columns(titles, [*rows, *limits], numbers=titles[2:])
    return Plot(f"Roofline, {where}", Text(caption), table, partial(draw, series, x, y, places, None))
