"""What many instances achieved over all rounds: throughput, latency, scaling, and which configuration is best. Pure.

``modelzoo.results.counting`` says how a round is counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Optional

from modelzoo import stats
from modelzoo.records.bounds import LatencyBound
from modelzoo.records.run import Result, RunReport
from modelzoo.records.throughput import Configuration, ConfigurationRun, Throughput
from modelzoo.results.cost import per_million
from modelzoo.results.counting import LEAST, rate, stragglers, uncertainty

NO_WINDOW = "a batch took as long as the whole run, so nothing could be counted; give --seconds a larger value"
"""Why a round failed in which nothing went wrong."""


@dataclass(frozen=True)
class Row:
    """What is known of one configuration. Times in seconds, memory in bytes.

    Attributes:
        index: of the configuration.
        configuration: what it is.
        setting: the label of its setting; empty if all configurations have the same but for batch and threads.
        rounds: rounds in which all instances ran.
        failed: rounds in which not all did.
        throughput: items per second with its interval over the rounds; ``None`` if there was no such round.
        off: how far the count may be off, ± 1 batch of every instance, relative; the worst round.
        fewest: batches that the slowest instance completed inside the window, in the worst round.
        percentiles: of the latency of a batch, over all instances and rounds; those that the sample is large enough
            for.
        bounded: the percentile of the bound; ``None`` without a bound or if there are too few samples.
        meets: whether the bound is met; ``None`` without a bound, or if the percentile is not known.
        samples: number of latencies.
        memory: the most that all instances occupied together, the median over the rounds.
        scaling: throughput ÷ that of a single instance, with its interval over the rounds that both were in; ``None``
            for that instance itself, and without one.
        efficiency: ``scaling`` ÷ number of instances, if that single instance had as many cores and the same batch.
        compute: share of the machine's measured arithmetic ceiling; ``None`` if it is not known.
        bandwidth: share of the measured memory bandwidth that the operations need at least; likewise.
        stragglers: of each straggling instance, its share of the median, averaged over the rounds that it straggled
            in, and the number of those rounds.
        errors: what went wrong, each once, with the instances' numbers.
        dropped: why it was measured no further; empty if it was not dropped.
        is_final: whether it was still in at the end.
    """

    index: int
    configuration: Configuration
    setting: str
    rounds: int
    failed: int
    throughput: Optional[stats.Interval]
    off: float
    fewest: int
    percentiles: dict[str, float]
    bounded: Optional[float]
    meets: Optional[bool]
    samples: int
    memory: Optional[int]
    scaling: Optional[stats.Interval]
    efficiency: Optional[float]
    compute: Optional[float]
    bandwidth: Optional[float]
    stragglers: dict[int, tuple[float, int]]
    errors: tuple[str, ...]
    dropped: str
    is_final: bool

    @property
    def is_short(self) -> bool:
        """Whether an instance completed fewer batches than it should."""
        return self.rounds > 0 and self.fewest < LEAST

    @property
    def latency(self) -> Optional[float]:
        """The median latency of a batch."""
        return self.percentiles.get("p50")


def of(result: Result) -> Throughput:
    """Return what a result of ``modelzoo throughput`` holds; raises ``ValueError`` for any other."""
    if result.throughput is None:
        raise ValueError("the result holds no throughput of instances")
    return result.throughput


def rows(result: Result) -> list[Row]:
    """Return a row for every configuration, in the order asked for."""
    found = of(result)
    by_round = [_rates(found, index) for index in range(len(found.configurations))]
    labels = {result.asked[each.group].setting.label for each in found.configurations}
    return [
        _row(result, found, index, by_round, "" if len(labels) == 1 else result.asked[each.group].setting.label)
        for index, each in enumerate(found.configurations)
    ]


def runs_of(found: Throughput, index: int) -> list[ConfigurationRun]:
    """The runs that count for a configuration.

    Of a search, those of the last stage, for what was in it: the earlier ones decided that it was.
    """
    own = [run for run in found.runs if run.configuration == index]
    last = [run for run in own if run.round >= found.final_round]
    return last if found.is_search and last else own


def single(found: Throughput, index: int) -> Optional[int]:
    """The configuration with one instance that another one is compared with; ``None`` if there is none.

    It has the same batch and use of SMT, and as many cores per instance, or else the most.
    """
    own = found.configurations[index]
    singles = [
        number
        for number, each in enumerate(found.configurations)
        if each.instances == 1 and each.batch == own.batch and each.smt is own.smt
    ]
    if own.instances == 1 or not singles:
        return None
    return max(singles, key=lambda number: (_like(found, number, own), found.configurations[number].cores))


def _like(found: Throughput, number: int, own: Configuration) -> bool:
    return found.configurations[number].cores == own.cores


def _rates(found: Throughput, index: int) -> dict[int, float]:
    """Items per second by round."""
    batch = found.configurations[index].batch
    rates = {run.round: rate(run, batch) for run in runs_of(found, index)}
    return {number: value for number, value in rates.items() if value is not None}


def _row(result: Result, found: Throughput, index: int, by_round: Sequence[Mapping[int, float]], label: str) -> Row:
    own, runs, rates = found.configurations[index], runs_of(found, index), by_round[index]
    complete = [run for run in runs if run.round in rates]
    samples = [value for run in complete for each in run.instances for value in each.latencies]
    throughput = stats.level_interval(list(rates.values())) if rates else None
    bounded = None if found.bound is None else stats.percentile(samples, found.bound.percentile)
    reference = single(found, index)
    scaling = None if reference is None else _scaling(rates, by_round[reference])
    alike = reference is not None and found.configurations[reference].cores == own.cores
    compute, bandwidth = _shares(result, found, own, throughput)
    dropped = next((each.reason for each in found.dropped if each.configuration == index), "")
    return Row(
        index=index,
        configuration=own,
        setting=label,
        rounds=len(complete),
        failed=len(runs) - len(complete),
        throughput=throughput,
        off=max(map(uncertainty, complete), default=math.inf),
        fewest=min((each.counted for run in complete for each in run.instances), default=0),
        percentiles=stats.percentiles(samples),
        bounded=bounded,
        meets=None if found.bound is None else _meets(found.bound, bounded, samples),
        samples=len(samples),
        memory=_memory(complete),
        scaling=scaling,
        efficiency=scaling.value / own.instances if scaling is not None and alike else None,
        compute=compute,
        bandwidth=bandwidth,
        stragglers=_stragglers(complete),
        errors=_errors(runs),
        dropped=dropped,
        is_final=not dropped,
    )


def _meets(bound: LatencyBound, bounded: Optional[float], samples: Sequence[float]) -> Optional[bool]:
    """Whether the bound is met; few samples may show that it is not, if more than its share of them are over it."""
    if bounded is not None:
        return bounded <= bound.seconds
    over = sum(value > bound.seconds for value in samples)
    # Half of them and more: with few samples a lower share may be chance.
    return False if samples and over >= max(0.5, 1 - bound.percentile / 100) * len(samples) else None


def _scaling(rates: Mapping[int, float], single_rates: Mapping[int, float]) -> Optional[stats.Interval]:
    """The ratio with its interval over the rounds that both were in; between rounds the machine's speed may change."""
    ratios = [rates[number] / single_rates[number] for number in sorted(set(rates) & set(single_rates))]
    if ratios:
        return stats.level_interval(ratios)
    if not rates or not single_rates:
        return None
    # No common round: a search had dropped one of them before. Nothing is known about the error then.
    value = stats.geometric_mean(list(rates.values())) / stats.geometric_mean(list(single_rates.values()))
    return stats.Interval(value, 0.0, math.inf)


def _memory(runs: Sequence[ConfigurationRun]) -> Optional[int]:
    totals = []
    for run in runs:
        peaks = [each.peak_memory for each in run.instances]
        if all(peak is not None for peak in peaks):
            totals.append(sum(peak for peak in peaks if peak is not None))
    return int(median(totals)) if totals else None


def _stragglers(runs: Sequence[ConfigurationRun]) -> dict[int, tuple[float, int]]:
    found: dict[int, list[float]] = {}
    for run in runs:
        for number, share in stragglers(run).items():
            found.setdefault(number, []).append(share)
    return {number: (sum(shares) / len(shares), len(shares)) for number, shares in sorted(found.items())}


def _errors(runs: Sequence[ConfigurationRun]) -> tuple[str, ...]:
    """Each error once, with the instances that it ended."""
    found: dict[str, list[str]] = {}
    for run in runs:
        if not run.window and all(each.error is None for each in run.instances):
            found.setdefault(NO_WINDOW, []).append(f"round {run.round + 1}")
        for number, each in enumerate(run.instances):
            if each.error is not None:
                name = f"instance {number} in round {run.round + 1}"
                found.setdefault(each.error, []).append(name)
    return tuple(f"{', '.join(names[:4])}{' …' if len(names) > 4 else ''}: {error}" for error, names in found.items())


def context(result: Result, group: int) -> Optional[RunReport]:
    """What the first instance of a setting reported of the setting, the machine and the kernels."""
    return next((run.report for run in result.runs if run.group == group and run.report is not None), None)


def _shares(
    result: Result, found: Throughput, own: Configuration, throughput: Optional[stats.Interval]
) -> tuple[Optional[float], Optional[float]]:
    """The shares of the machine's measured ceilings: arithmetic, memory bandwidth.

    The bytes are the least that one pass has to move, so the true share of the bandwidth is larger.
    """
    report = context(result, own.group)
    if report is None or report.flops is None or throughput is None or found.ceilings is None:
        return None, None
    batches = throughput.value / own.batch
    ceiling = found.ceilings.gflops(report.setting.precision)
    bandwidth = found.ceilings.gb_per_second()
    moved = report.flops.bytes
    compute = batches * report.flops.total / 1e9 / ceiling if ceiling and report.flops.total else None
    return compute, batches * moved / 1e9 / bandwidth if bandwidth and moved else None


# Choosing


def best(found: Sequence[Row], bound: Optional[LatencyBound]) -> Optional[Row]:
    """The row with the highest throughput among those that meet the bound; ``None`` if there is none.

    Rows that a search dropped cannot win, unless nothing else is left.
    """
    meeting = [row for row in found if row.throughput is not None and (bound is None or row.meets)]
    final = [row for row in meeting if row.is_final]
    return max(final or meeting, key=_value, default=None)


def ties(found: Sequence[Row], winner: Row) -> list[Row]:
    """The rows that may win as well and whose interval reaches into the winner's."""
    if winner.throughput is None:
        return []
    low = winner.throughput.low
    return [
        row
        for row in found
        if row is not winner
        and row.is_final
        and row.throughput is not None
        and row.throughput.high >= low
        and row.meets in (None, True)
    ]


def _value(row: Row) -> float:
    return row.throughput.value if row.throughput is not None else 0.0


def cost_per_million(found: Throughput, row: Row) -> Optional[stats.Interval]:
    """What a million items cost; ``None`` if no price was given or nothing was measured."""
    if found.price is None or row.throughput is None:
        return None
    return per_million(found.price.per_hour, row.throughput)
