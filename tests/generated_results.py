"""Runs of a language model, as results store them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fake_runs import make

from modelzoo.frozen import replace
from modelzoo.records.profile import Ceilings, DecodingBytes
from modelzoo.records.run import Run
from modelzoo.records.run_report import GenerationPhase
from modelzoo.records.timing import (
    BETWEEN_TOKENS,
    FIRST_TOKEN,
    LATENCY,
    PER_TOKEN,
    Generated,
    Series,
)

CALLS = 4
"""Generations of each run."""


def generation_run(
    first: float,
    between: Sequence[float],
    *,
    decoding: DecodingBytes | None = None,
    ceilings: Ceilings | None = None,
    phases: tuple[GenerationPhase, ...] = (),
    **more: Any,
) -> Run:
    """A run of equal generations: seconds to the first token, and from each token to the next."""
    latency = first + sum(between)
    run = make([latency] * CALLS, **{"workload": "llm", **more})
    assert run.report.timing is not None
    columns = {
        LATENCY: [latency] * CALLS,
        FIRST_TOKEN: [first] * CALLS,
        PER_TOKEN: [sum(between) / len(between)] * CALLS,
        BETWEEN_TOKENS: list(between) * CALLS,
    }
    series = tuple(Series(name, tuple(values)) for name, values in columns.items())
    timing = replace(run.report.timing, series=series, watched=LATENCY)
    made = Generated(8, len(between) + 1)
    observed = replace(run.report.observed, decoding=decoding, phases=phases)
    more = {"unit": "prompts", "timing": timing, "generation": made, "observed": observed, "ceilings": ceilings}
    return replace(run, report=replace(run.report, **more))
