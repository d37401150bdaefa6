"""What processes say of tokens, of stages, of the time on a device, and of how unsteady the machine was."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fake_runs import make, result_of, timing
from generated_results import generation_run
from pipelines import pipeline_run

from modelzoo.frozen import replace
from modelzoo.records.profile import Bandwidth, Ceilings, DecodingBytes
from modelzoo.records.run import Run, Turn
from modelzoo.records.timing import BETWEEN_TOKENS, DEVICE, ISSUE, LATENCY, MODEL, PER_TOKEN, UNDIVIDED, Series
from modelzoo.results import store, summary
from modelzoo.results.obstructions import noise, variation
from modelzoo.results.parts import GenerationLevels, pipelines
from modelzoo.results.summary import spans_of
from modelzoo.setting import Setting
from modelzoo.views.findings import headline


def levels(*runs: object) -> GenerationLevels:
    """Those of the only row."""
    (row,) = summary.rows(result_of(*runs))
    return row.generation


def test_the_time_of_a_token_by_its_position() -> None:
    """Over the generations of all processes."""
    runs = [generation_run(0.4, [0.04, 0.05 + 0.01 * number], round=number) for number in range(3)]
    assert levels(*runs).by_position == (0.04, pytest.approx(0.06))
    assert levels(*runs).between["p50"] == pytest.approx(0.045, abs=0.006)


@pytest.mark.parametrize("name", [PER_TOKEN, BETWEEN_TOKENS])
def test_a_generation_without_the_times_of_its_tokens_is_refused(name: str) -> None:
    """A view would otherwise fail on it."""
    run = generation_run(0.4, [0.04, 0.05])
    store._check(result_of(run))
    kept = tuple(each for each in run.report.timing.series if each.name != name)
    broken = replace(run, report=replace(run.report, timing=replace(run.report.timing, series=kept)))
    with pytest.raises(ValueError, match="llm has tokens without a time"):
        store._check(result_of(broken))


def test_decoding_is_compared_with_the_bandwidth_for_as_many_threads() -> None:
    """Bytes of the weights and the cache ÷ time per output token ÷ the copy."""
    copies = (Bandwidth(1, 1 << 28, 10.0), Bandwidth(4, 1 << 28, 25.0))
    ceilings = Ceilings("f", "2.10.0", 4, (), copies, 20.0)
    decoding = DecodingBytes(400_000_000, 100_000_000.0)
    for threads, share in ((4, 0.4), (1, 1.0), (2, None)):
        setting = Setting(threads=threads)
        found = levels(generation_run(0.4, [0.05, 0.05], decoding=decoding, ceilings=ceilings, setting=setting))
        assert found.read.gigabytes_per_second.value == pytest.approx(10.0)
        assert found.read.share == (share and pytest.approx(share))
    unknown = levels(generation_run(0.4, [0.05, 0.05], decoding=decoding)).read
    assert unknown.share is None
    assert levels(generation_run(0.4, [0.05, 0.05])).read is None


def on_device(issue: float, device: float | None) -> Run:
    """A run with three samples of each span."""
    spans = {ISSUE: issue} if device is None else {ISSUE: issue, DEVICE: device}
    series = (Series(name, (value,) * 3) for name, value in spans.items())
    found = timing([2.0] * 3)
    return make([2.0] * 3, timing=replace(found, series=(*found.series, *series)))


def test_spans_are_geometric_means_of_the_processes() -> None:
    """As the latency is; a run on a CPU has none; without events there is no device time, and no word of launching."""
    found = spans_of([on_device(1.0, 4.0), on_device(4.0, 4.0)])
    assert (found.issue, found.device) == (pytest.approx(2.0), pytest.approx(4.0))
    assert spans_of([make([1.0] * 3)]) is None
    found = spans_of([on_device(1.9, None)])
    assert found.device is None and not found.bound_by_launching


FIRST = {LATENCY: [0.1, 0.1], "decode": [0.02] * 2, MODEL: [0.07] * 2, "answer": [0.01] * 2, UNDIVIDED: [0.099] * 2}


def test_time_outside_of_all_stages_shows() -> None:
    """3 % of a pass that are in no stage are more than the tolerance of 2 %."""
    for latency, adds_up in ((0.103, False), (0.101, True)):
        (found,) = pipelines(result_of(pipeline_run({**FIRST, LATENCY: [latency] * 2})))
        assert (found.within_passes, found.adds_up) == (pytest.approx(0.1 / latency), adds_up)


def test_medians_that_do_not_add_up_show_although_each_pass_does() -> None:
    """A reader adds the numbers of the table, which are medians."""
    columns = {LATENCY: [0.1, 0.1, 0.2], "decode": [0.01, 0.05, 0.1], MODEL: [0.08, 0.04, 0.09], "answer": [0.01] * 3}
    (found,) = pipelines(result_of(pipeline_run(columns)))
    assert (found.within_passes, found.sum) == (pytest.approx(1), pytest.approx(0.14))
    assert found.adds_up is False


def process(*levels: float, round: int = 0, samples: int = 6) -> Run:
    """A process with a turn at each of these levels (seconds), in each of which it took so many samples."""
    turns = tuple(Turn(float(number), number + 0.5, samples) for number in range(len(levels)))
    steady = [level * (1 + 0.001 * number) for level in levels for number in range(samples)]
    return make(steady, round=round, turns=turns)


STEADY = [process(1.0, 1.01, 0.99, round=number) for number in range(4)]
SEVENFOLD = [process(*(1.0 if number < 4 else 7.0,) * 3, round=number) for number in range(8)]


def said(runs: Sequence[Run]) -> str:
    """The headline."""
    return str(headline(summary.rows(result_of(*runs))).items[0].text)


def test_a_run_that_spread_sevenfold_says_so() -> None:
    """Half of the processes take seven times as long; what varies within a process is seen with a single one."""
    assert variation(SEVENFOLD) == pytest.approx(6.0, rel=0.01)
    assert said(SEVENFOLD).endswith("; NOISY MACHINE: speed varied by 600 %, treat as indicative")
    assert said([process(*[1.0, 1.5] * 4)]).endswith("; NOISY MACHINE: speed varied by 50 %, treat as indicative")


def test_a_steady_machine_is_not_spoken_of() -> None:
    """Turns that differ by 2 %; and a single outlier of a turn, or a single slow turn of many, is no speed."""
    assert variation(STEADY) == pytest.approx(1.01 / 0.99 - 1, rel=0.01)
    assert noise(summary.rows(result_of(*STEADY))) is None
    assert "NOISY" not in said(STEADY)
    once = [*STEADY, process(*[1.0] * 20, 9.0, round=4)]
    assert "NOISY" not in said(once)


def test_nothing_is_said_where_nothing_is_known() -> None:
    """Three turns; eight samples; four samples without turns; none. A damaged result counts more than it has."""
    damaged = make([1.0, 1.0], turns=process(*[1.0] * 8).report.turns)
    few = process(1.0, 2.0, 3.0), process(*[1.0, 2.0] * 4, samples=1), make([1.0, 7.0, 1.0, 7.0])
    for runs in ([], *([each] for each in (*few, make(None, error="died"), damaged))):
        assert variation(runs) is None


def test_short_turns_are_taken_together() -> None:
    """Turns of two samples: three of them are a stretch, and five stretches are enough."""
    assert variation([process(*[1.0] * 15, samples=2)]) == pytest.approx(0, abs=0.01)
    assert variation([process(*[1.0] * 14, samples=2)]) is None
