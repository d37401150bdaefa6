"""Picking the winner, what must not win, what processes cost, and how time is divided among the stages of a search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
from exported_results import OTHER, SAME
from fake_runs import WEIGHTS, evidence, make

from modelzoo.errors import UsageError, WorkerError
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import KernelCalls, KernelDigest, OperatorClass, OperatorUse, ProofSource, ProofVerdict
from modelzoo.records.race import ExclusionKind
from modelzoo.records.run import Run, RunReport, ValidityEntry
from modelzoo.records.workload import WeightsKind
from modelzoo.setting import Setting
from modelzoo.stats import race
from modelzoo.stats.race import Choice
from modelzoo.tuning import decisions
from modelzoo.tuning.decisions import COMPILED, costs

STEADY = {0: 0.40, 1: 0.41, 2: 0.39, 3: 0.40}
"""Log ratios of a candidate that is faster in every round."""


def shifted(by: float, noise: float = 0.0) -> dict[int, float]:
    """``STEADY``, faster by ``by``, with noise that alternates."""
    return {number: value + by + (noise if number % 2 else -noise) for number, value in STEADY.items()}


@pytest.mark.parametrize(
    ("logs", "complexity", "expected"),
    [
        pytest.param((shifted(0), shifted(0.2, 0.001)), (1, 2), Choice(2, 2), id="told apart in every round"),
        pytest.param((shifted(0), shifted(0.005, 0.02)), (1, 2), Choice(1, 2, (1,)), id="the simplest of equals"),
        pytest.param((shifted(0), shifted(0.005, 0.02)), (1, 1), Choice(2, 2, (1,)), id="equally simple: the faster"),
        pytest.param((shifted(0), shifted(0.1, 0.2)), (1, 2), Choice(2, 2, (1,)), id="noisy rounds: far behind"),
        pytest.param((dict.fromkeys(range(4), -0.1),), (1,), Choice(0, 0), id="nothing is faster than the default"),
        pytest.param(({0: 0.03, 1: -0.02, 2: 0.02, 3: -0.01},), (1,), Choice(0, 1, (0,)), id="like the default"),
        pytest.param((), (), Choice(0, 0), id="nothing was measured"),
        pytest.param(({0: 0.5},), (1,), Choice(1, 1, (0,)), id="one round of a large difference"),
        pytest.param(({0: 0.5, 1: 0.5}, {2: 0.2, 3: 0.2}), (2, 1), Choice(1, 1, (2,)), id="no common rounds"),
        pytest.param(({0: 0.69, 1: 0.74},), (3,), Choice(1, 1), id="half the time in two rounds"),
    ],
)
def test_the_simplest_of_those_as_fast_as_the_best_wins(
    logs: Sequence[dict[int, float]], complexity: Sequence[int], expected: Choice
) -> None:
    """The default takes part; what is too slow is only named as a tie."""
    found = decisions.pick(dict(enumerate(logs, 1)), dict(enumerate(complexity, 1)))
    assert (found.winner, found.best, set(found.ties)) == (expected.winner, expected.best, set(expected.ties))


def test_steps_lead_from_the_default_to_the_winner_by_one_option_each() -> None:
    """The precision and its method are one option."""
    winner = Setting("bf16", "autocast", mode="compile", channels_last=True, threads=2)
    found = decisions.steps(Setting(), winner)
    assert [each.label for each in found[:3]] == [
        "fp32 compile",
        "fp32 compile channels-last",
        "bf16=autocast compile channels-last",
    ]
    assert found[-1] == winner
    assert len(decisions.changed(Setting(), winner)) == 4


def test_every_option_that_a_candidate_may_change_is_an_axis() -> None:
    """Otherwise the steps would not reach the winner."""
    from modelzoo.tuning import grid

    declared = (*grid.MODES, *grid.BF16, *grid.MEMORY, *grid.LAST)
    names = {name for changes in declared for name in changes} | {"threads", "batch"}
    assert names <= {name for axis in decisions.AXES for name in axis}


FP32 = evidence(ProofVerdict.FP32)
BASE = [make([1.0], evidence=FP32)]


def report(**changes: Any) -> RunReport:
    """The report of the default's first process."""
    found = make([1.0], **{"evidence": FP32, **changes}).report
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("precision", "changes", "kind"),
    [
        ("fp32", {"agreement": SAME}, None),
        ("fp32", {"agreement": OTHER}, ExclusionKind.WRONG_OUTPUTS),
        ("fp32", {"evidence": evidence(ProofVerdict.NOT_FP32)}, ExclusionKind.UNPROVEN),
        ("fp32", {"evidence": None}, ExclusionKind.UNPROVEN),
        ("fp32", {"evidence": evidence(ProofVerdict.WRONG_RESULTS)}, ExclusionKind.WRONG_OUTPUTS),
        ("bf16", {"evidence": evidence(ProofVerdict.PARTLY)}, ExclusionKind.UNPROVEN),
        ("bf16", {"evidence": evidence(ProofVerdict.ACTIVE)}, None),
    ],
)
def test_what_is_not_proven_or_not_right_is_out(
    precision: str, changes: dict[str, Any], kind: ExclusionKind | None
) -> None:
    """By what the process reported: the precision that was asked for must be active, the outputs those of torch."""
    process = make([0.5], setting=Setting(precision, mode="compile"), group=1, **{"evidence": FP32, **changes})
    assert decisions.unfit([process], BASE) == kind


FEW, MANY = (KernelDigest("0", (KernelCalls("jit", "fp32", count),)) for count in (53, 2000))
CONV = OperatorUse("conv", OperatorClass.CONV, (), "jit", "fp32", ProofSource.BOTH, 1, 1.0, 1.0)


@pytest.mark.parametrize(
    ("field", "changes", "kind"),
    [
        ("channels_last", {}, ExclusionKind.NO_CONVOLUTION),
        ("channels_last", {"evidence": replace(FP32, operators=(CONV,))}, None),
        ("channels_last", {"evidence": None}, None),
        ("linear", {}, ExclusionKind.NO_LINEAR),
        ("primitive_cache", {"kernels": FEW}, ExclusionKind.FEW_PRIMITIVES),
        ("primitive_cache", {"kernels": MANY}, None),
    ],
)
def test_what_cannot_have_an_effect_is_out(field: str, changes: dict[str, Any], kind: ExclusionKind | None) -> None:
    """As the audit of the default shows, or few kernels, which cannot fill oneDNN's own cache of primitives."""
    assert decisions.pointless({field}, report(**changes)) == kind


def test_a_default_that_is_not_fp32_compares_with_nothing() -> None:
    """By the canary, or by its kernels."""
    decisions.check_default(report())
    with pytest.raises(WorkerError, match="the default setting is not fp32 according to the canary: matmul bf16"):
        decisions.check_default(report(level=CanaryLevel.BF16))
    with pytest.raises(WorkerError, match="according to its kernels, which ran in bf16; nothing can be compared"):
        decisions.check_default(report(evidence=evidence(ProofVerdict.NOT_FP32)))
    with pytest.raises(WorkerError, match=r"of the default setting are wrong \(encoder.pos_conv_embed.conv\); nothing"):
        decisions.check_default(report(evidence=evidence(ProofVerdict.WRONG_RESULTS)))


def test_what_cannot_be_judged_is_out_unless_it_is_allowed() -> None:
    """Predictions need trained weights and a judge; a failed judgement is no judgement."""
    trained = report(weights=replace(WEIGHTS, kind=WeightsKind.PRETRAINED))
    assert decisions.unjudgeable(trained, has_judge=True) is None
    assert decisions.unjudgeable(trained, has_judge=False) is ExclusionKind.NO_JUDGE
    assert decisions.unjudgeable(report(), has_judge=True) is ExclusionKind.RANDOM_WEIGHTS
    entry = ValidityEntry("toy", 1, Setting("bf16"), exit_code=2, error="no data")
    assert decisions.not_valid(entry, allow_unjudged=False) is ExclusionKind.NOT_JUDGED
    assert decisions.not_valid(entry, allow_unjudged=True) is None


def test_a_budget_that_cannot_suffice_is_refused() -> None:
    """By what starting the processes takes, before anything is started."""
    with pytest.raises(UsageError, match="--budget 60s is too short: a search of 40 settings starts at least 49"):
        decisions.check(60.0, 40)
    decisions.check(98.0, 40)


def test_stages_share_the_time_of_the_search_and_the_confirmation_has_what_is_left() -> None:
    """Fewer candidates are measured more often, within limits; fewer than two rounds of a confirmation say nothing."""
    assert decisions.stage_rounds([10.0] * 10, stages=3, left=700.0) == 2
    assert decisions.stage_rounds([10.0] * 5, stages=3, left=700.0) == 4
    assert decisions.stage_rounds([10.0] * 40, stages=3, left=700.0) == 1
    assert decisions.stage_rounds([0.1], stages=1, left=700.0) == decisions.MOST_ROUNDS
    found = [decisions.confirmation_rounds([10.0, 10.0], left) for left in (100.0, 1000.0, 30.0)]
    assert found == [5, decisions.CONFIRMATION_ROUNDS[1], 0]


EAGER, COMPILE = Setting(), Setting(mode="compile")


def run(group: int, number: int, seconds: int, setting: Setting = EAGER, **changes: Any) -> Run:
    """A process that begins at midnight and takes ``seconds``."""
    made = make([0.1], setting=setting, group=group, round=number, **changes)
    return replace(made, ended=f"2026-01-01T00:00:{seconds:02d}+00:00")


def test_the_wall_time_of_a_round_is_divided_among_its_processes() -> None:
    """Everyone bears its own compiling; what is left is shared. The latest process counts: later ones have a cache.

    A setting that has not run costs as much as those of its mode; without any, a multiple of the default's.
    """
    assert costs([], [EAGER]) == [0.0]
    assert costs([run(0, 0, 40), run(0, 1, 10)], [EAGER]) == pytest.approx([10.0])
    runs = [run(0, 0, 10), run(1, 0, 30, COMPILE, compile_seconds=20.0)]
    assert costs(runs, [EAGER, COMPILE]) == pytest.approx([5.0, 25.0])
    settings = [EAGER, EAGER.replace(threads=2), COMPILE, COMPILE.replace(channels_last=True)]
    runs = [run(0, 0, 10)]
    assert costs(runs, settings) == [10.0, 10.0, 10.0 * COMPILED, 10.0 * COMPILED]
    runs.append(run(2, 1, 30, COMPILE))
    assert costs(runs, settings)[3] == pytest.approx(30.0)


@pytest.mark.parametrize("count", range(1, 40))
def test_every_stage_has_about_half_of_the_candidates(count: int) -> None:
    """The first has all, the last a few; a small grid has two stages as well."""
    sizes = race.sizes(count)
    assert sizes[0] == count
    assert sizes[-1] <= race.FINALISTS
    assert len(sizes) > 1
    assert all(after == math.ceil(before / 2) or before == after for before, after in itertools.pairwise(sizes))


def test_candidates_are_ranked_by_their_mean() -> None:
    """The geometric mean of the ratios; those without times are left out."""
    logs = {1: {0: 0.1, 1: 0.1}, 2: {0: 0.5}, 3: {}, 4: {0: -0.2}}
    assert race.ranked(logs) == [2, 1, 4]
    assert race.speed(logs[1]) == pytest.approx(math.exp(0.1))
