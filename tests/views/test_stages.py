"""The stages of pipelines in sentences; ``tests/snapshots`` has their table."""

from __future__ import annotations

from collections.abc import Callable

from fake_runs import result_of
from pipelines import pipeline_run

from modelzoo.records.timing import LATENCY, MODEL, SYNCHRONIZED
from modelzoo.results.pipeline import pipelines
from modelzoo.views import stages

COLUMNS = {LATENCY: [0.1] * 4, "decode": [0.02] * 4, MODEL: [0.07] * 4, "answer": [0.01] * 4}


def test_what_the_stages_show_is_said(approved: Callable[[str, str], None]) -> None:
    """The slowest one, whether they add up within 2 %, and what timing them costs on an accelerator."""
    apart = {LATENCY: [0.1, 0.1, 0.2], "decode": [0.01, 0.05, 0.1], MODEL: [0.08, 0.04, 0.09], "answer": [0.01] * 3}
    said = []
    slow = {LATENCY: [0.28] * 4, "decode": [0.2] * 4}
    for changed in (slow, {LATENCY: [0.11] * 4}, apart, {SYNCHRONIZED: [0.12] * 4}):
        runs = (pipeline_run({**COLUMNS, **changed}, round=number) for number in (0, 1))
        (found,) = pipelines(result_of(*runs))
        said += stages.sentences(found)
    approved("said/stages.txt", "".join(f"{each}\n" for each in said))
