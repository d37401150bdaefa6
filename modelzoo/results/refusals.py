"""What is compared: the same work on two sides; and what makes the two not comparable. Pure.

A ratio says how fast the same work ran in the same precision. If something that decides this differs, is wrong or was
not recorded, there is no ratio. Which kernels did the work is not among it: that is what is compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum

import msgspec

from modelzoo import setting as settings
from modelzoo.frozen import Word
from modelzoo.records.canary import Canary, CanaryVerdict
from modelzoo.records.evidence import Evidence, ProofVerdict
from modelzoo.records.run import Result, Run, RunReport, ValidityEntry
from modelzoo.records.serving import LatencyBound
from modelzoo.records.validity import Validity, ValidityVerdict
from modelzoo.records.workload import OutputAgreement
from modelzoo.results.counting import Served
from modelzoo.results.proof import Proof, UnexplainedOutputs, agreement_of, merged_proof
from modelzoo.setting import Setting
from modelzoo.warning import CONTRADICTING, WarningMessage

WORK_DIFFERENCE = 0.25
"""Sides whose counts (of boxes, for example) differ by more than this fraction did different work. Rounding moves a
few boxes across a threshold, but not a quarter of them."""


class Metric(Word):
    """What is compared. Of throughput, more is better; of everything else, less."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    COLD_START = "cold-start"
    WARM_START = "warm-start"
    FIRST_TOKEN = "ttft"
    PER_TOKEN = "tpot"
    MEMORY = "memory"


RATED = (Metric.LATENCY, Metric.THROUGHPUT)
"""The metrics that say how many items a machine processes per second."""


class Obstacle(Word):
    """What makes two sides not comparable. All but ``MISSING`` can be allowed."""

    WEIGHTS = "weights"
    INPUTS = "inputs"
    BATCH = "batch"
    WORK = "work"
    OUTPUTS = "outputs"
    WRONG = "wrong"
    UNPROVEN = "unproven"
    INACTIVE = "inactive"
    EMULATOR = "emulator"
    INVALID = "invalid"
    SLO = "slo"
    UNCONFIRMED = "unconfirmed"
    UNRECORDED = "unrecorded"
    MISSING = "missing"


ALLOWABLE = tuple(each for each in Obstacle if each is not Obstacle.MISSING)
"""What ``--allow`` can name."""


class Failed(msgspec.Struct, frozen=True):
    """No process of a side ended; with the error of one, or ``None`` if they were interrupted."""

    error: str | None


class NotTimed(msgspec.Struct, frozen=True):
    """These sides have no values of the metric."""

    sides: tuple[str, ...]
    metric: Metric = Metric.LATENCY


class Batches(msgspec.Struct, frozen=True):
    """The sides ran different batch sizes."""

    base: tuple[int, ...]
    other: tuple[int, ...]


class Bounds(msgspec.Struct, frozen=True):
    """The sides had to meet different bounds, or one of them none."""

    base: LatencyBound | None
    other: LatencyBound | None


class OtherOutputs(msgspec.Struct, frozen=True):
    """It cannot be said that a setting computes what torch does in eager mode.

    Attributes:
        engine: the inference framework; torch is compared with its own eager mode.
        agreement: how far its outputs are off; ``None`` if that is not known.
        problem: why it is not known, as far as a process says so.
    """

    engine: str
    agreement: OutputAgreement | None
    problem: str | None = None


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


class Unproven(msgspec.Struct, frozen=True):
    """What is known of a precision that a setting was to run in."""

    precision: str
    proof: Proof

    @property
    def is_inactive(self) -> bool:
        """Whether a reduced precision is known not to have been used."""
        return self.precision != "fp32" and self.proof.verdict is ProofVerdict.NOT_ACTIVE


Incomparable = Canary | Evidence | OtherOutputs | Different | OtherWork
"""Why a comparison would be meaningless: the canary or the audit that shows that the baseline is not fp32, the audit of
either side whose products are wrong, other outputs than torch's, or other work."""

Reason = Failed | NotTimed | Batches | Bounds | LatencyBound | Unproven | WarningMessage | Obstacle | Validity
Fact = Reason | Incomparable | str


class Refusal(msgspec.Struct, frozen=True):
    """Why the two sides of a row are not comparable.

    Attributes:
        obstacle: what kind of reason it is.
        side: name of the side that it is about; empty if it is about both.
        fact: what shows it. A text is the name of an emulator, an obstacle what was not recorded on both sides.
    """

    obstacle: Obstacle
    side: str = ""
    fact: Fact | None = None


class SideSetting(msgspec.Struct, frozen=True):
    """One workload under one setting, as one side has it.

    Attributes:
        workload: the workload's name.
        requested: the setting as asked for.
        label: what tells it from the side's other settings of this workload, as it was asked for.
        sessions: the runs of each session, failed ones included, oldest session first.
        results: the session's results, in the same order.
        validity: the latest judgement of its predictions; ``None`` if they were not judged.
        side: name of the side.
        served: of instances, the best configuration of each session; ``sessions`` has one process of it each.
    """

    workload: str
    requested: Setting
    label: str
    sessions: tuple[tuple[Run, ...], ...]
    results: tuple[Result, ...]
    validity: ValidityEntry | None = None
    side: str = ""
    served: tuple[Served, ...] = ()

    @property
    def reports(self) -> list[RunReport]:
        """Those of all of its processes that did not fail, the oldest session first."""
        return [run.report for session in self.sessions for run in session if run.report is not None]


class Pair(msgspec.Struct, frozen=True):
    """One row: a setting of each side, or of one of them only.

    Attributes:
        base: the baseline's; ``None`` if it does not have the setting.
        other: likewise.
        on_purpose: names of the options that differ because that was asked for.
        is_interleaved: whether both were measured by one call, in the same rounds.
    """

    base: SideSetting | None
    other: SideSetting | None
    on_purpose: tuple[str, ...] = ()
    is_interleaved: bool = False


def other_outputs(reports: Sequence[RunReport]) -> OtherOutputs | None:
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


def not_fp32(base: RunReport) -> Iterator[Canary | Evidence]:
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


def contradictions(reports: Sequence[RunReport]) -> Iterator[WarningMessage]:
    """Yield what shows that a setting did not run with the threads or the precision that its label names."""
    for report in reports:
        yield from (each for each in report.warnings if each.code in CONTRADICTING)


def unproven(precision: str, reports: Sequence[RunReport]) -> Canary | Evidence | Unproven | WarningMessage | None:
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


def refusals(pair: Pair, metric: Metric = Metric.LATENCY) -> tuple[Refusal, ...]:
    """Return everything that makes the sides of ``pair`` not comparable.

    What the user paired on purpose is not held against it: other weights, inputs and work if the settings ask for
    another model or other inputs, and another batch size if times are compared, which are compared per item.
    """
    base, other = pair.base, pair.other
    if base is None or other is None:
        return tuple(Refusal(Obstacle.MISSING, each.side) for each in (base, other) if each is not None)
    sides = (base, other)
    failed = tuple(Refusal(Obstacle.MISSING, each.side, Failed(_error(each))) for each in sides if not each.reports)
    if failed:
        return failed
    return (*_of_both(pair, base, other, metric), *(refused for each in sides for refused in _of_side(each)))


def divided(found: Sequence[Refusal], allowed: Collection[Obstacle]) -> tuple[tuple[Refusal, ...], tuple[Refusal, ...]]:
    """Return what remains refused, and what ``allowed`` lets through."""
    refused = tuple(each for each in found if each.obstacle not in allowed)
    return refused, tuple(each for each in found if each.obstacle in allowed)


def _error(side: SideSetting) -> str | None:
    """The error of the first process that failed."""
    return next((run.error for session in side.sessions for run in session if run.error), None)


def _of_both(pair: Pair, base: SideSetting, other: SideSetting, metric: Metric) -> Iterator[Refusal]:
    if base.requested.stages != other.requested.stages:
        yield Refusal(Obstacle.WORK)
    if not settings.is_other_work(pair.on_purpose):
        yield from _of_work(base, other, is_interleaved=pair.is_interleaved)
    # Of instances, those that the best configuration was chosen from.
    tried = ([batch for each in side.served for batch in each.batches] for side in (base, other))
    ran = ([report.setting.batch for report in side.reports] for side in (base, other))
    batches = [tuple(sorted(set(own or of_reports))) for own, of_reports in zip(tried, ran)]
    if batches[0] != batches[1] and not ("batch" in pair.on_purpose and metric in RATED):
        yield Refusal(Obstacle.BATCH, fact=Batches(*batches))
    bounds = [dict.fromkeys(each.bound for each in side.served) for side in (base, other)]
    if bounds[0] != bounds[1]:
        yield Refusal(Obstacle.SLO, fact=Bounds(*(next(iter(each)) for each in bounds)))


def _inputs(side: SideSetting) -> set[str | None]:
    """The digests of the inputs; of instances those of the smallest batch, as the best batches may differ."""
    if not side.served:
        return {report.inputs_digest for report in side.reports}
    reports = [run.report for result in side.results for run in result.runs if run.report is not None]
    smallest = min(report.setting.batch for report in reports)
    return {report.inputs_digest for report in reports if report.setting.batch == smallest}


def _of_work(base: SideSetting, other: SideSetting, *, is_interleaved: bool) -> Iterator[Refusal]:
    """Other weights, inputs or work, in any round that both have; else one process of a setting stands for all."""
    mine, theirs = base.reports, other.reports
    rounds = [(mine[0], theirs[0])]
    if is_interleaved:
        first, second = ({run.round: run.report for run in side.sessions[0]} for side in (base, other))
        both = ((first[number], second[number]) for number in sorted(set(first) & set(second)))
        rounds = [(one, two) for one, two in both if one is not None and two is not None]
        digests = [(one.provenance.digest, two.provenance.digest) for one, two in rounds]
        if any(None not in each and each[0] != each[1] for each in digests):
            yield Refusal(Obstacle.WORK, fact=Different.DECLARATION)
    if not (mine[0].prepared.weights.sha256 and theirs[0].prepared.weights.sha256):
        yield Refusal(Obstacle.UNRECORDED, fact=Obstacle.WEIGHTS)
    elif any(one.prepared.weights.sha256 != two.prepared.weights.sha256 for one, two in rounds):
        yield Refusal(Obstacle.WEIGHTS, fact=Different.WEIGHTS)
    inputs = [_inputs(base), _inputs(other)]
    if None in inputs[0] | inputs[1]:
        yield Refusal(Obstacle.UNRECORDED, fact=Obstacle.INPUTS)
    elif inputs[0] != inputs[1]:
        yield Refusal(Obstacle.INPUTS)
    counted = [next((each for each in reports if each.observed.counts), None) for reports in (mine, theirs)]
    if counted[0] is not None and counted[1] is not None:
        compared = rounds if is_interleaved else [(counted[0], counted[1])]
        for one, two in compared:
            differing = [
                OtherWork(mine.name, mine.value, theirs.value)
                for mine, theirs in zip(one.observed.counts, two.observed.counts)
                if abs(theirs.value - mine.value) > WORK_DIFFERENCE * max(mine.value, theirs.value)
            ]
            if differing:
                yield from (Refusal(Obstacle.WORK, fact=work) for work in differing)
                break
    elif _is_same_work(mine, counted[0]) or _is_same_work(theirs, counted[1]):
        return
    elif counted[0] is not None or counted[1] is not None:
        yield Refusal(Obstacle.UNRECORDED, fact=Obstacle.WORK)


def _is_same_work(reports: Sequence[RunReport], counted: RunReport | None) -> bool:
    """Whether an engine that does not count its work is known to detect the same as torch."""
    found = agreement_of(reports)
    return counted is None and found is not None and found.detections is not None and found.is_same is not False


def _of_side(side: SideSetting) -> Iterator[Refusal]:
    reports, name = side.reports, side.side
    emulator = next(
        (report.provenance.machine.emulator for report in reports if report.provenance.machine.emulator), None
    )
    if emulator is not None:
        yield Refusal(Obstacle.EMULATOR, name, emulator)
    if not all(each.is_met for each in side.served):
        yield Refusal(Obstacle.SLO, name, side.served[0].bound)
    if not all(each.is_confirmed for each in side.served):
        yield Refusal(Obstacle.UNCONFIRMED, name)
    outputs = other_outputs(reports)
    if outputs is not None:
        yield Refusal(Obstacle.OUTPUTS, name, outputs)
    wrong = next(wrong_results(reports), None)
    doubt = unproven(side.requested.precision, reports)
    rests_on_outputs = isinstance(doubt, Unproven) and isinstance(doubt.proof.ground, UnexplainedOutputs)
    if wrong is not None:
        yield Refusal(Obstacle.WRONG, name, wrong)
    elif doubt is not None and (outputs is None or not rests_on_outputs):
        is_inactive = isinstance(doubt, Unproven) and doubt.is_inactive
        yield Refusal(Obstacle.INACTIVE if is_inactive else Obstacle.UNPROVEN, name, doubt)
    judged = side.validity.report.validity if side.validity is not None and side.validity.report is not None else None
    if judged is not None and judged.verdict is ValidityVerdict.NOT_VALID:
        yield Refusal(Obstacle.INVALID, name, judged)
