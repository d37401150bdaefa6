"""What the processes of a setting say about the parts of a call: the tokens that a language model generates, or the
stages of a pipeline. Pure, and without torch.

The unit is the process, as for every other time: a level is the geometric mean of the processes' medians. Rates follow
from the processes' means, as ``SummaryRow.throughput`` does.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from statistics import median

import msgspec

from modelzoo import stats
from modelzoo.records.profile import DecodingBytes
from modelzoo.records.run import Result, Run, RunReport
from modelzoo.records.run_report import PREFILL, GenerationPhase
from modelzoo.records.timing import (
    BETWEEN_TOKENS,
    FIRST_TOKEN,
    LATENCY,
    PER_TOKEN,
    SYNCHRONIZED,
    UNDIVIDED,
    PipelineStage,
    Place,
    Timing,
)


class DecodingRead(msgspec.Struct, frozen=True):
    """How decoding uses the memory: model bandwidth utilization.

    Attributes:
        found: what a step reads.
        gigabytes_per_second: these bytes ÷ the time per output token, in 10⁹ bytes per second.
        bandwidth: of a copy, as it was measured on this machine with as many threads, in the same unit; ``None`` if it
            was not.
    """

    found: DecodingBytes
    gigabytes_per_second: stats.Interval
    bandwidth: float | None

    @property
    def share(self) -> float | None:
        """What is reached of the bandwidth; ``None`` if that is not known."""
        return self.gigabytes_per_second.value / self.bandwidth if self.bandwidth else None


class GenerationLevels(msgspec.Struct, frozen=True):
    """The generations of one setting; times in seconds, rates in tokens per second of all prompts of a batch.

    Attributes:
        batch: prompts that are continued together.
        prompt_tokens: tokens of each prompt.
        new_tokens: tokens that were generated for each of them.
        first_token: time to the first token (TTFT).
        per_token: time per output token (TPOT): of the tokens after the first one, their mean in each generation.
        prefill_rate: tokens of the prompts ÷ time to the first token.
        decode_rate: batch ÷ time per output token.
        output_rate: all new tokens ÷ time of the whole generation.
        phases: what the first process of the setting that looked at each phase alone has found.
        prefill_gflops: 10⁹ operations per second of the prefill; ``None`` if they were not counted.
        prefill_peak: the speed of a matrix product, as it was measured here in the precision that was asked for
            and with as many threads, in the same unit; ``None`` if it was not.
        read: what a step reads from memory; ``None`` if that was not counted.
        between: percentiles of the times between two tokens of all processes, by name, those that there are.
        by_position: median time of each token after the first one, over all generations.
    """

    batch: int
    prompt_tokens: int
    new_tokens: int
    first_token: stats.Interval
    per_token: stats.Interval
    prefill_rate: stats.Interval
    decode_rate: stats.Interval
    output_rate: stats.Interval
    between: dict[str, float]
    by_position: tuple[float, ...]
    phases: tuple[GenerationPhase, ...] = ()
    prefill_gflops: stats.Interval | None = None
    prefill_peak: float | None = None
    read: DecodingRead | None = None


def generation_levels(runs: Sequence[Run], *, by_precision: bool) -> GenerationLevels | None:
    """Return what the processes of one setting show; ``None`` if it generates no tokens, or nothing was timed.

    Args:
        runs: its processes.
        by_precision: whether sampling ended because the intervals were narrow enough.
    """
    reports = [run.report for run in runs if run.report is not None and run.steady]
    found = next((report for report in reports if report.generation is not None), None)
    timings = [report.timing for report in reports if report.timing is not None]
    if found is None or found.generation is None:
        return None
    made, batch = found.generation, found.setting.batch

    def level(name: str) -> stats.Interval:
        return stats.setting_interval(_values(timings, name), by_precision=by_precision)

    def rate(name: str, tokens: int) -> stats.Interval:
        times = stats.setting_interval(_values(timings, name), by_precision=by_precision, centre=statistics.fmean)
        return stats.inverse(times, tokens)

    first_token, per_token = level(FIRST_TOKEN), level(PER_TOKEN)
    looked = next((each for each in reports if each.observed.phases), found)
    counted = next((each.flops for each in looked.observed.phases if each.name == PREFILL and each.flops), None)
    operations = counted.whole if counted is not None else None
    between = [value for values in _values(timings, BETWEEN_TOKENS) for value in values]
    return GenerationLevels(
        batch=batch,
        prompt_tokens=made.prompt_tokens,
        new_tokens=made.new_tokens,
        first_token=first_token,
        per_token=per_token,
        prefill_rate=rate(FIRST_TOKEN, batch * made.prompt_tokens),
        decode_rate=rate(PER_TOKEN, batch),
        output_rate=rate(LATENCY, batch * made.new_tokens),
        between=stats.percentiles(between),
        by_position=by_position(between, made.new_tokens - 1),
        phases=looked.observed.phases,
        prefill_gflops=stats.inverse(first_token, operations / 1e9) if operations is not None else None,
        prefill_peak=looked.ceilings.gflops(looked.setting.precision, _threads(looked)) if looked.ceilings else None,
        read=_read(reports, per_token),
    )


def _threads(report: RunReport) -> int | None:
    """Those whose ceilings apply; ``None`` on an accelerator."""
    return report.setting.threads if report.accelerator is None else None


def _read(reports: Sequence[RunReport], per_token: stats.Interval) -> DecodingRead | None:
    report = next((each for each in reports if each.observed.decoding is not None), None)
    if report is None or report.observed.decoding is None:
        return None
    found, ceilings = report.observed.decoding, report.ceilings
    reached = stats.inverse(per_token, found.total / 1e9)
    return DecodingRead(found, reached, ceilings.gb_per_second(_threads(report)) if ceilings is not None else None)


def by_position(between: Sequence[float], count: int) -> tuple[float, ...]:
    """The median of every ``count``-th of ``between``, from each of the first ``count`` on."""
    return tuple(statistics.median(between[position::count]) for position in range(count))


def _values(timings: Sequence[Timing], name: str) -> list[tuple[float, ...]]:
    return [values for timing in timings if (values := timing.values(name))]


SUM_TOLERANCE = 0.02
"""The stages of a pipeline without overlap must add up to its end-to-end time within this fraction."""


class PipelineLevels(msgspec.Struct, frozen=True):
    """The pipeline of one setting.

    Attributes:
        workload: the workload's name.
        label: of the setting.
        device: what the stages on the device use.
        stages: seconds of each per batch, in the order in which they run.
        end_to_end: seconds from the begin of a batch's first stage to the end of its last one.
        other_series: the series that ``timing_cost`` compares with: ``synchronized``, ``undivided`` or none.
        timing_cost: what the passes with a synchronization after each stage take, relative to those without, on an
            accelerator; on a CPU, what the passes with timestamps take, relative to those without any.
        within_passes: the sum of the stages of a pass relative to its end-to-end time.
    """

    workload: str
    label: str
    device: str
    stages: dict[PipelineStage, stats.Interval]
    end_to_end: stats.Interval
    other_series: str
    timing_cost: stats.Interval | None
    within_passes: float

    @property
    def sum(self) -> float:
        """Seconds of all stages."""
        return sum(each.value for each in self.stages.values())

    def share(self, stage: PipelineStage) -> float:
        """Of a stage, of the sum of all."""
        return self.stages[stage].value / self.sum

    @property
    def adds_up(self) -> bool:
        """Whether the stages add up to the end-to-end time."""
        found = (self.within_passes, self.sum / self.end_to_end.value)
        return all(abs(each - 1) <= SUM_TOLERANCE for each in found)

    @property
    def device_share(self) -> float:
        """How long the stages on the device take, gaps between their kernels included, as a share of the whole."""
        on_device = sum(each.value for stage, each in self.stages.items() if stage.place is Place.DEVICE)
        return on_device / self.end_to_end.value


def pipelines(result: Result) -> list[PipelineLevels]:
    """Return the pipelines that ``result`` has timed, in the order asked for."""
    names = result.labels_as_run()
    found = [_pipeline(result, runs, names[group]) for group, runs in result.groups().items()]
    return [each for each in found if each is not None]


def _pipeline(result: Result, runs: Sequence[Run], label: str) -> PipelineLevels | None:
    reports = [run.report for run in runs if run.report is not None and run.steady]
    timed = [(report, report.timing) for report in reports if report.pipeline is not None and report.timing is not None]
    if not timed or timed[0][0].pipeline is None:
        return None
    first, pipeline = timed[0][0], timed[0][0].pipeline
    timings = [timing for _, timing in timed]
    by_precision = result.is_precise(first.workload)
    end_to_end = stats.setting_interval(_values(timings, LATENCY), by_precision=by_precision)
    other = next((name for name in (SYNCHRONIZED, UNDIVIDED) if timings[0].find(name) is not None), "")
    of_stages = {stage: samples for stage in pipeline if (samples := _values(timings, stage.name))}
    within = []
    for timing in timings:
        columns = [timing.values(stage.name) for stage in pipeline]
        within.append(median(sum(row) / end for *row, end in zip(*columns, timing.values(LATENCY))))
    return PipelineLevels(
        workload=first.workload,
        label=label,
        device=first.setting.device,
        stages={stage: stats.setting_interval(samples) for stage, samples in of_stages.items()},
        end_to_end=end_to_end,
        other_series=other,
        timing_cost=stats.level_interval([_cost(each, other) for each in timings]) if other else None,
        within_passes=stats.geometric_mean(within),
    )


def _cost(timing: Timing, other: str) -> float:
    """The ratio of the slower way of timing to the other one, in one process."""
    with_stages, compared = median(timing.values(LATENCY)), median(timing.values(other))
    return compared / with_stages if other == SYNCHRONIZED else with_stages / compared
