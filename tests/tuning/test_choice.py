"""Picking the winner: the simplest of those that cannot be told from the best, and none that must not win."""

from __future__ import annotations

from typing import Any

import pytest
from fake_runs import WEIGHTS, evidence, make

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import (
    KernelCalls,
    KernelDigest,
    OperatorClass,
    OperatorUse,
    ProofSource,
    ProofVerdict,
)
from modelzoo.records.race import ExclusionKind
from modelzoo.records.run import Run, RunReport, ValidityEntry
from modelzoo.records.workload import OutputAgreement, OutputError, WeightsKind
from modelzoo.setting import Setting
from modelzoo.stats.race import Choice
from modelzoo.tuning import choice
from modelzoo.tuning import choice as exclusions

STEADY = {0: 0.40, 1: 0.41, 2: 0.39, 3: 0.40}
"""Log ratios of a candidate that is faster in every round."""


def shifted(by: float, noise: float = 0.0) -> dict[int, float]:
    """``STEADY``, faster by ``by``, with noise that alternates."""
    return {number: value + by + (noise if number % 2 else -noise) for number, value in STEADY.items()}


def test_a_clear_winner_has_no_ties() -> None:
    """It is told apart in every round."""
    found = choice.pick({1: shifted(0), 2: shifted(0.2, 0.001)}, {1: 1, 2: 2})
    assert found == Choice(winner=2, best=2, ties=())


def test_the_simplest_of_equals_wins() -> None:
    """A candidate that changes two options and seems 0.5 % faster does not beat one that changes one."""
    found = choice.pick({1: shifted(0), 2: shifted(0.005, 0.02)}, {1: 1, 2: 2})
    assert found == Choice(winner=1, best=2, ties=(1,))


def test_a_tie_that_is_far_behind_is_named_but_does_not_win() -> None:
    """Noisy rounds tell nothing apart; the estimate still counts."""
    found = choice.pick({1: shifted(0), 2: shifted(0.1, 0.2)}, {1: 1, 2: 2})
    assert found == Choice(winner=2, best=2, ties=(1,))


def test_of_equally_simple_ties_the_faster_wins() -> None:
    """Nothing else tells them apart."""
    assert choice.pick({1: shifted(0), 2: shifted(0.005, 0.02)}, {1: 1, 2: 1}).winner == 2


def test_the_default_takes_part() -> None:
    """It wins if nothing seems faster, or if the fastest cannot be told from it and is hardly faster."""
    slower = dict.fromkeys(range(4), -0.1)
    assert choice.pick({1: slower}, {1: 1}) == Choice(0, 0, ())
    hardly = {0: 0.03, 1: -0.02, 2: 0.02, 3: -0.01}
    assert choice.pick({1: hardly}, {1: 1}) == Choice(winner=0, best=1, ties=(0,))
    assert choice.pick({}, {}) == Choice(0, 0, ())


def test_one_round_tells_nothing_apart() -> None:
    """But a large difference is still worth measuring again."""
    assert choice.pick({1: {0: 0.5}}, {1: 1}) == Choice(winner=1, best=1, ties=(0,))


def test_candidates_without_common_rounds_are_compared_by_all_of_theirs() -> None:
    """They sampled in different blocks."""
    found = choice.pick({1: {0: 0.5, 1: 0.5}, 2: {2: 0.2, 3: 0.2}}, {1: 2, 2: 1})
    assert found.winner == 1
    assert 2 in found.ties


def test_steps_lead_from_the_default_to_the_winner_by_one_option_each() -> None:
    """The precision and its method are one option."""
    winner = Setting("bf16", "autocast", mode="compile", channels_last=True, threads=2)
    found = choice.steps(Setting(), winner)
    assert [each.label for each in found[:3]] == [
        "fp32 compile",
        "fp32 compile channels-last",
        "bf16=autocast compile channels-last",
    ]
    assert found[-1] == winner
    assert len(choice.changed(Setting(), winner)) == 4


def test_every_option_that_a_candidate_may_change_is_an_axis() -> None:
    """Otherwise the steps would not reach the winner."""
    from modelzoo.tuning import grid

    declared = (*grid.MODES, *grid.BF16, *grid.MEMORY, *grid.LAST)
    names = {name for changes in declared for name in changes} | {"threads", "batch"}
    assert names <= {name for axis in choice.AXES for name in axis}


@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_true_improvement_of_half_the_time_always_wins(count: int) -> None:
    """Whatever the number of rounds."""
    logs = {number: 0.69 + 0.05 * (number % 3) for number in range(count)}
    assert choice.pick({1: logs}, {1: 3}).winner == 1


FP32 = evidence(ProofVerdict.FP32)
BASE = [make([1.0], evidence=FP32)]


def process(**changes: Any) -> Run:
    """A process of a candidate that is fit."""
    return make([0.5], setting=Setting(mode="compile"), group=1, **{"evidence": FP32, **changes})


def report(**changes: Any) -> RunReport:
    """The report of the default's first process."""
    found = make([1.0], **{"evidence": FP32, **changes}).report
    assert found is not None
    return found


def test_a_proven_candidate_with_the_same_outputs_is_fit() -> None:
    """Nothing is against it."""
    same = OutputAgreement((OutputError("0", 1, 1e-7, 1.0, 1e-7),), True)
    assert exclusions.unfit([process(agreement=same)], BASE) is None


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"error": "no compiler", "kind": "EnvironmentProblem"}, ExclusionKind.FAILED),
        ({"evidence": evidence(ProofVerdict.NOT_FP32)}, ExclusionKind.UNPROVEN),
        ({"evidence": None}, ExclusionKind.UNPROVEN),
        ({"evidence": evidence(ProofVerdict.WRONG_RESULTS)}, ExclusionKind.WRONG_OUTPUTS),
        ({"agreement": OutputAgreement((OutputError("0", 1, 1e-2, 1.0, 1.0),), True)}, ExclusionKind.WRONG_OUTPUTS),
    ],
)
def test_what_is_not_proven_or_not_right_is_out(changes: dict[str, Any], kind: ExclusionKind) -> None:
    """By what the process reported."""
    assert exclusions.unfit([process(**changes)], BASE) == kind


def test_bf16_must_be_active() -> None:
    """A setting that asks for bf16 and does not get it is not what it says."""
    setting = Setting("bf16", "autocast")
    partly = make([0.5], setting=setting, group=1, evidence=evidence(ProofVerdict.PARTLY))
    assert exclusions.unfit([partly], BASE) == ExclusionKind.UNPROVEN
    active = make([0.5], setting=setting, group=1, evidence=evidence(ProofVerdict.ACTIVE))
    assert exclusions.unfit([active], BASE) is None


def test_channels_last_needs_a_convolution() -> None:
    """As the audit of the default shows; without an audit nothing is known."""
    conv = OperatorUse("conv", OperatorClass.CONV, (), "jit", "fp32", ProofSource.BOTH, 1, 1.0, 1.0)
    changes = {"channels_last"}
    assert exclusions.pointless(changes, report()) == ExclusionKind.NO_CONVOLUTION
    assert exclusions.pointless(changes, report(evidence=replace(FP32, operators=(conv,)))) is None
    assert exclusions.pointless(changes, report(evidence=None)) is None


def test_a_larger_cache_of_primitives_needs_many_of_them() -> None:
    """A pass that calls few kernels cannot fill oneDNN's own cache."""
    few, many = (KernelDigest("0", (KernelCalls("jit", "fp32", count),)) for count in (53, 2000))
    found = exclusions.pointless({"primitive_cache"}, report(kernels=few))
    assert found == ExclusionKind.FEW_PRIMITIVES
    assert exclusions.pointless({"primitive_cache"}, report(kernels=many)) is None


def test_a_default_that_is_not_fp32_compares_with_nothing() -> None:
    """By the canary, or by its kernels."""
    exclusions.check_default(report())
    with pytest.raises(WorkerError, match="the default setting is not fp32 according to the canary: matmul bf16"):
        exclusions.check_default(report(level=CanaryLevel.BF16))
    with pytest.raises(WorkerError, match="according to its kernels, which ran in bf16; nothing can be compared"):
        exclusions.check_default(report(evidence=evidence(ProofVerdict.NOT_FP32)))
    with pytest.raises(WorkerError, match=r"of the default setting are wrong \(encoder.pos_conv_embed.conv\); nothing"):
        exclusions.check_default(report(evidence=evidence(ProofVerdict.WRONG_RESULTS)))


def test_predictions_need_trained_weights_and_a_judge() -> None:
    """Otherwise bf16 cannot be judged."""
    trained = report(weights=replace(WEIGHTS, kind=WeightsKind.PRETRAINED))
    assert exclusions.unjudgeable(trained, has_judge=True) is None
    assert exclusions.unjudgeable(trained, has_judge=False) is ExclusionKind.NO_JUDGE
    assert exclusions.unjudgeable(report(), has_judge=True) is ExclusionKind.RANDOM_WEIGHTS


def test_what_cannot_be_judged_is_out_unless_it_is_allowed() -> None:
    """A failed judgement is no judgement."""
    entry = ValidityEntry("toy", 1, Setting("bf16"), exit_code=2, error="no data")
    assert exclusions.not_valid(entry, allow_unjudged=False) is ExclusionKind.NOT_JUDGED
    assert exclusions.not_valid(entry, allow_unjudged=True) is None
