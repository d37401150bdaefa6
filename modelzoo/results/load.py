"""What runs under load show: percentiles, verdicts, and the highest rate that meets a bound. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

import msgspec

from modelzoo.records.run import Result
from modelzoo.records.serving import OVERLOAD, Flaw, InvalidReason, LatencyBound, Lateness, Load, LoadRun, Scenario
from modelzoo.stats import percentile
from modelzoo.stats.intervals import Interval, level_interval, scaled
from modelzoo.stats.latency_bound import (
    BATCHES,
    dependence,
    most_over,
    queries_for,
    queries_to_show,
    shows,
)

LATE = 1e-3
"""Seconds of lateness that a run may have in any case (its p99) …"""
LATE_SHARE = 0.05
"""… or this share of the time that a batch takes, if that is more. Latencies contain the delay, so it cannot make a run
pass; it makes p90 and p99 longer by less than 0.1 % (``benchmarks/load_generator.py --rows late``), which is little
beside the resolution of a search."""
RESOLUTION = 0.05
"""A search ends when the lowest rate that failed is at most this much above the highest that passed."""
SINGLE_STREAM_PERCENT = 90.0
"""The percentile that MLPerf reports of SingleStream (``TestSettings::single_stream_target_latency_percentile``)."""


def shown_percent(load: Load) -> float:
    """The percentile that matters: that of the bound, else the one that MLPerf reports for the scenario."""
    if load.plan.bound is not None:
        return load.plan.bound.percentile
    return SINGLE_STREAM_PERCENT if load.plan.scenario is Scenario.SINGLE_STREAM else 99.0


def lateness(values: Sequence[float], batch_seconds: float) -> Lateness:
    """Summarise how late the generator was.

    Args:
        values: of each request, in seconds.
        batch_seconds: what a batch takes.
    """
    ordered = sorted(values) or [0.0]
    # Of fewer than 100 requests one may be later, as of 100.
    p99 = ordered[max(0, len(ordered) - 1 - max(1, len(ordered) // 100))]
    return Lateness(median(ordered), p99, ordered[-1], max(LATE, LATE_SHARE * batch_seconds))


def reasons(run: LoadRun, bound: LatencyBound | None, *, is_search: bool = False) -> tuple[InvalidReason, ...]:
    """Return why a run is INVALID; nothing if it is VALID.

    Args:
        run: whatever its ``reasons`` are.
        bound: the bound on its latency, if there is one.
        is_search: whether it is a short run of a search, which passes or fails by MLPerf's rule: its requests count as
            independent. A search compares rates; what a rate really meets is for a longer run to show.
    """
    found = [InvalidReason(Flaw.DIED, instance=number) for number, use in enumerate(run.uses) if use.error is not None]
    unmet = _unmet(run, bound, is_search=is_search) if bound is not None and not found else None
    found += [InvalidReason(Flaw.REJECTED)] if run.rejected else []
    found += [InvalidReason(Flaw.LATE)] if run.lateness.p99 > run.lateness.limit else []
    return (*found, *([unmet] if unmet is not None else []))


def _unmet(run: LoadRun, bound: LatencyBound, *, is_search: bool) -> InvalidReason | None:
    """As LoadGen: the percentile itself must meet the bound, and the run must show it (early stopping)."""
    fraction, count = bound.percentile / 100, len(run.latencies)
    over = sum(latency > bound.seconds for latency in run.latencies)
    if run.given_up:
        return InvalidReason(Flaw.BOUND, over=over + run.rejected)
    if over > (1 - fraction) * count:
        return InvalidReason(Flaw.BOUND, over=over)
    together = 1.0 if is_search else dependence(run.latencies, fraction)
    if together is None:
        return InvalidReason(Flaw.TOO_FEW, needed=max(2 * BATCHES, queries_for(0, fraction)))
    if shows(count, over, fraction, dependence=together):
        return None
    if is_search:
        allowed = most_over(count, fraction)
        if allowed is None:
            return InvalidReason(Flaw.TOO_FEW, needed=queries_for(0, fraction))
        return InvalidReason(Flaw.BOUND, over=over, allowed=allowed)
    wanted = queries_to_show(over / count, fraction, together)
    if wanted is not None:
        # An estimate that is known to two digits at most.
        rounded_up = 10 ** max(0, len(str(wanted)) - 2)
        wanted = -(-max(wanted, count + 1) // rounded_up) * rounded_up
    return InvalidReason(Flaw.TOO_FEW, over=over, dependence=together, needed=wanted)


def achieved(run: LoadRun) -> float:
    """Requests answered per second, from the start of the schedule to the last reply."""
    return len(run.latencies) / run.seconds if run.seconds else 0.0


def utilization(run: LoadRun) -> list[float]:
    """The share of the run in which each instance was busy."""
    return [use.busy_seconds / run.seconds if run.seconds else 0.0 for use in run.uses]


def is_slow_alone(run: LoadRun, bound: LatencyBound) -> bool:
    """Whether requests that do not wait exceed the bound as well, so that no lower rate meets it either.

    Poisson arrivals find an instance busy with the probability of its utilization ("Poisson arrivals see time
    averages", Wolff, Operations Research 30, 1982). If more requests are over the bound than that, and than the bound
    itself allows, with 99 % confidence, then waiting is not the reason.
    """
    over = sum(latency > bound.seconds for latency in run.latencies)
    explained = max(utilization(run), default=0.0) + 1 - bound.percentile / 100
    return explained < 1 and shows(len(run.latencies), len(run.latencies) - over, explained)


def mean_batch(run: LoadRun) -> float:
    """Mean number of requests per batch."""
    count = sum(each.count for each in run.batches)
    return sum(each.size * each.count for each in run.batches) / count if count else 0.0


class Found(msgspec.Struct, frozen=True):
    """What the search of one repeat found.

    Attributes:
        rate: the highest rate that meets the bound; ``None``: none does, or the search did not come to its end.
        valid: the highest rate whose run was VALID; ``None``: none was.
        limit: the lowest rate above it whose run showed an overload; ``None``: none did.
    """

    rate: float | None
    valid: float | None
    limit: float | None


class Answer(msgspec.Struct, frozen=True):
    """The highest rate that meets the bound.

    Attributes:
        level: at which rate the runs of a repeat cease to pass, in the geometric mean of the repeats, with its 95 %
            interval; see ``bracketed``.
        sustained: the lowest of the rates that passed, which every repeat met.
        found: what each repeat found.
    """

    level: Interval
    sustained: float
    found: tuple[Found, ...]


def searches(load: Load) -> list[Found]:
    """What the search of each repeat found, as far as it has come."""
    found = []
    for repeat in sorted({run.repeat for run in load.runs}):
        runs = [run for run in load.runs if run.repeat == repeat and run.rate is not None]
        valid = max((run.rate for run in runs if run.rate is not None and run.is_valid), default=None)
        # A search counts a rate as too high if the bound was not met, whatever else was wrong.
        flaws = [(run.rate, {reason.flaw for reason in run.reasons}) for run in runs if run.rate is not None]
        over = [rate for rate, found_flaws in flaws if Flaw.DIED not in found_flaws and found_flaws & set(OVERLOAD)]
        limit = min((rate for rate in over if valid is None or rate > valid), default=None)
        # An interruption, or a generator that was late again and again, ends a search before it is known how much
        # higher the rate could be.
        is_done = valid is not None and limit is not None and limit <= valid * (1 + RESOLUTION)
        found.append(Found(valid if is_done else None, valid, limit))
    return found


def answer(load: Load) -> Answer | None:
    """The highest rate that meets the bound; ``None`` if a repeat found none, or nothing was searched.

    The repeat in which a call was interrupted does not count.
    """
    found = searches(load) if load.plan.is_search else []
    if found and not load.is_complete and found[-1].rate is None:
        found = found[:-1]
    # The highest rate that passed and the lowest that failed.
    brackets = [(each.rate, each.limit) for each in found if each.rate is not None and each.limit is not None]
    if not brackets or len(brackets) < len(found):
        return None
    return Answer(bracketed(brackets), min(low for low, _ in brackets), tuple(found))


def bracketed(brackets: Sequence[tuple[float, float]]) -> Interval:
    """Return the geometric mean of what lies in ``brackets``, one per repeat, with its 95 % interval.

    What a repeat looks for lies somewhere in its bracket, so its estimate is the geometric middle; the lower end would
    be too low by half the resolution. The interval is Student's t on the logarithms of the middles, as for the
    processes of a setting, because each repeat has instances and schedules of its own. Repeats that begin at the same
    rate have the same brackets and may differ by nothing, so half the width of a bracket is added, as the square root
    of the sum of squares. With a single repeat the interval is unbounded.

    Args:
        brackets: the highest rate that passed and the lowest that failed.
    """
    found = level_interval([math.sqrt(low * high) for low, high in brackets])
    if math.isinf(found.high):
        return found
    resolution = fmean(math.log(high / low) / 2 for low, high in brackets)
    return scaled(found.value, math.hypot(math.log(found.high / found.value), resolution))


def capacity(load: Load) -> Interval | None:
    """Requests per second of an offline measurement: the level of its runs with its interval; ``None`` without any."""
    rates = [achieved(run) for run in load.runs if run.is_valid]
    return level_interval(rates) if rates else None


def stream_latency(load: Load) -> Interval | None:
    """The percentile of SingleStream: the level of its runs with its interval; ``None`` without any."""
    values = [percentile(run.latencies, shown_percent(load)) for run in load.runs if run.is_valid]
    known = [value for value in values if value is not None]
    return level_interval(known) if known else None


def of(result: Result) -> Load:
    """The measurement under load that ``result`` holds.

    Raises:
        ValueError: it holds none.
    """
    if not isinstance(result.payload, Load):
        raise ValueError("the result holds no measurement under load")
    return result.payload


def is_valid(load: Load) -> bool:
    """Whether the question was answered: a search found a rate in every repeat, or all runs are VALID."""
    if load.plan.is_search:
        return answer(load) is not None
    return bool(load.runs) and all(run.is_valid for run in load.runs)
