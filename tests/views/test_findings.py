"""The sentences that answer the question, and the conditions grouped by code."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from exported_results import OTHER, SAME, exported
from fake_runs import WEIGHTS, evidence, judgement, make, shown

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.records.evidence import NotUsed, ProofVerdict
from modelzoo.records.run import Run
from modelzoo.records.validity import ValidityVerdict
from modelzoo.records.workload import OutputAgreement, WeightsKind
from modelzoo.results.refusals import Different, Obstacle, Refusal
from modelzoo.results.speed import Speed
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import Setting
from modelzoo.stats import Doubt, Outcome, Outlook, Verdict
from modelzoo.views import findings

STEADY = [0.0501, 0.0502, 0.05, 0.0503] * 5


def proven(setting: Setting, group: int = 0, **changes: Any) -> Run:
    """A run whose audit found the precision that was asked for."""
    verdict = ProofVerdict.ACTIVE if setting.precision == "bf16" else ProofVerdict.FP32
    return make(STEADY, setting=setting, group=group, **{"evidence": evidence(verdict), **changes})


def judged(
    rows: list[SummaryRow],
    outcome: Outcome,
    low: float,
    high: float,
    index: int = 1,
    outlook: Outlook | None = None,
) -> list[SummaryRow]:
    """``rows``, one of them with this verdict and a speedup with these bounds."""
    found = list(rows)
    ratio = stats.Interval(math.sqrt(low * high) if low else 1.0, low, high)
    if outcome is Outcome.NOT_COMPARABLE:
        speed = Speed(None, Verdict(outcome), (Refusal(Obstacle.WEIGHTS, fact=Different.WEIGHTS),))
    else:
        doubt = Doubt.NO_BASELINE if outcome is Outcome.AMBIGUOUS else None
        speed = Speed(stats.Ratio(ratio), Verdict(outcome, doubt, outlook=outlook))
    found[index] = replace(found[index], speed=speed)
    return found


def sentence(rows: list[SummaryRow]) -> str:
    """The only sentence."""
    (said,) = findings.sentences(rows).values()
    return said


@pytest.mark.parametrize(
    ("outcome", "low", "high", "said"),
    [
        (Outcome.FASTER, 1.5, 1.7, "bf16 is 1.60× as fast as fp32 [1.50, 1.70]"),
        (Outcome.SLOWER, 1 / 1.7, 1 / 1.5, "bf16 is 0.63× as fast as fp32 [0.59, 0.67]"),
        (Outcome.SAME, 0.99, 1.01, "bf16 and fp32 are equally fast: 1.000× [0.990, 1.010]"),
        (
            Outcome.AMBIGUOUS,
            0.9,
            1.1,
            "bf16: no significant difference; at most 10 % slower, at most 10 % faster (95 % CI); the baseline has no "
            "runs",
        ),
        (
            Outcome.AMBIGUOUS,
            0.0,
            math.inf,
            "bf16: no significant difference; the interval is too wide to bound it; the baseline has no runs",
        ),
        (
            Outcome.NOT_COMPARABLE,
            0.9,
            1.1,
            "bf16 is not compared with fp32: baseline and candidate ran different weights",
        ),
    ],
)
def test_bf16_is_compared_with_fp32_in_a_sentence(outcome: Outcome, low: float, high: float, said: str) -> None:
    """How much, with its interval; whether kernels are verified; what is known of the accuracy."""
    rows = judged(shown(proven(Setting()), proven(Setting("bf16"), 1)), outcome, low, high)
    assert sentence(rows) == f"{said}; kernels verified; accuracy not checked (random weights)"


def test_other_settings_are_compared_by_name() -> None:
    """Only what differs is named."""
    rows = shown(proven(Setting()), proven(Setting(mode="compile"), 1))
    assert sentence(judged(rows, Outcome.FASTER, 1.5, 1.7)).startswith("compile is 1.60× as fast as eager [")


def test_batch_sizes_are_compared_by_items_per_second() -> None:
    """Not by the time of a batch."""
    rows = shown(proven(Setting(batch=1)), proven(Setting(batch=8), 1))
    said = sentence(judged(rows, Outcome.SLOWER, 0.5, 0.6))
    assert said.startswith("batch=8 processes 0.55× as many rows/s as batch=1 [0.50, 0.60]")
    said = sentence(judged(rows, Outcome.AMBIGUOUS, 0.9, 1.1))
    assert said.startswith("batch=8: no significant difference in rows/s; at most")


def test_an_ambiguous_sentence_says_what_it_would_take() -> None:
    """The p-value is among the details."""
    rows = shown(proven(Setting()), proven(Setting("bf16"), 1))
    said = sentence(judged(rows, Outcome.AMBIGUOUS, 0.9, 1.1, outlook=Outlook(9, 184.0, 0.02)))
    assert said.startswith(
        "bf16: no significant difference; at most 10 % slower, at most 10 % faster (95 % CI); about 9 more processes "
        "per setting (3 min) would show a difference of 2.0 %; kernels verified"
    )


def several() -> list[SummaryRow]:
    """A baseline and five other settings: two faster, one slower, one ambiguous, one failed."""
    runs = [proven(Setting(threads=number), number - 1) for number in range(1, 6)]
    runs.append(make(None, setting=Setting(threads=6), group=5, error="died"))
    rows = shown(*runs)
    rows = judged(rows, Outcome.FASTER, 1.2, 1.3, 1)
    rows = judged(rows, Outcome.FASTER, 1.4, 1.5, 2)
    rows = judged(rows, Outcome.SLOWER, 0.7, 0.8, 3)
    return judged(rows, Outcome.AMBIGUOUS, 0.9, 1.1, 4)


def test_of_several_settings_the_best_is_named_and_the_others_are_counted() -> None:
    """Against the baseline, with the interval of the best."""
    assert sentence(several()).startswith(
        "threads=3 is 1.45× as fast as threads=1 [1.40, 1.50], the fastest of 6 settings; the others, compared "
        "with the baseline: 1 faster, 1 slower, 1 not significant, 1 failed; kernels verified"
    )


def test_of_several_undecided_settings_the_one_that_takes_the_most_says_how_much() -> None:
    """A round gives every setting one more process, so that is enough for the others."""
    rows = judged(several(), Outcome.AMBIGUOUS, 0.9, 1.1, 4, Outlook(9, 184.0, 0.02))
    assert (
        "1 failed; about 9 more processes per setting (3 min) would probably decide it; kernels verified"
        in sentence(rows)
    )
    rows = judged(rows, Outcome.AMBIGUOUS, 0.9, 1.1, 3, Outlook(40, None, 0.05))
    assert (
        "1 failed; about 40 more processes per setting would probably decide all of them; kernels verified"
        in sentence(rows)
    )
    rows = judged(judged(rows, Outcome.SAME, 0.99, 1.01, 1), Outcome.SAME, 0.99, 1.01, 2)
    assert sentence(rows).startswith("none of 5 settings is faster than threads=1: ")
    assert "about 40 more processes per setting would probably decide all of them" in sentence(rows)


@pytest.mark.parametrize(
    ("doubt", "text"),
    [
        (Doubt.ONE_PROCESS, "one process each cannot show a difference from threads=1; use --processes 3 or more"),
        (Doubt.NO_BASELINE, "no setting is compared with threads=1: the baseline has no runs"),
    ],
)
def test_settings_that_were_not_tested_are_not_counted(doubt: Doubt, text: str) -> None:
    """As not significant, for example."""
    ratio = None if doubt is Doubt.NO_BASELINE else stats.Ratio(stats.Interval(2.0, 0.0, math.inf))
    speed = Speed(ratio, Verdict(Outcome.AMBIGUOUS, doubt))
    rows = [row if row.speed is None else replace(row, speed=speed) for row in several()]
    assert sentence(rows).startswith(f"{text}; ")


def test_if_no_setting_is_faster_none_is_named() -> None:
    """The one with the largest ratio may be so by chance."""
    rows = judged(judged(several(), Outcome.SAME, 0.99, 1.01, 1), Outcome.AMBIGUOUS, 0.99, 1.2, 2)
    assert sentence(rows).startswith(
        "none of 5 settings is faster than threads=1: 1 slower, 1 equally fast, 2 not significant, 1 failed"
    )


def test_the_best_batch_size_has_the_most_items_per_second() -> None:
    """The fastest batch is the smallest one."""
    rows = shown(*(proven(Setting(batch=size), place) for place, size in enumerate((1, 4, 8))))
    rows = judged(judged(rows, Outcome.FASTER, 1.2, 1.3, 1), Outcome.FASTER, 1.4, 1.5, 2)
    said = sentence(rows)
    assert said.startswith("batch=8 processes 1.45× as many rows/s as batch=1 [1.40, 1.50], the most of 3 settings")


def test_one_setting_alone() -> None:
    """There is nothing to compare."""
    assert sentence(shown(proven(Setting()))).startswith("one forward batch in fp32 takes 50.150 ms ±")


def test_what_was_not_timed() -> None:
    """A failure, a setting without its baseline, and a machine on which nothing is timed."""
    assert sentence(shown(make(None, error="died"))) == "fp32 failed"
    many = [make(None, setting=Setting(threads=n), group=n - 1, error="died") for n in range(1, 7)]
    assert sentence(shown(*many)) == "all 6 settings failed"
    assert sentence(shown(make(None))).startswith("nothing was timed; ")
    failed = make(None, setting=Setting("bf16"), group=1, error="died")
    assert sentence(shown(proven(Setting()), failed)).startswith("bf16 failed; kernels verified")


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (ProofVerdict.PARTLY, "bf16 ran only partly in bf16"),
        (ProofVerdict.NOT_ACTIVE, "bf16 ran in fp32, NOT in bf16"),
        (ProofVerdict.UNKNOWN, "bf16 ran in an unknown precision"),
    ],
)
def test_a_precision_that_is_not_proven_is_named(verdict: ProofVerdict, said: str) -> None:
    """What ran instead."""
    rows = shown(proven(Setting()), proven(Setting("bf16"), 1, evidence=evidence(verdict)))
    assert f"; {said}; accuracy" in sentence(rows)


def test_what_ran_instead_need_not_be_fp32() -> None:
    """A model that was to be quantized may have run in bf16."""
    instead = replace(evidence(ProofVerdict.NOT_ACTIVE), reason=NotUsed("bf16", ("k",), "oneDNN", None))
    rows = shown(proven(Setting()), proven(Setting("int8", recipe="torchao"), 1, evidence=instead))
    assert "; int8 ran in bf16, NOT in int8; " in sentence(rows)


def test_without_an_audit_nothing_is_proven() -> None:
    """Whatever the canary says."""
    assert "; kernels not verified (no audit); " in sentence(shown(make(STEADY)))
    rows = shown(*(proven(Setting(threads=n), n - 1, evidence=evidence(ProofVerdict.UNKNOWN)) for n in range(1, 7)))
    assert "; kernels not verified for 6 of 6; " in sentence(rows)


def test_judged_predictions_are_in_the_sentence() -> None:
    """One with its metric, several by their verdicts; else why they were not judged."""
    trained = replace(WEIGHTS, kind=WeightsKind.PRETRAINED)
    settings = (Setting(), Setting("bf16"), Setting("bf16", mode="compile"))
    rows = shown(*(proven(each, group, weights=trained) for group, each in enumerate(settings)))
    assert sentence(rows).endswith("; accuracy not checked (--validate)")
    rows[1] = replace(rows[1], judged=judgement(ValidityVerdict.VALID))
    assert sentence(rows).endswith("; accuracy check: VALID: F1 88.00 in fp32, 87.00 in bf16=autocast")
    rows[2] = replace(rows[2], judged=judgement(ValidityVerdict.NOT_VALID))
    assert sentence(rows).endswith("; accuracy check: 1 VALID, 1 NOT VALID")


def test_why_nothing_could_be_judged_is_said() -> None:
    """CANNOT JUDGE without a reason leaves the reader with nothing to mend."""
    rows = shown(proven(Setting()), proven(Setting("bf16"), 1))
    failed = replace(judgement(ValidityVerdict.VALID), report=None, error="no judge is set")
    rows[1] = replace(rows[1], judged=failed)
    assert findings.remarks(rows)["toy"].endswith("accuracy check: CANNOT JUDGE: no judge is set")


@pytest.mark.parametrize(
    ("precision", "agreement", "said", "error"),
    [
        ("fp32", SAME, "verified; engine=onnxruntime computes what torch does", "2.0e-07"),
        (
            "fp32",
            OTHER,
            "ran in an unknown precision; engine=onnxruntime does NOT compute what torch does",
            "2.0e-03",
        ),
    ],
)
def test_the_sentence_says_whether_an_engine_computes_the_same(
    precision: str, agreement: OutputAgreement, said: str, error: str
) -> None:
    """With both figures, between kernels and accuracy."""
    setting = Setting(precision, engine="onnxruntime")
    rows = shown(proven(Setting(precision)), proven(setting, 1, **exported(agreement)))
    assert f" {said} (mean error ÷ mean |output| {error}, mean error {error}); accuracy" in sentence(rows)


def test_what_holds_for_several_settings_is_said_once() -> None:
    """With the range of their errors; up to four are named."""
    worse = replace(SAME, outputs=tuple(replace(each, mean_error=4e-7) for each in SAME.outputs))
    settings = [Setting(engine="onnxruntime", threads=threads) for threads in range(1, 6)]
    others = [proven(each, n + 1, **exported(SAME if n else worse)) for n, each in enumerate(settings)]
    assert "; 5 settings compute what torch does (mean error ÷ mean |output| 2.0e-07 to 4.0e-07, mean" in sentence(
        shown(proven(Setting()), *others)
    )
    (named,) = re.findall("verified; ([^;]*) compute what torch does", sentence(shown(proven(Setting()), *others[:2])))
    assert len(named.split(", ")) == 2


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.88, 1.0, "no gain shown; at most 12 % slower (95 % CI)"),
        (0.985, 1.12, "no loss shown; at most 12 % faster (95 % CI)"),
        (0.88, 1.3, "no significant difference; at most 12 % slower, at most 30 % faster (95 % CI)"),
        (0.06, 11.5, "no significant difference; 0.06× to 11.50× as fast (95 % CI)"),
        (0.0, math.inf, "no significant difference; the interval is too wide to bound it"),
    ],
)
def test_an_ambiguous_comparison_may_still_bound_the_difference(low: float, high: float, said: str) -> None:
    """By the ends of the interval, and no further."""
    assert findings.conclusion(stats.Interval(1.0, low, high)) == said


WIDE = Speed(stats.Ratio(stats.Interval(2.09, 1.32, 3.33)), Verdict(Outcome.AMBIGUOUS, Doubt.CHANCE, 0.04, 3))
"""AMBIGUOUS, although 1 is outside the interval."""


def test_an_interval_that_excludes_1_without_a_verdict_is_explained() -> None:
    """The interval is of 95 % and of one comparison, the verdict of 98 % and of all: no bound contradicts the table."""
    rows = shown(proven(Setting()), proven(Setting(threads=2), 1), proven(Setting(threads=3), 2))
    reason = "p = 0.04 (corrected for 3 comparisons), and a verdict needs p ≤ 0.02"
    pair = [rows[0], replace(rows[1], speed=WIDE)]
    assert findings.remarks(pair) == {
        "toy": f"threads=2: the 95 % CI of the speedup excludes 1, but the verdict is AMBIGUOUS: {reason}"
    }
    (said,) = findings.remarks(
        [*pair, replace(rows[2], speed=replace(WIDE, found=stats.Ratio(stats.Interval(1.0, 0.9, 1.1))))]
    ).values()
    assert said.endswith(f": 2 not significant; the 95 % CI of threads=2 excludes 1, but {reason}")


def test_remarks_repeat_neither_the_headline_nor_the_table() -> None:
    """What is decided and verified needs no words; what is open or ran in another precision does."""
    rows = shown(proven(Setting()), proven(Setting("bf16"), 1))
    assert findings.remarks(judged(rows, Outcome.FASTER, 1.5, 1.7)) == {}
    assert findings.remarks(judged(rows, Outcome.AMBIGUOUS, 0.9, 1.0)) == {
        "toy": "bf16: no gain shown; at most 10 % slower (95 % CI); the baseline has no runs"
    }
    other = shown(proven(Setting()), proven(Setting("bf16"), 1, evidence=evidence(ProofVerdict.NOT_ACTIVE)))
    numeric = [rows[0], replace(rows[1], judged=judgement(ValidityVerdict.NUMERIC_ONLY))]
    assert findings.remarks(judged(numeric, Outcome.FASTER, 1.5, 1.7)) == {}, "the table says it"
    other[1] = replace(other[1], judged=judgement(ValidityVerdict.VALID))
    assert findings.remarks(judged(other, Outcome.SAME, 0.99, 1.01)) == {"toy": "bf16 ran in fp32, NOT in bf16"}
