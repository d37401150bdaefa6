"""Every kind of plot: what is drawn, its marks and its table; nothing is said by colour or place alone."""

from __future__ import annotations

import itertools
import math
import random
import re
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pytest
from example_machine import TWO_CORES
from fake_runs import evidence, make, result_of, shown
from hypothesis import given
from hypothesis import strategies as st
from instances import configuration, ran, result
from load_results import load, measured
from matplotlib.figure import Figure
from printed import HOSTILE, arrows, checked, columns, filled, marks, parsed, printed, svg, texts
from shown_documents import staged
from stored_search import STAGES, searched

from modelzoo.document import Column, Table, theme
from modelzoo.formatting import printable
from modelzoo.frozen import replace
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import OperatorClass, OperatorUse, Product, ProofSource, ProofVerdict
from modelzoo.records.profile import Bound
from modelzoo.records.run import Run
from modelzoo.records.serving import LatencyBound
from modelzoo.results.parts import pipelines
from modelzoo.setting import Setting
from modelzoo.stats import Interval
from modelzoo.stats.race import Choice
from modelzoo.views.plots import GROUND, Plot, add_legend, bars, forest, lines, scatter, wrapped
from modelzoo.views.plots.bars import NO_PRODUCT, Key, Segment
from modelzoo.views.plots.forest import ForestRow
from modelzoo.views.plots.lines import UNKNOWN_TIME, SampleSeries, moment

BF16 = Setting("bf16")
KERNELS: list[tuple[str, dict[Key, float]]] = [
    ("fp32", {("jit:avx512", "fp32"): 0.6, ("native", NO_PRODUCT): 0.4}),
    ("bf16", {("jit_bf16:avx512", "bf16"): 0.5, ("native", NO_PRODUCT): 0.3, ("jit:avx512", "fp32"): 0.2}),
]
CONV = Product(
    "aten::convolution", OperatorClass.CONV, ((1, 3, 8, 8),), "fp32", 1, ("stem",), precision="fp32", share=0.3
)
HEAD = replace(CONV, operator="aten::addmm", layers=("head",), precision="bf16", share=0.1)
PRODUCTS = [("fp32", (CONV, replace(HEAD, precision="fp32"))), ("bf16", (HEAD, CONV, replace(HEAD, share=None)))]
ROWS = (
    ForestRow("resnet50 fp32", Interval(1.01, 0.99, 1.03), "SAME"),
    ForestRow("resnet50 bf16 batch=8 threads=2 memory-format=channels_last", Interval(1.5, 1.3, 1.8), "FASTER"),
    ForestRow("ssd bf16", Interval(0.62, 0.58, 0.67), "SLOWER", "a reason"),
    ForestRow("bert fp32", Interval(1.05, 0.0, math.inf), "AMBIGUOUS"),
    ForestRow("bert bf16", None, "NOT COMPARABLE", "other weights"),
    ForestRow(forest.MEAN, Interval(1.1, 1.0, 1.2)),
)
FAILED = make(None, error="killed", round=2, group=1, setting=BF16)
SESSIONS = [
    (f"2026-11-{day:02d}T03:00:00+00:00", Interval(level, level * 0.97, level * 1.03))
    for day, level in enumerate((0.065, 0.066, 0.064, 0.075, 0.074, 0.075), 1)
]
UNKNOWN = ("yesterday", Interval(1.0, 0.9, 1.1))
RANDOM = random.Random(1)
SAMPLES = SampleSeries("fp32", tuple(RANDOM.lognormvariate(-2.4, 0.1) for _ in range(900)), (0.1, 0.12), (0.3, 0.4))
FEW = SampleSeries("bf16", tuple(RANDOM.lognormvariate(-2.9, 0.1) for _ in range(30)), (0.08,) * 50, (0.2,))
OWN = [configuration(1), configuration(2), configuration(4), configuration(4, batch=4)]
SERVED = [
    ran(index, each, number, [seconds] * each.instances)
    for index, (each, seconds) in enumerate(zip(OWN, (0.10, 0.11, 0.5, 0.3)))
    for number in range(2)
]
BOUND = Bound("fp32", 150.0, 300.0, 0.5, 40.0, 15.0, 0.5, "compute")
POINTS = [
    ("resnet50 fp32", replace(BOUND, gflops=146.0, share_of_roof=0.49)),
    ("ssd fp32", replace(BOUND, intensity=44.0)),
    ("bert bf16", replace(BOUND, precision="bf16", intensity=240.0, gflops=130.0, share_of_roof=None)),
    ("embedding", replace(BOUND, precision="int8", intensity=0.5, gflops=8.0)),
]


def processes(*medians: float, group: int = 0, setting: Setting | None = None) -> list[Run]:
    """A process with each median, a minute after the other."""
    made = [make([m, m, 2 * m], round=i, group=group, setting=setting or Setting()) for i, m in enumerate(medians)]
    return [replace(run, started=f"2026-01-01T00:0{run.round}:00+00:00") for run in made]


RUNS = [*processes(1.0, 1.01, 1.02), *processes(0.5, 0.51, 0.52, group=1, setting=BF16)]
TIMED = [
    make([1.0], round=0, bound=BOUND, ceilings=TWO_CORES),
    make([1.0], round=1, bound=BOUND, ceilings=TWO_CORES),
]


def plots() -> dict[str, Plot | None]:
    """Each kind, and what is drawn in special cases."""
    nine = [run for i in range(1, 10) for run in processes(0.1, 0.11, group=i, setting=Setting(batch=i))]
    many = {(f"kernel {i}", "fp32"): (i + 1) / 820 for i in range(40)}
    unnamed = [("toy", replace(BOUND, precision="unknown"))]
    one_round, differing = [ran(0, OWN[0], 0, [0.1])], [ran(0, OWN[0], n, [s]) for n, s in enumerate((0.1, 0.4))]
    unbounded = (SESSIONS[0][0], Interval(1.0, 0.0, math.inf))
    far = SampleSeries("fp32", (*SAMPLES.steady, 20.0, 5.0), (), (0.3,))
    return {
        "stages": bars.stages("toy", pipelines(staged())),
        "kernels": bars.kernels("toy", KERNELS),
        "many kernels": bars.kernels("toy", [("fp32", many)]),
        "products of a network": bars.network("toy", PRODUCTS),
        "ratios": forest.ratios(ROWS, "speed relative to base"),
        "a ratio": forest.ratios(ROWS[:1], "speed relative to base"),
        "no ratio": forest.ratios(ROWS[4:5], "speed relative to base"),
        "rows of a result": forest.of_rows(shown(*RUNS)),
        "steps of a search": forest.of_search(searched()),
        "one step of a search": forest.of_search(searched(choice=Choice(1, 1, (), (1,)))),
        "latencies": forest.latencies(shown(*RUNS, make(None, setting=Setting(batch=9), group=2, error="died"))),
        "many latencies": forest.latencies(shown(*RUNS) * 20),
        "processes": lines.processes(shown(*RUNS, FAILED)),
        "processes of many settings": lines.processes(shown(*nine)),
        "sessions": lines.history("toy", {"fp32": SESSIONS, "bf16": SESSIONS[:2]}),
        "a session without a time": lines.history("toy", {"fp32": [UNKNOWN, unbounded]}),
        "tokens": lines.tokens("llm", [("fp32", (0.040, 0.041, 0.042)), ("bf16", (0.030, 0.031, 0.032))]),
        "samples": lines.samples("toy", [SAMPLES, FEW]),
        "samples beyond the axis": lines.samples("toy", [far]),
        "one sample": lines.samples("toy", [SampleSeries("fp32", (0.1,), (), (0.1,))]),
        "equal samples": lines.samples("toy", [SampleSeries("fp32", (0.1,) * 5, (0.1,), (0.1,))] * 9),
        "instances": scatter.frontier(result(OWN, SERVED)),
        "instances, p75": scatter.frontier(result(OWN, SERVED, LatencyBound(75, 0.2))),
        "instances, a percentile that not all have": scatter.frontier(result(OWN, SERVED, LatencyBound(99.9, 0.2))),
        "instances whose rounds differ": scatter.frontier(result(OWN[:1], differing)),
        "instances in one round": scatter.frontier(result(OWN[:1], one_round)),
        "requests": scatter.load_curve(measured(load(is_search=True, rate=None, repeats=2, queries=662))),
        "roofline": scatter.roofline(POINTS, TWO_CORES),
        "roofline without settings": scatter.roofline([], TWO_CORES),
        "roofline without a copy": scatter.roofline(unnamed, replace(TWO_CORES, bandwidth=())),
        "roofline of a result": scatter.roofline_of(result_of(make(None, error="killed"), *TIMED)),
    }


def told(plot: Plot | None) -> str:
    """The caption, the texts but for numbers and dates, how many marks have which colour, the table's first rows."""
    assert plot is not None
    text = checked(plot)
    words = " | ".join(each for each in texts(text) if re.search("[a-zA-Z×]", each) and "Nov" not in each)
    colours = {name: marks(text, f"--plot-{name}") for name in ("blue", "vermillion", "purple", "ink", "faint")}
    counts = {**colours, "arrow": arrows(text), "band": filled(text, "--plot-band"), "hatch": text.count("<pattern")}
    counted = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    rows = tuple(Column(each.title, each.cells[:8]) for each in plot.columns)
    more = len(plot.columns[0].cells) - 8
    table = printed([Table("", rows)], width=200) + (f"and {more} more\n" if more > 0 else "")
    return f"{plot.title}\n{plot.caption}\n{words}\n{counted}\n{table}"


def test_every_plot_says_what_it_shows(approved: Callable[[str, str], None]) -> None:
    """In words, marks and a table; ``checked`` is what holds for each: no texts overlap, and none is too small."""
    approved("said/plots.txt", "".join(f"== {name}\n{told(plot)}\n" for name, plot in plots().items()))


def test_segments_have_the_numbers_of_the_legend() -> None:
    """For whoever sees no colours; what a setting did not run has no segment."""
    shown = texts(svg(bars.kernels("toy", KERNELS)))
    assert [shown.count(number) for number in ("1", "2", "3")] == [2, 1, 2]


def test_nothing_is_drawn_without_data(tmp_path: Path) -> None:
    """No kernels, no replays, no other setting, no confirmation, no process, session, token, sample, round or limit."""
    nothing = [
        *(bars.kernels("toy", [("fp32", {})]), bars.network("toy", [("bf16", (replace(CONV, share=None),))])),
        *(forest.of_rows(shown(*RUNS[:3])), forest.of_search(searched(stages=STAGES[:3])), forest.latencies([])),
        *(lines.processes(shown(FAILED)), lines.history("toy", {"fp32": [UNKNOWN], "bf16": []})),
        *(lines.tokens("resnet50", []), lines.samples("toy", [])),
        *(scatter.frontier(result(OWN, [])), scatter.roofline_of(result_of(make([1.0])))),
    ]
    assert all(each is None for each in nothing)
    with pytest.raises(OSError):
        scatter.roofline([], TWO_CORES).write(tmp_path / "missing" / "roof.svg")


def test_segments_follow_each_other_and_a_wide_label_does_not_squeeze_them() -> None:
    """The axis ends with the longest bar; matplotlib would make room for the label at the expense of the axes."""
    look = (theme.SKY, "")
    first = ("W" * 60, (Segment("long", 300, look, 1), Segment("short", 100, look, 2)))
    figure = Figure(figsize=(6, 4), layout="constrained")
    bars.draw([first, ("second", (Segment("long", 200, look, 1),))], "time in ms", figure)
    (axes,) = figure.axes
    assert [(patch.get_x(), patch.get_width()) for patch in axes.patches] == [(0, 300), (300, 100), (0, 200)]
    assert axes.get_xlim() == pytest.approx((0, 400))
    figure.draw_without_rendering()
    assert axes.get_position().width > 0.8


def test_a_kernel_that_ran_in_two_precisions_is_divided() -> None:
    """By the time of its products; what multiplies nothing has no precision, and what took no time is left out."""
    uses = (
        OperatorUse("aten::mm", OperatorClass.MATMUL, (), "mkl", precision, ProofSource.BOTH, 1, seconds, seconds)
        for precision, seconds in (("bf16", 0.3), ("fp32", 0.1))
    )
    audit = replace(
        evidence(ProofVerdict.PARTLY),
        by_implementation=(TimeShare("mkl", 8.0, 0.8, 4), TimeShare("native", 2.0, 0.2, 9), TimeShare("x", 0.0, 0, 0)),
        operators=tuple(uses),
    )
    shares = bars.kernel_shares(audit)
    assert list(shares) == [("mkl", "bf16"), ("mkl", "fp32"), ("native", NO_PRODUCT)]
    assert list(shares.values()) == pytest.approx([0.6, 0.2, 0.2]), "no seconds, which do not compare with latencies"


def test_the_axis_shows_all_values_and_is_not_stretched_by_a_wide_interval() -> None:
    """An interval up to 200 does not squeeze values around 1; the value 40 is shown."""
    low, high = forest.limits([Interval(1.05, 0.01, 200.0)], (1.0,))
    assert 0.2 < low < 0.5 and 3 < high < 5
    low, high = forest.limits([Interval(40.0, 39.0, 41.0)], (1.0,))
    assert low < 1 and high > 41


def test_times_of_sessions_are_compared_across_zones() -> None:
    """One that is unknown comes first."""
    assert moment("yesterday") == UNKNOWN_TIME < moment("2026-11-01T00:00:00")
    assert moment("2026-11-01T01:00:00+01:00") == moment("2026-11-01T00:00:00")
    assert moment("0001-01-01T00:00:00+05:00") == moment("9999-12-31T23:00:00-05:00") == UNKNOWN_TIME


def test_long_series_are_thinned_out() -> None:
    """Both ends are kept; a page of few kilobytes."""
    numbers = columns(lines.tokens("llm", [("fp32", [0.04 + 1e-6 * n for n in range(1000)])]))["token"]
    assert (len(numbers), numbers[0], numbers[-1]) == (lines.MOST_TOKENS, "2", "1001")
    assert len(svg(lines.samples("toy", [SAMPLES, FEW]))) < 60_000


@given(st.lists(st.floats(1e-4, 10), min_size=1, max_size=2000))
def test_a_curve_goes_exactly_through_the_distribution(steady: list[float]) -> None:
    """Every point is a sample with the share of samples up to its rank; both ends are kept; at most 400 points."""
    points = lines.curve(steady)
    ordered = sorted(steady)
    assert len(points) == min(len(steady), lines.MOST_POINTS)
    assert points[0][0] == ordered[0] and points[-1] == (ordered[-1], 1.0)
    for value, share in points:
        rank = round(share * len(ordered))
        assert ordered[rank - 1] == value and rank <= bisect_right(ordered, value)
    steps = [b - a for (_, a), (_, b) in itertools.pairwise(points)]
    assert all(0 < step <= max(2 / lines.MOST_POINTS, 1 / len(steady)) + 1e-12 for step in steps)


def _plot(text: str = "label", caption: str = "caption", legend: int = 0) -> Plot:
    def draw(figure: Figure) -> float:
        axes = figure.add_subplot()
        axes.plot([1, 2, 3], [1.23456789, 2, 3], marker="o", color=theme.BLUE)
        axes.bar([1], [1], hatch="//", color=theme.ORANGE, ec=theme.PAGE)
        axes.text(1, 2, text, bbox=GROUND, in_layout=False)
        for number in range(legend):
            axes.plot([], [], color=theme.INK, label=f"entry {number}")
        if legend:
            add_legend(figure)
        return 100

    return Plot("title", caption, (Column("", ("fp32", "bf16")), Column("speed", ("1 GFLOP/s", "–"))), draw)


def test_drawing_does_not_depend_on_the_users_style_and_leaves_it_alone() -> None:
    """A matplotlibrc with other colours, fonts or TeX changes nothing, and its values are back afterwards."""
    plain = svg(_plot("$a$"))
    with mpl.rc_context({"text.color": "red", "font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path"}):
        assert svg(_plot("$a$")) == plain
        assert mpl.rcParams["font.size"] == 30
    assert "$a$" in texts(plain)


def test_a_file_can_be_opened_anywhere(tmp_path: Path) -> None:
    """Viewers of files know no CSS variables and show a dark ground; no table is beside it."""
    text = _plot().write(tmp_path / "a.svg").read_text()
    assert "caption fp32, speed 1 GFLOP/s; bf16, speed –</desc>" in text
    assert text.startswith("<?xml") and "var(" not in text and "date" not in text
    root = parsed(text.partition("\n")[2])
    assert root.get("width") == "400"
    ground = next(part for part in root.iter("path"))
    assert f"fill: {theme.PAGE}" in ground.attrib["style"]


def test_a_legend_does_not_squeeze_the_axes() -> None:
    """The plot gets as high as it must be."""
    heights = [float(parsed(svg(_plot(legend=count))).attrib["viewBox"].split()[3]) for count in (1, 2, 60)]
    line = heights[1] - heights[0]
    assert 12 < line < 24 and 57 * line < heights[2] - heights[1] < 59 * line


def test_colours_are_variables_and_texts_are_not_changed() -> None:
    """A text that looks like a colour, a reference or markup stays what it is."""
    text = svg(_plot(HOSTILE, HOSTILE))
    assert printable(HOSTILE) in texts(text)
    assert printable(HOSTILE) in str(parsed(text)[1].text)
    assert f"var({theme.VARIABLES[theme.BLUE]}, {theme.BLUE})" in text
    assert "<script" not in text


def test_long_text_is_wrapped_and_cut() -> None:
    """Three lines at most; a word that is longer than a line is broken."""
    lines = wrapped("word " * 50, 0.3).split("\n")
    assert len(lines) == 3 and lines[-1].endswith(" …")
    assert len(wrapped("i" * 100)) > len(wrapped("W" * 30).split("\n")[0]) * 2
