"""How fast a setting is compared with a baseline: ratios, and verdicts that hold together. Pure.

All verdicts of a result are corrected together (``stats.corrected``), over all of its workloads: they stand in one
table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.records.run import Result, Run, moment
from modelzoo.records.timing import StopReason
from modelzoo.results.refusals import Obstacle, Pair, Refusal, SideSetting, not_fp32, refusals
from modelzoo.setting import fields, option_name
from modelzoo.stats import Doubt, Outcome, Verdict

BY_THEMSELVES = (StopReason.FIXED, StopReason.BUDGET, StopReason.FAILED)
"""Reasons to stop that do not depend on how the settings differ. An interruption is not one of them: whoever
interrupts a call may do so because of what it shows."""
NOT_LOOKED_AT = stats.Looks((), 1)
"""Of a call that did not end by itself, and that had not planned when to look at the data."""
GRAVEST = (Obstacle.WRONG, Obstacle.UNPROVEN, Obstacle.OUTPUTS)
"""What makes settings of one call not comparable, the gravest first; other weights or other work come after them."""
IN_ONE_CALL = (*GRAVEST, Obstacle.WEIGHTS, Obstacle.WORK)
"""What settings of one call are refused for. The rest is asked for, or is said beside the table."""


class Speed(msgspec.Struct, frozen=True):
    """How one side compares with the baseline.

    Attributes:
        found: the ratio of the times per item, above 1 if it is faster; ``None`` if there is nothing to compare.
        verdict: the conclusion, corrected for all ratios of the table.
        refused: why the two are not comparable; empty if they are.
        allowed: what would make them not comparable and was let through.
    """

    found: stats.Ratio | None
    verdict: Verdict
    refused: tuple[Refusal, ...] = ()
    allowed: tuple[Refusal, ...] = ()

    @property
    def ratio(self) -> stats.Interval | None:
        """The ratio with its 95 % interval, which is not corrected for the other ratios of the table."""
        return self.found.interval if self.found is not None else None

    @property
    def is_unproven(self) -> bool:
        """Whether it is not proven that both sides ran as they say."""
        return self.found is not None and any(
            each.obstacle in (Obstacle.UNPROVEN, Obstacle.INACTIVE) for each in self.allowed
        )


Divided = tuple[Sequence[Refusal], Sequence[Refusal]]
"""What makes a pair not comparable, and what was let through."""


def table(
    pairs: Sequence[Pair],
    divide: Callable[[Pair], Divided],
    ratio: Callable[[Pair], stats.Ratio | Refusal | Doubt],
) -> list[Speed]:
    """Compare both sides of each pair, with verdicts that hold together.

    Args:
        pairs: the rows.
        divide: what makes a pair not comparable, and what was let through; a pair that is refused has no ratio, and
            takes no part in the correction.
        ratio: of a comparable pair, or why there is none: it is refused, or nobody knows.
    """
    rows: list[Speed] = []
    for pair in pairs:
        refused, allowed = map(tuple, divide(pair))
        answer = None if refused else ratio(pair)
        if isinstance(answer, Refusal):
            refused, answer = (answer,), None
        if isinstance(answer, Doubt):
            rows.append(Speed(None, Verdict(Outcome.AMBIGUOUS, answer), (), allowed))
        else:
            rows.append(Speed(answer, Verdict(Outcome.NOT_COMPARABLE), refused, allowed))
    verdicts = iter(stats.verdicts([row.found for row in rows if row.found is not None]))
    for index, (row, pair) in enumerate(zip(rows, pairs)):
        if row.found is not None:
            verdict = next(verdicts)
            rows[index] = replace(row, verdict=replace(verdict, outlook=_outlook(verdict, row.found, pair)))
    return rows


def speeds(result: Result, *, at_looks: bool = False) -> dict[int, Speed]:
    """Return how each group with times compares with the first setting of its workload, by group.

    Args:
        result: so far.
        at_looks: use only the rounds that the last planned look sees, as long as the call goes on.
    """
    sides, workloads = sides_of(result), [requested.workload for requested in result.requested]
    pairs = {}
    for group, side in enumerate(sides):
        first = workloads.index(side.workload)
        if group != first and any(run.steady for run in side.sessions[0]):
            pairs[group] = pair_in_rounds(sides[first], side)
    found = table(list(pairs.values()), in_one_call, lambda pair: of_rounds(pair, at_looks=at_looks))
    return dict(zip(pairs, found))


def sides_of(result: Result, *names: str) -> list[SideSetting]:
    """Return what one call measured of each setting, by group; the names of the sides, if any, take turns."""
    groups, judged, sides = result.groups(), result.judged(), names or ("",)
    return [
        SideSetting(
            workload=requested.workload,
            requested=requested.setting,
            label="",
            sessions=(tuple(groups.get(group, ())),),
            results=(result,),
            validity=judged.get(group),
            side=sides[group % len(sides)],
        )
        for group, requested in enumerate(result.requested)
    ]


def pair_in_rounds(base: SideSetting, other: SideSetting) -> Pair:
    """Return two settings of one call, with the options in which they were asked to differ."""
    one, two = base.requested, other.requested
    differing = [option_name(name) for name in fields() if getattr(one, name) != getattr(two, name)]
    differing += ["options"] if one.options != two.options else []
    return Pair(base, other, tuple(differing), is_interleaved=True)


def refused(baseline: Sequence[Run], runs: Sequence[Run]) -> Sequence[Refusal]:
    """Return what makes the processes of two settings of one call not comparable: the gravest reason, if any."""
    sides = (SideSetting(each[0].workload, each[0].requested, "", (tuple(each),), ()) for each in (baseline, runs))
    return in_one_call(pair_in_rounds(*sides))[0] if baseline and runs else ()


def in_one_call(pair: Pair) -> Divided:
    """Return what makes two settings of one call not comparable, the gravest of it, and what is only marked.

    That a setting did not run as it says is marked, unless it shows that the fp32 baseline did not run in fp32.
    """
    found = refusals(pair)
    contrary = (shown for report in pair.base.reports for shown in not_fp32(report)) if pair.base is not None else ()
    refused = [Refusal(Obstacle.UNPROVEN, "", shown) for shown in list(contrary)[:1]]
    refused += [each for each in found if each.obstacle in IN_ONE_CALL and each.obstacle is not Obstacle.UNPROVEN]
    ranks = {obstacle: rank for rank, obstacle in enumerate(GRAVEST)}
    refused.sort(key=lambda each: ranks.get(each.obstacle, len(ranks)))
    return refused[:1], [each for each in found if each not in refused]


def looks(result: Result, workload: str) -> stats.Looks | None:
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


def of_rounds(pair: Pair, *, at_looks: bool = False) -> stats.Ratio | Doubt:
    """Compare the rounds that both sides have; ``at_looks`` as for ``speeds``."""
    assert pair.base is not None and pair.other is not None  # otherwise it is refused
    planned = looks(pair.base.results[0], pair.base.workload)
    first, second = (  # per item, because batch sizes may differ
        {
            run.round: [sample / run.report.setting.batch for sample in run.steady]
            for run in runs
            if run.report and run.steady
        }
        for runs in (pair.base.sessions[0], pair.other.sessions[0])
    )
    shared = sorted(set(first) & set(second))
    if at_looks and planned is not None:
        shared = shared[: max((used for used, _ in planned.taken(len(shared))), default=0)]
    if not shared:
        return Doubt.NO_COMMON_ROUND if first else Doubt.NO_BASELINE
    return stats.ratio_test([first[number] for number in shared], [second[number] for number in shared], planned)


def _outlook(verdict: Verdict, found: stats.Ratio, pair: Pair) -> stats.Outlook | None:
    """How many more processes are expected to decide an AMBIGUOUS verdict, and how long they take.

    They are to show the ratio that was seen. One of more than two that is not significant is noise, so it is planned
    for no more than that.
    """
    if verdict.outcome is not Outcome.AMBIGUOUS or not found.spread or not found.seen or pair.base is None:
        return None
    runs = [run for run in pair.base.results[0].runs if run.workload == pair.base.workload]
    ratio = math.expm1(abs(math.log(found.interval.value)))
    difference = min(max(ratio, stats.EQUIVALENCE), 1.0)
    needed = stats.rounds_to_tell(found.spread, difference, stats.LARGEST_P / verdict.table)
    more = max(1, needed - found.rounds)
    return stats.Outlook(more, more * seconds_per_round(runs) or None, difference)


def seconds_per_round(runs: Sequence[Run]) -> float:
    """Return the wall time of one process of every setting of a workload; 0 if it is not known.

    Args:
        runs: all runs of the workload. The blocks of a large table are rounds of their own, each with the baseline;
            they are added up.
    """
    rounds: dict[int, list[tuple[float, float]]] = {}
    for run in runs:
        started, ended = moment(run.started), moment(run.ended)
        if started is not None and ended is not None:
            rounds.setdefault(run.round, []).append((started, ended))
    if not rounds:
        return 0.0
    lengths = [max(ended for _, ended in each) - min(started for started, _ in each) for each in rounds.values()]
    first = min(run.group for run in runs)
    sweeps = max(Counter(run.group for run in runs if run.group != first).values(), default=len(rounds))
    return median(lengths) * len(rounds) / sweeps
