"""Verdicts of a whole result: which rounds are compared, how often they were looked at, and what they still need."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from fake_runs import make, result_of

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.records.run import Latency, Result, Run, SettingRequest
from modelzoo.records.timing import Design, StopReason
from modelzoo.results.speed import looks, seconds_per_round, speeds
from modelzoo.setting import Setting
from modelzoo.stats import Looks, Outcome

BF16, CAST = Setting("bf16"), Setting("bf16", "cast")
WOBBLE = (0.0, 0.01, -0.01, 0.02, -0.02, 0.015, -0.015, 0.005, 0.0, 0.012, -0.012, 0.004)
"""Log ratios of rounds around their mean: a spread of 1.2 %."""


def side(setting: Setting, ratio: float = 1.0, rounds: int = 8, spread: float = 1.0, **changes: object) -> list[Run]:
    """Runs that take ``ratio`` times as long as the baseline's, whose samples are all 1 s."""
    levels = (ratio * math.exp(spread * WOBBLE[i % len(WOBBLE)]) for i in range(rounds))
    return [make([level] * 4, setting=setting, round=i, **changes) for i, level in enumerate(levels)]


def baseline(rounds: int = 8, workload: str = "toy") -> list[Run]:
    """Runs of fp32 that take 1 s."""
    return side(Setting(), rounds=rounds, spread=0.0, workload=workload)


def designed(runs: Sequence[Run], planned: tuple[int, ...], maximum: int | None, reason: StopReason | None) -> Result:
    """A result with the design of its workload."""
    design = Design("toy", 0.05, looks=planned, maximum=maximum, stop_reason=reason)
    return replace(result_of(*runs), payload=Latency((design,)))


def test_all_rows_of_a_result_are_corrected_together() -> None:
    """A difference that suffices alone is AMBIGUOUS in a table with many others, of other workloads, too."""
    runs = [*baseline(5), *side(BF16, 1.03, 5)]
    alone = speeds(result_of(*runs))[1].verdict
    assert alone.outcome is Outcome.SLOWER
    more = [run for name in "abcdef" for run in (*baseline(5, name), *side(BF16, 1.0, 5, 3.0, workload=name))]
    beside = speeds(result_of(*runs, *more))[1].verdict
    assert beside.outcome is Outcome.AMBIGUOUS
    assert beside.table == 7


def test_refused_rows_take_no_part_in_the_correction() -> None:
    """They have no p-value."""
    runs = [*baseline(), *side(BF16, 1.05)]
    refused = side(CAST, 1.0, weights=replace(make([1.0]).report.prepared.weights, sha256="xyz"))
    found = speeds(result_of(*runs, *refused))
    assert found[2].verdict.outcome is Outcome.NOT_COMPARABLE
    assert found[1].verdict.table == 1


def test_the_last_look_spends_the_rest_if_sampling_ended_by_itself() -> None:
    """A call that was interrupted or killed, or that stopped because all was decided, has only the planned looks."""
    reasons = {None: False, StopReason.PRECISE: False, StopReason.INTERRUPTED: False}
    for stop_reason, final in {**reasons, StopReason.BUDGET: True, StopReason.FIXED: True}.items():
        found = looks(designed(baseline(), (8, 12), 16, stop_reason), "toy")
        assert found == Looks((8, 12), 16, final=final), stop_reason


def test_results_without_a_design_were_looked_at_once() -> None:
    """Results of earlier versions, and calls whose time was up before looks were planned."""
    assert looks(result_of(*baseline()), "toy") is None
    assert looks(designed(baseline(), (), 16, StopReason.BUDGET), "toy") is None
    assert looks(designed(baseline(), (8,), None, StopReason.FIXED), "toy") is None


def test_a_call_that_did_not_end_by_itself_has_no_look_that_was_not_planned() -> None:
    """Whoever stops it at its third round may do so because the three look clear."""
    for stop_reason in (None, StopReason.INTERRUPTED):
        (speed,) = speeds(designed([*baseline(3), *side(BF16, 2.0, 3)], (), 16, stop_reason)).values()
        assert speed.verdict.outcome is Outcome.AMBIGUOUS
        assert (speed.verdict.doubt, speed.verdict.rounds) == (stats.Doubt.FEW_ROUNDS, 3)


def test_before_the_first_planned_look_nothing_is_decided() -> None:
    """Seven clear rounds: AMBIGUOUS while the call runs, decided if its time is up."""
    runs = [*baseline(7), *side(BF16, 2.0, 7)]
    assert speeds(designed(runs, (8, 12), 12, None))[1].verdict.outcome is Outcome.AMBIGUOUS
    assert speeds(designed(runs, (8, 12), 12, StopReason.BUDGET))[1].verdict.outcome is Outcome.SLOWER


def test_each_block_of_a_large_table_is_compared_with_its_own_baseline() -> None:
    """Rounds 0, 2, 4 … hold one setting and the baseline, rounds 1, 3, 5 … another; the machine drifts."""
    requested = [SettingRequest("toy", Setting()), SettingRequest("toy", BF16), SettingRequest("toy", CAST)]
    runs = [
        make([level * factor] * 4, setting=setting, round=number, group=group)
        for number, level in enumerate([1.0, 2.0, 1.1, 2.2, 1.2, 2.4, 1.3, 2.6])
        for group, setting, factor in ((0, Setting(), 1.0), (1 + number % 2, (BF16, CAST)[number % 2], 1.5))
    ]
    found = speeds(result_of(*runs, requested=requested))
    assert [each.ratio.value for each in found.values() if each.ratio] == pytest.approx([1 / 1.5, 1 / 1.5])
    assert [each.verdict.outcome for each in found.values()] == ["SLOWER", "SLOWER"]


def timed(runs: Sequence[Run], seconds: int) -> list[Run]:
    """The same runs, each round of which took so long."""
    begun = {run.round: f"2026-01-01T00:{run.round:02}" for run in runs}
    return [
        replace(run, started=f"{begun[run.round]}:00+00:00", ended=f"{begun[run.round]}:{seconds}+00:00")
        for run in runs
    ]


def test_an_ambiguous_verdict_says_what_it_would_take() -> None:
    """Processes and time, by the spread and the length of the rounds so far."""
    runs = timed([*baseline(), *side(BF16, 1.01, spread=2.0)], 20)
    (found,) = speeds(result_of(*runs)).values()
    assert found.verdict.outcome is Outcome.AMBIGUOUS
    spread = 2 * stats.ratio_test([[1.0]] * 8, [[math.exp(x)] for x in WOBBLE[:8]]).spread
    more = stats.rounds_to_tell(spread, stats.EQUIVALENCE, 0.02) - 8
    assert more > 5
    assert found.verdict.outlook == stats.Outlook(more, 20 * more, stats.EQUIVALENCE)


def test_no_more_than_a_factor_of_two_is_planned_for() -> None:
    """A factor of eleven that is not significant is noise; times of a stored result that mean nothing are left out."""
    (found,) = speeds(result_of(*baseline(3), *side(BF16, 11.0, 3, spread=100.0))).values()
    assert found.ratio is not None and found.verdict.outcome is Outcome.AMBIGUOUS
    assert found.verdict.outlook.difference == 1.0
    runs = [replace(run, started="yesterday") for run in (*baseline(), *side(BF16, 1.01, spread=2.0))]
    (found,) = speeds(result_of(*runs)).values()
    assert found.verdict.outlook.seconds is None


def test_other_verdicts_need_nothing_more() -> None:
    """SAME, and sides that never varied."""
    for runs in ([*baseline(), *side(BF16, 1.0, spread=0.1)], [*baseline(1), *side(BF16, 1.5, 1)]):
        (found,) = speeds(result_of(*runs)).values()
        assert found.verdict.outlook is None


def test_a_round_lasts_from_its_first_start_to_its_last_end() -> None:
    """The median over rounds; the blocks of a sweep are added up."""
    runs = result_of(*timed([*baseline(4), *side(BF16, rounds=4)], 30)).runs
    assert seconds_per_round(runs) == 30
    blocks = timed([*baseline(4), *side(BF16, rounds=4)[::2], *side(CAST, rounds=4)[1::2]], 30)
    assert seconds_per_round(result_of(*blocks).runs) == 60
    assert seconds_per_round(result_of(*blocks[:-1]).runs) == 60, "a setting that failed is not repeated"
    assert seconds_per_round([]) == 0
    assert seconds_per_round([replace(run, ended=None) for run in runs]) == 0
