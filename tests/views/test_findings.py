"""What a call says of its rows, in the headline and by workload, claims no more than the verdicts do."""

from __future__ import annotations

import math
from typing import Any

import pytest
from exported_results import OTHER, SAME, exported
from fake_runs import WEIGHTS, evidence, judgement, make, result_of, shown

from modelzoo import stats
from modelzoo.document import Tone
from modelzoo.frozen import replace
from modelzoo.records.coverage import DISPATCH, MOVEMENT, NATIVE, REORDER, TimeShare
from modelzoo.records.evidence import NotUsed, ProofVerdict
from modelzoo.records.run import Run
from modelzoo.records.validity import ValidityVerdict
from modelzoo.records.workload import OutputAgreement, WeightsKind
from modelzoo.results import summary
from modelzoo.results.refusals import Different, Obstacle, Refusal
from modelzoo.results.speed import Speed
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import Setting
from modelzoo.stats import Doubt, Outcome, Outlook, Ratio, Verdict
from modelzoo.views import findings
from modelzoo.views.findings import headline
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

    models = [alone(row) for row in pairs(Outcome.AMBIGUOUS, Outcome.AMBIGUOUS)]
    assert said(models).startswith("too few processes to compare bf16 with fp32; ")
    settings = [alone(row) for row in shown(*(timed("toy", Setting(threads=number)) for number in (1, 2, 3)))]
    assert said(settings).startswith("too few processes to compare 2 settings with threads=1; ")
    why = "one process each cannot show a difference; use --processes 3 or more"
    assert findings.remarks(settings) == {"toy": f"threads=2, threads=3: {why}"}


def test_where_the_baseline_failed_nothing_is_said_to_be_insignificant() -> None:
    """There is no ratio."""
    runs = [timed("toy", Setting(threads=2)), timed("toy", Setting(threads=3))]
    dead = make(None, setting=Setting(threads=1), error="died")
    one, two = shown(dead, runs[0]), shown(dead, *runs)
    assert said(one).startswith("threads=2 and threads=1 are not comparable; ")
    assert said(two).startswith("2 settings compared with threads=1: not comparable: 2; ")
    why = "not compared with threads=1: the baseline has no runs"
    assert findings.remarks(one) == {"toy": f"threads=2: {why}"}
    assert findings.remarks(two) == {"toy": f"threads=2, threads=3: {why}"}
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
    """Not the one with the largest ratio if that may be chance; of several models each."""
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
    more = shown(*(timed("other", Setting(threads=number)) for number in (1, 5)))
    both = [*found, more[0], with_speed(more[1], Outcome.FASTER)]
    assert "; largest speedup: toy threads=2, other threads=5; " in said(both)


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
    """Random weights have no accuracy; else an option would have checked it."""
    rows = pairs(Outcome.FASTER, Outcome.FASTER)
    assert said(rows).endswith("; accuracy not checked (random weights)")
    trained = make(STEADY, weights=replace(WEIGHTS, kind=WeightsKind.PRETRAINED))
    assert said(shown(trained)).endswith("; accuracy not checked (--validate)")
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


def proven(setting: Setting, group: int = 0, **changes: Any) -> Run:
    """A run whose audit found the precision that was asked for."""
    verdict = ProofVerdict.ACTIVE if setting.precision == "bf16" else ProofVerdict.FP32
    return make(STEADY, setting=setting, group=group, **{"evidence": evidence(verdict), **changes})


def judged(rows: list[SummaryRow], low: float, high: float, index: int = 1, outlook: Outlook | None = None) -> str:
    """What is left to say of ``rows``, one of them AMBIGUOUS with a speedup between these bounds."""
    found = Ratio(stats.Interval(math.sqrt(low * high) if low else 1.0, low, high))
    speed = Speed(found, Verdict(Outcome.AMBIGUOUS, Doubt.NO_BASELINE, outlook=outlook))
    rows[index] = replace(rows[index], speed=speed)
    return remark(rows)


def remark(rows: list[SummaryRow]) -> str:
    """The only one; empty if there is none."""
    return findings.remarks(rows).get("toy", "")


def two(**changes: Any) -> list[SummaryRow]:
    """fp32 and bf16, both proven, with the same speed."""
    rows = shown(proven(Setting()), proven(Setting("bf16"), 1, **changes))
    return [rows[0], with_speed(rows[1], Outcome.SAME)]


def test_remarks_repeat_neither_the_headline_nor_the_table() -> None:
    """What is decided and verified needs no words; what was not compared has a reason."""
    assert remark(two()) == ""
    refused = Speed(None, Verdict(Outcome.NOT_COMPARABLE), (Refusal(Obstacle.WEIGHTS, fact=Different.WEIGHTS),))
    base, other = two()
    assert remark([base, replace(other, speed=refused)]) == (
        "bf16: not compared with fp32: baseline and candidate ran different weights"
    )
    assert remark([base, replace(other, judged=judgement(ValidityVerdict.NUMERIC_ONLY))]) == "", "the table says it"


def test_batch_sizes_are_compared_per_item() -> None:
    """Not by the time of a batch."""
    rows = shown(proven(Setting(batch=1)), proven(Setting(batch=8), 1))
    slower = [rows[0], with_speed(rows[1], Outcome.SLOWER)]
    assert said(slower).startswith("batch=8 is slower than batch=1 per item: 0.80× [0.72, 0.88]; ")
    assert judged(rows, 0.9, 1.1).startswith("batch=8: no significant difference per item; at most")


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.88, 1.0, "no gain shown; at most 12 % slower (95 % CI)"),
        (0.985, 1.12, "no loss shown; at most 12 % faster (95 % CI)"),
        (0.88, 1.3, "no significant difference; at most 12 % slower, at most 30 % faster (95 % CI)"),
        (0.06, 11.5, "no significant difference; 0.06× to 11.50× as fast (95 % CI)"),
        (0.0, math.inf, "no significant difference; the interval is too wide to bound it"),
    ],
)
def test_an_ambiguous_comparison_may_still_bound_the_difference(low: float, high: float, text: str) -> None:
    """By the ends of the interval, and no further; then the reason, or what would decide it instead."""
    assert judged(two(), low, high) == f"bf16: {text}; the baseline has no runs"
    more = "about 9 more processes per setting (3 min) would show a difference of 2.0 %"
    assert judged(two(), low, high, outlook=Outlook(9, 184.0, 0.02)) == f"bf16: {text}; {more}"


def test_of_several_undecided_settings_the_one_that_takes_the_most_says_how_much() -> None:
    """A round gives every setting one more process, so that is enough for the others."""
    rows = shown(*(proven(Setting(threads=number), number - 1) for number in range(1, 4)))
    rows[2] = with_speed(rows[2], Outcome.FASTER)
    more = "more processes per setting"
    assert judged(rows, 0.9, 1.1, 1, Outlook(9, 184.0, 0.02)) == f"about 9 {more} (3 min) would probably decide it"
    said = judged(rows, 0.9, 1.1, 2, Outlook(40, None, 0.05))
    assert said == f"about 40 {more} would probably decide all of them"


WIDE = Speed(Ratio(stats.Interval(2.09, 1.32, 3.33)), Verdict(Outcome.AMBIGUOUS, Doubt.CHANCE, 0.04, 3))
"""AMBIGUOUS, although 1 is outside the interval."""


def test_an_interval_that_excludes_1_without_a_verdict_is_explained() -> None:
    """The interval is of 95 % and of one comparison, the verdict of 98 % and of all: no bound contradicts the table."""
    rows = shown(proven(Setting()), proven(Setting(threads=2), 1), proven(Setting(threads=3), 2))
    reason = "p = 0.04 (corrected for 3 comparisons), and a verdict needs p ≤ 0.02"
    pair = [rows[0], replace(rows[1], speed=WIDE)]
    assert remark(pair) == f"the 95 % CI of threads=2 excludes 1, but {reason}"
    other = replace(WIDE, found=Ratio(stats.Interval(1.0, 0.9, 1.1)))
    assert remark([*pair, replace(rows[2], speed=other)]) == f"the 95 % CI of threads=2 excludes 1, but {reason}"


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (ProofVerdict.PARTLY, "bf16 ran only partly in bf16"),
        (ProofVerdict.NOT_ACTIVE, "bf16 ran in fp32, NOT in bf16"),
        (ProofVerdict.UNKNOWN, "bf16 ran in an unknown precision"),
    ],
)
def test_a_precision_that_is_not_proven_is_named(verdict: ProofVerdict, text: str) -> None:
    """With what ran instead; without an audit, the headline says so."""
    assert remark(two(evidence=evidence(verdict))) == text
    assert remark(shown(make(STEADY))) == ""


def test_what_ran_instead_need_not_be_fp32() -> None:
    """A model that was to be quantized may have run in bf16."""
    instead = replace(evidence(ProofVerdict.NOT_ACTIVE), reason=NotUsed("bf16", ("k",), "oneDNN", None))
    rows = shown(proven(Setting()), proven(Setting("int8", recipe="torchao"), 1, evidence=instead))
    assert "int8 ran in bf16, NOT in int8" in remark(rows).split("; ")


def test_a_judgement_that_is_not_valid_has_its_metric_or_its_reason() -> None:
    """The table has only its verdict."""
    base, other = two()
    bad = replace(other, judged=judgement(ValidityVerdict.NOT_VALID))
    assert remark([base, bad]) == "accuracy check: NOT VALID: F1 88.00 in fp32, 87.00 in bf16=autocast"
    failed = replace(judgement(ValidityVerdict.VALID), report=None, error="no judge is set")
    assert remark([base, replace(other, judged=failed)]) == "accuracy check: CANNOT JUDGE: no judge is set"


@pytest.mark.parametrize(
    ("agreement", "text", "error"), [(SAME, "computes", "2.0e-07"), (OTHER, "does NOT compute", "2.0e-03")]
)
def test_whether_an_engine_computes_the_same_is_said(agreement: OutputAgreement, text: str, error: str) -> None:
    """With both figures."""
    rows = shown(proven(Setting()), proven(Setting(engine="onnxruntime"), 1, **exported(agreement)))
    figures = f"(mean error ÷ mean |output| {error}, mean error {error})"
    assert any(
        each.endswith(f"engine=onnxruntime {text} what torch does {figures}") for each in remark(rows).split("; ")
    )


def test_what_holds_for_several_settings_is_said_once() -> None:
    """With the range of their errors; up to four are named."""
    worse = replace(SAME, outputs=tuple(replace(each, mean_error=4e-7) for each in SAME.outputs))
    settings = [Setting(engine="onnxruntime", threads=threads) for threads in range(1, 6)]
    others = [proven(each, n + 1, **exported(SAME if n else worse)) for n, each in enumerate(settings)]
    assert " and 1 more compute what torch does (mean error ÷ mean |output| 2.0e-07 to 4.0e-07, mean" in remark(
        shown(proven(Setting()), *others)
    )


def divided(verdict: ProofVerdict, products: float, casts: float, reorders: float, setup: float, other: float) -> Any:
    """An audit of one pass that spent these seconds in products and in other work."""
    total = products + casts + reorders + setup + other
    precision = "fp32" if verdict is ProofVerdict.FP32 else "bf16"
    by_precision = {precision: products, MOVEMENT: casts + reorders, DISPATCH: setup, NATIVE: other}
    return replace(
        evidence(verdict),
        iterations=1,
        seconds=total,
        compute_seconds=products,
        by_precision=tuple(TimeShare(name, each, each / total, 1) for name, each in by_precision.items()),
        by_implementation=(TimeShare(REORDER, reorders, reorders / total, 1),),
    )


def way(fp32: Any, bf16: Any, setting: Setting, factor: float = 0.97) -> tuple[str, str]:
    """The headline and the remark on fp32 and bf16 whose passes were divided like this."""
    rows = shown(proven(Setting(), evidence=fp32), proven(setting, 1, evidence=bf16))
    rows[1] = with_speed(rows[1], Outcome.SAME, factor)
    return said(rows), remark(rows)


def test_what_keeps_bf16_from_being_as_fast_as_its_products_is_said_with_what_addresses_it() -> None:
    """The shares are of the audited pass; the bound is the speed if products took no time."""
    fp32 = divided(ProofVerdict.FP32, 10.0, 0.2, 1.0, 0.8, 1.0)
    bf16 = divided(ProofVerdict.ACTIVE, 1.9, 3.4, 1.5, 1.2, 2.0)
    first, rest = way(fp32, bf16, Setting("bf16"))
    assert "bf16 as run (eager, autocast)" in first
    assert rest == (
        "bf16: products 5.3× as fast, 19 % of the pass (if they took no time: 1.20×); 34 % casts and copies "
        "(--bf16=cast); 20 % other operators, 15 % reorders, 12 % dispatch and set-up (--mode compile)"
    )


def test_nothing_is_in_the_way_where_products_gained_no_more_than_the_whole() -> None:
    """Within what two audits of one model differ by; nor where one of the two is not proven."""
    fp32 = divided(ProofVerdict.FP32, 10.0, 0.2, 1.0, 0.8, 1.0)
    as_fast = divided(ProofVerdict.ACTIVE, 8.0, 0.2, 1.0, 0.8, 1.0)
    first, rest = way(fp32, as_fast, Setting("bf16"), 1.05)
    assert ("as run" in first, rest) == (False, "")
    unproven = divided(ProofVerdict.PARTLY, 1.9, 3.4, 1.5, 1.2, 2.0)
    assert "products" not in way(fp32, unproven, Setting("bf16"))[1]


def test_a_compiled_model_is_told_no_remedy_that_it_has_already() -> None:
    """And the headline says how it was run only where much was left."""
    fp32 = divided(ProofVerdict.FP32, 10.0, 0.2, 1.0, 0.8, 1.0)
    bf16 = divided(ProofVerdict.ACTIVE, 2.0, 0.2, 1.0, 0.8, 2.0)
    first, rest = way(fp32, bf16, Setting("bf16", mode="compile", bf16_method="cast"), 1.5)
    assert "as run" not in first
    assert rest.endswith("if they took no time: 2.25×); 33 % other operators, 17 % reorders, 13 % dispatch and set-up")
