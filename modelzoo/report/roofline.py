"""The roofline plot: runs below the measured limits of their machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.records.ceilings import Ceilings
from modelzoo.records.run import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"fp32": "#1f5fa8", "bf16": "#c8571b"}
_MARKERS = {"fp32": "o", "bf16": "s"}
_GREY = "#444444"
_LABEL_GAP = 7.0
"""Distance between a mark and its label in points."""
_PLOT_WIDTH, _PLOT_HEIGHT = 450.0, 320.0
"""Approximate size of the plotting area in points, to tell whether two labels overlap."""


@dataclass(frozen=True)
class RooflinePoint:
    """One run: its arithmetic intensity in operations per byte, and its speed in GFLOP/s."""

    label: str
    precision: str
    intensity: float
    gflops: float


@dataclass(frozen=True)
class _Limits:
    """Ranges of the axes: intensities from ``left`` to ``right``, speeds from ``bottom`` to ``top``."""

    left: float
    right: float
    bottom: float
    top: float


def plot_result(result: Result, path: Path) -> Path | None:
    """Plot one run of each setting in ``result``; return ``None`` if none can be placed under a roofline."""
    points: dict[int, RooflinePoint] = {}
    ceilings: Ceilings | None = None
    for run in result.runs:
        report = run.report
        bound = report.bound if report is not None else None
        if report is None or bound is None or not bound.intensity:
            continue
        label = f"{run.workload} {result.label(run.group)}"
        points.setdefault(run.group, RooflinePoint(label, bound.precision, bound.intensity, bound.gflops))
        ceilings = ceilings or report.ceilings
    if ceilings is None:
        return None
    plot_roofline(list(points.values()), ceilings, path)
    return path


def plot_roofline(points: Sequence[RooflinePoint], ceilings: Ceilings, path: Path, title: str = "") -> None:
    """Draw the roofs and one mark per run.

    Args:
        points: the runs.
        ceilings: of their machine.
        path: the file to write; its suffix gives the format (PNG, SVG, PDF).
        title: by default the number of threads.

    Raises:
        ValueError: matplotlib does not know the format.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(8.4, 5.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    limits = _axis_limits(points, ceilings)
    axes.set_xlim(limits.left, limits.right)
    axes.set_ylim(limits.bottom, limits.top)
    _draw_roofs(axes, ceilings, limits)
    _draw_points(axes, points, limits)
    axes.set_xlabel("arithmetic intensity, FLOP per byte")
    axes.set_ylabel("GFLOP/s")
    plural = "s" * (ceilings.threads > 1)
    axes.set_title(title or f"roofline, {ceilings.threads} thread{plural}", fontsize=11)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(True, which="major", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    # Without the date, equal results give equal files.
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=150, metadata=metadata)


def _draw_roofs(axes: Axes, ceilings: Ceilings, limits: _Limits) -> None:
    bandwidth = ceilings.gb_per_second()
    peaks = {precision: ceilings.gflops(precision) or 0.0 for precision in _COLOURS}
    highest = max(peaks.values())
    for precision, peak in peaks.items():
        if not peak:
            continue
        start = max(limits.left, peak / bandwidth) if bandwidth else limits.left
        axes.plot([start, limits.right], [peak, peak], color=_COLOURS[precision], lw=2)
        # Labels are outside the plot, the higher roof's above its line: the roofs may be close to each other.
        axes.annotate(
            f"{precision} matrix product\n{peak:.0f} GFLOP/s",
            (limits.right, peak),
            xytext=(6, 0),
            textcoords="offset points",
            va="bottom" if peak == highest else "top",
            color=_COLOURS[precision],
            fontsize=9,
        )
    if not bandwidth or not highest:
        return
    axes.plot([limits.left, highest / bandwidth], [limits.left * bandwidth, highest], color=_GREY, lw=2)
    # The label is left of the line, where no run can be.
    middle = math.sqrt(max(limits.left, limits.bottom / bandwidth) * highest / bandwidth)
    axes.annotate(
        f"memory copy\n{bandwidth:.0f} GB/s",
        (middle, middle * bandwidth),
        xytext=(-8, 4),
        textcoords="offset points",
        ha="right",
        color=_GREY,
        fontsize=9,
    )


def _draw_points(axes: Axes, points: Sequence[RooflinePoint], limits: _Limits) -> None:
    from matplotlib.patheffects import withStroke

    for point, (right, up) in zip(points, _label_sides(points, limits)):
        colour = _COLOURS.get(point.precision, "#333333")
        axes.plot(
            [point.intensity],
            [point.gflops],
            marker=_MARKERS.get(point.precision, "D"),
            color=colour,
            ms=7,
            mec="white",
            ls="none",
            zorder=4,
        )
        axes.annotate(
            point.label,
            (point.intensity, point.gflops),
            xytext=(_LABEL_GAP * right, _LABEL_GAP * up),
            textcoords="offset points",
            ha={1: "left", -1: "right", 0: "center"}[right],
            va={1: "bottom", -1: "top", 0: "center"}[up],
            fontsize=9,
            color=colour,
            zorder=3,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )


@dataclass(frozen=True)
class _Box:
    """A rectangle in points."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: _Box) -> float:
        """Return the area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, width) * max(0.0, height)


def _label_sides(points: Sequence[RooflinePoint], limits: _Limits) -> list[tuple[int, int]]:
    """Choose a side of its mark for each label, (±1, 0) or (0, ±1), so that it overlaps no mark and no label."""

    def position(point: RooflinePoint) -> tuple[float, float]:
        return (
            _PLOT_WIDTH * math.log(point.intensity / limits.left) / math.log(limits.right / limits.left),
            _PLOT_HEIGHT * math.log(point.gflops / limits.bottom) / math.log(limits.top / limits.bottom),
        )

    def label_box(point: RooflinePoint, side: tuple[int, int]) -> _Box:
        (x, y), width, height = position(point), 5.2 * len(point.label), 11.0
        x += side[0] * (_LABEL_GAP + width / 2)
        y += side[1] * (_LABEL_GAP + height / 2)
        return _Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    taken = [_Box(x - 4, y - 4, x + 4, y + 4) for x, y in map(position, points)]
    sides: list[tuple[int, int]] = []
    for point in points:
        boxes = {side: label_box(point, side) for side in ((1, 0), (-1, 0), (0, 1), (0, -1))}
        overlaps = {side: sum(box.overlap(other) for other in taken) for side, box in boxes.items()}
        best = min(overlaps, key=lambda side: overlaps[side])
        sides.append(best)
        taken.append(boxes[best])
    return sides


def _axis_limits(points: Sequence[RooflinePoint], ceilings: Ceilings) -> _Limits:
    """Return ranges that show every run and both slopes of the roof."""
    peak = max((product.gflops for product in ceilings.gemm), default=1.0)
    bandwidth = ceilings.gb_per_second() or peak
    ridge = peak / bandwidth
    intensities = [*(point.intensity for point in points), ridge]
    speeds = [*(point.gflops for point in points), peak]
    return _Limits(
        left=min(min(intensities) / 3, ridge / 10),
        right=max(max(intensities) * 4, ridge * 10),
        bottom=min(min(speeds) / 2.5, peak / 12),
        top=max(speeds) * 1.8,
    )
