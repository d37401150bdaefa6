"""The steps from the default setting to the winner of a search, each with its gain, as a forest plot."""

from __future__ import annotations

from modelzoo.records.run import Result
from modelzoo.report.plots.forest import Forest, ForestRow
from modelzoo.results import tuning
from modelzoo.stats import EQUIVALENCE, Interval


def of_result(result: Result) -> Forest:
    """The steps of the confirmation: how much faster each is than the one before, and all of them together."""
    rungs = tuning.ladder(result)
    default = result.label(0)
    rows = []
    for before, rung in zip(rungs, rungs[1:]):
        rows.append(ForestRow(f"{rung.label} / {before.label}", rung.gain, _word(rung.gain)))
    if len(rungs) > 2:
        rows.append(ForestRow(f"{rungs[-1].label} / {default}", rungs[-1].speed, _word(rungs[-1].speed)))
    return Forest(tuple(rows), "speed relative to the step before, measured again")


def _word(ratio: Interval | None) -> str:
    """What the interval alone says; the verdict on the winner is that of the confirmation."""
    if ratio is None:
        return ""
    if ratio.low >= 1 - EQUIVALENCE and ratio.high <= 1 + EQUIVALENCE:
        return "SAME"
    return "FASTER" if ratio.low > 1 else "SLOWER" if ratio.high < 1 else ""
