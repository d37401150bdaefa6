"""Marks on two axes: throughput against latency, latency under load, rooflines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from modelzoo.document import theme
from modelzoo.formatting import MISSING, counted, rounded_down, seconds, share, significant, time_unit
from modelzoo.records.profile import Bound, Ceilings
from modelzoo.records.run import Result
from modelzoo.records.serving import Load
from modelzoo.results import load as load_results
from modelzoo.results import throughput as throughput_results
from modelzoo.stats import percentile
from modelzoo.views.plots import HEIGHT, Plot, add_legend, columns, log_scale, number_marks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARGIN = 1.15
"""The axes end this factor beyond the outermost marks."""
_LOG_FROM = 20.0
"""The axis of the rates is logarithmic if the highest is more than this multiple of the lowest."""
_WIDEST = 2.0
"""Intervals are drawn up to this multiple of the highest throughput; what is farther out is an arrow at the edge."""
_DASHED, _DOTTED = (0, (4.0, 3.0)), (0, (1.5, 1.5))
_MARKERS = {"fp32": "o", "bf16": "s", "tf32": "^", "fp16": "v", "int8": "D"}
_DASHES = {"fp32": None, "bf16": (5, 2), "tf32": (2, 1), "fp16": (8, 2, 1, 2), "int8": (1, 1)}


def frontier(result: Result) -> Plot | None:
    """Return the plot of throughput against latency: a mark for every configuration, the best ones joined by a line.

    With a bound, the latencies are its percentile if every configuration has enough samples for it, else medians.
    ``None`` is returned if no configuration was measured.
    """
    found = throughput_results.of(result)
    known = [
        (row, row.throughput, row.latency)
        for row in throughput_results.rows(result)
        if row.throughput is not None and row.latency is not None
    ]
    if not known:
        return None
    bound = found.bound if all(row.bounded is not None for row, _, _ in known) else None
    marks = [(row, rate, row.bounded or 0.0 if bound is not None else latency) for row, rate, latency in known]
    marks.sort(key=lambda mark: (mark[2], -mark[1].value))
    highest = [max(rate.value for _, rate, _ in marks[: index + 1]) for index in range(len(marks))]
    on_frontier = [high > before for high, before in zip(highest, (0.0, *highest))]
    recommended = throughput_results.recommendation(result)
    unit, factor = time_unit(max(latency for _, _, latency in marks))
    places = [(factor * latency, rate.value) for _, rate, latency in marks]
    names = [row.configuration.name + (f", {row.setting}" if row.setting else "") for row, _, _ in marks]
    which = "median" if bound is None else bound.name

    def draw(figure: Figure) -> float:
        label = f"{which} latency of a batch in {unit} (log scale)"
        axes: Axes = figure.add_subplot(xlabel=label, ylabel=f"{found.unit} per second")
        widest = _WIDEST * highest[-1]
        top = _MARGIN * max(min(rate.high, widest) if math.isfinite(rate.high) else rate.value for _, rate, _ in marks)
        latencies = [x for x, _ in places]
        if bound is not None:
            at = factor * bound.seconds
            latencies.append(at)
            axes.axvline(at, color=theme.VERMILLION, lw=1.7, ls=_DASHED, label=bound.text)
        log_scale(axes.xaxis, min(latencies) / _MARGIN, max(latencies) * _MARGIN)
        axes.set_ylim(0.0, top)
        best = [place for place, is_best in zip(places, on_frontier) if is_best]
        axes.plot(*zip(*best), color=theme.BLUE, lw=1.7, drawstyle="steps-post")
        for number, ((row, rate, _), (x, y), name) in enumerate(zip(marks, places, names), 1):
            said = [] if row.meets is None else ["meets the bound" if row.meets else "over the bound"]
            said += [] if math.isfinite(rate.high) else ["one round: no interval"]
            label = f"{number}: {name}" + (f" ({', '.join(said)})" if said else "")
            is_best = recommended is not None and row.index == recommended.row.index
            marker, size = ("D", 11.0) if is_best else ("o", 8.0)
            colour = theme.BLUE if on_frontier[number - 1] else theme.FAINT
            axes.plot(x, y, color=colour, marker=marker, ms=size, ls="none", label=label, clip_on=False, zorder=4)
            if math.isfinite(rate.high):
                axes.vlines(x, max(0.0, rate.low), min(rate.high, top), color=colour, lw=1.2, zorder=3)
                if rate.high > top:
                    axes.plot(x, top, color=colour, marker="^", ms=6, clip_on=False, zorder=3)
        number_marks(axes, places)
        add_legend(figure)
        return HEIGHT

    caption = (
        f"Throughput of all instances together against the {which} latency of a batch; vertical bars are 95 % "
        "intervals over the rounds, with an arrow if they reach beyond the plot. The line joins the configurations "
        "that no other one beats in both; the diamond is the one that is recommended."
    )
    rows = [
        (str(number), name, seconds(latency), significant(rate.value), "yes" if is_best else MISSING)
        for number, ((_, rate, latency), name, is_best) in enumerate(zip(marks, names, on_frontier), 1)
    ]
    titles = ("", "configuration", f"{which} latency", f"{found.unit}/s", "frontier")
    table = columns(titles, rows, numbers=("", *titles[2:4]))
    return Plot(f"{found.workload}: throughput against latency", caption, table, draw)


def load_curve(load: Load) -> Plot | None:
    """Return the plot of latency against the rate of requests: the runs of a search, the bound, and what was found.

    ``None`` is returned unless there are runs at two rates or more.
    """
    percent = load_results.shown_percent(load)
    timed = [(run, run.rate, percentile(run.latencies, 50.0), percentile(run.latencies, percent)) for run in load.runs]
    points = [(run, rate, middle, tail) for run, rate, middle, tail in timed if rate is not None and middle is not None]
    points.sort(key=lambda point: point[1])
    rates = [rate for _, rate, _, _ in points]
    if len(set(rates)) < 2:
        return None
    bound, tail_name, answer = load.plan.bound, f"p{percent:g}", load_results.answer(load)
    times = [value for _, _, middle, tail in points for value in (middle, tail) if value]
    unit, factor = time_unit(bound.seconds if bound is not None else max(times, default=0.0))
    times += [bound.seconds] if bound is not None else []

    def draw(figure: Figure) -> float:
        axes: Axes = figure.add_subplot(xlabel="requests per second", ylabel=f"latency in {unit} (log scale)")
        log_scale(axes.yaxis, factor * min(times) / _MARGIN, factor * max(times) * _MARGIN)
        ends = (min(rates) / _MARGIN, max(rates) * _MARGIN)
        if max(rates) > _LOG_FROM * min(rates):
            log_scale(axes.xaxis, *ends)
        axes.set_xlim(ends)
        if answer is not None:
            level = answer.level
            if level.low > 0 and math.isfinite(level.high):
                axes.axvspan(level.low, level.high, color=theme.BAND, lw=0, zorder=0.5)
            label = f"{rounded_down(answer.sustained)} requests/s, which every repeat sustained"
            axes.axvline(answer.sustained, color=theme.GREEN, lw=1.7, label=label)
        if bound is not None:
            label = f"the bound, {bound.text}"
            axes.axhline(factor * bound.seconds, color=theme.VERMILLION, lw=1.7, ls=_DASHED, label=label)
        looks = ((theme.SKY, "o"), (theme.BLUE, "s"))
        for run, rate, *values in points:
            for value, (colour, marker) in zip(values, looks):
                edge, fill = theme.GREY if run.given_up else colour, colour if run.is_valid else theme.PAGE
                if value is not None:
                    (mark,) = axes.plot(rate, factor * value, color=colour, marker=marker, mec=edge, mfc=fill, mew=1.5)
                    mark.set(clip_on=False, zorder=4)
        for name, (colour, marker) in zip(("p50", tail_name), looks):
            axes.plot([], [], ls="none", color=colour, marker=marker, label=name)
        add_legend(figure)
        return HEIGHT

    caption = (
        f"Median and {tail_name} of the latency of every run, counted from the scheduled arrivals. Hollow marks: the "
        "run failed; faint ones ended early, because they could not meet the bound any more."
    )
    if answer is not None:
        caption += " The line is the rate that all repeats sustained, the band the 95 % interval of their level."
    rows = [
        (
            significant(rate, 3),
            seconds(middle),
            seconds(tail),
            "passed" if run.is_valid else "failed",
            "yes" if run.given_up else MISSING,
        )
        for run, rate, middle, tail in points
    ]
    titles = ("requests/s", "p50", tail_name, "verdict", "ended early")
    return Plot(f"{load.workload}: latency under load", caption, columns(titles, rows, numbers=titles[:3]), draw)


def roofline_of(result: Result, names: Mapping[int, str] | None = None) -> Plot | None:
    """Return the plot of one run of each setting; ``None`` if none can be placed under a roofline.

    Args:
        result: of a session.
        names: of the settings, by group; by default workload and label.
    """
    points: dict[int, tuple[str, Bound]] = {}
    ceilings: Ceilings | None = None
    labels = result.labels_as_run()
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
    return roofline(list(points.values()), ceilings) if ceilings is not None else None


def roofline(points: Sequence[tuple[str, Bound]], ceilings: Ceilings) -> Plot:
    """Return the roofline plot (Williams et al., Roofline, 2009): the limits, and a numbered mark for each setting.

    Each setting has a name and an intensity.
    """
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
            (line,) = axes.plot((start, right), (peak, peak), lw=1.7, ls=(0, _DASHES[precision]))
            line.set(color=theme.precision_style(precision)[0], label=f"{precision} matrix product: {named[precision]}")
        if bandwidth and copies:
            (line,) = axes.plot((left, ridge), (left * bandwidth, highest), color=theme.INK, lw=1.7)
            line.set(ls=_DOTTED, label=f"memory copy: {copies}")
        for number, ((label, bound), (x, y)) in enumerate(zip(points, places), 1):
            name = f"{number} {label}: {significant(y, 3)} GFLOP/s"
            colour, marker = theme.precision_style(bound.precision)[0], _MARKERS.get(bound.precision, "D")
            axes.plot(x, y, ls="none", color=colour, marker=marker, label=name, clip_on=False, zorder=4)
        number_marks(axes, places)
        add_legend(figure)
        return HEIGHT

    rows = [
        (
            label,
            bound.precision,
            f"{significant(speed, 3)} GFLOP/s",
            significant(intensity, 3),
            share(bound.share_of_roof, 0),
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
