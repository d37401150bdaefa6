"""Made-up sides of a comparison: sessions of one setting, as a stored result would hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fake_runs import make, result_of

from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.results.refusals import SideSetting


def session(processes: Sequence[float], day: int = 1, **changes: Any) -> Result:
    """The session of this day of July: one process of three equal samples for each of ``processes`` (seconds)."""
    runs = [make([seconds] * 3, round=number, **changes) for number, seconds in enumerate(processes)]
    return replace(result_of(*runs), created=f"2026-07-{day:02}T00:00:00+00:00")


def side_setting(*results: Result) -> SideSetting:
    """The only setting of these sessions."""
    first = results[0].runs[0]
    runs = tuple(result.runs for result in results)
    return SideSetting(first.workload, first.requested, "fp32", runs, results, (0,) * len(results))
