"""The first screen."""

from __future__ import annotations

from fake_runs import evidence, make, result_of, warning
from pipelines import pipeline_run

from modelzoo.document import Figure, Lines, Notices, Table
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result
from modelzoo.records.timing import LATENCY, MODEL
from modelzoo.results import summary as rows_of
from modelzoo.setting import Setting
from modelzoo.views import kinds
from modelzoo.warning import Severity


def answer(result: Result) -> list[object]:
    """The first screen of a result."""
    return list(kinds.of(result).answer(result, rows_of.rows(result), "r"))


def runs(*values: float, setting: Setting, **changes: object) -> list[object]:
    """One process for each of these latencies."""
    return [make([value] * 5, setting=setting, round=i, **changes) for i, value in enumerate(values)]


def test_numbers_are_rounded_to_their_intervals() -> None:
    """Latency and throughput of noisy processes have no digits that mean nothing."""
    result = result_of(
        *runs(0.0512, 0.0601, 0.0553, setting=Setting(batch=1)), *runs(1.0, 1.0001, 1.0002, setting=Setting("bf16"))
    )
    table = next(each for each in answer(result) if isinstance(each, Table))
    cells = {column.title: column.cells for column in table.columns}
    assert cells["latency"][0] == "55 ms ±22.0 %"
    assert cells["latency"][1] == "1.00010 s ±0.0 %"
    assert cells["rows/s"] == ("18", "3.9996")


def test_the_conditions_on_the_first_screen_lead_to_their_hints() -> None:
    """Failures too, the most harmful first."""
    bad, other = warning("FP32_NOT_FP32", "not fp32"), warning("OTHER_LOAD", "busy")
    result = result_of(
        *runs(1.0, 1.01, 1.02, setting=Setting(), warnings=(bad, other)), make(None, workload="x", error="no device")
    )
    found = answer(result)
    notices = next(each for each in found if isinstance(each, Notices))
    assert [(each.severity, str(each.message)) for each in notices.items] == [
        (Severity.INVALIDATES, "no device"),
        (Severity.INVALIDATES, "not fp32"),
        (Severity.DISTORTS, "busy"),
    ]
    assert notices.is_index and notices.mark == "r-condition"


def test_without_anything_to_warn_of_there_is_nothing_but_the_answer() -> None:
    """Headline, latencies and table."""
    proof = evidence(ProofVerdict.FP32)
    found = answer(result_of(*runs(1.0, 1.001, 1.002, setting=Setting(), evidence=proof)))
    assert [type(each) for each in found if getattr(each, "items", True)] == [Lines, Figure, Table]


def test_of_a_pipeline_the_table_says_that_the_latency_is_that_of_all_stages() -> None:
    """Not that of a forward batch; without stages it is."""
    columns = {LATENCY: [0.1] * 4, "decode": [0.02] * 4, MODEL: [0.07] * 4, "answer": [0.01] * 4}
    meanings = [
        next(each for each in answer(result_of(*found)) if isinstance(each, Table)).meanings
        for found in ([pipeline_run(columns, round=number) for number in (0, 1)], runs(1.0, 1.01, setting=Setting()))
    ]
    assert [str(each).partition(":")[0] for each in meanings] == [
        "latency of one batch through all stages",
        "latency of one forward batch",
    ]
