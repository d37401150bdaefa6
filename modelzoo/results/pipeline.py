"""What the processes of a setting say about the stages of its pipeline. Pure, and without torch.

The unit is the process, as for every other time: the level of a stage is the geometric mean of the processes' medians.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from modelzoo import stats
from modelzoo.records.run import Result, Run
from modelzoo.records.timing import LATENCY, SYNCHRONIZED, UNDIVIDED, PipelineStage, Place, Timing
from modelzoo.results.summary import by_precision, labels_as_run

SUM_TOLERANCE = 0.02
"""The stages of a pipeline without overlap must add up to its end-to-end time within this fraction."""


class StageLevel(msgspec.Struct, frozen=True):
    """One stage.

    Attributes:
        stage: its name and place.
        seconds: per batch, with its interval.
        share: of the sum of all stages.
    """

    stage: PipelineStage
    seconds: stats.Interval
    share: float


class PipelineLevels(msgspec.Struct, frozen=True):
    """The pipeline of one setting.

    Attributes:
        workload: the workload's name.
        label: of the setting.
        device: what the stages on the device use.
        stages: in the order in which they run.
        end_to_end: seconds from the begin of a batch's first stage to the end of its last one.
        other_series: the series that ``timing_cost`` compares with: ``synchronized``, ``undivided`` or none.
        timing_cost: what the passes with a synchronization after each stage take, relative to those without, on an
            accelerator; on a CPU, what the passes with timestamps take, relative to those without any.
        within_passes: the sum of the stages of a pass relative to its end-to-end time.
    """

    workload: str
    label: str
    device: str
    stages: tuple[StageLevel, ...]
    end_to_end: stats.Interval
    other_series: str
    timing_cost: stats.Interval | None
    within_passes: float

    @property
    def sum(self) -> float:
        """Seconds of all stages."""
        return sum(each.seconds.value for each in self.stages)

    @property
    def adds_up(self) -> bool:
        """Whether the stages add up to the end-to-end time."""
        found = (self.within_passes, self.sum / self.end_to_end.value)
        return all(abs(each - 1) <= SUM_TOLERANCE for each in found)

    @property
    def device_share(self) -> float:
        """How long the stages on the device take, gaps between their kernels included, as a share of the whole."""
        on_device = sum(each.seconds.value for each in self.stages if each.stage.place is Place.DEVICE)
        return on_device / self.end_to_end.value


def pipelines(result: Result) -> list[PipelineLevels]:
    """Return the pipelines that ``result`` has timed, in the order asked for."""
    names = labels_as_run(result)
    found = [_levels(result, runs, names[group]) for group, runs in result.groups().items()]
    return [each for each in found if each is not None]


def _levels(result: Result, runs: Sequence[Run], label: str) -> PipelineLevels | None:
    reports = [run.report for run in runs if run.report is not None and run.steady]
    timed = [(report, report.timing) for report in reports if report.pipeline is not None and report.timing is not None]
    if not timed or timed[0][0].pipeline is None:
        return None
    first, pipeline = timed[0][0], timed[0][0].pipeline
    timings = [timing for _, timing in timed]
    end_to_end = _level(timings, LATENCY, by_precision(result, first.workload))
    assert end_to_end is not None
    other = next((name for name in (SYNCHRONIZED, UNDIVIDED) if timings[0].find(name) is not None), "")
    levels = [(stage, level) for stage in pipeline if (level := _level(timings, stage.name)) is not None]
    whole = sum(level.value for _, level in levels)
    within = []
    for timing in timings:
        columns = [timing.values(stage.name) for stage in pipeline]
        within.append(median(sum(row) / end for *row, end in zip(*columns, timing.values(LATENCY))))
    return PipelineLevels(
        workload=first.workload,
        label=label,
        device=first.setting.device,
        stages=tuple(StageLevel(stage, level, level.value / whole) for stage, level in levels),
        end_to_end=end_to_end,
        other_series=other,
        timing_cost=stats.level_interval([_cost(each, other) for each in timings]) if other else None,
        within_passes=stats.geometric_mean(within),
    )


def _level(timings: Sequence[Timing], name: str, by_precision: bool = False) -> stats.Interval | None:
    samples = [values for timing in timings if (values := timing.values(name))]
    return stats.setting_interval(samples, by_precision=by_precision) if samples else None


def _cost(timing: Timing, other: str) -> float:
    """The ratio of the slower way of timing to the other one, in one process."""
    with_stages, compared = median(timing.values(LATENCY)), median(timing.values(other))
    return compared / with_stages if other == SYNCHRONIZED else with_stages / compared
