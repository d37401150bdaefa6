"""What makes two sides of a row not comparable. Pure.

A ratio says how fast the same work ran in the same precision. If something that decides this differs, is wrong or was
not recorded, there is no ratio. Which kernels did the work is not among it: that is what is compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Optional

from modelzoo import setting as settings
from modelzoo.comparison.machines import RATED, reports_of
from modelzoo.comparison.model import Batches, Failed, Metric, Obstacle, Refusal, SideSetting, Unrecorded
from modelzoo.comparison.pairing import Pair
from modelzoo.records.run import RunReport
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results.proof import UnexplainedOutputs, agreement_of
from modelzoo.results.speed import (
    Unproven,
    other_outputs,
    other_weights,
    other_work,
    unproven,
    wrong_results,
)

ALLOWABLE = tuple(each for each in Obstacle if each is not Obstacle.MISSING)
"""What ``--allow`` can name."""


def refusals(pair: Pair, names: tuple[str, str], metric: Metric) -> tuple[Refusal, ...]:
    """Return everything that makes the sides of ``pair`` not comparable.

    What the user paired on purpose is not held against it: other weights, inputs and work if the settings ask for
    another model or other inputs, and another batch size if times are compared, which are compared per item.

    Args:
        pair: the settings of both sides.
        names: of the sides.
        metric: what is compared.
    """
    if pair.base is None or pair.other is None:
        has = names[1] if pair.base is None else names[0]
        return (Refusal(Obstacle.MISSING, has),)
    sides = (pair.base, pair.other)
    failed = tuple(
        Refusal(Obstacle.MISSING, name, Failed(_error(side)))
        for side, name in zip(sides, names)
        if not reports_of(side)
    )
    if failed:
        return failed
    found = [*_of_both(pair.base, pair.other, pair.on_purpose, metric)]
    for side, name in zip(sides, names):
        found += _of_side(side, name)
    return tuple(found)


def divided(found: Sequence[Refusal], allowed: Collection[Obstacle]) -> tuple[tuple[Refusal, ...], tuple[Refusal, ...]]:
    """Return what remains refused, and what ``allowed`` lets through."""
    refused = tuple(each for each in found if each.obstacle not in allowed)
    return refused, tuple(each for each in found if each.obstacle in allowed)


def _error(side: SideSetting) -> Optional[str]:
    """The error of the first process that failed."""
    return next((run.error for session in side.sessions for run in session if run.error), None)


def _of_both(base: SideSetting, other: SideSetting, on_purpose: Collection[str], metric: Metric) -> Iterator[Refusal]:
    mine, theirs = reports_of(base), reports_of(other)
    if base.requested.stages != other.requested.stages:
        yield Refusal(Obstacle.WORK)
    if not settings.is_other_work(on_purpose):
        yield from _of_work(mine, theirs)
    batches = [{report.setting.batch for report in reports} for reports in (mine, theirs)]
    if batches[0] != batches[1] and not ("batch" in on_purpose and metric in RATED):
        mine_first = tuple(tuple(sorted(each)) for each in batches)
        yield Refusal(Obstacle.BATCH, fact=Batches(*mine_first))


def _of_work(mine: Sequence[RunReport], theirs: Sequence[RunReport]) -> Iterator[Refusal]:
    """Other weights, inputs or work. The processes of a setting have the same weights, so one stands for all."""
    base, other = mine[0], theirs[0]
    if not (base.prepared.weights.sha256 and other.prepared.weights.sha256):
        yield Refusal(Obstacle.UNRECORDED, fact=Unrecorded.WEIGHTS)
    else:
        for weights in other_weights(base, other):
            yield Refusal(Obstacle.WEIGHTS, fact=weights)
    inputs = [{report.inputs_digest for report in reports} for reports in (mine, theirs)]
    if None in inputs[0] | inputs[1]:
        yield Refusal(Obstacle.UNRECORDED, fact=Unrecorded.INPUTS)
    elif inputs[0] != inputs[1]:
        yield Refusal(Obstacle.INPUTS)
    counted = [next((each for each in reports if each.observed.counts), None) for reports in (mine, theirs)]
    if counted[0] is not None and counted[1] is not None:
        for work in other_work(counted[0], counted[1]):
            yield Refusal(Obstacle.WORK, fact=work)
    elif _is_same_work(mine, counted[0]) or _is_same_work(theirs, counted[1]):
        return
    elif counted[0] is not None or counted[1] is not None:
        yield Refusal(Obstacle.UNRECORDED, fact=Unrecorded.WORK)


def _is_same_work(reports: Sequence[RunReport], counted: Optional[RunReport]) -> bool:
    """Whether an engine that does not count its work is known to detect the same as torch."""
    found = agreement_of(reports)
    return counted is None and found is not None and found.detections is not None and found.is_same is not False


def _of_side(side: SideSetting, name: str) -> Iterator[Refusal]:
    reports = reports_of(side)
    emulator = next(
        (report.provenance.machine.emulator for report in reports if report.provenance.machine.emulator), None
    )
    if emulator is not None:
        yield Refusal(Obstacle.EMULATOR, name, emulator)
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
