"""The plots of a page, each in two widths and with its data as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Callable, Generic, Optional, TypeVar

from modelzoo.document import Column, Figure, Table, Text
from modelzoo.formatting import capitalized
from modelzoo.report.differences import ShownRow
from modelzoo.report.page.kernels import evidence_of
from modelzoo.report.plots import canvas, ecdf, forest, history, kernels, load, processes, roofline, stages, throughput
from modelzoo.results.pipeline import PipelineLevels

MOST_DRAWN = 7
"""Settings of one workload that are drawn: as many as there are colours. The tables have all of them."""

Widths = tuple[float, ...]
BOTH: Widths = (canvas.NARROW, canvas.WIDE)
ONE: Widths = (canvas.NARROW,)
"""The widths in which a plot is drawn: one for phones and one for desktops, or one for all to save space."""

S = TypeVar("S")
T = TypeVar("T")
Draw = Callable[[T, str, float], str]


@dataclass(frozen=True)
class Plot(Generic[S, T]):
    """A plot of several settings: what makes its data of them, what draws it, and the columns of its table."""

    data: Callable[[tuple[S, ...]], T]
    draw: Draw[T]
    columns: Callable[[T], Sequence[Column]]


def ratios(data: forest.Forest, mark: str, widths: Widths = BOTH) -> Optional[Figure]:
    """Return the plot of all ratios; ``None`` if there are none."""
    if not data.rows:
        return None
    caption = (
        f"{capitalized(data.axis)}, with 95 % intervals: above 1 is {data.better}. SAME: the whole interval lies in "
        "the band around 1. The intervals are not corrected for the number of ratios, the verdicts are."
    )
    return _figure(data, forest.svg, forest.columns(data), mark, caption, widths)


def frontier(data: throughput.Frontier, mark: str, widths: Widths = BOTH) -> Figure:
    """Return the plot of throughput against latency."""
    caption = (
        f"Throughput of all instances together against the {data.latency_name} latency of a batch; vertical bars are "
        "95 % intervals over the rounds. The line joins the configurations that no other one beats in both; the "
        "diamond is the one that is recommended."
    )
    return _figure(data, throughput.svg, throughput.columns(data), mark, caption, widths)


def steps(data: forest.Forest, mark: str, widths: Widths = BOTH) -> Optional[Figure]:
    """Return the plot of the steps to the winner of a search; ``None`` if there are none."""
    if not data.rows:
        return None
    caption = (
        "Each step from the default to the winner, by one option, with its 95 % interval: above 1 is faster than the "
        "step before. All were measured again, in processes that took no part in the choice."
    )
    return _figure(data, forest.svg, forest.columns(data), mark, caption, widths)


def under_load(data: load.LoadCurve, mark: str, widths: Widths = BOTH) -> Figure:
    """Return the plot of latency against the rate of requests."""
    caption = (
        f"Median and {data.tail_name} of the latency of every run, counted from the scheduled arrivals. Hollow marks: "
        "the run is INVALID; faint ones ended early, because they could not meet the bound any more. The line is the "
        "rate that all repeats sustained, the band the 95 % interval of their level."
    )
    return _figure(data, load.svg, load.columns(data), mark, caption, widths)


def medians(shown: Sequence[ShownRow], mark: str, widths: Widths = BOTH) -> Optional[Figure]:
    """Return the medians of the processes of one workload; ``None`` if nothing was timed."""
    found = [processes.series(e.row.label, [e.runs], e.row.latency) for e in shown if e.row.latency is not None]
    caption = (
        "Median latency of each process, in the order in which they ran; every panel has the same relative scale. Line "
        "and band: the level with its 95 % interval."
    )
    plot = Plot(partial(processes.Processes, shown[0].row.workload), processes.svg, processes.columns)
    return _settings(found, plot, mark, caption, widths) if found else None


def distributions(shown: Sequence[ShownRow], mark: str, widths: Widths = BOTH) -> Optional[Figure]:
    """Return the distributions of the samples of one workload; ``None`` if nothing was timed."""
    found = [series for each in shown if (series := ecdf.series(each.row.label, each.runs)) is not None]
    caption = (
        "Distribution of the steady samples of all processes; below it the warm-up and the cold start (the first call "
        "of each process), which are not part of it."
    )
    plot = Plot(partial(ecdf.Samples, shown[0].row.workload), ecdf.svg, ecdf.columns)
    return _settings(found, plot, mark, caption, widths) if found else None


def time_shares(shown: Sequence[ShownRow], mark: str, widths: Widths = BOTH) -> Optional[Figure]:
    """Return the time by kernel and precision of one workload; ``None`` if nothing was audited."""
    audits = [(each.row.label, evidence_of(each)) for each in shown]
    found = [kernels.bar(label, evidence) for label, evidence in audits if evidence is not None]
    found = [bar for bar in found if bar.times]
    caption = (
        "Time of one audited pass by kernel and precision. Audited passes are slower than timed ones, because every "
        "kernel is logged."
    )
    plot = Plot(partial(kernels.Kernels, shown[0].row.workload), kernels.svg, kernels.columns)
    return _settings(found, plot, mark, caption, widths) if found else None


def stage_times(found: Sequence[PipelineLevels], mark: str, widths: Widths = BOTH) -> Figure:
    """Return the stages of the pipelines of one workload; there is at least one."""
    caption = (
        "Seconds of each stage per batch, the level of the processes' medians. With several batches in flight the "
        "stages of different batches overlap, so that a batch is finished sooner than their sum says."
    )
    plot = Plot(partial(stages.StageBars, found[0].workload), stages.svg, stages.columns)
    return _settings(found, plot, mark, caption, widths)


def roofs(data: roofline.Roofline, mark: str, widths: Widths = BOTH) -> Figure:
    """Return the settings below the limits of their machine."""
    caption = (
        "Speed of each setting below the limits that were measured on this machine: matrix products, and copies in "
        "memory. The bytes are those of all inputs and outputs, so what stays in a cache counts as well."
    )
    return _figure(data, roofline.svg, roofline.columns(data), mark, caption, widths)


def sessions(data: history.History, mark: str, caption: str) -> Figure:
    """Return the history of one workload."""
    plot = Plot(partial(history.History, data.workload), history.svg, history.columns)
    return _settings(data.series, plot, mark, caption, BOTH)


def _settings(found: Sequence[S], plot: Plot[S, T], mark: str, caption: str, widths: Widths) -> Figure:
    """The plot of the first settings, with a table of all."""
    if len(found) > MOST_DRAWN:
        caption += f" Drawn are the first {MOST_DRAWN} of {len(found)} settings; the table has all of them."
    columns = plot.columns(plot.data(tuple(found)))
    return _figure(plot.data(tuple(found[:MOST_DRAWN])), plot.draw, columns, mark, caption, widths)


def _figure(data: T, draw: Draw[T], columns: Sequence[Column], mark: str, caption: str, widths: Widths) -> Figure:
    drawings = tuple(draw(data, f"{mark}-{round(width)}", width) for width in widths)
    return Figure(Text(caption), drawings, Table("The data of the plot", tuple(columns)))
