"""What a call says of its rows, in the headline and by workload, claims no more than the verdicts do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from exported_results import OTHER, SAME, exported
from fake_runs import WEIGHTS, evidence, judgement, make, shown

from modelzoo import stats
from modelzoo.document import Tone
from modelzoo.frozen import replace
from modelzoo.records.coverage import DISPATCH, MOVEMENT, NATIVE, REORDER, TimeShare
from modelzoo.records.evidence import NotUsed, ProofVerdict
from modelzoo.records.run import Run
from modelzoo.records.validity import ValidityVerdict
from modelzoo.records.workload import WeightsKind
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


def proven(setting: Setting, workload: str = "toy", **changes: Any) -> Run:
    """A process whose audit found the precision that was asked for."""
    verdict = ProofVerdict.ACTIVE if setting.precision == "bf16" else ProofVerdict.FP32
    return make(STEADY, workload=workload, setting=setting, **{"evidence": evidence(verdict), **changes})


def threads(*numbers: int, workload: str = "toy") -> list[SummaryRow]:
    """A row for each number of threads."""
    return shown(*(proven(Setting(threads=number), workload) for number in numbers))


def speed(outcome: Outcome, value: float | None = None, **verdict: Any) -> Speed:
    """This verdict, with an interval of a tenth on each side of the ratio."""
    value = value or FACTORS.get(outcome, 1.0)
    verdict = {"doubt": Doubt.CHANCE, "p_value": 0.3, **verdict} if outcome is Outcome.AMBIGUOUS else verdict
    ratio = None if outcome is Outcome.NOT_COMPARABLE else Ratio(stats.Interval(value, 0.9 * value, 1.1 * value))
    return Speed(ratio, Verdict(outcome, **verdict))


FASTER, SLOWER, EQUAL, OPEN = map(speed, FACTORS)
WIDE = Speed(Ratio(stats.Interval(2.09, 1.32, 3.33)), Verdict(Outcome.AMBIGUOUS, Doubt.CHANCE, 0.04, 3))
"""AMBIGUOUS, although 1 is outside the interval."""
UNPROVEN = replace(FASTER, allowed=(Refusal(Obstacle.UNPROVEN),))
NO_BASELINE = Speed(None, Verdict(Outcome.AMBIGUOUS, Doubt.NO_BASELINE))
ALONE = Speed(Ratio(stats.Interval(2.0, 0.0, math.inf)), Verdict(Outcome.AMBIGUOUS, Doubt.ONE_PROCESS))


def compared(rows: Sequence[SummaryRow], *speeds: Speed | None) -> list[SummaryRow]:
    """The rows after the baselines with these verdicts; ``None``: with their own."""
    found = iter(speeds)
    return [row if row.is_baseline or (each := next(found)) is None else replace(row, speed=each) for row in rows]


def pairs(*speeds: Speed | None) -> list[SummaryRow]:
    """fp32 and bf16 of several models with these verdicts; ``None``: bf16 failed."""
    runs = []
    for number, each in enumerate(speeds):
        name, bf16 = f"model{number}", Setting("bf16")
        runs += [proven(Setting(), name), proven(bf16, name) if each else failed(name, bf16)]
    return compared(shown(*runs), *speeds)


def failed(workload: str = "toy", setting: Setting | None = None) -> Run:
    """A process that died."""
    return make(None, workload=workload, setting=setting, error="died")


def said(rows: list[SummaryRow]) -> str:
    """The headline's text."""
    (line,) = headline(rows).items
    return line.text


def tone(rows: list[SummaryRow]) -> Tone:
    """What it means."""
    return headline(rows).items[0].tone


def remark(rows: list[SummaryRow]) -> str:
    """What is said of the toy alone; empty if there is nothing."""
    return findings.remarks(rows).get("toy", "")


def test_two_settings_are_compared_over_all_models(approved: Callable[[str, str], None]) -> None:
    """What is AMBIGUOUS is not significant; what failed, or is not proven, counts apart; green: nothing is slower."""
    cases = (
        *([FASTER], [SLOWER], [EQUAL], [OPEN], [speed(Outcome.NOT_COMPARABLE)], [None], [WIDE], [ALONE]),
        *([FASTER, EQUAL], [FASTER, UNPROVEN], [FASTER, SLOWER], [FASTER, FASTER, OPEN, None]),
        *([OPEN, OPEN], [ALONE, ALONE], [FASTER, NO_BASELINE], [None, None]),
    )
    found = [pairs(*each) for each in cases]
    approved("said/headlines.txt", "".join(f"{tone(rows).value}: {said(rows)}\n" for rows in found))


def of_several_settings() -> dict[str, list[SummaryRow]]:
    """Calls of which the first setting is not compared with one other."""
    lost = [failed(setting=Setting(threads=1)), proven(Setting(threads=2)), proven(Setting(threads=3))]
    several = compared(threads(1, 2, 3, 4), FASTER, speed(Outcome.FASTER, 1.2), speed(Outcome.AMBIGUOUS, 3.0))
    little, much = (between(0.9, 1.1, outlook) for outlook in (Outlook(9, 184.0, 0.02), Outlook(40, None, 0.05)))
    return {
        "the baseline of one failed": shown(*lost[:2]),
        "the baseline of two failed": shown(*lost),
        "one process each": compared(threads(1, 2, 3), ALONE, ALONE),
        "a model whose second setting failed": [*pairs(FASTER), *shown(failed("other"))],
        "a model whose second setting did not begin": [*pairs(FASTER), *shown(proven(Setting(), "other"))],
        "the largest ratio may be chance": several,
        "two models": [*several, *compared(threads(1, 5, workload="other"), FASTER)],
        "nothing is faster": compared(threads(1, 2, 3), OPEN, OPEN),
        "more processes would decide one": compared(threads(1, 2, 3), little, FASTER),
        "more processes would decide all": compared(threads(1, 2, 3), little, much),
        "an interval excludes 1": compared(threads(1, 2), WIDE),
        "an interval is below 1": compared(threads(1, 2), replace(OPEN, found=SLOWER.found)),
        "one of two intervals excludes 1": compared(threads(1, 2, 3), WIDE, replace(WIDE, found=OPEN.found)),
        "nothing to compare": shown(proven(Setting(), "a"), proven(Setting(), "b")),
        "an emulator": shown(make(None, warnings=(warning_for(WarningCode.EMULATED),))),
        "batch sizes": compared(shown(proven(Setting(batch=1)), proven(Setting(batch=8))), SLOWER),
        "batch sizes, not significant": compared(shown(proven(Setting(batch=1)), proven(Setting(batch=8))), OPEN),
    }


def of_doubtful_settings() -> dict[str, list[SummaryRow]]:
    """Calls whose kernels, accuracy or outputs are not as they should be."""
    slow, fast = proven(Setting(), evidence=evidence(ProofVerdict.FP32, 0.5)), proven(Setting(), "other")
    weights = Speed(None, Verdict(Outcome.NOT_COMPARABLE), (Refusal(Obstacle.WEIGHTS, fact=Different.WEIGHTS),))
    instead = replace(evidence(ProofVerdict.NOT_ACTIVE), reason=NotUsed("bf16", ("k",), "oneDNN", None))
    base, other = two()
    verdicts = (ValidityVerdict.VALID, ValidityVerdict.NUMERIC_ONLY, ValidityVerdict.NOT_VALID)
    good, numeric, bad = map(judgement, verdicts)
    worse = replace(SAME, outputs=tuple(replace(each, mean_error=4e-7) for each in SAME.outputs))
    engines = [Setting(engine="onnxruntime", threads=threads) for threads in range(1, 6)]
    exports = [proven(each, **exported(SAME if n else worse)) for n, each in enumerate(engines)]
    return {
        "reference kernels": shown(slow),
        "reference kernels in one": shown(slow, fast),
        "no proof": shown(*(proven(Setting(), name, evidence=evidence(ProofVerdict.UNKNOWN)) for name in "ab")),
        "no audit": shown(make(STEADY)),
        "partly": two(evidence=evidence(ProofVerdict.PARTLY)),
        "unknown": two(evidence=evidence(ProofVerdict.UNKNOWN)),
        "what ran instead": shown(proven(Setting()), proven(Setting("int8", recipe="torchao"), evidence=instead)),
        "other weights": two(weights),
        "trained": shown(make(STEADY, weights=replace(WEIGHTS, kind=WeightsKind.PRETRAINED))),
        "valid": [base, replace(other, judged=good)],
        "numeric only": [base, replace(other, judged=numeric)],
        "not valid": [base, replace(other, judged=bad)],
        "one valid, one not": [replace(base, judged=good), replace(other, judged=bad)],
        "no judge": [base, replace(other, judged=replace(good, report=None, error="no judge is set"))],
        "other outputs": shown(proven(Setting()), proven(Setting(engine="onnxruntime"), **exported(OTHER))),
        "many engines": shown(proven(Setting()), *exports),
    }


def test_headlines_and_remarks_do_not_contradict_the_verdicts(approved: Callable[[str, str], None]) -> None:
    """What may be chance is not named the fastest; what is decided, verified and in the table needs no remark."""
    calls = {**of_several_settings(), **of_doubtful_settings()}
    found = (f"{name} ({tone(rows).value}): {said(rows)}\n    {remark(rows)}".rstrip() for name, rows in calls.items())
    approved("said/calls.txt", "".join(f"{each}\n" for each in found))


def test_the_largest_disturbance_is_named() -> None:
    """By how much of the time it may explain; small ones leave a result as it is."""
    odd = warning_for(WarningCode.ODD_PROCESS, number=3, count=8, percent=108.0, direction="slower")
    small, large = (warning_for(WarningCode.OTHER_LOAD, cores=cores) for cores in (0.05, 9.0))
    causes = (((small,), None), ((small, odd), "speed varied by 108 %"), ((odd, large), "other programs were running"))
    for warnings, cause in causes:
        found = tuple(summary.RowWarning(each, 1, 1) for each in warnings)
        noisy = [replace(row, warnings=found) for row in pairs(FASTER)]
        expected = f"NOISY MACHINE: {cause}, treat as indicative" if cause else ""
        assert said(noisy).partition("NOISY")[1:] == (expected[:5], expected[5:])
        assert tone(noisy) is (Tone.OPEN if cause else Tone.BETTER)


def between(low: float, high: float, outlook: Outlook | None = None) -> Speed:
    """AMBIGUOUS, with a speedup between these bounds."""
    found = stats.Interval(math.sqrt(low * high) if low else 1.0, low, high)
    return Speed(Ratio(found), Verdict(Outcome.AMBIGUOUS, Doubt.NO_BASELINE, outlook=outlook))


def two(found: Speed = EQUAL, **changes: Any) -> list[SummaryRow]:
    """fp32 and bf16, both proven, with this verdict."""
    return compared(shown(proven(Setting()), proven(Setting("bf16"), **changes)), found)


def test_an_ambiguous_comparison_may_still_bound_the_difference(approved: Callable[[str, str], None]) -> None:
    """By the ends of the interval, and no further; then the reason, or what would decide it instead."""
    bounds = (0.88, 1.015), (0.985, 1.12), (0.88, 1.3), (0.06, 11.5), (0.0, math.inf)
    found = [between(*each, outlook) for each in bounds for outlook in (None, Outlook(9, 184.0, 0.02))]
    approved("said/bounds.txt", "".join(f"{remark(two(each))}\n" for each in found))


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


IN_FP32 = divided(ProofVerdict.FP32, 10.0, 0.2, 1.0, 0.8, 1.0)
IN_BF16 = divided(ProofVerdict.ACTIVE, 1.9, 3.4, 1.5, 1.2, 2.0)


def way(bf16: Any, factor: float = 0.97, slowed: float = 1.0, **setting: Any) -> tuple[str, str]:
    """The headline and the remark on fp32 and bf16 whose passes were divided like this, and ``slowed`` by the audit."""
    audits = ((IN_FP32, Setting()), (bf16, Setting("bf16", **setting)))
    rows = shown(*(make([each.seconds / slowed] * 20, setting=own, evidence=each) for each, own in audits))
    rows = compared(rows, speed(Outcome.SAME, factor))
    return said(rows), remark(rows)


def test_what_keeps_bf16_from_being_as_fast_as_its_products_is_said_with_what_addresses_it() -> None:
    """The shares are of the audited pass; the bound is the speed if products took no time."""
    first, rest = way(IN_BF16)
    assert "bf16 as run (eager, autocast)" in first
    assert rest == (
        "bf16: products 5.3× as fast, 19 % of the pass (if they took no time: 1.20×); 34 % casts and copies "
        "(--bf16=cast); 20 % other operators, 15 % reorders, 12 % dispatch and set-up (--mode compile)"
    )
    first, rest = way(divided(ProofVerdict.ACTIVE, 2.0, 0.2, 1.0, 0.8, 2.0), 1.5, mode="compile", bf16_method="cast")
    assert "as run" not in first
    assert rest.endswith("; 33 % other operators, 17 % reorders, 13 % dispatch and set-up"), "no remedy that it has"


def test_nothing_is_in_the_way_where_products_gained_no_more_than_the_whole() -> None:
    """Within what two audits of one model differ by; nor where one of the two is not proven."""
    first, rest = way(divided(ProofVerdict.ACTIVE, 8.0, 0.2, 1.0, 0.8, 1.0), 1.05)
    assert ("as run" in first, rest) == (False, "")
    assert "products" not in way(divided(ProofVerdict.PARTLY, 1.9, 3.4, 1.5, 1.2, 2.0))[1]


@pytest.mark.parametrize(("slowed", "is_said"), [(0.6, False), (0.7, True), (1.4, True), (1.6, False)])
def test_a_pass_that_the_audit_slowed_says_nothing_of_those_that_were_timed(slowed: float, is_said: bool) -> None:
    """A model of microseconds takes twenty times as long when its operators are observed."""
    assert ("products" in way(IN_BF16, slowed=slowed)[1]) is is_said
