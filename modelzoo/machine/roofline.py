"""How near a run came to what this machine can do, and the picture of it.

The model is Williams, Waterman, Patterson: "Roofline", CACM 52(4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelzoo.records.ceilings import Ceilings
from modelzoo.records.roofline import Bound, BoundBy


def bound(
    flops: float,
    bytes_moved: float | None,
    seconds: float,
    found: Ceilings,
    precision: str,
    threads: int | None = None,
) -> Bound:
    """Place one iteration under the roof.

    Args:
        flops: operations of one iteration; a multiply-add counts as two.
        bytes_moved: bytes it must read and write at least, or ``None`` where nobody counted.
        seconds: its time.
        found: the machine's ceilings.
        precision: fp32 or bf16, of the kernels that ran.
        threads: of the run, default that of ``found``; only 1 and that were measured.

    Raises:
        ValueError: ``seconds`` or ``flops`` is not over 0.
    """
    if not seconds > 0 or not flops > 0:
        raise ValueError(f"flops and seconds must be over 0, not {flops} and {seconds}")
    gflops = flops / seconds / 1e9
    ceiling, bandwidth = found.gflops(precision, threads), found.gb_per_second(threads)
    intensity = flops / bytes_moved if bytes_moved else None
    ridge = ceiling / bandwidth if ceiling and bandwidth else None
    roof = bound_by = None
    if ceiling and bandwidth and ridge and intensity is not None:
        roof = min(ceiling, intensity * bandwidth)
        bound_by = BoundBy.COMPUTE if intensity >= ridge else BoundBy.MEMORY
    return Bound(
        precision=precision,
        gflops=gflops,
        ceiling=ceiling,
        share_of_ceiling=gflops / ceiling if ceiling else None,
        intensity=intensity,
        ridge=ridge,
        share_of_roof=gflops / roof if roof else None,
        bound_by=bound_by,
    )


# --- plotting ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """One run in the plot."""

    label: str
    precision: str
    intensity: float
    gflops: float


_COLOURS = {"fp32": "#1f5fa8", "bf16": "#c8571b"}
_MARKERS = {"fp32": "o", "bf16": "s"}


def plot(points: Sequence[Point], found: Ceilings, path: Path, title: str = "") -> None:
    """Draw the roofline with one mark a run; the ending of ``path`` gives the format (PNG, SVG, PDF).

    Raises:
        ValueError: matplotlib does not know the format.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(8.4, 5.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high, bottom, top = _limits(points, found)
    axes.set_xlim(low, high)
    axes.set_ylim(bottom, top)
    bandwidth = found.gb_per_second()
    peaks = {precision: found.gflops(precision) or 0.0 for precision in _COLOURS}
    best = max(peaks.values())
    for precision, peak in peaks.items():
        if peak:
            start = max(low, peak / bandwidth) if bandwidth else low
            axes.plot([start, high], [peak, peak], color=_COLOURS[precision], lw=2)
            # Names stand outside, the higher one's above: the two roofs may be close.
            axes.annotate(
                f"{precision} matrix product\n{peak:.0f} GFLOP/s",
                (high, peak),
                xytext=(6, 0),
                textcoords="offset points",
                va="bottom" if peak == best else "top",
                color=_COLOURS[precision],
                fontsize=9,
            )
    if bandwidth and best:
        axes.plot([low, best / bandwidth], [low * bandwidth, best], color="#444444", lw=2)
        # Left of the line no run can lie.
        middle = math.sqrt(max(low, bottom / bandwidth) * best / bandwidth)
        axes.annotate(
            f"memory copy\n{bandwidth:.0f} GB/s",
            (middle, middle * bandwidth),
            xytext=(-8, 4),
            textcoords="offset points",
            ha="right",
            color="#444444",
            fontsize=9,
        )
    _marks(axes, points, (low, high, bottom, top))
    axes.set_xlabel("arithmetic intensity, FLOP per byte")
    axes.set_ylabel("GFLOP/s")
    plural = "s" * (found.threads > 1)
    axes.set_title(title or f"roofline, {found.threads} thread{plural}", fontsize=11)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(True, which="major", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=150, metadata=metadata)


def _marks(axes: Any, points: Sequence[Point], limits: tuple[float, float, float, float]) -> None:
    """Draw the runs with their names."""
    from matplotlib.patheffects import withStroke

    for point, side in zip(points, _sides(points, limits)):
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
            xytext=(_GAP * side[0], _GAP * side[1]),
            textcoords="offset points",
            ha={1: "left", -1: "right", 0: "center"}[side[0]],
            va={1: "bottom", -1: "top", 0: "center"}[side[1]],
            fontsize=9,
            color=colour,
            zorder=3,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )


_GAP = 7.0
_WIDTH, _HEIGHT = 450.0, 320.0
"""The plot's area in points, near enough to tell whether two names meet."""


def _sides(points: Sequence[Point], limits: tuple[float, float, float, float]) -> list[tuple[int, int]]:
    """Choose for each name a side of its mark, (±1, 0) or (0, ±1), where it meets no mark and no name."""
    low, high, bottom, top = limits

    def place(point: Point) -> tuple[float, float]:
        return (
            _WIDTH * math.log(point.intensity / low) / math.log(high / low),
            _HEIGHT * math.log(point.gflops / bottom) / math.log(top / bottom),
        )

    def box(point: Point, side: tuple[int, int]) -> tuple[float, float, float, float]:
        (x, y), width, height = place(point), 5.2 * len(point.label), 11.0
        x += side[0] * (_GAP + width / 2)
        y += side[1] * (_GAP + height / 2)
        return x - width / 2, y - height / 2, x + width / 2, y + height / 2

    def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
        return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))

    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in map(place, points)]
    chosen = []
    for point in points:
        sides = ((1, 0), (-1, 0), (0, 1), (0, -1))
        side = min(sides, key=lambda s: sum(overlap(box(point, s), other) for other in taken))
        chosen.append(side)
        taken.append(box(point, side))
    return chosen


def _limits(points: Sequence[Point], found: Ceilings) -> tuple[float, float, float, float]:
    peak = max((g.gflops for g in found.gemm), default=1.0)
    bandwidth = found.gb_per_second() or peak
    ridge = peak / bandwidth
    intensities = [p.intensity for p in points] + [ridge]
    speeds = [p.gflops for p in points] + [peak]
    low, high = min(min(intensities) / 3, ridge / 10), max(max(intensities) * 4, ridge * 10)
    return low, high, min(min(speeds) / 2.5, peak / 12), max(speeds) * 1.8
