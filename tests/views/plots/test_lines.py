"""Processes, sessions and tokens on the axes that all settings share, and the distribution of samples."""

from __future__ import annotations

import itertools
import math
import random
import re
from bisect import bisect_right

from drawn import checked, columns, marks, svg, texts
from fake_runs import make, shown
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.frozen import replace
from modelzoo.records.run import Run
from modelzoo.setting import Setting
from modelzoo.stats import Interval
from modelzoo.views.plots import lines
from modelzoo.views.plots.lines import UNKNOWN_TIME, SampleSeries, moment

SESSIONS = [
    (f"2026-11-{day:02d}T03:00:00+00:00", Interval(level, level * 0.97, level * 1.03))
    for day, level in enumerate((0.065, 0.066, 0.064, 0.075, 0.074, 0.075), 1)
]


def _runs(*medians: float, group: int = 0, setting: Setting | None = None) -> list[Run]:
    made = [make([m, m, 2 * m], round=i, group=group, setting=setting or Setting()) for i, m in enumerate(medians)]
    return [replace(run, started=f"2026-01-01T00:0{run.round}:00+00:00") for run in made]


def test_one_mark_per_timed_process_and_the_level_of_each_setting() -> None:
    """A process that failed has none; the table is in the order in which they ran."""
    failed = make(None, error="killed", round=2, group=1, setting=Setting("bf16"))
    runs = [*_runs(0.1, 0.11, 0.09), *_runs(0.05, 0.06, group=1, setting=Setting("bf16")), failed]
    plot = lines.processes(shown(*runs))
    text = checked(plot)
    assert (marks(text, "--plot-blue"), marks(text, "--plot-vermillion")) == (4, 3), "with those of the legend"
    assert any(re.match("fp32: [0-9.]+ ms ±", each) for each in texts(text))
    found = columns(plot)
    assert found["round"] == ("1", "1", "2", "2", "3")
    assert found["setting"] == ("fp32", "bf16", "fp32", "bf16", "fp32")
    assert found["median latency"][:2] == ("100.0 ms", "50.00 ms")
    assert lines.processes(shown(failed)) is None


def test_more_settings_than_colours_are_in_the_table_only() -> None:
    """The caption says so."""
    runs = [run for i in range(1, 10) for run in _runs(0.1, 0.11, group=i, setting=Setting(batch=i))]
    found = lines.processes(shown(*runs))
    assert "Drawn are the first 7 of 9 settings" in found.caption
    assert any("batch=9" in each for each in columns(found)["setting"])
    assert "batch=7" in svg(found) and "batch=8" not in svg(found)


def test_one_mark_per_session() -> None:
    """The legend has the latest level of each setting; the table has them setting by setting."""
    plot = lines.history("toy", {"fp32": SESSIONS, "bf16": SESSIONS[:2]})
    text = checked(plot)
    assert (marks(text, "--plot-blue"), marks(text, "--plot-vermillion")) == (7, 3)
    assert "fp32: 75.0 ms ±3.0 % in the latest session" in texts(text)
    found = columns(plot)
    assert found["setting"] == ("fp32",) * 6 + ("bf16",) * 2
    assert (found["session (UTC)"][0], found["latency"][0]) == ("2026-11-01T03:00:00", "65.0 ms ±3.0 %")


def test_a_session_without_a_time_is_in_the_table_only() -> None:
    """It has no place in the plot; one session of one process has an interval without ends."""
    assert moment("yesterday") == UNKNOWN_TIME < moment("2026-11-01T00:00:00")
    assert moment("2026-11-01T01:00:00+01:00") == moment("2026-11-01T00:00:00")
    unknown = ("yesterday", Interval(1.0, 0.9, 1.1))
    plot = lines.history("toy", {"fp32": [unknown, (SESSIONS[0][0], Interval(1.0, 0.0, math.inf))]})
    text = checked(plot)
    assert marks(text, "--plot-blue") == 2
    assert columns(plot)["session (UTC)"][0] == "yesterday"
    assert lines.history("toy", {"fp32": [unknown], "bf16": []}) is None


def test_every_generation_has_a_line() -> None:
    """Tokens are counted from the first one, which has no time after another one; long generations are thinned out."""
    plot = lines.tokens("llm", [("fp32", (0.040, 0.041, 0.042)), ("bf16", (0.030, 0.031, 0.032))])
    assert {"fp32", "bf16", "number of the token", "time in ms"} <= set(texts(checked(plot)))
    cells = columns(plot)
    assert cells["token"] == ("2", "3", "4") * 2
    assert cells["median time"][:2] == ("40.00 ms", "41.00 ms")
    numbers = columns(lines.tokens("llm", [("fp32", [0.04 + 1e-6 * n for n in range(1000)])]))["token"]
    assert (len(numbers), numbers[0], numbers[-1]) == (lines.MOST_TOKENS, "2", "1001")
    assert lines.tokens("resnet50", []) is None


RANDOM = random.Random(1)
FP32 = SampleSeries("fp32", tuple(RANDOM.lognormvariate(-2.4, 0.1) for _ in range(900)), (0.1, 0.12), (0.3, 0.4))
BF16 = SampleSeries("bf16", tuple(RANDOM.lognormvariate(-2.9, 0.1) for _ in range(30)), (0.08,) * 50, (0.2,))


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


def test_curves_cold_start_and_warm_up_are_told_apart() -> None:
    """Each setting's marker is in the legend, on its curve and beside its lane; p99 needs more than 100 samples."""
    plot = lines.samples("toy", [FP32, BF16])
    text = checked(plot)
    assert (marks(text, "--plot-blue"), marks(text, "--plot-vermillion")) == (3, 3)
    assert {"fp32: 900 samples", "not in the curves: | warm-up, × first timed call"} <= set(texts(text))
    assert len(text) < 60_000
    found = columns(plot)
    assert found["samples"] == ("900", "30") and found["warm-up calls"] == ("2", "50")
    assert found["first timed call (median)"] == ("350.0 ms", "200.0 ms")
    assert found["p99"][1] == "–" and found["p90"][1] != "–"


def test_samples_beyond_the_axis_are_counted() -> None:
    """A sample of 20 s beside 0.1 s does not squeeze the curve, and is not hidden."""
    far = SampleSeries("fp32", (*FP32.steady, 20.0, 5.0), (), (0.3,))
    text = checked(lines.samples("toy", [far]))
    assert any("2 beyond, up to 20.00 s →" in each for each in texts(text))
    assert not any("beyond" in each for each in texts(svg(lines.samples("toy", [FP32]))))


def test_few_samples_and_none() -> None:
    """One sample and equal samples are drawn; without settings there is no plot."""
    assert svg(lines.samples("toy", [])) == ""
    checked(lines.samples("toy", [SampleSeries("fp32", (0.1,), (), (0.1,))]))
    checked(lines.samples("toy", [SampleSeries("fp32", (0.1,) * 5, (0.1,), (0.1,))] * 9))
