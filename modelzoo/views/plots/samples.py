"""The distribution of the samples of each setting; below it first call and warm-up, which do not belong to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from modelzoo import stats
from modelzoo.document import theme
from modelzoo.formatting import seconds, time_unit
from modelzoo.records.run import Run
from modelzoo.views.plots.plot import SMALL, Plot, add_legend, captioned, columns, few, log_scale, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 400
"""Points of one curve. What is left out lies at most 1 / this beside the curve, vertically."""
FARTHEST = 2.0
"""The axis of the steady samples ends at this multiple of the largest median; samples beyond it are counted."""
_CURVES, _LANE = 180.0, 30.0
"""Heights of the curves, and of a lane, in CSS pixels."""


class SampleSeries(msgspec.Struct, frozen=True):
    """The samples of one setting, of all of its processes together, in seconds.

    Attributes:
        label: the setting.
        steady: the steady samples, at least one; in ascending order, the plot is drawn much faster.
        warmup: the calls of the warm-up, after the first one.
        cold: the first timed call of each process.
    """

    label: str
    steady: tuple[float, ...]
    warmup: tuple[float, ...]
    cold: tuple[float, ...]


def series(label: str, runs: Sequence[Run]) -> SampleSeries | None:
    """The samples of one setting; ``None`` if none of its processes was timed."""
    timed = [run.report.timing for run in runs if run.report is not None and run.report.timing is not None]
    timed = [timing for timing in timed if timing.steady]
    if not timed:
        return None
    return SampleSeries(
        label,
        tuple(sorted(sample for timing in timed for sample in timing.steady)),
        tuple(sample for timing in timed for sample in timing.warmup),
        tuple(timing.cold_start for timing in timed),
    )


def curve(samples: Sequence[float], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Return points of the empirical distribution function: a sample, and the share of samples up to it.

    With more than ``most`` samples these are order statistics at equal distances of rank, the smallest and the largest
    among them, each with its own exact share.
    """
    ordered = sorted(samples)
    return [(ordered[rank], (rank + 1) / len(ordered)) for rank in spread(len(ordered), most)]


def plot(workload: str, found: Sequence[SampleSeries]) -> Plot | None:
    """Return the plot of the distributions; ``None`` without samples.

    The table has percentiles of the steady samples, with the first timed call and the warm-up.
    """
    if not found:
        return None
    percentiles = [stats.percentiles(one.steady) for one in found]
    names = [name for name in ("p50", "p90", "p95", "p99") if any(name in each for each in percentiles)]
    titles = ("setting", "samples", "min", *names, "max", "first timed call (median)", "warm-up calls")
    rows = [
        (
            one.label,
            str(len(one.steady)),
            seconds(min(one.steady)),
            *(seconds(own.get(name)) for name in names),
            seconds(max(one.steady)),
            seconds(median(one.cold)),
            str(len(one.warmup)),
        )
        for one, own in zip(found, percentiles)
    ]
    caption = (
        "Distribution of the steady samples of all processes; below it the warm-up and the first timed call "
        "of each process, which are not part of it."
    )
    title = f"{workload}: distribution of the latencies"
    table = columns(titles, rows, numbers=titles[1:])
    return Plot(title, captioned(caption, found), table, partial(_draw, few(found)))


def _draw(drawn: Sequence[SampleSeries], figure: Figure) -> float:
    """Draw the curves up to the end of the axis, and a lane for each setting below them."""
    middles = [median(one.steady) for one in drawn]
    unit, scale = time_unit(max(middles))
    upper, lower = figure.subplots(2, height_ratios=[_CURVES, _LANE * len(drawn)])
    every = [scale * sample for one in drawn for sample in one.steady]
    end = min(max(every), FARTHEST * scale * max(middles))
    margin = (end / min(every)) ** 0.04 if end > min(every) else 1.02
    log_scale(upper.xaxis, min(every) / margin, end * margin)
    count = sum(sample > end * margin for sample in every)
    beyond = f"; {count} beyond, up to {seconds(max(every) / scale)} →" if count else ""
    upper.set(xlabel=f"latency in {unit} (log scale){beyond}", ylabel="share of the steady samples", ylim=(0, 1.02))
    every = [scale * sample for one in drawn for sample in (*one.warmup, *one.cold, median(one.steady))]
    margin = (max(every) / min(every)) ** 0.05 if max(every) > min(every) else 1.1
    log_scale(lower.xaxis, min(every) / margin, max(every) * margin)
    lower.set(ylim=(len(drawn) - 0.5, -0.5), yticks=[], xlabel=f"latency in {unit} (log scale); dotted: steady median")
    lower.set_title("not in the curves: | warm-up, × first timed call", fontsize=SMALL)
    lower.spines["left"].set_visible(False)
    for lane, (one, steady) in enumerate(zip(drawn, middles)):
        style, middle = theme.series_style(lane), scale * steady
        points, colour = curve(one.steady), style.colour
        steps, shares = zip((points[0][0], 0.0), *points)
        upper.plot([scale * x for x in steps], shares, drawstyle="steps-post", color=colour, lw=2, ls=style.line)
        entry = f"{one.label}: {len(one.steady)} samples"
        upper.plot(middle, 0.5, marker=style.marker, color=colour, lw=2, ls=style.line, label=entry)
        # The marker of the curve at the left edge tells whose lane it is.
        edge = lower.get_yaxis_transform()
        lower.plot([-0.02], [lane], transform=edge, marker=style.marker, color=colour, clip_on=False)
        lower.plot([middle, middle], [lane - 0.45, lane + 0.45], color=theme.INK, lw=1.4, ls=(0, (1, 1)))
        # One path with gaps instead of a marker for each call, which would take ten times the space.
        xs = [x for sample in one.warmup for x in (scale * sample, scale * sample, math.nan)]
        lower.plot(xs, [lane - 0.35, lane - 0.05, math.nan] * len(one.warmup), lw=1.2, color=colour)
        cold = [scale * sample for sample in one.cold]
        lower.plot(cold, [lane + 0.24] * len(cold), ls="none", marker="x", mew=1.6, color=colour, mec=colour)
    add_legend(figure)
    return _CURVES + _LANE * len(drawn)
