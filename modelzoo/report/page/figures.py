"""The plots of a page, each in two widths and with its data as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Optional, TypeVar

from modelzoo.formatting import capitalized
from modelzoo.report.differences import ShownRow
from modelzoo.report.page.content import Figure, Table
from modelzoo.report.page.kernels import evidence_of
from modelzoo.report.plots import canvas, ecdf, forest, history, kernels, processes, roofline
from modelzoo.report.table import Column

MOST_DRAWN = 7
"""Settings of one workload that are drawn: as many as there are colours. The tables have all of them."""

Widths = tuple[float, ...]
BOTH: Widths = (canvas.NARROW, canvas.WIDE)
ONE: Widths = (canvas.NARROW,)
"""The widths in which a plot is drawn: one for phones and one for desktops, or one for all to save space."""

T = TypeVar("T")
Draw = Callable[[T, str, float], str]


def ratios(data: forest.Forest, mark: str, widths: Widths = BOTH) -> Optional[Figure]:
    """Return the plot of all ratios; ``None`` if there are none."""
    if not data.rows:
        return None
    caption = (
        f"{capitalized(data.axis)}, with 95 % intervals: above 1 is {data.better}. SAME: the whole interval lies in "
        "the band around 1. The intervals are not corrected for the number of ratios, the verdicts are."
    )
    return _figure(data, forest.svg, forest.columns(data), mark, caption, widths)


def medians(shown: Sequence[ShownRow], mark: str, widths: Widths = BOTH) -> Optional[Figure]:
    """Return the medians of the processes of one workload; ``None`` if nothing was timed."""
    found = [processes.series(e.row.label, [e.runs], e.row.latency) for e in shown if e.row.latency is not None]
    if not found:
        return None
    workload = shown[0].row.workload
    caption = (
        "Median latency of each process, in the order in which they ran; every panel has the same relative scale. Line "
        f"and band: the level with its 95 % interval. {_left_out(found)}"
    )
    drawn = processes.Processes(workload, tuple(found[:MOST_DRAWN]))
    every = processes.columns(processes.Processes(workload, tuple(found)))
    return _figure(drawn, processes.svg, every, mark, caption, widths)


def distributions(shown: Sequence[ShownRow], mark: str, widths: Widths = BOTH) -> Optional[Figure]:
    """Return the distributions of the samples of one workload; ``None`` if nothing was timed."""
    found = [series for each in shown if (series := ecdf.series(each.row.label, each.runs)) is not None]
    if not found:
        return None
    workload = shown[0].row.workload
    caption = (
        "Distribution of the steady samples of all processes; below it the warm-up and the cold start (the first call "
        f"of each process), which are not part of it. {_left_out(found)}"
    )
    drawn = ecdf.Samples(workload, tuple(found[:MOST_DRAWN]))
    return _figure(drawn, ecdf.svg, ecdf.columns(ecdf.Samples(workload, tuple(found))), mark, caption, widths)


def time_shares(shown: Sequence[ShownRow], mark: str, widths: Widths = BOTH) -> Optional[Figure]:
    """Return the time by kernel and precision of one workload; ``None`` if nothing was audited."""
    audits = [(each.row.label, evidence_of(each)) for each in shown]
    found = [kernels.bar(label, evidence) for label, evidence in audits if evidence is not None]
    found = [bar for bar in found if bar.times]
    if not found:
        return None
    workload = shown[0].row.workload
    caption = (
        "Time of one audited pass by kernel and precision. Audited passes are slower than timed ones, because every "
        f"kernel is logged. {_left_out(found)}"
    )
    drawn = kernels.Kernels(workload, tuple(found[:MOST_DRAWN]))
    return _figure(drawn, kernels.svg, kernels.columns(kernels.Kernels(workload, tuple(found))), mark, caption, widths)


def roofs(data: roofline.Roofline, mark: str, widths: Widths = BOTH) -> Figure:
    """Return the settings below the limits of their machine."""
    caption = (
        "Speed of each setting below the limits that were measured on this machine: matrix products, and copies in "
        "memory. The bytes are those of all inputs and outputs, so what stays in a cache counts as well."
    )
    return _figure(data, roofline.svg, roofline.columns(data), mark, caption, widths)


def sessions(data: history.History, mark: str, caption: str) -> Figure:
    """Return the history of one workload."""
    drawn = history.History(data.workload, data.series[:MOST_DRAWN])
    return _figure(drawn, history.svg, history.columns(data), mark, f"{caption} {_left_out(data.series)}", BOTH)


def _figure(data: T, draw: Draw[T], columns: Sequence[Column], mark: str, caption: str, widths: Widths) -> Figure:
    drawings = tuple(draw(data, f"{mark}-{round(width)}", width) for width in widths)
    return Figure(caption.strip(), drawings, Table("The data of the plot", tuple(columns)))


def _left_out(every: Sequence[object]) -> str:
    if len(every) <= MOST_DRAWN:
        return ""
    return f"Drawn are the first {MOST_DRAWN} of {len(every)} settings; the table has all of them."
