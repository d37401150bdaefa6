"""What a stored search found: the candidates' speeds in the search, and what was confirmed. Pure, and without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import msgspec

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.plan import MARGIN
from modelzoo.records.race import Exclusion, Stage, StageKind, Tuning
from modelzoo.records.run import Latency, Result, Run
from modelzoo.records.timing import Design, StopReason
from modelzoo.results.speed import Speed, speeds
from modelzoo.setting import labels
from modelzoo.stats import Outcome


class Candidate(msgspec.Struct, frozen=True):
    """One setting of the grid.

    Attributes:
        group: its index in ``Result.requested``.
        label: its label.
        rounds: number of rounds of the search that it took part in.
        speed: how many times faster than the default it was in these rounds, with its 95 % interval; ``None`` if it was
            not timed. The best of many looks faster than it is.
        exclusion: why it is out; ``None`` if it stayed to the end.
        is_tie: the search could not tell it from the best.
    """

    group: int
    label: str
    rounds: int
    speed: stats.Interval | None
    exclusion: Exclusion | None
    is_tie: bool = False


class Step(msgspec.Struct, frozen=True):
    """One step from the default to the winner, measured in the confirmation.

    Attributes:
        label: its label.
        latency: seconds of one forward batch.
        speed: how many times faster than the default; ``None`` for the default.
        gain: how many times faster than the step before; ``None`` for the default.
    """

    label: str
    latency: stats.Interval
    speed: stats.Interval | None
    gain: stats.Interval | None


def logs(result: Result) -> dict[int, dict[int, float]]:
    """By candidate and round of the search: the log of how many times faster than the default it was, per item."""
    tuning = of(result)
    times = _times(result, [each for each in tuning.stages if each.kind is StageKind.SEARCH])
    base = times.get(0, {})
    return {
        group: {number: base[number] - own[number] for number in sorted(set(own) & set(base))}
        for group, own in times.items()
        if group
    }


def of(result: Result) -> Tuning:
    """The search that ``result`` holds.

    Raises:
        ValueError: it holds none.
    """
    if not isinstance(result.payload, Tuning):
        raise ValueError("the result holds no search")
    return result.payload


def name(result: Result, group: int) -> str:
    """The label of a setting, without what it leaves open as the default does."""
    return labels([each.setting for each in result.requested], with_open=False)[group]


def runs_of(result: Result, stage: Stage) -> list[Run]:
    """The runs of one stage; none of one for which there was no time, which begins where the next one does."""
    stages = of(result).stages
    later = stages[len(stages) - stages[::-1].index(stage) :]
    end = later[0].first_round if later else math.inf
    return [run for run in result.runs if stage.first_round <= run.round < end]


def search_runs(result: Result, group: int) -> list[Run]:
    """The runs of a setting before the confirmation."""
    confirmation = of(result).stage(StageKind.CONFIRMATION)
    end = confirmation.first_round if confirmation is not None else math.inf
    return [run for run in result.runs if run.group == group and run.round < end]


def _times(result: Result, stages: Sequence[Stage]) -> dict[int, dict[int, float]]:
    """By group and round: the log of the median seconds per item."""
    found: dict[int, dict[int, float]] = {}
    for stage in stages:
        for run in runs_of(result, stage):
            if run.steady and run.report is not None:
                found.setdefault(run.group, {})[run.round] = math.log(median(run.steady) / run.report.setting.batch)
    return found


def candidates(result: Result) -> list[Candidate]:
    """All settings of the grid but the default, in their order."""
    tuning, measured = of(result), logs(result)
    excluded = {each.entrant: each for each in tuning.excluded}
    ties = (tuning.choice.best, *tuning.choice.ties) if tuning.choice is not None and tuning.choice.ties else ()
    found = []
    for group in range(1, tuning.candidates):
        own = list(measured.get(group, {}).values())
        found.append(
            Candidate(group, name(result, group), len(own), _interval(own), excluded.get(group), group in ties)
        )
    return found


def _interval(values: Sequence[float]) -> stats.Interval | None:
    return stats.level_interval([math.exp(value) for value in values]) if values else None


def confirmation(result: Result) -> Result | None:
    """The part of ``result`` in which the winner was measured again, with the default as the baseline.

    Its groups are the default (0) and the winner (1). ``None`` if nothing was measured again.

    One that was interrupted has a design, so that it is not judged before all of its rounds: whoever interrupts it may
    do so because of what it shows.
    """
    tuning = of(result)
    stage = tuning.stage(StageKind.CONFIRMATION)
    if stage is None or tuning.choice is None or not tuning.choice.winner:
        return None
    place, count = {0: 0, tuning.choice.winner: 1}, stage.rounds
    planned = Design(tuning.workload, MARGIN, tuning.budget, count, (count,), count, stop_reason=StopReason.INTERRUPTED)
    return replace(
        result,
        requested=tuple(result.requested[group] for group in place),
        runs=tuple(replace(run, group=place[run.group]) for run in runs_of(result, stage) if run.group in place),
        validity=tuple(replace(each, group=place[each.group]) for each in result.validity if each.group in place),
        payload=Latency() if tuning.is_complete else Latency((planned,)),
    )


def measured(result: Result) -> Result:
    """Return what ``result`` says of the speed of settings, for tables and comparisons.

    Of a search that is the confirmation, or else what was measured of the default: the other candidates were looked at
    in order to pick the best, which flatters it. Any other result is returned as it is.
    """
    if not isinstance(result.payload, Tuning):
        return result
    found = confirmation(result)
    if found is not None:
        return found
    default = tuple(run for run in result.runs if run.group == 0)
    return replace(result, requested=result.requested[:1], runs=default, validity=(), payload=Latency())


def confirmed(result: Result) -> Speed | None:
    """How the winner compares with the default in the confirmation; ``None`` if it was not measured again."""
    part = confirmation(result)
    return speeds(part).get(1) if part is not None else None


def is_faster(result: Result) -> bool:
    """Whether the search found a setting that is faster than the default, and confirmed it."""
    found = confirmed(result)
    return found is not None and found.verdict.outcome is Outcome.FASTER


def steps(result: Result) -> list[Step]:
    """The default, and the steps to the winner, in the confirmation; empty if there was none."""
    tuning = of(result)
    stage = tuning.stage(StageKind.CONFIRMATION)
    if stage is None or tuning.choice is None:
        return []
    times = _times(result, [stage])
    groups = [group for group in (0, *tuning.choice.steps) if times.get(group)]
    found: list[Step] = []
    for before, group in zip((0, *groups), groups):
        own = [median(run.steady) for run in runs_of(result, stage) if run.group == group and run.steady]
        gains = (_ratio(times[base], times[group]) if group else None for base in (0, before))
        found.append(Step(name(result, group), stats.level_interval(own), *gains))
    return found


def _ratio(first: dict[int, float], second: dict[int, float]) -> stats.Interval | None:
    shared = sorted(set(first) & set(second))
    return _interval([first[number] - second[number] for number in shared])
