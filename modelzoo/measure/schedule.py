"""Time several workloads within a budget: whose round comes next, how long its processes sample, and when it ends.

The rounds of all workloads alternate, so that a slow drift of the machine does not fall on one of them alone. Every
workload first gets one round, which shows what a round costs; from these costs alone follows how many rounds each gets
before the data may end them. After that, the time goes to the workload whose interval is widest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from time import perf_counter

from modelzoo import stats
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.measure.jobs import OnEvent, Request
from modelzoo.measure.rounds import Rounds
from modelzoo.plan import Effort
from modelzoo.records.run import Latency, Result, Run, SettingRequest
from modelzoo.records.timing import Design, StopReason
from modelzoo.results.speed import speeds

MINIMUM = 8
"""Processes per setting before the data may end the rounds: with fewer, the estimated spread is itself too uncertain
(its own standard error is 1 / sqrt(2 (n - 1)): 27 % with 8 processes, 50 % with 3)."""
FEWEST = 4
"""Processes per setting of a workload whose processes are so expensive that the budget does not allow 8. With 3, the
interval is half as wide again: Student's t falls from 4.30 to 3.18, and the standard error with it."""
SECONDS_PER_SETTING = 60.0
"""Default budget per workload and setting. The default call has 8 of these: 480 s."""
FIRST_SECONDS = 3.0
"""How long each process samples until the design can be chosen from what was measured."""
SECONDS = (2.0, 6.0)
"""Limits of how long each process samples. The optimum is flat: half or twice the best time costs a few percent of the
width, so an estimate from few processes need not be followed to extremes."""
PRIOR = stats.Components(between=0.06**2, tau2=0.08**2)
"""The variances to expect before anything is measured, with the weight of 8 processes: processes differ by 6 %, and
one-second stretches within a process by 8 %, as on the virtual machines that the recorded sessions ran on."""
LEAST_PROCESS_SECONDS = 2.0
"""No process takes less than this; importing torch alone takes that long."""
CONCLUSION_SECONDS = 3.0
"""What comparing and plotting the results takes, for which expensive processes leave time."""
HEADROOM = 1.5
"""The looks are planned for this many times the rounds that the budget is expected to allow: rounds beyond the planned
maximum could not be used, while a maximum that is not reached costs almost nothing."""
Outcome = Run | Design


def needed_rounds(costs: Sequence[float], seconds: float) -> list[int]:
    """Return how many rounds each workload gets before the data may end them, ``MINIMUM`` if there is time for it.

    If there is not, the workloads with the most expensive rounds get fewer, by equal shares of the time, and not less
    than ``FEWEST``.

    Args:
        costs: seconds that a round of each workload takes.
        seconds: the time for all of these rounds.
    """
    rounds = [MINIMUM] * len(costs)
    left, open_ = seconds, sorted(range(len(costs)), key=lambda i: costs[i])
    while open_ and MINIMUM * costs[open_[0]] <= left / len(open_):
        left -= MINIMUM * costs[open_.pop(0)]
    for index in open_:
        rounds[index] = min(MINIMUM, max(FEWEST, int(left / len(open_) / costs[index])))
    return rounds


def measure(requests: Sequence[Request], effort: Effort, on_event: OnEvent, spent: float = 0.0) -> Iterator[Outcome]:
    """Yield each run as it ends, and the design of its workload after each of its sweeps and when it has ended.

    Args:
        requests: the workloads, each with its settings.
        effort: the number of processes, or the precision and the time.
        on_event: called with the progress of workers.
        spent: seconds of the budget that the call has taken already. The first rounds are run whatever is left.
    """
    return _Call(requests, effort, on_event, spent).outcomes()


def check(requests: Sequence[Request], effort: Effort) -> None:
    """Check that at least one process of each setting can be started within the budget.

    Raises:
        UsageError: it cannot.
    """
    limit = budget(requests, effort)
    least = LEAST_PROCESS_SECONDS * sum(len(request.settings) for request in requests)
    if limit is not None and limit < least:
        raise UsageError(
            f"--budget {limit:g}s is too short: {least / LEAST_PROCESS_SECONDS:.0f} processes, one per "
            f"workload and setting, take at least {least:.0f} s to start; give more time or fewer settings"
        )


def budget(requests: Sequence[Request], effort: Effort) -> float | None:
    """The seconds that a call has: those given, or some for each setting; ``None`` if it ends after fixed rounds."""
    if effort.budget is not None or effort.processes is not None:
        return effort.budget
    return SECONDS_PER_SETTING * sum(len(request.settings) for request in requests)


@dataclass
class _Part:
    """One workload's part of a call: its rounds so far and its design."""

    rounds: Rounds
    design: Design
    runs: list[Run] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    """Seconds of each sweep."""
    counts: list[int] = field(default_factory=list)
    """How many processes have sampled in each sweep."""
    decided: bool = False
    """Every comparison has a verdict."""

    @property
    def is_adaptive(self) -> bool:
        """Whether the time for which its processes sample is chosen here."""
        plan = self.rounds.request.plan
        return plan.iterations is None and plan.max_seconds is None

    @property
    def cost(self) -> float:
        """Seconds that the next sweep is expected to take; the first one does what is done only once."""
        return fmean(self.costs[1:] or self.costs)

    def cost_of(self, seconds: float | None) -> float:
        """As ``cost``, if each process of the next sweep samples for ``seconds``."""
        if seconds is None or len(self.costs) < 2:
            return self.cost
        sweeps = zip(self.costs[1:], self.counts[1:], self.design.seconds[1:])
        return fmean(cost - count * sampled for cost, count, sampled in sweeps) + self.counts[-1] * seconds

    @property
    def needed(self) -> int:
        """The number of sweeps before the data may end them."""
        return self.design.looks[0] if self.design.looks else 1

    @property
    def is_required(self) -> bool:
        """Whether it gets another sweep whatever the data says."""
        return self.rounds.can_run and self.ahead > 0

    @property
    def is_fixed(self) -> bool:
        """Whether the number of sweeps was fixed before anything was timed, or because the processes are expensive."""
        return self.design.processes is not None

    def need(self, margin: float) -> float:
        """How badly it needs another sweep, if it is not required: 0 if it needs none."""
        if not self.rounds.can_run or self.is_fixed:
            return 0.0
        wide = self.half_width() / margin
        return wide if wide > 1 else 0.0 if self.decided else 1.0

    @property
    def ahead(self) -> int:
        """How many sweeps it still gets before the data may end them."""
        return max(0, self.needed - self.rounds.sweeps)

    def processes(self) -> list[list[tuple[float, ...]]]:
        """The samples of each setting, by process."""
        found: dict[int, list[tuple[float, ...]]] = {}
        for run in self.runs:
            if run.steady:
                found.setdefault(run.group, []).append(run.steady)
        return list(found.values())

    def half_width(self) -> float:
        """Half width of the setting whose interval is widest."""
        medians = [[median(samples) for samples in found] for found in self.processes()]
        return max((stats.level_interval(each, by_precision=True).half_width for each in medians), default=math.inf)

    def seconds(self) -> float | None:
        """How long each process of the next sweep should sample, whatever time is left."""
        if not self.is_adaptive:
            return self.rounds.request.plan.max_seconds
        found = self.processes()
        if not found:
            return FIRST_SECONDS
        components = stats.pooled([stats.components(each, PRIOR) for each in found])
        sampled = fmean(sum(samples) for each in found for samples in each)
        whole = self.cost / len(found)
        longest = max(median(samples) for each in found for samples in each)
        return stats.seconds_per_process(max(0.0, whole - sampled), longest, components, SECONDS)


class _Call:
    def __init__(self, requests: Sequence[Request], effort: Effort, on_event: OnEvent, spent: float) -> None:
        self._effort, self._started = effort, perf_counter() - spent
        limit = budget(requests, effort)
        self._budget = math.inf if limit is None else limit
        self._parts = [
            _Part(Rounds(request, on_event), Design(request.workload.name, effort.margin, limit, effort.processes))
            for request in requests
        ]

    @property
    def _running(self) -> list[_Part]:
        return [part for part in self._parts if part.rounds.can_run]

    @property
    def _remaining(self) -> float:
        return self._budget - (perf_counter() - self._started)

    def outcomes(self) -> Iterator[Outcome]:
        """Yield runs and designs until no workload needs or can afford another sweep."""
        for part in self._parts:
            yield from self._sweep(part)
        while True:
            # The first sweeps do what is done only once, so the costs are known better after a few.
            if min((part.rounds.sweeps for part in self._running), default=FEWEST) < FEWEST:
                self._plan_looks()
            self._judge()
            chosen = self._next()
            if chosen is None:
                break
            yield from self._sweep(chosen)
        for part in self._parts:
            part.design = replace(part.design, stop_reason=self._stop_reason(part))
            yield part.design

    def _next(self) -> _Part | None:
        """The workload that gets the next sweep; ``None`` if none needs one or can afford one.

        Rounds that are needed in any case come first, the workloads in turn; unless the user gave the budget, even if
        the time is up. Then the workload whose interval is widest, compared with the margin, among those whose round
        fits into the time.
        """
        affordable = [part for part in self._parts if part.cost_of(self._seconds(part)) <= self._remaining]
        possible = affordable if self._effort.budget is not None else self._parts
        required = [part for part in possible if part.is_required]
        if required:
            return min(required, key=lambda part: part.rounds.sweeps / part.needed)
        needy = [part for part in affordable if part.need(self._effort.margin) > 0]
        return max(needy, key=lambda part: part.need(self._effort.margin), default=None)

    def _sweep(self, part: _Part) -> Iterator[Outcome]:
        seconds, started = self._seconds(part), perf_counter()
        count = 0
        for run in part.rounds.sweep(seconds):
            part.runs.append(run)
            count += bool(run.steady)
            yield run
        part.costs.append(perf_counter() - started)
        part.counts.append(count)
        # With a number of iterations there is no time to record.
        sampled = (*part.design.seconds, seconds) if seconds is not None else ()
        part.design = replace(part.design, seconds=sampled)
        yield part.design

    def _seconds(self, part: _Part) -> float | None:
        """How long each process of the next sweep samples: if processes are expensive, what the budget allows at most.

        Two sweeps must have shown what they cost. Then the time that is left is divided among those that are needed.
        """
        wanted = part.seconds()
        if wanted is None or not self._is_limited(part) or not part.ahead:
            return wanted
        ahead = [each for each in self._running if each.ahead]
        needed = sum(each.ahead * each.cost_of(0.0 if self._is_limited(each) else each.seconds()) for each in ahead)
        count = sum(each.ahead * each.counts[-1] for each in ahead if self._is_limited(each))
        left = self._remaining - CONCLUSION_SECONDS - needed
        return min(wanted, max(SECONDS[0], left / count)) if count else wanted

    def _is_limited(self, part: _Part) -> bool:
        """Whether the budget limits how long its processes sample."""
        is_expensive = self._effort.processes is None and part.is_fixed
        return is_expensive and part.is_adaptive and len(part.costs) >= 2

    def _plan_looks(self) -> None:
        """Fix how many rounds each workload gets at least, and when it is looked at: by the costs, before the data."""
        if self._effort.processes is not None:
            for part in self._parts:
                part.design = replace(part.design, looks=(self._effort.processes,), maximum=self._effort.processes)
            return
        # The sweeps so far are among those that are needed.
        time = self._remaining + sum(part.rounds.sweeps * part.cost for part in self._running)
        counts = needed_rounds([part.cost for part in self._running], time)
        left = max(0.0, time - sum(count * part.cost for count, part in zip(counts, self._running)))
        more = int(HEADROOM * left / sum(part.cost for part in self._running)) if self._running else 0
        for part, count in zip(self._running, counts):
            if count < MINIMUM:
                part.design = replace(part.design, processes=count, looks=(count,), maximum=count)
            else:
                looks = stats.planned_looks(count, count + more)
                part.design = replace(part.design, processes=None, looks=looks, maximum=count + more)

    def _judge(self) -> None:
        """Take note of which workloads have a verdict for each comparison, corrected for those of all workloads."""
        requests = [part.rounds.request for part in self._parts]
        requested = tuple(SettingRequest(each.workload.name, setting) for each in requests for setting in each.settings)
        runs = tuple(run for part in self._parts for run in part.runs)
        designs = tuple(part.design for part in self._parts)
        found = speeds(Result((), "", requested, runs, payload=Latency(designs)), at_looks=True)
        # Of a setting without a ratio, further rounds would not change that.
        is_open = [
            requested[group].workload
            for group, speed in found.items()
            if speed.found is not None and speed.verdict.outcome is stats.Outcome.AMBIGUOUS
        ]
        for part in self._parts:
            part.decided = part.rounds.request.workload.name not in is_open

    def _stop_reason(self, part: _Part) -> StopReason:
        if not part.rounds.can_run:
            return StopReason.FIXED if part.rounds.is_emulated else StopReason.FAILED
        if part.is_required or part.need(self._effort.margin) > 0:
            return StopReason.BUDGET
        return StopReason.FIXED if part.is_fixed else StopReason.PRECISE
