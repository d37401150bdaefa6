"""What many instances achieved over all rounds: throughput, latency, scaling, and which configuration is best. Pure.

The best of several is partly the luckiest: among four equals, its throughput in the rounds that chose it is 1 to 2 %
too high. So what is said of the recommended configuration comes from its confirmation, rounds that took no part in the
choice.

``modelzoo.results.counting`` says how a round is counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal

import msgspec

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.records.race import Configuration, ConfigurationRun, Exclusion, InstanceRun, StageKind, Throughput
from modelzoo.records.run import Latency, Result, RunReport
from modelzoo.records.serving import LatencyBound
from modelzoo.results.counting import LEAST, RoundError, per_million, rate, round_errors, stragglers, uncertainty
from modelzoo.results.refusals import Pair
from modelzoo.results.speed import NOT_LOOKED_AT, Speed, in_one_call, pair_in_rounds, sides_of, table
from modelzoo.stats import Doubt, race
from modelzoo.stats.latency_bound import BoundJudgement, judge
from modelzoo.stats.race import Choice


class Row(msgspec.Struct, frozen=True):
    """What is known of one configuration. Times in seconds, memory in bytes.

    Attributes:
        index: of the configuration.
        configuration: what it is.
        setting: the label of its setting; empty if all configurations have the same but for batch and threads.
        rounds: rounds in which all instances ran.
        failed: rounds in which not all did.
        rates: items per second by round.
        throughput: items per second with its interval over the rounds; ``None`` if there was no such round.
        off: how far the count may be off, ± 1 batch of every instance, relative; the worst round.
        fewest: batches that the slowest instance completed inside the window, in the worst round.
        percentiles: of the latency of a batch, over all instances and rounds; those that the sample is large enough
            for.
        bounded: the percentile of the bound that was seen; ``None`` without a bound or if there are too few samples.
        is_over: whether more of the samples were over the bound than may be. That is what was seen; it proves nothing.
        judged: whether the bound is met; ``None`` without a bound.
        samples: number of latencies.
        memory: the most that all instances occupied together, the median over the rounds.
        scaling: throughput ÷ that of a single instance, with its interval over the rounds that both were in; ``None``
            for that instance itself, and without one.
        efficiency: ``scaling`` ÷ number of instances, if that single instance had as many cores and the same batch.
        compute: share of the machine's measured arithmetic ceiling; ``None`` if it is not known.
        bandwidth: share of the measured memory bandwidth that the operations need at least; likewise.
        stragglers: of each straggling instance, its share of the median, averaged over the rounds that it straggled
            in, and the number of those rounds.
        errors: what went wrong, each once.
        exclusion: why it was measured no further; ``None`` if it was still in at the end.
    """

    index: int
    configuration: Configuration
    setting: str
    rounds: int
    failed: int
    rates: Mapping[int, float]
    throughput: stats.Interval | None
    off: float
    fewest: int
    percentiles: dict[str, float]
    bounded: float | None
    is_over: bool
    judged: BoundJudgement | None
    samples: int
    memory: int | None
    scaling: stats.Interval | None
    efficiency: float | None
    compute: float | None
    bandwidth: float | None
    stragglers: dict[int, tuple[float, int]]
    errors: tuple[RoundError, ...]
    exclusion: Exclusion | None

    @property
    def is_final(self) -> bool:
        """Whether it was still in at the end."""
        return self.exclusion is None

    @property
    def logs(self) -> dict[int, float]:
        """The logarithm of its rate in each round."""
        return {number: math.log(rate) for number, rate in self.rates.items()}

    @property
    def is_short(self) -> bool:
        """Whether an instance completed fewer batches than it should."""
        return self.rounds > 0 and self.fewest < LEAST

    @property
    def meets(self) -> bool | None:
        """Whether the bound is met; ``None`` without a bound, or if it cannot be said."""
        if self.judged is None or self.judged.outcome == "undecided":
            return None
        return self.judged.outcome == "met"

    @property
    def latency(self) -> float | None:
        """The median latency of a batch."""
        return self.percentiles.get("p50")


def of(result: Result) -> Throughput:
    """Return what a result of ``modelzoo throughput`` holds; raises ``ValueError`` for any other."""
    if not isinstance(result.payload, Throughput):
        raise ValueError("the result holds no throughput of instances")
    return result.payload


def rows(result: Result) -> list[Row]:
    """Return a row for every configuration, in the order asked for, without the confirmation."""
    found = of(result)
    return _rows(result, [runs_of(found, index) for index in range(len(found.configurations))])


def confirmed(result: Result) -> list[Row]:
    """Return the rows of what was measured again: the best configuration, and the single instance beside it.

    They say what its confirmation alone shows; there are none without one.
    """
    found = of(result)
    stage = found.stage(StageKind.CONFIRMATION)
    again = [run for run in found.runs if stage is not None and run.round >= stage.first_round]
    if stage is None or not again:
        return []
    by_index = _rows(result, [[run for run in again if run.configuration == index] for index in found.entrants])
    return [by_index[index] for index in reversed(stage.entrants)]


def confirmed_speed(result: Result) -> Speed | None:
    """How many times the throughput of the single instance the best configuration has in the confirmation.

    ``None`` unless exactly these two were measured again. One that was interrupted has no verdict, because whoever
    interrupts it may do so because of what it shows.
    """
    found, both = of(result), [row for row in confirmed(result) if row.rates]
    stage = found.stage(StageKind.CONFIRMATION)
    if stage is None or len(both) != 2:
        return None
    shared = sorted(set(both[0].rates) & set(both[1].rates))
    planned = None if found.is_complete else NOT_LOOKED_AT
    sides = sides_of(replace(result, payload=Latency()))
    winner, single = (replace(sides[row.configuration.group], side=row.configuration.name) for row in both)

    def ratio(pair: Pair) -> stats.Ratio | Doubt:
        best, one = ([[1 / row.rates[number]] for number in shared] for row in both)
        return stats.ratio_test(one, best, planned) if shared else Doubt.NO_COMMON_ROUND

    return table([pair_in_rounds(single, winner)], in_one_call, ratio)[0]


def runs_of(found: Throughput, index: int) -> list[ConfigurationRun]:
    """The runs that count for a configuration besides its confirmation.

    Of a search, those of the last stage, for what was in it: the earlier ones decided that it was.
    """
    confirmation = found.stage(StageKind.CONFIRMATION)
    end = math.inf if confirmation is None else confirmation.first_round
    own = [run for run in found.runs if run.configuration == index and run.round < end]
    stages = [each for each in found.stages if each.kind is StageKind.SEARCH]
    if not found.is_search or not stages or len(stages) < len(race.sizes(len(stages[0].entrants))):
        return own
    return [run for run in own if run.round >= stages[-1].first_round] or own


def _rows(result: Result, runs: Sequence[Sequence[ConfigurationRun]]) -> list[Row]:
    """A row for every configuration, of its runs among ``runs``."""
    found, shown = of(result), []
    by_round: list[dict[int, float]] = []
    for own, of_own in zip(found.configurations, runs):
        rates = {run.round: rate(run, own.batch * found.per_item) for run in of_own}
        by_round.append({number: value for number, value in rates.items() if value is not None})
    labels = [result.requested[each.group].setting.label for each in found.configurations]
    for index, own in enumerate(found.configurations):
        complete = [run for run in runs[index] if run.round in by_round[index]]
        samples = [value for run in complete for each in run.instances for value in each.latencies]
        throughput = stats.level_interval(list(by_round[index].values())) if complete else None
        bounded = judged = None
        if found.bound is not None:
            bounded = stats.percentile(samples, found.bound.percentile)
            latencies = [[each.latencies for each in run.instances if each.latencies] for run in complete]
            judged = judge(latencies, found.bound.percentile, found.bound.seconds)
        peaks = [[each.peak_memory for each in run.instances] for run in complete]
        totals = [sum(filter(None, each)) for each in peaks if None not in each]
        reference = single(found, index)
        scaling = None if reference is None else _scaling(by_round[index], by_round[reference])
        alike = reference is not None and found.configurations[reference].cores == own.cores
        compute, bandwidth = _shares(result, found, own, throughput)
        straggling: dict[int, list[float]] = {}
        for run in complete:
            for number, share in stragglers(run).items():
                straggling.setdefault(number, []).append(share)
        shown.append(
            Row(
                index=index,
                configuration=own,
                setting=labels[index] if len(set(labels)) > 1 else "",
                rounds=len(complete),
                failed=len(runs[index]) - len(complete),
                rates=by_round[index],
                throughput=throughput,
                off=max(map(uncertainty, complete), default=math.inf),
                fewest=min((each.counted for run in complete for each in run.instances), default=0),
                percentiles=stats.percentiles(samples),
                bounded=bounded,
                is_over=found.bound is not None and _is_over(found.bound, bounded, samples),
                judged=judged,
                samples=len(samples),
                memory=int(median(totals)) if totals else None,
                scaling=scaling,
                efficiency=scaling.value / own.instances if scaling is not None and alike else None,
                compute=compute,
                bandwidth=bandwidth,
                stragglers={number: (sum(each) / len(each), len(each)) for number, each in sorted(straggling.items())},
                errors=round_errors(runs[index]),
                exclusion=next((each for each in found.excluded if each.entrant == index), None),
            )
        )
    return shown


def single(found: Throughput, index: int) -> int | None:
    """The configuration with one instance that another one is compared with; ``None`` if there is none.

    It has the same batch and use of SMT, and as many cores per instance, or else the most.
    """
    own = found.configurations[index]
    singles = {
        number: (each.cores == own.cores, each.cores)
        for number, each in enumerate(found.configurations)
        if each.instances == 1 and each.batch == own.batch and each.smt is own.smt
    }
    return None if own.instances == 1 or not singles else max(singles, key=singles.__getitem__)


def _is_over(bound: LatencyBound, bounded: float | None, samples: Sequence[float]) -> bool:
    """Whether the percentile was over the bound; of samples that are too few for it, at least half of them."""
    if bounded is not None:
        return bounded > bound.seconds
    over = sum(value > bound.seconds for value in samples)
    return bool(samples) and over >= max(0.5, 1 - bound.percentile / 100) * len(samples)


def _scaling(rates: Mapping[int, float], single_rates: Mapping[int, float]) -> stats.Interval | None:
    """The ratio with its interval over the rounds that both were in; between rounds the machine's speed may change."""
    ratios = [rates[number] / single_rates[number] for number in sorted(set(rates) & set(single_rates))]
    if ratios:
        return stats.level_interval(ratios)
    if not rates or not single_rates:
        return None
    # No common round: a search had dropped one of them before. Nothing is known about the error then.
    value = stats.geometric_mean(list(rates.values())) / stats.geometric_mean(list(single_rates.values()))
    return stats.Interval(value, 0.0, math.inf)


def instances_of(found: Throughput, row: Row) -> list[InstanceRun]:
    """The instances of a configuration that did not fail, of all rounds that count for it."""
    return [each for run in runs_of(found, row.index) for each in run.instances if each.error is None]


def context(result: Result, group: int) -> RunReport | None:
    """What the first instance of a setting reported of the setting, the machine and the kernels."""
    return next((run.report for run in result.runs if run.group == group and run.report is not None), None)


def _shares(
    result: Result, found: Throughput, own: Configuration, throughput: stats.Interval | None
) -> tuple[float | None, float | None]:
    """The shares of the machine's measured ceilings: arithmetic, memory bandwidth.

    The bytes are the least that one pass has to move, so the true share of the bandwidth is larger.
    """
    report = context(result, own.group)
    if report is None or report.observed.flops is None or throughput is None or found.ceilings is None:
        return None, None
    batches = throughput.value / (own.batch * found.per_item)
    ceiling = found.ceilings.gflops(report.setting.precision)
    bandwidth = found.ceilings.gb_per_second()
    moved, done = report.observed.flops.bytes, report.observed.flops.whole
    compute = batches * done / 1e9 / ceiling if ceiling and done else None
    return compute, batches * moved / 1e9 / bandwidth if bandwidth and moved else None


# Choosing


def choice(found: Sequence[Row], bound: LatencyBound | None) -> Choice | None:
    """What wins among those that meet the bound: the one with the fewest instances of those that are as fast as the
    fastest (``stats.race.pick``); ``None`` if there is none.

    If none is known to meet it, it is one of those of which that cannot be said and that were not seen over it. Rows
    that a search excluded cannot win, unless nothing else is left.
    """
    measured = [row for row in found if row.throughput is not None]
    meeting = [row for row in measured if bound is None or row.meets]
    rivals = meeting or [row for row in measured if row.meets is None and not row.is_over]
    rivals = [row for row in rivals if row.is_final] or rivals
    if not rivals:
        return None
    rates = {row.index: row.logs for row in rivals}
    return race.pick(race.ranked(rates), rates, {row.index: row.configuration.instances for row in rivals})


def best(found: Sequence[Row], bound: LatencyBound | None) -> Row | None:
    """The row that wins, see ``choice``; ``None`` if there is none."""
    chosen = choice(found, bound)
    return None if chosen is None else next(row for row in found if row.index == chosen.winner)


def ties(found: Sequence[Row], winner: Row) -> list[Row]:
    """The rows that may win as well and that the rounds do not tell from the winner."""
    return [
        row
        for row in found
        if row.index != winner.index
        and row.is_final
        and row.throughput is not None
        and row.meets is not False
        and race.are_tied(winner.logs, row.logs)
    ]


Backing = Literal["confirmed", "sole", "unconfirmed"]
"""What the figures of a recommendation rest on.

``confirmed``: rounds that took no part in its choice. ``sole``: its only rounds; there was nothing to choose.
``unconfirmed``: the rounds that chose it, which flatter it, because it was not measured again."""


class Recommendation(msgspec.Struct, frozen=True):
    """The configuration that is recommended.

    Attributes:
        row: what is said of it.
        backing: what that rests on.
        ties: the configurations that may be as fast.
        speed: how its throughput compares with that of a single instance, if both were measured again.
    """

    row: Row
    backing: Backing
    ties: tuple[Row, ...]
    speed: Speed | None = None


def recommendation(result: Result) -> Recommendation | None:
    """Return the configuration that is recommended, with the figures to report; ``None`` if there is none."""
    found, seen = of(result), rows(result)
    again = confirmed(result)[:1]
    if again and again[0].throughput is not None:
        tied = tuple(ties(seen, seen[again[0].index]))
        return Recommendation(again[0], "confirmed", tied, confirmed_speed(result))
    winner = best(seen, found.bound)
    if winner is None:
        return None
    backing: Backing = "unconfirmed" if is_choice(seen) else "sole"
    return Recommendation(winner, backing, tuple(ties(seen, winner)))


def is_choice(found: Sequence[Row]) -> bool:
    """Whether there was anything to choose from."""
    return sum(row.throughput is not None for row in found) > 1


def cost_per_million(found: Throughput, row: Row) -> stats.Interval | None:
    """What a million items cost; ``None`` if no price was given or nothing was measured."""
    if found.price is None or row.throughput is None:
        return None
    return per_million(found.price.per_hour, row.throughput)
