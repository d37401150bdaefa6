"""What the processes of a setting say about the tokens of a language model."""

from __future__ import annotations

import pytest
from fake_runs import result_of
from generated_results import generation_run

from modelzoo.frozen import replace
from modelzoo.records.profile import Bandwidth, Ceilings, DecodingBytes
from modelzoo.records.timing import BETWEEN_TOKENS, PER_TOKEN
from modelzoo.results import store, summary
from modelzoo.results.generation import GenerationLevels
from modelzoo.setting import Setting


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
