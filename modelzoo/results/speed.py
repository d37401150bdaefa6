"""The speed of each setting compared with its workload's first one: ratios, verdicts, what cannot be compared. Pure.

All verdicts of a result are corrected together (``stats.holm``), over all of its workloads: they stand in one table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum
from statistics import median
from typing import Optional, Union

import msgspec

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryVerdict
from modelzoo.records.evidence import Evidence, ProofVerdict
from modelzoo.records.run import Result, Run, RunReport
from modelzoo.records.timing import StopReason
from modelzoo.records.workload import OutputAgreement
from modelzoo.results.proof import Proof, agreement_of, merged_proof
from modelzoo.setting import Setting
from modelzoo.stats import Doubt, Outcome, Verdict
from modelzoo.warning import CONTRADICTING, WarningMessage

WORK_DIFFERENCE = 0.25
"""Sides whose counts (of boxes, for example) differ by more than this fraction did different work. Rounding moves a
few boxes across a threshold, but not a quarter of them."""
BY_THEMSELVES = (StopReason.FIXED, StopReason.BUDGET, StopReason.FAILED)
"""Reasons to stop that do not depend on how the settings differ. An interruption is not one of them: whoever
interrupts a call may do so because of what it shows."""
NOT_LOOKED_AT = stats.Looks((), 1)
"""Of a call that did not end by itself, and that had not planned when to look at the data."""


class OtherOutputs(msgspec.Struct, frozen=True):
    """It cannot be said that a setting computes what torch does in eager mode.

    Attributes:
        engine: the inference framework; torch is compared with its own eager mode.
        agreement: how far its outputs are off; ``None`` if that is not known.
        problem: why it is not known, as far as a process says so.
    """

    engine: str
    agreement: Optional[OutputAgreement]
    problem: Optional[str] = None


def other_outputs(reports: Sequence[RunReport]) -> Optional[OtherOutputs]:
    """Return why it cannot be said that a setting computes what torch does in eager mode; ``None`` if it can.

    Only fp32 has a bound; what bf16 changes is judged by the task.
    """
    exported = next(
        (each for each in reports if each.prepared.export is not None and each.setting.precision == "fp32"), None
    )
    agreement = agreement_of(reports)
    if agreement is None and exported is not None:
        problem = next((each.observed.agreement_problem for each in reports if each.observed.agreement_problem), None)
        return OtherOutputs(exported.provenance.engine, None, problem)
    if agreement is None or agreement.is_same is not False:
        return None
    return OtherOutputs(exported.provenance.engine if exported is not None else "torch", agreement)


class Different(Enum):
    """What two sides must have in common, and do not."""

    DECLARATION = "workload.py"
    WEIGHTS = "weights"


class OtherWork(msgspec.Struct, frozen=True):
    """Two sides found different numbers of something.

    Attributes:
        name: what was counted.
        base: number on the side of the baseline.
        other: number on the other side.
    """

    name: str
    base: float
    other: float


Incomparable = Union[Canary, Evidence, OtherOutputs, Different, OtherWork]
"""Why a comparison would be meaningless: the canary or the audit that shows that the baseline is not fp32, the audit of
either side whose products are wrong, other outputs than torch's, or other work."""


def not_comparable(baseline: Sequence[Run], runs: Sequence[Run]) -> Optional[Incomparable]:
    """Return why a speedup over ``baseline`` would be meaningless; ``None`` if it is meaningful.

    No product of either side may be wrong. Every process of the baseline must have run in its precision, and an engine
    must compute the same as torch. The sides of each round must have used the same weights in the same workload and
    done the same amount of work, unless the user asked for another model or other inputs.
    """
    base = {run.round: run.report for run in baseline if run.report is not None}
    own = {run.round: run.report for run in runs if run.report is not None}
    reasons: list[Optional[Incomparable]] = [found for side in (base, own) for found in wrong_results(side.values())]
    reasons += (shown for report in base.values() for shown in not_fp32(report))
    reasons += (other_outputs(list(side.values())) for side in (base, own))
    if baseline and runs and _work(baseline[0].requested) == _work(runs[0].requested):
        for number in sorted(set(base) & set(own)):
            sides = base[number], own[number]
            reasons += [*other_workload(*sides), *other_weights(*sides), *other_work(*sides)]
    return next((reason for reason in reasons if reason is not None), None)


def _work(requested: Setting) -> tuple[object, ...]:
    """What decides which model runs on which inputs; another batch size has other inputs."""
    return requested.weights, requested.seed, requested.input, requested.batch, sorted(requested.options.items())


def not_fp32(base: RunReport) -> Iterator[Union[Canary, Evidence]]:
    """Yield what shows that a process that was to run in fp32 did not."""
    seen = base.observed
    is_replayed = seen.evidence is not None and seen.evidence.is_replayed
    is_inexact = seen.canary_verdict is not CanaryVerdict.FP32 and not is_replayed
    if base.setting.precision == "fp32" and seen.canary and is_inexact:
        yield seen.canary
    if seen.evidence is not None and seen.evidence.verdict is ProofVerdict.NOT_FP32:
        yield seen.evidence


def wrong_results(reports: Iterable[RunReport]) -> Iterator[Evidence]:
    """Yield the audits that found outputs which no precision explains."""
    found = (report.observed.evidence for report in reports)
    return (each for each in found if each is not None and each.verdict is ProofVerdict.WRONG_RESULTS)


class Unproven(msgspec.Struct, frozen=True):
    """What is known of a precision that a setting was to run in."""

    precision: str
    proof: Proof

    @property
    def is_inactive(self) -> bool:
        """Whether a reduced precision is known not to have been used."""
        return self.precision != "fp32" and self.proof.verdict is ProofVerdict.NOT_ACTIVE


def contradictions(reports: Sequence[RunReport]) -> Iterator[WarningMessage]:
    """Yield what shows that a setting did not run with the threads or the precision that its label names."""
    for report in reports:
        yield from (each for each in report.warnings if each.code in CONTRADICTING)


def unproven(precision: str, reports: Sequence[RunReport]) -> Union[Canary, Evidence, Unproven, WarningMessage, None]:
    """Return why it is not proven that a setting ran as it says, in ``precision`` at least partly; ``None`` if it is.

    No ratio over or of such a setting stands by itself: ``speeds`` marks it, and a comparison of stored results
    refuses it unless it is allowed.
    """
    contradiction = next(contradictions(reports), None)
    if contradiction is not None:
        return contradiction
    proof = merged_proof(reports)
    if precision != "fp32":
        is_proven = proof.verdict in (ProofVerdict.ACTIVE, ProofVerdict.PARTLY)
        return None if is_proven else Unproven(precision, proof)
    contrary = next((shown for report in reports for shown in not_fp32(report)), None)
    if contrary is not None or proof.verdict is ProofVerdict.FP32:
        return contrary
    return Unproven(precision, proof)


def other_workload(base: RunReport, other: RunReport) -> Iterator[Different]:
    """Yield that two processes had different declarations of the workload, as two images may, if they had."""
    digests = base.provenance.digest, other.provenance.digest
    if None not in digests and digests[0] != digests[1]:
        yield Different.DECLARATION


def other_weights(base: RunReport, other: RunReport) -> Iterator[Different]:
    """Yield that two processes ran different weights, if they did."""
    if base.prepared.weights.sha256 != other.prepared.weights.sha256:
        yield Different.WEIGHTS


def other_work(base: RunReport, other: RunReport) -> Iterator[OtherWork]:
    """Yield the counts by which two processes did different amounts of work."""
    for mine, theirs in zip(base.observed.counts, other.observed.counts):
        if abs(theirs.value - mine.value) > WORK_DIFFERENCE * max(mine.value, theirs.value):
            yield OtherWork(mine.name, mine.value, theirs.value)


class Speed(msgspec.Struct, frozen=True):
    """How one setting compares with the baseline.

    Attributes:
        ratio: time per item of the baseline over that of the setting, with its 95 % interval, which is not corrected
            for other comparisons; above 1 is faster. ``None`` if there is nothing to compare.
        verdict: the conclusion, corrected for all comparisons of the result.
        refused: why the two are not comparable; ``None`` if they are.
        is_unproven: whether it is not proven that both ran as they say; see ``unproven``.
    """

    ratio: Optional[stats.Interval]
    verdict: Verdict
    refused: Optional[Incomparable] = None
    is_unproven: bool = False


def speeds(result: Result) -> dict[int, Speed]:
    """Return how each group with times compares with the first setting of its workload, by group."""
    groups, workloads = result.groups(), [requested.workload for requested in result.requested]
    by_group: dict[int, Speed] = {}
    compared: dict[int, stats.Comparison] = {}
    for group, runs in groups.items():
        first = workloads.index(workloads[group])
        if group == first or not any(run.steady for run in runs):
            continue
        answer = _compared(groups.get(first, []), runs, looks(result, workloads[group]))
        if isinstance(answer, Speed):
            by_group[group] = answer
        else:
            compared[group] = answer
    verdicts = stats.verdicts(list(compared.values()))
    for (group, comparison), verdict in zip(compared.items(), verdicts):
        same = [run for run in result.runs if run.workload == workloads[group]]
        outlook = _outlook(verdict, comparison, len(compared), same)
        sides = (groups[workloads.index(workloads[group])], groups[group])
        is_unproven = any(map(_is_unproven, sides))
        by_group[group] = Speed(comparison.ratio, replace(verdict, outlook=outlook), is_unproven=is_unproven)
    return by_group


def _is_unproven(runs: Sequence[Run]) -> bool:
    reports = [run.report for run in runs if run.report is not None]
    return unproven(runs[0].requested.precision, reports) is not None


def looks(result: Result, workload: str) -> Optional[stats.Looks]:
    """Return the planned looks of a workload's comparisons; ``None`` if there is only one, at the end.

    A call that the user interrupted, that was killed or that still runs has only the looks that were planned.
    """
    design = result.design(workload)
    if design is None:
        return None
    ended = design.stop_reason in BY_THEMSELVES
    if not design.looks or design.maximum is None:
        return None if ended else NOT_LOOKED_AT
    return stats.Looks(design.looks, design.maximum, final=ended)


def _compared(
    baseline: Sequence[Run], runs: Sequence[Run], planned: Optional[stats.Looks]
) -> Union[stats.Comparison, Speed]:
    """Compare the rounds that both sides have, or return why that is not possible."""
    refused = not_comparable(baseline, runs)
    if refused is not None:
        return Speed(None, Verdict(Outcome.NOT_COMPARABLE), refused)
    other, own = ({run.round: _seconds_per_item(run) for run in side if run.steady} for side in (baseline, runs))
    shared = sorted(set(other) & set(own))
    if not shared:
        return Speed(None, Verdict(Outcome.AMBIGUOUS, Doubt.NO_COMMON_ROUND if other else Doubt.NO_BASELINE))
    return stats.ratio_test([other[i] for i in shared], [own[i] for i in shared], paired=True, looks=planned)


def _seconds_per_item(run: Run) -> list[float]:
    """The samples of a run, comparable with those of another batch size."""
    batch = run.report.setting.batch if run.report is not None else 1
    return [sample / batch for sample in run.steady]


# What it would take


def _outlook(
    verdict: Verdict, comparison: stats.Comparison, table: int, runs: Sequence[Run]
) -> Optional[stats.Outlook]:
    """How many more processes are expected to decide an AMBIGUOUS verdict, and how long they take.

    They are to show the ratio that was seen. One of more than two that is not significant is noise, so it is planned
    for no more than that.
    """
    if verdict.outcome is not Outcome.AMBIGUOUS or not comparison.spread or not comparison.looks:
        return None
    seen = math.expm1(abs(math.log(comparison.ratio.value)))
    difference = min(max(seen, stats.EQUIVALENCE), 1.0)
    alpha = stats.LARGEST_P / table
    more = max(1, stats.rounds_to_tell(comparison.spread, difference, alpha) - comparison.rounds)
    return stats.Outlook(more, more * seconds_per_round(runs) or None, difference)


def seconds_per_round(runs: Sequence[Run]) -> float:
    """Return the wall time of one process of every setting of a workload; 0 if it is not known.

    Args:
        runs: all runs of the workload. The blocks of a large table are rounds of their own, each with the baseline;
            they are added up.
    """
    rounds: dict[int, list[tuple[float, float]]] = {}
    for run in runs:
        started, ended = _moment(run.started), _moment(run.ended)
        if started is not None and ended is not None:
            rounds.setdefault(run.round, []).append((started, ended))
    if not rounds:
        return 0.0
    lengths = [max(ended for _, ended in each) - min(started for started, _ in each) for each in rounds.values()]
    first = min(run.group for run in runs)
    sweeps = max(Counter(run.group for run in runs if run.group != first).values(), default=len(rounds))
    return median(lengths) * len(rounds) / sweeps


def _moment(iso: Optional[str]) -> Optional[float]:
    """Seconds since the Unix epoch; ``None`` if the text of a stored result is not a time."""
    try:
        return datetime.fromisoformat(iso or "").timestamp()
    except ValueError:
        return None
