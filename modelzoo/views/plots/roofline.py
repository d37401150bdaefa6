"""The roofline plot: settings below the measured limits of their machine (Williams et al., Roofline, 2009)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from modelzoo.document import Column, Text, theme
from modelzoo.formatting import MISSING, significant
from modelzoo.records.profile import Ceilings
from modelzoo.records.run import Result
from modelzoo.results.summary import labels_as_run
from modelzoo.views.plots.plot import Plot, add_legend, height_of, log_scale, number_marks, wrapped

if TYPE_CHECKING:
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


class RooflinePoint(msgspec.Struct, frozen=True):
    """One setting.

    Attributes:
        label: names it.
        precision: of the kernels that ran.
        intensity: arithmetic intensity in operations per byte.
        gflops: its speed in GFLOP/s.
        share_of_roof: of the lower limit at this intensity, 0 to 1; ``None`` if unknown.
    """

    label: str
    precision: str
    intensity: float
    gflops: float
    share_of_roof: float | None = None


class Roofline(msgspec.Struct, frozen=True):
    """Settings that ran on one machine, and its limits."""

    points: tuple[RooflinePoint, ...]
    ceilings: Ceilings


def of_result(result: Result, workload: str | None = None, names: Mapping[int, str] | None = None) -> Roofline | None:
    """One run of each setting; ``None`` if none can be placed under a roofline.

    Args:
        result: of a session.
        workload: by default all.
        names: of the settings, by group; by default workload and label.
    """
    points: dict[int, RooflinePoint] = {}
    ceilings: Ceilings | None = None
    labels = labels_as_run(result)
    for run in result.runs:
        report = run.report
        bound = report.bound if report is not None else None
        if report is None or bound is None or not bound.intensity or workload not in (None, run.workload):
            continue
        # One plot shows the limits of one device.
        if ceilings is not None and report.ceilings is not None and report.ceilings.device != ceilings.device:
            continue
        label = f"{run.workload} {labels[run.group]}" if names is None else names[run.group]
        point = RooflinePoint(label, bound.precision, bound.intensity, bound.gflops, bound.share_of_roof)
        points.setdefault(run.group, point)
        ceilings = ceilings or report.ceilings
    return Roofline(tuple(points.values()), ceilings) if ceilings is not None else None


def plot(data: Roofline) -> Plot:
    """Return the plot: the limits, and one numbered mark per setting."""
    caption = (
        "Speed of each setting below the limits that were measured on this machine: matrix products, and copies in "
        "memory. The bytes are those of all inputs and outputs, so what stays in a cache counts as well."
    )
    entries = [*(_limit_entry(roof) for roof in _roofs(data)), *_point_entries(data)]
    height = 330 + height_of(entries)
    return Plot(_title(data), Text(caption), columns(data), height, partial(_draw, data))


def columns(data: Roofline) -> list[Column]:
    """The settings and the limits as a table."""
    settings = [
        (
            point.label,
            point.precision,
            f"{significant(point.gflops, 3)} GFLOP/s",
            significant(point.intensity, 3),
            f"{100 * point.share_of_roof:.0f} %" if point.share_of_roof is not None else MISSING,
        )
        for point in data.points
    ]
    limits = [(f"limit: {roof.name}", roof.precision, roof.speed, MISSING, MISSING) for roof in _roofs(data)]
    rows = [*settings, *limits]
    titles = ("", "precision", "speed", "FLOP per byte", "of the limit there")
    return [Column(title, tuple(row[index] for row in rows), is_number=index > 1) for index, title in enumerate(titles)]


def _title(data: Roofline) -> str:
    threads = data.ceilings.threads
    if data.ceilings.device is not None:
        return f"Roofline, {data.ceilings.device}"
    return f"Roofline, {threads} thread{'s' * (threads > 1)}"


# What is drawn


class _Roof(msgspec.Struct, frozen=True):
    """One measured limit: a line between two points (intensity, GFLOP/s)."""

    name: str
    precision: str
    speed: str
    line: tuple[tuple[float, float], tuple[float, float]]
    colour: str
    dashes: tuple[float, ...]


class _Limits(msgspec.Struct, frozen=True):
    """Ranges of the axes: intensities from ``left`` to ``right``, speeds from ``bottom`` to ``top``."""

    left: float
    right: float
    bottom: float
    top: float


def _roofs(data: Roofline) -> list[_Roof]:
    limits, bandwidth = _axis_limits(data), data.ceilings.gb_per_second()
    peaks = {precision: data.ceilings.gflops(precision) or 0.0 for precision in _MARKERS}
    highest = max(peaks.values())
    roofs = []
    for precision, peak in peaks.items():
        if peak:
            start = max(limits.left, peak / bandwidth) if bandwidth else limits.left
            line = ((start, peak), (limits.right, peak))
            speed = f"{significant(peak, 3)} GFLOP/s"
            name = f"{precision} matrix product"
            roofs.append(_Roof(name, precision, speed, line, theme.precision_style(precision)[0], _DASHES[precision]))
    if bandwidth and highest:
        line = ((limits.left, limits.left * bandwidth), (highest / bandwidth, highest))
        speed = f"{significant(bandwidth, 3)} GB/s"
        roofs.append(_Roof("memory copy", "", speed, line, theme.INK, _MEMORY_DASHES))
    return roofs


def _axis_limits(data: Roofline) -> _Limits:
    """Ranges that show every setting and both slopes of the roof."""
    peak = max((product.gflops for product in data.ceilings.gemm), default=1.0)
    bandwidth = data.ceilings.gb_per_second() or peak
    ridge = peak / bandwidth
    intensities = [*(point.intensity for point in data.points), ridge]
    speeds = [*(point.gflops for point in data.points), peak]
    return _Limits(
        left=min(min(intensities) / 3, ridge / 10),
        right=max(max(intensities) * 4, ridge * 10),
        bottom=min(min(speeds) / 2.5, peak / 12),
        top=max(speeds) * 1.8,
    )


def _limit_entry(roof: _Roof) -> str:
    return wrapped(f"{roof.name}: {roof.speed}", 0.85)


def _point_entries(data: Roofline) -> list[str]:
    return [
        wrapped(f"{number} {point.label}: {significant(point.gflops, 3)} GFLOP/s", 0.85)
        for number, point in enumerate(data.points, 1)
    ]


def _draw(data: Roofline, figure: Figure) -> None:
    axes, limits = figure.add_subplot(), _axis_limits(data)
    log_scale(axes.xaxis, limits.left, limits.right)
    log_scale(axes.yaxis, limits.bottom, limits.top)
    axes.set_xlabel("arithmetic intensity in FLOP per byte (log scale)")
    axes.set_ylabel("GFLOP/s (log scale)")
    for roof in _roofs(data):
        xs, ys = zip(*roof.line)
        axes.plot(xs, ys, color=roof.colour, lw=2, ls=(0, roof.dashes or None), label=_limit_entry(roof))
    for point, entry in zip(data.points, _point_entries(data)):
        colour, marker = theme.precision_style(point.precision)[0], _MARKERS.get(point.precision, "D")
        axes.plot(point.intensity, point.gflops, marker=marker, color=colour, ls="none", zorder=4, label=entry)
    number_marks(axes, [(point.intensity, point.gflops) for point in data.points])
    add_legend(figure)
