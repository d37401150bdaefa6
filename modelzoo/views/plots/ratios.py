"""Forest plot: every ratio of a comparison with its interval, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo import stats
from modelzoo.comparison.compare import Comparison
from modelzoo.document import Column, Text, Tone, theme
from modelzoo.formatting import MISSING, capitalized
from modelzoo.records.run import Result
from modelzoo.results import tuning
from modelzoo.results.refusals import Metric
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import EQUIVALENCE
from modelzoo.views import results_table
from modelzoo.views.differences import by_workload, short_names
from modelzoo.views.plots import forest
from modelzoo.views.plots.forest import ForestRow
from modelzoo.views.plots.plot import Plot
from modelzoo.views.results_table import OUTCOME_TONE
from modelzoo.views.speed import outcome_text, reason

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKS = {
    "FASTER": (theme.BLUE, "^"),
    "LESS": (theme.BLUE, "^"),
    "SLOWER": (theme.VERMILLION, "v"),
    "MORE": (theme.VERMILLION, "v"),
    "SAME": (theme.INK, "o"),
}
_UNDECIDED = (theme.FAINT, "D")
_TONES = {str(outcome): tone for outcome, tone in OUTCOME_TONE.items()}
MEAN = "geometric mean"


class RatioRow(msgspec.Struct, frozen=True):
    """One ratio.

    Attributes:
        label: what is compared.
        ratio: how many times better the other side is; ``None`` if the sides cannot be compared.
        verdict: ``FASTER``, ``NOT COMPARABLE`` …; empty for the mean, and for the steps of a search.
        reason: of the verdict, for the table.
    """

    label: str
    ratio: Optional[stats.Interval]
    verdict: str = ""
    reason: str = ""


class Ratios(msgspec.Struct, frozen=True):
    """All ratios of a comparison.

    Attributes:
        rows: in their order, the mean last.
        axis: what the ratio is: ``speedup over base``.
        worse: what a ratio below 1 means: ``slower``.
        better: what a ratio above 1 means: ``faster``.
    """

    rows: tuple[RatioRow, ...]
    axis: str = "speedup"
    worse: str = "slower"
    better: str = "faster"


def of_comparison(comparison: Comparison) -> Ratios:
    """The rows of a comparison of stored results."""
    rows = []
    for row in comparison.rows:
        other = f" / {row.other_label}" if row.other_label != row.label else ""
        said = outcome_text(row.speed)
        rows.append(RatioRow(f"{row.workload} {row.label}{other}", row.ratio, said, reason(row.speed)))
    axis, worse, better = {
        Metric.LATENCY: ("speedup over", "slower", "faster"),
        Metric.COLD_START: ("speedup of the first answer over", "slower", "faster"),
        Metric.WARM_START: ("speedup of the first answer over", "slower", "faster"),
        Metric.THROUGHPUT: ("throughput relative to", "less", "more"),
        Metric.FIRST_TOKEN: ("speedup of the first token over", "slower", "faster"),
        Metric.PER_TOKEN: ("speedup per token over", "slower", "faster"),
        Metric.MEMORY: ("saving of memory relative to", "more memory", "less memory"),
    }[comparison.metric]
    if comparison.mean is not None:
        rows.append(RatioRow(MEAN, comparison.mean))
    return Ratios(tuple(rows), f"{axis} {comparison.base.name}", worse, better)


def of_rows(shown: Sequence[SummaryRow]) -> Ratios:
    """The settings of one result, each compared with the baseline of its workload."""
    rows = []
    for workload, own in by_workload(shown).items():
        names = short_names(own)
        base = next((name for name, row in zip(names, own) if row.is_baseline), MISSING)
        for name, row in zip(names, own):
            if row.speed is not None:
                said = outcome_text(row.speed)
                rows.append(RatioRow(f"{workload} {name} / {base}", row.speed.ratio, said, reason(row.speed)))
    return Ratios(tuple(rows), "speedup over the baseline")


def of_search(result: Result) -> Ratios:
    """The steps of a confirmation: how much faster each is than the one before, and all of them together."""
    steps = tuning.steps(result)
    rows = [RatioRow(f"{step.label} / {before.label}", step.gain) for before, step in zip(steps, steps[1:])]
    if len(steps) > 2:
        rows.append(RatioRow(f"{steps[-1].label} / {tuning.name(result, 0)}", steps[-1].speed))
    return Ratios(tuple(rows), "speedup over the step before, measured again")


def plot(data: Ratios) -> Optional[Plot]:
    """Return the plot of all ratios; ``None`` if there are none."""
    caption = (
        f"{capitalized(data.axis)}, with 95 % intervals: above 1 is {data.better}. SAME: the whole interval lies in "
        "the band around 1. The intervals are not corrected for the number of ratios, the verdicts are."
    )
    return _plot(data, caption)


def steps(data: Ratios) -> Optional[Plot]:
    """Return the plot of the steps to the winner of a search; ``None`` if there are none."""
    caption = (
        "Each step from the default to the winner, by one option, with its 95 % interval: above 1 is faster than the "
        "step before. All were measured again, in processes that took no part in the choice."
    )
    return _plot(data, caption)


def _plot(data: Ratios, caption: str) -> Optional[Plot]:
    if not data.rows:
        return None
    height = forest.height(list(map(_row, data.rows)))
    return Plot(data.axis, Text(caption), columns(data), height, partial(_draw, data))


def columns(data: Ratios) -> list[Column]:
    """The ratios as a table."""
    rows = data.rows
    tones = tuple(_TONES.get(row.verdict, Tone.PLAIN) for row in rows)
    found = [
        Column("", tuple(row.label for row in rows)),
        Column(data.axis, tuple(_text(row.ratio) or MISSING for row in rows), is_number=True),
    ]
    if any(row.verdict for row in rows):
        found.append(Column("verdict", tuple(row.verdict for row in rows), tones=tones))
    if any(row.reason for row in rows):
        found.append(Column("reason", tuple(row.reason for row in rows)))
    return found


def _text(ratio: Optional[stats.Interval]) -> str:
    return results_table.ratio(ratio) if ratio is not None else ""


def limits(data: Ratios) -> tuple[float, float]:
    """The ends of the axis: all ratios, and the band around 1."""
    return forest.limits([row.ratio for row in data.rows], (1 - 2 * EQUIVALENCE, 1 + 2 * EQUIVALENCE))


def _row(row: RatioRow) -> ForestRow:
    colour, marker = (theme.INK, "s") if not row.verdict else _MARKS.get(row.verdict, _UNDECIDED)
    return ForestRow(row.label, f"{_text(row.ratio)} {row.verdict}".strip(), row.ratio, colour, marker)


def _draw(data: Ratios, figure: Figure) -> None:
    band = (1 / (1 + EQUIVALENCE), 1 + EQUIVALENCE)
    axes = forest.draw(figure, list(map(_row, data.rows)), limits(data), band)
    said = f"log scale; shaded: same (±{100 * EQUIVALENCE:g} %)"
    axes.set_xlabel(f"← {data.worse};  {said};  {data.better} →")
