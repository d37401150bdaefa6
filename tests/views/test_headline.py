"""The first line of what a call says claims no more than the verdicts do."""

from __future__ import annotations

import math

import pytest
from fake_runs import evidence, judgement, make, result_of, shown

from modelzoo import stats
from modelzoo.document import Tone
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results import summary
from modelzoo.results.refusals import Obstacle, Refusal
from modelzoo.results.speed import Speed
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import Setting
from modelzoo.stats import Doubt, Outcome, Ratio, Verdict
from modelzoo.views.headline import headline
from modelzoo.warning import WarningCode, warning_for

STEADY = [0.0501, 0.0502, 0.05, 0.0503] * 5
FACTORS = {Outcome.FASTER: 1.8, Outcome.SLOWER: 0.8, Outcome.SAME: 1.0, Outcome.AMBIGUOUS: 0.95}


def timed(workload: str, setting: Setting, verdict: ProofVerdict | None = ProofVerdict.FP32) -> Run:
    """One process of a setting, audited unless ``verdict`` is ``None``."""
    return make(STEADY, workload=workload, setting=setting, **({"evidence": evidence(verdict)} if verdict else {}))


def pairs(*outcomes: Outcome | None, verdict: ProofVerdict = ProofVerdict.ACTIVE) -> list[SummaryRow]:
    """fp32 and bf16 of several models with these outcomes; ``None``: bf16 failed."""
    runs = []
    for number, outcome in enumerate(outcomes):
        runs.append(timed(f"model{number}", Setting()))
        failed = make(None, workload=f"model{number}", setting=Setting("bf16"), error="died")
        runs.append(timed(f"model{number}", Setting("bf16"), verdict) if outcome else failed)
    rows = summary.rows(result_of(*runs))
    return [
        row if row.is_baseline or outcome is None else with_speed(row, outcome)
        for row, outcome in zip(rows, (outcome for outcome in outcomes for _ in range(2)))
    ]


def with_speed(row: SummaryRow, outcome: Outcome, factor: float | None = None) -> SummaryRow:
    """``row`` with this verdict."""
    value = factor or FACTORS.get(outcome, 1.0)
    ratio = None if outcome is Outcome.NOT_COMPARABLE else stats.Interval(value, 0.9 * value, 1.1 * value)
    return replace(row, speed=Speed(Ratio(ratio) if ratio else None, Verdict(outcome)))


def test_a_row_that_is_not_proven_does_not_count_as_the_others_do() -> None:
    """It is counted apart, and marked as the largest speedup."""
    rows = pairs(Outcome.FASTER, Outcome.FASTER)
    speed = rows[3].speed
    assert speed is not None
    rows[3] = replace(rows[3], speed=replace(speed, allowed=(Refusal(Obstacle.UNPROVEN),)))
    assert said(rows).startswith("bf16 is faster than fp32 on 2 of 2 models (1.80×, 1 unproven); ")


def said(rows: list[SummaryRow]) -> str:
    """The headline's text."""
    (line,) = headline(rows).items
    return str(line.text)


@pytest.mark.parametrize(
    ("outcomes", "text"),
    [
        ([Outcome.FASTER], "bf16 is faster than fp32: 1.80× [1.62, 1.98]"),
        ([Outcome.SLOWER], "bf16 is slower than fp32: 0.80× [0.72, 0.88]"),
        ([Outcome.SAME], "bf16 and fp32 are equally fast: 1.00× [0.90, 1.10]"),
        ([Outcome.AMBIGUOUS], "no significant difference between bf16 and fp32: 0.95× [0.85, 1.04]"),
        ([Outcome.NOT_COMPARABLE], "bf16 and fp32 are not comparable"),
        ([None], "bf16 failed"),
        (
            [Outcome.FASTER, Outcome.FASTER, Outcome.SLOWER, Outcome.AMBIGUOUS, None],
            "bf16 is faster than fp32 on 2 of 5 models (1.80×), slower on 1 (0.80×), not significant on 1, failed on 1",
        ),
        ([Outcome.AMBIGUOUS] * 2, "no significant difference between bf16 and fp32 on 2 of 2 models"),
        ([None, None], "bf16 failed on 2 of 2 models"),
    ],
)
def test_two_settings_are_compared_over_all_models(outcomes: list[Outcome | None], text: str) -> None:
    """What is AMBIGUOUS is not significant, and what failed is not left out."""
    assert said(pairs(*outcomes)).startswith(f"{text}; ")


def test_what_is_not_significant_although_the_interval_excludes_1_has_a_reason() -> None:
    """Else the headline contradicts the numbers beside it; one process each is no test at all."""
    base, other = pairs(Outcome.AMBIGUOUS)
    speed = Speed(Ratio(stats.Interval(2.09, 1.32, 3.33)), Verdict(Outcome.AMBIGUOUS, Doubt.CHANCE, 0.04))
    assert said([base, replace(other, speed=speed)]).startswith(
        "no significant difference between bf16 and fp32: 2.09× [1.32, 3.33] (p = 0.04, and a verdict needs p ≤ 0.02); "
    )
    alone = Speed(Ratio(stats.Interval(2.0, 0.0, math.inf)), Verdict(Outcome.AMBIGUOUS, Doubt.ONE_PROCESS))
    text = "too few processes to compare bf16 with fp32: 2.00× (one process: no interval)"
    assert said([base, replace(other, speed=alone)]).startswith(text)


def test_one_process_each_is_no_test_of_several_models_or_settings_either() -> None:
    """Nothing was shown, not even that no difference is significant."""

    def alone(row: SummaryRow) -> SummaryRow:
        speed = Speed(Ratio(stats.Interval(2.0, 0.0, math.inf)), Verdict(Outcome.AMBIGUOUS, Doubt.ONE_PROCESS))
        return row if row.is_baseline else replace(row, speed=speed)

    why = "one process each cannot show a difference; "
    models = [alone(row) for row in pairs(Outcome.AMBIGUOUS, Outcome.AMBIGUOUS)]
    assert said(models).startswith(f"too few processes to compare bf16 with fp32: {why}")
    settings = [alone(row) for row in shown(*(timed("toy", Setting(threads=number)) for number in (1, 2, 3)))]
    assert said(settings).startswith(f"too few processes to compare 2 settings with threads=1: {why}")


def test_where_the_baseline_failed_nothing_is_said_to_be_insignificant() -> None:
    """There is no ratio."""
    runs = [timed("toy", Setting(threads=2)), timed("toy", Setting(threads=3))]
    dead = make(None, setting=Setting(threads=1), error="died")
    why = "with threads=1: the baseline has no runs; "
    assert said(shown(dead, runs[0])).startswith(f"threads=2 is not compared {why}")
    assert said(shown(dead, *runs)).startswith(f"no setting is compared {why}")
    *others, last = pairs(Outcome.FASTER, Outcome.AMBIGUOUS)
    missing = replace(last, speed=Speed(None, Verdict(Outcome.AMBIGUOUS, Doubt.NO_BASELINE)))
    text = "bf16 is faster than fp32 on 1 of 2 models (1.80×), not comparable on 1; "
    assert said([*others, missing]).startswith(text)


def test_a_model_whose_second_setting_never_began_counts_as_failed() -> None:
    """As after an error of the first one; unless the call was interrupted before."""
    failed = shown(make(None, workload="other", error="died"))
    assert said([*pairs(Outcome.FASTER), *failed]).startswith("bf16 is faster than fp32 on 1 of 2 models (1.80×), fail")
    interrupted = shown(timed("other", Setting()))
    text = "bf16 is faster than fp32 on 1 of 1 models (1.80×), not run on 1; "
    assert said([*pairs(Outcome.FASTER), *interrupted]).startswith(text)


def test_several_settings_are_counted_and_the_fastest_that_is_faster_is_named() -> None:
    """Not the one with the largest ratio if that may be chance."""
    rows = shown(*(timed("toy", Setting(threads=number)) for number in (1, 2, 3, 4)))
    found = [
        rows[0],
        with_speed(rows[1], Outcome.FASTER),
        with_speed(rows[2], Outcome.FASTER, 1.2),
        with_speed(rows[3], Outcome.AMBIGUOUS, 3.0),
    ]
    assert said(found).startswith(
        "3 settings compared with threads=1: faster: 2 (1.20× to 1.80×), not significant: 1; largest speedup: "
        "threads=2; kernels verified"
    )


def test_of_several_settings_without_a_significant_difference_none_is_counted() -> None:
    """A word says it; the only one that is faster is named."""
    rows = shown(*(timed("toy", Setting(threads=number)) for number in (1, 2, 3)))
    open_ = [rows[0], *(with_speed(row, Outcome.AMBIGUOUS) for row in rows[1:])]
    assert said(open_).startswith("no significant difference between threads=1 and the 2 other settings; kernels")
    faster = [*open_[:2], with_speed(rows[2], Outcome.FASTER)]
    assert "faster: 1 (1.80×), not significant: 1; largest speedup: threads=3; kernels" in said(faster)


def test_without_a_comparison_the_time_is_said() -> None:
    """Of one model; of several, how many were timed."""
    assert said(shown(timed("toy", Setting()))).startswith("toy: one forward batch in fp32 takes 50.150 ms ±")
    two = shown(timed("a", Setting()), timed("b", Setting()))
    assert said(two).startswith("2 of 2 models timed, nothing to compare; kernels verified")


def test_nothing_timed_is_no_speed() -> None:
    """All failed, or nothing is timed under an emulator; what did not run has no accuracy to check."""
    assert said(shown(make(None, error="died"))) == "toy failed"
    assert headline(shown(make(None, error="died"))).items[0].tone is Tone.BAD
    emulated = shown(make(None, warnings=(warning_for(WarningCode.EMULATED),)))
    assert said(emulated).startswith("nothing was timed: this machine is emulated; ")


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (ProofVerdict.ACTIVE, "; kernels verified; "),
        (ProofVerdict.UNKNOWN, "; kernels verified for 1 of 2 settings; "),
        (ProofVerdict.NOT_ACTIVE, "; kernels verified for 1 of 2 settings, 1 ran in ANOTHER precision; "),
    ],
)
def test_kernels_are_verified_only_if_the_audit_found_the_precision(verdict: ProofVerdict, text: str) -> None:
    """Without an audit nothing is verified."""
    assert text in said(pairs(Outcome.FASTER, verdict=verdict))
    assert "; kernels not verified (no audit); " in said(shown(timed("toy", Setting(), None)))


def test_reference_kernels_are_not_verified() -> None:
    """``--strict`` refuses them although their precision is the requested one: the headline agrees with it."""
    slow = make(STEADY, evidence=evidence(ProofVerdict.FP32, reference_share=0.5))
    fast = make(STEADY, workload="other", evidence=evidence(ProofVerdict.FP32))
    assert "; slow REFERENCE kernels ran; " in said(shown(slow))
    assert "; kernels verified for 1 of 2 settings, 1 used slow REFERENCE kernels; " in said(
        [*shown(slow), *shown(fast)]
    )
    assert headline(shown(slow)).items[0].tone is Tone.OPEN


@pytest.mark.parametrize(
    ("outcomes", "tone"),
    [
        ((Outcome.FASTER, Outcome.FASTER), Tone.BETTER),
        ((Outcome.FASTER, Outcome.SAME), Tone.BETTER),
        ((Outcome.FASTER, Outcome.SLOWER), Tone.STRONG),
        ((Outcome.SLOWER,), Tone.STRONG),
    ],
)
def test_it_is_green_only_if_nothing_is_slower(outcomes: tuple[Outcome, ...], tone: Tone) -> None:
    """A model that became slower must not be passed over."""
    assert headline(pairs(*outcomes)).items[0].tone is tone


def test_accuracy_is_as_the_check_found_it() -> None:
    """Random weights have no accuracy."""
    rows = pairs(Outcome.FASTER, Outcome.FASTER)
    assert said(rows).endswith("; accuracy not checked (random weights)")
    rows[1] = replace(rows[1], judged=judgement(ValidityVerdict.VALID))
    assert said(rows).endswith("; accuracy check: VALID for 1 of 2 settings")
    rows[3] = replace(rows[3], judged=judgement(ValidityVerdict.NOT_VALID))
    assert said(rows).endswith("; accuracy check: 1 VALID, 1 NOT VALID")
    assert headline(rows).items[0].tone is Tone.BAD


def test_the_largest_disturbance_is_named() -> None:
    """By how much of the time it may explain; small ones leave a result as it is."""
    rows = pairs(Outcome.FASTER)
    assert "NOISY" not in said(rows)
    small, odd = (
        warning_for(WarningCode.OTHER_LOAD, cores=0.05),
        warning_for(WarningCode.ODD_PROCESS, number=3, count=8, percent=108.0, direction="slower"),
    )
    found = tuple(summary.RowWarning(each, 1, 1) for each in (small, odd))
    noisy = [replace(row, warnings=found) for row in rows]
    assert said(noisy).endswith("; NOISY MACHINE: speed varied by 108 %, treat as indicative")
    load = summary.RowWarning(warning_for(WarningCode.OTHER_LOAD, cores=9.0), 1, 1)
    busy = [replace(row, warnings=(*row.warnings, load)) for row in noisy]
    assert said(busy).endswith("; NOISY MACHINE: other programs were running, treat as indicative")
    assert headline(noisy).items[0].tone is Tone.OPEN
