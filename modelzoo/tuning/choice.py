"""Which candidates must not win, whatever their speed, and which of the others wins. Pure.

The best of many candidates is partly the luckiest, and candidates that are equally fast take turns at being the best.
So the simplest of those that the search cannot tell apart wins, the default itself included, and what is said of its
speed comes from processes that took no part in the choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Optional

import msgspec

from modelzoo import stats
from modelzoo.errors import WorkerError
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run, RunReport, ValidityEntry
from modelzoo.records.tuning import PRIMITIVES, Exclusion, ExclusionKind
from modelzoo.records.validity import ValidityVerdict
from modelzoo.records.workload import WeightsKind
from modelzoo.results.proof import merged_proof
from modelzoo.results.refusals import not_fp32, wrong_results
from modelzoo.results.speed import refused
from modelzoo.setting import METHODS, Setting
from modelzoo.tuning.halving import Logs, ranked, speed

TOLD_APART = 0.05
"""Two candidates are told apart if the p-value of their rounds is at most this. It decides about a choice, not about
what is reported, so it is not corrected for the number of candidates."""
AXES: tuple[tuple[str, ...], ...] = (
    ("engine",),
    ("mode",),
    ("channels_last",),
    ("linear",),
    ("precision", *dict.fromkeys(METHODS.values())),
    ("threads",),
    ("malloc",),
    ("thp",),
    ("primitive_cache",),
    ("backend",),
    ("batch",),
)
"""The options of a search, each with its fields, in the order of the steps from the default to the winner."""


class Pick(msgspec.Struct, frozen=True):
    """The winner among the candidates (0: the default), the fastest one, and those it could not be told from."""

    winner: int
    best: int
    ties: tuple[int, ...]


def pick(found: Mapping[int, Logs], complexity: Mapping[int, int]) -> Pick:
    """Return the simplest of the candidates that are as fast as the best, as far as the search can tell.

    "As fast" means that the rounds do not tell them apart, and that they are at most as much slower as two settings
    that are SAME may be (``stats.EQUIVALENCE``): a few noisy rounds tell nothing apart.

    Args:
        found: of each candidate, how much faster than the default it was, by round.
        complexity: of each candidate: how many options it changes.
    """
    order = ranked(found)
    if not order or speed(found[order[0]]) <= 1:
        return Pick(0, 0, ())
    best = order[0]
    everyone = {**{group: found[group] for group in order}, 0: dict.fromkeys(found[best], 0.0)}
    ties = tuple(group for group in (*order[1:], 0) if not _is_told_apart(found[best], everyone[group]))
    close = [group for group in (best, *ties) if _behind(found[best], everyone[group]) <= stats.EQUIVALENCE]
    # Of equally simple ones the faster one wins: they are in the order of their speed.
    winner = min(close, key=lambda group: complexity[group] if group else -1)
    return Pick(winner, best, ties)


def _behind(best: Logs, other: Logs) -> float:
    """How much slower ``other`` is, as a fraction, in the rounds that both have; else by all rounds."""
    shared = set(best) & set(other)
    if not shared:
        return speed(best) / speed(other) - 1
    return math.expm1(sum(best[i] - other[i] for i in shared) / len(shared))


def _is_told_apart(best: Logs, other: Logs) -> bool:
    shared = sorted(set(best) & set(other))
    if len(shared) < 2:
        return False
    sides = [[math.exp(-best[i])] for i in shared], [[math.exp(-other[i])] for i in shared]
    return stats.ratio_test(*sides).p_value <= TOLD_APART


def changed(base: Setting, setting: Setting) -> list[tuple[str, ...]]:
    """The options in which ``setting`` differs from ``base``, as their fields."""
    return [axis for axis in AXES if any(getattr(base, name) != getattr(setting, name) for name in axis)]


def steps(base: Setting, winner: Setting) -> list[Setting]:
    """Return the settings that lead from ``base`` to ``winner``, which is the last, by one option at a time."""
    found, current = [], base
    for axis in changed(base, winner):
        current = current.replace(**{name: getattr(winner, name) for name in axis})
        found.append(current)
    return found if current == winner else [*found, winner]


def complexities(settings: Sequence[Setting]) -> dict[int, int]:
    """The number of options that each setting changes in the first one, by index."""
    return {index: len(changed(settings[0], setting)) for index, setting in enumerate(settings)}


def unfit(group: int, runs: Sequence[Run], baseline: Sequence[Run]) -> Optional[Exclusion]:
    """Return why a candidate is out according to what its processes report; ``None`` if it may go on.

    Args:
        group: the candidate.
        runs: its processes so far.
        baseline: those of the default setting.
    """
    if any(run.error for run in runs):
        return Exclusion(group, ExclusionKind.FAILED)
    reports = [run.report for run in runs if run.report is not None]
    if not reports:
        return None
    if refused(baseline, runs):
        return Exclusion(group, ExclusionKind.WRONG_OUTPUTS)
    wanted = ProofVerdict.FP32 if reports[0].setting.precision == "fp32" else ProofVerdict.ACTIVE
    return None if merged_proof(reports).verdict is wanted else Exclusion(group, ExclusionKind.UNPROVEN)


def pointless(group: int, changes: set[str], probe: RunReport) -> Optional[Exclusion]:
    """Return why a candidate cannot have an effect, by what the default setting ran; ``None`` if it may.

    Args:
        group: the candidate.
        changes: the fields of ``Setting`` that it changes.
        probe: the first process of the default setting.
    """
    evidence, kernels = probe.observed.evidence, probe.observed.kernels
    operators = {use.operator_class.value for use in evidence.operators} if evidence is not None else None
    if "channels_last" in changes and operators is not None and "conv" not in operators:
        return Exclusion(group, ExclusionKind.NO_CONVOLUTION)
    if "linear" in changes and operators is not None and "linear" not in operators:
        return Exclusion(group, ExclusionKind.NO_LINEAR)
    # Of a generation, the kernels of two tokens are known, and each further step has sizes of its own.
    is_whole = kernels is not None and probe.generation is None
    calls = sum(kernel.count for kernel in kernels.kernels) if kernels is not None and is_whole else None
    if "primitive_cache" in changes and calls is not None and calls <= PRIMITIVES:
        return Exclusion(group, ExclusionKind.FEW_PRIMITIVES)
    return None


def check_default(probe: RunReport) -> None:
    """Check that candidates can be compared with the default setting.

    Raises:
        WorkerError: it was to run in fp32 and did not, or its products are wrong.
    """
    for evidence in wrong_results([probe]):
        layers = ", ".join(dict.fromkeys(each.layers[0] if each.layers else each.operator for each in evidence.wrong))
        raise WorkerError(f"products of the default setting are wrong ({layers}); nothing can be compared with it")
    for shown_by in not_fp32(probe):
        if isinstance(shown_by, Canary):
            what = f"the canary: {shown_by.summary}"
        else:
            precisions = {precision for each in shown_by.classes for precision in each.precisions}
            what = f"its kernels, which ran in {' and '.join(sorted(precisions))}"
        raise WorkerError(f"the default setting is not fp32 according to {what}; nothing can be compared with it")


def unjudgeable(probe: RunReport, has_judge: bool) -> Optional[ExclusionKind]:
    """Return why bf16 predictions cannot be judged here; ``None`` if they can."""
    if not has_judge:
        return ExclusionKind.NO_JUDGE
    return ExclusionKind.RANDOM_WEIGHTS if probe.prepared.weights.kind is WeightsKind.RANDOM else None


def not_valid(group: int, entry: ValidityEntry, *, allow_unjudged: bool) -> Optional[Exclusion]:
    """Return why a bf16 candidate is out according to its judgement; ``None`` if its predictions are valid."""
    verdict = entry.report.validity.verdict if entry.report is not None else ValidityVerdict.CANNOT_JUDGE
    if verdict is ValidityVerdict.NOT_VALID:
        return Exclusion(group, ExclusionKind.NOT_VALID)
    is_fit = verdict is ValidityVerdict.VALID or allow_unjudged
    return None if is_fit else Exclusion(group, ExclusionKind.NOT_JUDGED)
