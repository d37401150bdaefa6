"""The roofline plot: settings below the measured limits of their machine (Williams et al., Roofline, 2009)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.document import Column, theme
from modelzoo.formatting import MISSING, significant
from modelzoo.records.ceilings import Ceilings
from modelzoo.records.run import Result
from modelzoo.report.plots import canvas
from modelzoo.report.plots.numbered import number_offsets, write_number
from modelzoo.report.plots.ticks import log_ticks
from modelzoo.results.summary import labels_as_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {"fp32": theme.BLUE, "bf16": theme.VERMILLION, "tf32": theme.SKY, "fp16": theme.ORANGE}
_MARKERS = {"fp32": "o", "bf16": "s", "tf32": "^", "fp16": "v"}
_DASHES: dict[str, tuple[float, ...]] = {"fp32": (), "bf16": (5, 2), "tf32": (2, 1), "fp16": (8, 2, 1, 2)}
_MEMORY_DASHES = (1.5, 1.5)
_TALLEST = 320.0
_LEFT, _RIGHT, _TOP, _AXIS, _ENTRY = 50.0, 14.0, 22.0, 48.0, 19.0


@dataclass(frozen=True)
class RooflinePoint:
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


@dataclass(frozen=True)
class Roofline:
    """Settings that ran on one machine, and its limits."""

    points: tuple[RooflinePoint, ...]
    ceilings: Ceilings


def of_result(result: Result, workload: str | None = None) -> Roofline | None:
    """One run of each setting; ``None`` if none can be placed under a roofline.

    Args:
        result: of a session.
        workload: by default all.
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
        label = f"{run.workload} {labels[run.group]}"
        point = RooflinePoint(label, bound.precision, bound.intensity, bound.gflops, bound.share_of_roof)
        points.setdefault(run.group, point)
        ceilings = ceilings or report.ceilings
    return Roofline(tuple(points.values()), ceilings) if ceilings is not None else None


def write_file(result: Result, path: Path) -> Path | None:
    """Write the plot of ``result`` as an SVG file; return ``None`` if nothing can be placed under a roofline.

    Raises:
        OSError: the file cannot be written.
    """
    data = of_result(result)
    if data is None:
        return None
    return canvas.write_file(partial(_figure, data), path, _title(data), _description(data))


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


def svg(data: Roofline, name: str, width: float = canvas.NARROW) -> str:
    """Draw the limits, and one numbered mark per setting, with a list of both below."""
    with canvas.drawing():
        return canvas.element(_figure(data, width), name, _title(data), _description(data))


def _title(data: Roofline) -> str:
    threads = data.ceilings.threads
    if data.ceilings.device is not None:
        return f"Roofline, {data.ceilings.device}"
    return f"Roofline, {threads} thread{'s' * (threads > 1)}"


def _description(data: Roofline) -> str:
    limits = "; ".join(f"{roof.name}: {roof.speed}" for roof in _roofs(data))
    shown = "; ".join(
        f"{point.label}: {significant(point.gflops, 3)} GFLOP/s at {significant(point.intensity, 3)} FLOP per byte"
        for point in data.points
    )
    return f"Speed by arithmetic intensity, both logarithmic, below the measured limits. Limits: {limits}. {shown}"


# What is drawn


@dataclass(frozen=True)
class _Roof:
    """One measured limit: a line between two points (intensity, GFLOP/s)."""

    name: str
    precision: str
    speed: str
    line: tuple[tuple[float, float], tuple[float, float]]
    colour: str
    dashes: tuple[float, ...]


@dataclass(frozen=True)
class _Entry:
    """An entry of the legend: a mark if it has a marker, otherwise a line."""

    text: str
    colour: str
    marker: str = ""
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True)
class _Limits:
    """Ranges of the axes: intensities from ``left`` to ``right``, speeds from ``bottom`` to ``top``."""

    left: float
    right: float
    bottom: float
    top: float


def _roofs(data: Roofline) -> list[_Roof]:
    limits, bandwidth = _axis_limits(data), data.ceilings.gb_per_second()
    peaks = {precision: data.ceilings.gflops(precision) or 0.0 for precision in _COLOURS}
    highest = max(peaks.values())
    found = []
    for precision, peak in peaks.items():
        if peak:
            start = max(limits.left, peak / bandwidth) if bandwidth else limits.left
            line = ((start, peak), (limits.right, peak))
            speed = f"{significant(peak, 3)} GFLOP/s"
            name = f"{precision} matrix product"
            found.append(_Roof(name, precision, speed, line, _COLOURS[precision], _DASHES[precision]))
    if bandwidth and highest:
        line = ((limits.left, limits.left * bandwidth), (highest / bandwidth, highest))
        speed = f"{significant(bandwidth, 3)} GB/s"
        found.append(_Roof("memory copy", "", speed, line, theme.INK, _MEMORY_DASHES))
    return found


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


def _figure(data: Roofline, width: float) -> Figure:
    roofs, limits = _roofs(data), _axis_limits(data)
    entries = [_Entry(f"{roof.name}: {roof.speed}", roof.colour, dashes=roof.dashes) for roof in roofs]
    for number, point in enumerate(data.points, 1):
        text = f"{number} {point.label}: {significant(point.gflops, 3)} GFLOP/s"
        entries.append(_Entry(text, *_mark(point.precision)))
    lines = [canvas.wrapped(entry.text, width - 44) for entry in entries]
    length = width - _LEFT - _RIGHT
    height = min(0.62 * length, _TALLEST)
    legend = _TOP + height + _AXIS
    figure = canvas.new_figure(width, legend + sum(_ENTRY + (len(each) - 1) * canvas.LINE for each in lines) + 4)
    axes = canvas.new_axes(figure, _LEFT, _TOP, length, height)
    _set_axes(axes, limits, length, height)
    for roof in roofs:
        xs, ys = zip(*roof.line)
        axes.plot(xs, ys, color=roof.colour, lw=2, ls=(0, roof.dashes or None))
    _draw_points(axes, data.points, limits, length, height)
    canvas.write(figure, 4, 13, "GFLOP/s (log scale)", size=canvas.SMALL)
    title = "arithmetic intensity in FLOP per byte (log scale)"
    canvas.write(figure, width - _RIGHT, legend - 12, title, align="right", size=canvas.SMALL)
    _draw_legend(figure, entries, lines, legend + 10)
    return figure


def _draw_legend(figure: Figure, entries: Sequence[_Entry], lines: Sequence[Sequence[str]], top: float) -> None:
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches() * 72
    for entry, each in zip(entries, lines):
        y = 1 - top / height
        if entry.marker:
            sample = Line2D([18 / width], [y], color=entry.colour, marker=entry.marker, ls="none", ms=8, mec=theme.PAGE)
        else:
            ends = [4 / width, 32 / width]
            sample = Line2D(ends, [y, y], color=entry.colour, lw=2, ls=(0, entry.dashes or None))
        figure.add_artist(sample)
        for index, line in enumerate(each):
            canvas.write(figure, 40, top + 4 + index * canvas.LINE, line)
        top += _ENTRY + (len(each) - 1) * canvas.LINE


def _mark(precision: str) -> tuple[str, str]:
    """Colour and marker of what ran in this precision."""
    return _COLOURS.get(precision, theme.PURPLE), _MARKERS.get(precision, "D")


def _set_axes(axes: Axes, limits: _Limits, length: float, height: float) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(limits.left, limits.right)
    axes.set_ylim(limits.bottom, limits.top)
    canvas.set_ticks(axes.xaxis, log_ticks(limits.left, limits.right, length, 40))
    canvas.set_ticks(axes.yaxis, log_ticks(limits.bottom, limits.top, height, 24))
    axes.grid(True)


def _draw_points(axes: Axes, points: Sequence[RooflinePoint], limits: _Limits, length: float, height: float) -> None:
    places = [
        (
            length * math.log(point.intensity / limits.left) / math.log(limits.right / limits.left),
            height * math.log(point.gflops / limits.bottom) / math.log(limits.top / limits.bottom),
        )
        for point in points
    ]
    for number, (point, offset) in enumerate(zip(points, number_offsets(places)), 1):
        colour, marker = _mark(point.precision)
        place = (point.intensity, point.gflops)
        axes.plot(*place, marker=marker, color=colour, ms=8, mec=theme.PAGE, zorder=4)
        write_number(axes, number, place, offset)
